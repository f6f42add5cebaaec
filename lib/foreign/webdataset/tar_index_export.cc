// Writing the indexes of tars: our own, and those that other programs read.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "base/endian.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "container/write/block_builder.h"
#include "container/write/block_encoder.h"
#include "container/write/shard_file_writer.h"
#include "foreign/webdataset/dali_index.h"
#include "foreign/webdataset/tar_archive.h"
#include "foreign/webdataset/tar_index.h"
#include "foreign/webdataset/webdataset_names.h"
#include "format/constants.h"
#include "io/publish_file.h"
#include "shardkit/schema.h"
#include "shardkit/shard.h"

namespace shardkit::foreign {

absl::StatusOr<std::string> EncodeTarIndex(TarIndex index) {
  index.blocks = FormTarBlocks(index);
  const auto memory = NewMemoryFileSystem();
  const std::string path = "/index";
  const ShardOptions options{.alignment = format::kMinAlignment, .metadata = TarIndexMetadata(index)};
  SHARDKIT_ASSIGN_OR_RETURN(const container::BlockEncoding plan,
                            container::MakeBlockEncoding(TarIndexSchema(index.columns), options));
  SHARDKIT_ASSIGN_OR_RETURN(const auto file, container::ShardFileWriter::Create(*memory, path, plan, options));
  container::BlockBuilder builder(plan.schema, UINT64_MAX, UINT32_MAX);
  container::BlockEncoder encoder;
  std::array<std::string, kTarIndexColumns> elements, arrays;
  for (size_t block = 0; block + 1 < index.blocks.size(); ++block) {
    for (uint64_t i = index.blocks[block].first_sample; i < index.blocks[block + 1].first_sample; ++i) {
      for (std::string& column : elements) column.clear();
      const uint64_t begin = index.value_ends[i], end = index.value_ends[i + 1];
      for (uint64_t k = begin; k < end; ++k) {
        const TarValue& value = index.values[k];
        AppendLittle(elements[kTarColumn], static_cast<uint16_t>(value.column));
        AppendLittle(elements[kTarOffset], value.offset);
        AppendLittle(elements[kTarLength], value.length);
        AppendLittle(elements[kTarXxh3], index.checksums[k]);
      }
      std::array<std::optional<Value>, kTarIndexColumns> values = {Value(index.key(i))};
      const uint64_t shape[] = {end - begin};
      for (size_t column = kTarColumn; column < arrays.size(); ++column) {
        arrays[column].clear();
        SHARDKIT_RETURN_IF_ERROR(AppendNdarray(plan.schema[column].dtype, shape, elements[column], &arrays[column]));
        values[column] = Value(arrays[column]);
      }
      builder.Add(values);
    }
    SHARDKIT_ASSIGN_OR_RETURN(container::EncodedBlock encoded, encoder.Encode(plan, builder.Take()));
    SHARDKIT_RETURN_IF_ERROR(file->Write(encoded, nullptr));
    builder.Recycle(std::move(encoded.raw));
  }
  SHARDKIT_RETURN_IF_ERROR(file->Finish().status());
  return memory->ReadFile(path, UINT64_MAX);
}

}  // namespace shardkit::foreign

namespace shardkit {
namespace {

// A tar as wds2idx of DALI sees it.
struct DaliView {
  std::vector<foreign::DaliSample> samples;
  std::vector<TarProblem> additional;  // members that belong to a sample for DALI, but not for webdataset
  std::vector<TarProblem> missing;     // members that belong to a sample for webdataset, but not for DALI
};

constexpr std::string_view kTarEnding = ".tar";

// X.idx for X.tar; empty for a file of another name.
std::string DaliIndexPath(const std::string& path) {
  if (!path.ends_with(kTarEnding)) return {};
  return StrCat(path.substr(0, path.size() - kTarEnding.size()), kDaliIndexSuffix);
}

// The tar must not be compressed. DataLoss when it is damaged.
absl::StatusOr<DaliView> FindDaliSamples(const RandomAccessFile& file) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto tar, foreign::TarReader::Open(file, foreign::TarCompression::kNone));
  DaliView view;
  std::string last_stem;
  foreign::TarMember member;
  bool behind = false;  // an end mark
  while (true) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, tar->Next(&member));
    if (!more) return view;
    if (member.kind != foreign::TarMember::Kind::kFile) continue;
    const bool of_sample = foreign::SplitWebDatasetName(member.name).has_value();
    behind = behind || member.after_end_mark;
    if (behind || member.link) {
      if (of_sample) {
        view.missing.push_back(
            {member.name, member.header_offset,
             behind ? "lies behind an end mark, where DALI stops" : "is a link, which DALI leaves out"});
      }
      continue;
    }
    const foreign::DaliName name = foreign::SplitDaliName(member.name);
    if (foreign::IsHiddenForDali(name)) {
      if (of_sample)
        view.missing.push_back({member.name, member.header_offset, "is hidden for DALI, which would leave it out"});
      continue;
    }
    if (!of_sample)
      view.additional.push_back({member.name, member.header_offset, "is no part of a sample, but is one for DALI"});
    if (view.samples.empty() || last_stem != name.stem) {
      view.samples.emplace_back();
      last_stem = name.stem;
    }
    SHARDKIT_ASSIGN_OR_RETURN(const std::optional<uint64_t> offset, tar->Locate());
    view.samples.back().members.push_back(
        {std::string(name.extension), offset.value_or(0), member.length, member.name});
  }
}

