#include "dataset/job_record.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "io/publish_file.h"

namespace shardkit {
namespace {

constexpr std::string_view kStart = "shardkit-job 1 ";
constexpr uint64_t kMaxRecordBytes = uint64_t{1} << 20;

std::string FormatRecord(const JobIdentity& job, uint64_t dataset_hash) {
  return StrCat(kStart, job.Text(), " ", absl::Hex(dataset_hash, absl::kZeroPad16), "\n");
}

std::optional<JobRecord> ParseRecord(const std::string& text) {
  char fingerprint[17] = {};
  unsigned long long partition = 0, count = 0, hash = 0;
  if (std::sscanf(text.c_str(), "shardkit-job 1 %16[0-9a-f] %llu/%llu %16llx", fingerprint, &partition, &count,
                  &hash) != 4) {
    return std::nullopt;
  }
  JobRecord record{{fingerprint, partition, count}, hash};
  // The text must equal the formatted record: nothing follows, and no number is written differently or was cut short.
  if (count == 0 || partition >= count || FormatRecord(record.job, hash) != text) return std::nullopt;
  return record;
}

absl::Status Missing(const std::string& part, const std::string& given, const std::string& missing) {
  return InvalidArgument(part, ": is ", given, " of its job, of which ", missing,
                         " is not given: give all of them, or ", "remove ", kJobRecordName,
                         " from those that are to be joined as datasets of their own");
}

}  // namespace

std::string JobIdentity::Text() const { return StrCat(fingerprint, " ", partition, "/", partition_count); }

absl::Status CheckPartition(uint64_t partition, uint64_t partition_count) {
  if (partition < partition_count) return absl::OkStatus();
  return InvalidArgument("partition ", partition, "/", partition_count,
                         ": partitions count from 0 to one less than their number");
}

absl::Status PublishJobRecord(FileSystem& file_system, const std::string& directory, const JobIdentity& job,
                              const Manifest& manifest) {
  return PublishFile(file_system, JoinPath(directory, kJobRecordName), FormatRecord(job, manifest.dataset_hash()));
}

absl::StatusOr<std::optional<JobRecord>> ReadJobRecord(FileSystem& file_system, const std::string& directory) {
  const auto text = file_system.ReadFile(JoinPath(directory, kJobRecordName), kMaxRecordBytes);
  if (absl::IsNotFound(text.status())) return std::optional<JobRecord>();
  if (!text.ok()) return text.status();
  return ParseRecord(*text);
}

absl::Status CheckPartitions(FileSystem& file_system, const std::vector<std::string>& parts,
                             const std::vector<Manifest>& manifests) {
  struct Job {
    JobIdentity identity;
    std::vector<size_t> given;  // places in `parts`, in their order
  };
  std::vector<Job> jobs;
  std::vector<uint64_t> partitions(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    SHARDKIT_ASSIGN_OR_RETURN(const auto record, ReadJobRecord(file_system, parts[i]));
    if (!record || record->dataset_hash != manifests[i].dataset_hash() || record->job.partition_count == 1) continue;
    partitions[i] = record->job.partition;
    const auto job = std::ranges::find_if(jobs, [&](const Job& known) {
      return known.identity.fingerprint == record->job.fingerprint &&
             known.identity.partition_count == record->job.partition_count;
    });
    if (job != jobs.end()) {
      job->given.push_back(i);
    } else {
      jobs.push_back({record->job, {i}});
    }
  }
  for (const Job& job : jobs) {
    std::vector<size_t> sorted = job.given;
    std::ranges::stable_sort(sorted, {}, [&](size_t part) { return partitions[part]; });
    const auto name = [&](uint64_t partition) { return StrCat("part ", partition, "/", job.identity.partition_count); };
    std::string order;
    for (size_t k = 0; k < sorted.size(); ++k) {
      const uint64_t partition = partitions[sorted[k]];
      if (k > 0 && partition == partitions[sorted[k - 1]]) {
        return InvalidArgument(parts[sorted[k]], ": is ", name(partition), " of its job, as ", parts[sorted[k - 1]],
                               " is: give each part once");
      }
      if (partition != k) return Missing(parts[sorted[k]], name(partition), name(k));
      order += StrCat(" ", parts[sorted[k]]);
    }
    if (sorted.size() < job.identity.partition_count) {
      return Missing(parts[sorted[0]], name(0), name(sorted.size()));
    }
    if (sorted != job.given) {
      return InvalidArgument(parts[job.given[0]], ": stands elsewhere among the parts of its job than it was counted: ",
                             "give them in the order", order);
    }
  }
  return absl::OkStatus();
}

}  // namespace shardkit
