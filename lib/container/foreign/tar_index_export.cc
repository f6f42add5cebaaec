// Writing the indexes of tars: our own, and those that other programs read.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/errors.h"
#include "base/hash.h"
#include "base/named_hash.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "container/foreign/tar_dali_index.h"
#include "container/foreign/tar_wids.h"
#include "format/foreign/dali_index.h"
#include "format/foreign/wids_index.h"
#include "io/publish_file.h"
#include "shardkit/shard_reader.h"

namespace shardkit {
namespace {

constexpr uint64_t kWindowBytes = uint64_t{4} << 20;
constexpr uint64_t kHashPiece = uint64_t{4} << 20;
constexpr uint64_t kMaxReplacedBytes = uint64_t{1} << 30;
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

std::string Where(const std::string& path, const TarProblem& problem) {
  return StrCat(path, ": member '", problem.member, "' at byte ", problem.offset, ": ", problem.message);
}

// The text of the file that an index will replace; empty when there is none.
absl::StatusOr<std::string> ReadReplaced(FileSystem& file_system, const std::string& path) {
  absl::StatusOr<std::string> text = file_system.ReadFile(path, kMaxReplacedBytes);
  if (absl::IsNotFound(text.status())) return std::string();
  return text;
}

absl::Status CheckReplacesIndex(FileSystem& file_system, const std::string& output) {
  SHARDKIT_ASSIGN_OR_RETURN(const std::string old, ReadReplaced(file_system, output));
  if (old.empty()) return absl::OkStatus();
  const auto index = format::ParseWidsIndex(old);
  if (index.ok() && !*index)
    return InvalidArgument(output, ": is there and is no wids index: choose another name, or remove it");
  return absl::OkStatus();
}

absl::StatusOr<std::string> NameRelative(const std::string& tar, const std::string& output) {
  const std::filesystem::path path(tar), folder(io::ParentDirectory(output));
  if (path.is_absolute() != folder.is_absolute()) {
    return InvalidArgument(tar, ": is named in ", output,
                           " relative to its folder: give both as absolute paths, or none");
  }
  std::string name = path.lexically_normal().lexically_relative(folder.lexically_normal()).generic_string();
  if (name.empty())
    return InvalidArgument(tar, ": cannot be named relative to the folder of ", output, ": give absolute paths");
  const auto local = format::LocalPathOfUrl(name);
  if (!ValidUtf8(name) || !local.ok() || *local != name) {
    return InvalidArgument(tar, ": has a name that an index cannot say: rename it");
  }
  return name;
}

absl::StatusOr<std::string> Md5Of(const RandomAccessFile& file, const Cancellation* cancellation) {
  SHARDKIT_ASSIGN_OR_RETURN(const std::unique_ptr<NamedHash> hash, NamedHash::Create("md5"));
  std::string piece;
  for (uint64_t position = 0; position < file.size(); position += piece.size()) {
    if (cancellation != nullptr) SHARDKIT_RETURN_IF_ERROR(cancellation->Check("indexing"));
    piece.resize(std::min(kHashPiece, file.size() - position));
    SHARDKIT_RETURN_IF_ERROR(file.ReadAt(position, piece));
    hash->Update(piece);
  }
  return hash->HexDigest();
}

absl::StatusOr<format::WidsShard> DescribeForWids(FileSystem& file_system, const std::string& tar,
                                                  const WidsOptions& options, const Cancellation* cancellation) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto file, file_system.OpenForReading(tar));
  SHARDKIT_ASSIGN_OR_RETURN(const container::TarContents contents,
                            container::ScanTar(*file, kDefaultMaxDecompression, nullptr));
  if (contents.compression != container::TarCompression::kNone) {
    return InvalidArgument(tar, ": is compressed, and wids reads plain tars alone: decompress it first");
  }
  SHARDKIT_ASSIGN_OR_RETURN(const container::WidsView view, container::ViewAsWids(*file));
  if (view.difference) {
    return InvalidArgument(Where(tar, *view.difference), ": wids would read other samples; rename the member");
  }
  format::WidsShard shard;
  shard.samples = view.samples;
  shard.bytes = file->size();
  if (options.md5) {
    SHARDKIT_ASSIGN_OR_RETURN(shard.md5, Md5Of(*file, cancellation));
  }
  return shard;
}

// More problems, behind those that the report has already.
void AddProblems(std::vector<TarProblem> problems, TarIndexReport* report) {
  report->problems.insert(report->problems.end(), std::make_move_iterator(problems.begin()),
                          std::make_move_iterator(problems.end()));
  report->problem_count = report->problems.size();
  if (report->problems.size() > kReportedProblems) report->problems.resize(kReportedProblems);
}

}  // namespace

