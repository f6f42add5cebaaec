// What tasks note of the units that they have packed, in a folder in the dataset's directory:
//
//   .shardkit-plan/00000012.unit   what became of a unit; its shards are in their place by then
//
// It is read by the same version alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataset/journal_entry.h"
#include "shardkit/filesystem.h"

namespace shardkit::convert {

inline std::string PlanFolder(const std::string& directory) { return JoinPath(directory, ".shardkit-plan"); }

// What became of a unit.
struct UnitRecord {
  uint64_t listed = 0;       // samples, with those that were skipped
  uint64_t listing = 0;      // of these (see dataset::DatasetJob::SetListing)
  uint64_t samples = 0;      // stored
  uint64_t input_bytes = 0;  // of their values
  std::vector<dataset::JournalEntry> shards;
  std::vector<SkippedSample> skipped;  // positions count from the unit's first sample
};

// Thread-safe.
class UnitRecords {
 public:
  // `fingerprint` says which job's units they are: 16 hexadecimal digits.
  UnitRecords(FileSystem& file_system, const std::string& directory, std::string fingerprint)
      : file_system_(file_system), folder_(PlanFolder(directory)), fingerprint_(std::move(fingerprint)) {}

  // Empty when the unit has no record, or that of another job.
  absl::StatusOr<std::optional<UnitRecord>> Read(uint64_t unit) const;

  // Any number of processes may publish a unit's record, which is the same.
  absl::Status Publish(uint64_t unit, const UnitRecord& record) const;

 private:
  std::string Path(uint64_t unit) const;

  FileSystem& file_system_;
  const std::string folder_;
  const std::string fingerprint_;
};

}  // namespace shardkit::convert
