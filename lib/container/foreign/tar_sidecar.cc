// Making the sidecar of a tar.
#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "container/foreign/tar_index.h"
#include "format/foreign/webdataset_names.h"
#include "io/publish_file.h"
#include "shardkit/shard_reader.h"
#include "shardkit/tar_index.h"

namespace shardkit {
namespace {

constexpr uint64_t kWindowBytes = uint64_t{4} << 20;
constexpr size_t kReportedProblems = 100;

// Reads a file from front to back in large pieces, whatever the sizes of the values.
class Window {
 public:
  explicit Window(const RandomAccessFile& file) : file_(file) {}

  // Returns between one and `length` bytes from `offset` on.
  absl::StatusOr<std::string_view> At(uint64_t offset, uint64_t length) {
    if (offset < begin_ || offset >= begin_ + bytes_.size()) {
      begin_ = offset;
      bytes_.resize(std::min(kWindowBytes, file_.size() - offset));
      SHARDKIT_RETURN_IF_ERROR(file_.ReadAt(offset, bytes_));
    }
    return std::string_view(bytes_).substr(offset - begin_, length);
  }

 private:
  const RandomAccessFile& file_;
  uint64_t begin_ = 0;
  std::string bytes_;
};

absl::Status HashValues(const RandomAccessFile& file, const Cancellation* cancellation, format::TarIndex* index) {
  Window window(file);
  StreamingHash64 hash;
  index->checksums.reserve(index->values.size());
  for (const format::TarValue& value : index->values) {
    if (cancellation != nullptr) SHARDKIT_RETURN_IF_ERROR(cancellation->Check("indexing"));
    hash.Reset();
    for (uint64_t done = 0; done < value.length;) {
      SHARDKIT_ASSIGN_OR_RETURN(const std::string_view piece, window.At(value.offset + done, value.length - done));
      hash.Update(piece);
      done += piece.size();
    }
    index->checksums.push_back(hash.Digest());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TarIndexReport> BuildTarIndex(FileSystem& file_system, const std::string& path,
                                             const Cancellation* cancellation) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto file, file_system.OpenForReading(path));
  TarIndexReport report;
  SHARDKIT_ASSIGN_OR_RETURN(TarContents contents, ScanTar(*file, kDefaultMaxDecompression, &report.problems));
  if (contents.compression != TarCompression::kNone) {
    return InvalidArgument(path,
                           ": is compressed, so that no index can say where a value lies in it: decompress it first");
  }
  SHARDKIT_RETURN_IF_ERROR(HashValues(*file, cancellation, &contents.index));
  SHARDKIT_ASSIGN_OR_RETURN(contents.index.identity, ReadTarIdentity(*file));
  report.index_path = StrCat(path, kTarIndexSuffix);
  SHARDKIT_RETURN_IF_ERROR(PublishFile(file_system, report.index_path, format::EncodeTarIndex(contents.index)));
  std::vector<TarProblem> repeated = FindRepeatedKeys(contents.index);
  report.problems.insert(report.problems.end(), std::make_move_iterator(repeated.begin()),
                         std::make_move_iterator(repeated.end()));
  report.problem_count = report.problems.size();
  if (report.problems.size() > kReportedProblems) report.problems.resize(kReportedProblems);
  report.samples = contents.index.sample_count();
  report.values = contents.index.values.size();
  report.bytes = file->size();
  return report;
}

bool IsTarPath(std::string_view path) { return format::IsTarName(path); }

absl::StatusOr<std::vector<std::string>> ListTars(ReadableFileSystem& file_system, const std::string& directory) {
  SHARDKIT_ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, file_system.List(directory));
  std::vector<std::string> paths;
  for (const DirectoryEntry& entry : entries) {
    if (format::IsTarName(entry.name) && entry.type != FileType::kDirectory)
      paths.push_back(JoinPath(directory, entry.name));
  }
  std::ranges::sort(paths);
  return paths;
}

}  // namespace shardkit
