#include "dataset/job_record.h"

#include <cstdio>

#include "base/hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "io/publish_file.h"

namespace shardkit {
namespace {

constexpr std::string_view kStart = "shardkit-job 1 ";
constexpr uint64_t kMaxRecordBytes = uint64_t{1} << 20;

std::string FormatRecord(const JobRecord& record) {
  return StrCat(kStart, record.fingerprint, " ", absl::Hex(record.dataset_hash, absl::kZeroPad16), "\n");
}

std::optional<JobRecord> ParseRecord(const std::string& text) {
  char fingerprint[17] = {};
  unsigned long long hash = 0;
  if (std::sscanf(text.c_str(), "shardkit-job 1 %16[0-9a-f] %16llx", fingerprint, &hash) != 2) return std::nullopt;
  JobRecord record{fingerprint, hash};
  // The text must equal the formatted record: nothing follows, and no number is written differently or was cut short.
  if (record.fingerprint.size() != 16 || FormatRecord(record) != text) return std::nullopt;
  return record;
}

}  // namespace

std::string FingerprintOf(const std::string& text) { return StrCat(absl::Hex(Hash64(text), absl::kZeroPad16)); }

absl::Status PublishJobRecord(FileSystem& file_system, const std::string& directory, const std::string& fingerprint,
                              const Manifest& manifest) {
  return PublishFile(file_system, JoinPath(directory, kJobRecordName),
                     FormatRecord({fingerprint, manifest.dataset_hash()}));
}

absl::StatusOr<std::optional<JobRecord>> ReadJobRecord(FileSystem& file_system, const std::string& directory) {
  const auto text = file_system.ReadFile(JoinPath(directory, kJobRecordName), kMaxRecordBytes);
  if (absl::IsNotFound(text.status())) return std::optional<JobRecord>();
  if (!text.ok()) return text.status();
  return ParseRecord(*text);
}

}  // namespace shardkit