constexpr uint64_t kWindowBytes = uint64_t{4} << 20;
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

absl::Status HashValues(const RandomAccessFile& file, const Cancellation* cancellation, foreign::TarIndex* index) {
  Window window(file);
  StreamingHash hash;
  index->checksums.reserve(index->values.size());
  for (const foreign::TarValue& value : index->values) {
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
  SHARDKIT_ASSIGN_OR_RETURN(foreign::TarContents contents,
                            foreign::ScanTar(*file, kDefaultMaxDecompression, &report.problems));
  if (contents.compression != foreign::TarCompression::kNone) {
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
  SHARDKIT_ASSIGN_OR_RETURN(contents.index.identity, foreign::ReadTarIdentity(*file));
  report.index_path = StrCat(path, kTarIndexSuffix);
  AddProblems(foreign::FindRepeatedKeys(contents.index), &report);
  report.samples = contents.index.sample_count();
  report.values = contents.index.values.size();
  SHARDKIT_ASSIGN_OR_RETURN(const std::string bytes, foreign::EncodeTarIndex(std::move(contents.index)));
  SHARDKIT_RETURN_IF_ERROR(io::PublishFile(file_system, report.index_path, bytes));
  report.bytes = file->size();
  return report;
}

absl::StatusOr<TarIndexReport> BuildDaliIndex(FileSystem& file_system, const std::string& path,
                                              const Cancellation* cancellation) {
  TarIndexReport report;
  report.index_path = DaliIndexPath(path);
  if (report.index_path.empty())
    return InvalidArgument(path, ": an index for DALI is of a file whose name ends in .tar");
  SHARDKIT_ASSIGN_OR_RETURN(const std::string old, ReadReplaced(file_system, report.index_path));
  if (!old.empty() && !old.starts_with("v1.")) {
    return InvalidArgument(report.index_path, ": is there and is no index of DALI's: rename ", path, ", or remove it");
  }
  SHARDKIT_ASSIGN_OR_RETURN(const auto file, file_system.OpenForReading(path));
  SHARDKIT_ASSIGN_OR_RETURN(const foreign::TarContents contents,
                            foreign::ScanTar(*file, kDefaultMaxDecompression, &report.problems));
  if (contents.compression != foreign::TarCompression::kNone) {
    return InvalidArgument(path,
                           ": is compressed, so that no index can say where a value lies in it: decompress it first");
  }
  if (cancellation != nullptr) SHARDKIT_RETURN_IF_ERROR(cancellation->Check("indexing"));
  SHARDKIT_ASSIGN_OR_RETURN(DaliView view, FindDaliSamples(*file));
  if (!view.missing.empty()) return InvalidArgument(Where(path, view.missing[0]), "; rename it");
  if (view.samples.empty()) return InvalidArgument(path, ": has no samples, which an index for DALI cannot say");
  for (const foreign::DaliSample& sample : view.samples) {
    for (const foreign::DaliMember& member : sample.members) {
      const std::string_view unfit = foreign::UnfitForDali(member);
      if (!unfit.empty()) {
        return InvalidArgument(path, ": member '", member.name, "' at byte ", member.offset, ": ", unfit,
                               "; rename it");
      }
    }
    report.values += sample.members.size();
  }
  SHARDKIT_RETURN_IF_ERROR(io::PublishFile(file_system, report.index_path, foreign::FormatDaliIndex(view.samples)));
  AddProblems(std::move(view.additional), &report);
  report.samples = view.samples.size();
  report.bytes = file->size();
  return report;
}

}  // namespace shardkit
