#include "dataset/job_record.h"

#include <cstdio>

#include "base/hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "io/publish_file.h"

namespace shardkit::dataset {
namespace {

constexpr std::string_view kRecordStart = "shardkit-job 1 ";
constexpr uint64_t kMaxRecordBytes = uint64_t{1} << 20;

std::string FormatRecord(const JobRecord& record) {
  const std::string text =
      StrCat(kRecordStart, record.fingerprint, " ", absl::Hex(record.dataset_hash, absl::kZeroPad16));
  return record.listing == 0 ? StrCat(text, "\n")
                             : StrCat(text, " ", absl::Hex(record.listing, absl::kZeroPad16), "\n");
}

std::optional<JobRecord> ParseRecord(const std::string& text) {
  char fingerprint[17] = {};
  unsigned long long hash = 0, listing = 0;
  if (std::sscanf(text.c_str(), "shardkit-job 1 %16[0-9a-f] %16llx %16llx", fingerprint, &hash, &listing) < 2) {
    return std::nullopt;
  }
  JobRecord record{fingerprint, hash, listing};
  // The text must equal the formatted record: nothing follows, and no number is written differently or was cut short.
  if (record.fingerprint.size() != 16 || FormatRecord(record) != text) return std::nullopt;
  return record;
}

}  // namespace

std::string DescribeJob(const Schema& schema, const DatasetWriterOptions& options) {
  const ShardOptions& shard = options.shard;
  std::string text = StrCat(options.job, "\n", shard.block_size, " ", shard.max_block_samples, " ", shard.alignment,
                            " ", options.shard_size, " ", options.shard_samples, "\n");
  for (const auto& [name, level] : shard.zstd_levels) text += StrCat("level ", name, " ", level, "\n");
  for (const auto& [name, size] : shard.dictionaries) text += StrCat("dictionary ", name, " ", size, "\n");
  for (const auto& [name, storage] : shard.storage) {
    text += StrCat("storage ", name, " ", static_cast<int>(storage), "\n");
  }
  for (const auto& [name, value] : shard.metadata) text += StrCat("metadata ", name, " ", value, "\n");
  if (options.sha256) text += "sha256\n";
  for (const auto& [name, codec] : options.codecs) text += StrCat("codec ", name, " ", CodecName(codec), "\n");
  for (const Column& column : schema.columns()) {
    text += StrCat("column ", column.name, " ", TypeName(column.type), " ", CodecName(column.codec), " ",
                   column.nullable ? "nullable " : "", column.is_key ? "key " : "", TypeName(column.dtype));
    if (column.shape) text += " shape";
    for (const uint64_t dimension : column.shape.value_or(std::vector<uint64_t>())) text += StrCat(" ", dimension);
    if (!IsKnownType(column.type) && column.fixed_size()) text += StrCat(" size ", *column.fixed_size());
    for (const auto& [name, value] : column.metadata) text += StrCat(" ", name, "=", value);
    text += '\n';
  }
  return text;
}

std::string FingerprintOf(const std::string& text) { return StrCat(absl::Hex(Hash64(text), absl::kZeroPad16)); }

absl::Status PublishJobRecord(FileSystem& file_system, const std::string& directory, const std::string& fingerprint,
                              const Manifest& manifest, uint64_t listing) {
  return io::PublishFile(file_system, JoinPath(directory, kJobRecordName),
                         FormatRecord({fingerprint, manifest.dataset_hash(), listing}));
}

absl::StatusOr<std::optional<JobRecord>> ReadJobRecord(FileSystem& file_system, const std::string& directory) {
  const auto text = file_system.ReadFile(JoinPath(directory, kJobRecordName), kMaxRecordBytes);
  if (absl::IsNotFound(text.status())) return std::optional<JobRecord>();
  if (!text.ok()) return text.status();
  return ParseRecord(*text);
}

}  // namespace shardkit::dataset