absl::StatusOr<TarIndexReport> BuildTarIndex(FileSystem& file_system, const std::string& path,
                                             const Cancellation* cancellation) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto file, file_system.OpenForReading(path));
  TarIndexReport report;
  SHARDKIT_ASSIGN_OR_RETURN(container::TarContents contents,
                            container::ScanTar(*file, kDefaultMaxDecompression, &report.problems));
  if (contents.compression != container::TarCompression::kNone) {
    return InvalidArgument(path,
                           ": is compressed, so that no index can say where a value lies in it: decompress it first");
  }
  if (contents.links > 0) {
    return InvalidArgument(path, ": has ", contents.links,
                           contents.links == 1 ? " member that is a link" : " members that are links",
                           " to earlier ones, which an index cannot say: write the tar with "
                           "their bytes (GNU tar: --hard-dereference --dereference)");
  }
  SHARDKIT_RETURN_IF_ERROR(HashValues(*file, cancellation, &contents.index));
  SHARDKIT_ASSIGN_OR_RETURN(contents.index.identity, container::ReadTarIdentity(*file));
  report.index_path = StrCat(path, kTarIndexSuffix);
  SHARDKIT_RETURN_IF_ERROR(io::PublishFile(file_system, report.index_path, format::EncodeTarIndex(contents.index)));
  AddProblems(container::FindRepeatedKeys(contents.index), &report);
  report.samples = contents.index.sample_count();
  report.values = contents.index.values.size();
  report.bytes = file->size();
  return report;
}

absl::StatusOr<WidsReport> WriteWidsIndex(FileSystem& file_system, const std::vector<std::string>& tars,
                                          const std::string& output, const WidsOptions& options,
                                          const Cancellation* cancellation) {
  if (tars.empty()) return InvalidArgument(output, ": no tars to list were given");
  if (!output.ends_with(".json")) return InvalidArgument(output, ": the name of a wids index ends in .json");
  if (io::BaseName(output) == "index.json")
    return InvalidArgument(output, ": is the name of an MDS index: choose another");
  if (!ValidUtf8(options.name)) return InvalidArgument(output, ": the dataset's name is not UTF-8");
  SHARDKIT_RETURN_IF_ERROR(CheckReplacesIndex(file_system, output));
  format::WidsIndex index;
  index.name = options.name;
  WidsReport report;
  for (const std::string& tar : tars) {
    if (cancellation != nullptr) SHARDKIT_RETURN_IF_ERROR(cancellation->Check("indexing"));
    SHARDKIT_ASSIGN_OR_RETURN(std::string url, NameRelative(tar, output));
    SHARDKIT_ASSIGN_OR_RETURN(format::WidsShard shard, DescribeForWids(file_system, tar, options, cancellation));
    shard.url = std::move(url);
    report.samples += shard.samples;
    report.bytes += *shard.bytes;
    index.shards.push_back(std::move(shard));
  }
  report.shards = index.shards.size();
  SHARDKIT_RETURN_IF_ERROR(io::PublishFile(file_system, output, format::FormatWidsIndex(index)));
  return report;
}

absl::StatusOr<TarIndexReport> BuildDaliIndex(FileSystem& file_system, const std::string& path,
                                              const Cancellation* cancellation) {
  TarIndexReport report;
  report.index_path = container::DaliIndexPath(path);
  if (report.index_path.empty())
    return InvalidArgument(path, ": an index for DALI is of a file whose name ends in .tar");
  SHARDKIT_ASSIGN_OR_RETURN(const std::string old, ReadReplaced(file_system, report.index_path));
  if (!old.empty() && !old.starts_with("v1.")) {
    return InvalidArgument(report.index_path, ": is there and is no index of DALI's: rename ", path, ", or remove it");
  }
  SHARDKIT_ASSIGN_OR_RETURN(const auto file, file_system.OpenForReading(path));
  SHARDKIT_ASSIGN_OR_RETURN(const container::TarContents contents,
                            container::ScanTar(*file, kDefaultMaxDecompression, &report.problems));
  if (contents.compression != container::TarCompression::kNone) {
    return InvalidArgument(path,
                           ": is compressed, so that no index can say where a value lies in it: decompress it first");
  }
  if (cancellation != nullptr) SHARDKIT_RETURN_IF_ERROR(cancellation->Check("indexing"));
  SHARDKIT_ASSIGN_OR_RETURN(container::DaliView view, container::FindDaliSamples(*file));
  if (!view.missing.empty()) return InvalidArgument(Where(path, view.missing[0]), "; rename it");
  if (view.samples.empty()) return InvalidArgument(path, ": has no samples, which an index for DALI cannot say");
  for (const format::DaliSample& sample : view.samples) {
    for (const format::DaliMember& member : sample.members) {
      const std::string_view unfit = format::UnfitForDali(member);
      if (!unfit.empty()) {
        return InvalidArgument(path, ": member '", member.name, "' at byte ", member.offset, ": ", unfit,
                               "; rename it");
      }
    }
    report.values += sample.members.size();
  }
  SHARDKIT_RETURN_IF_ERROR(io::PublishFile(file_system, report.index_path, format::FormatDaliIndex(view.samples)));
  AddProblems(std::move(view.additional), &report);
  report.samples = view.samples.size();
  report.bytes = file->size();
  return report;
}

}  // namespace shardkit
