// The plan of a dataset that is packed in tasks: the shard .shardkit/plan.shard in the dataset's directory, from
// PlanPack to FinishPack. Its samples are the units; what they have in common is JSON in its metadata. It is read by
// the same version alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataset/write/job_folder.h"
#include "operations/sources/file_source.h"
#include "shardkit/pack.h"
#include "shardkit/shard.h"

namespace shardkit::operations {

// What all units have in common.
struct PlanHead {
  std::string kind;  // Source::name()
  std::vector<std::string> inputs;
  SourceOptions source;
  PackOptions pack;                  // with the job and the metadata that the dataset gets
  std::vector<Column> columns;       // of the dataset, before any sample is looked at
  std::vector<std::string> classes;  // of an image folder
  std::string datasets;              // Source::Identity, as a hash
};

// Some consecutive samples, with shards of their own.
struct PlannedUnit {
  uint64_t samples = UINT64_MAX;    // UINT64_MAX: a tar's, not known
  uint64_t bytes = 0;               // in the input
  uint64_t skip = 0;                // of sources that are no files: samples before it
  std::vector<SourceInput> inputs;  // of files
};

// Divides what a source lists into units: the same ones that the packer finds while it packs all of it. Calls `take`
// for each. The sizes of files are asked for on options.dataset.threads threads.
absl::StatusOr<PackPlan> ListUnits(Source& source, const PackOptions& options,
                                   const std::function<absl::Status(const PlannedUnit& unit)>& take);

// Writes a plan. One thread at a time. Until Finish there is none.
class PlanWriter {
 public:
  // InvalidArgument when a path or name in `head` is not UTF-8.
  static absl::StatusOr<std::unique_ptr<PlanWriter>> Create(FileSystem& file_system, const std::string& directory,
                                                            const PlanHead& head);
  absl::Status Add(const PlannedUnit& unit);
  absl::Status Finish() { return units_->Finish().status(); }

 private:
  PlanWriter() = default;
  std::unique_ptr<ShardWriter> units_;
};

// Thread-safe.
class PlanReader {
 public:
  // NotFound when there is no plan.
  static absl::StatusOr<std::unique_ptr<PlanReader>> Open(FileSystem& file_system, const std::string& directory);

  const PlanHead& head() const { return head_; }
  const PackPlan& totals() const { return totals_; }
  // Which plan it is: 16 hexadecimal digits.
  const std::string& fingerprint() const { return fingerprint_; }
  absl::StatusOr<PlannedUnit> Unit(uint64_t number) const;

  // Of each unit, in the input.
  const std::vector<uint64_t>& unit_bytes() const { return bytes_; }

 private:
  PlanReader() = default;
  absl::Status Read(FileSystem& file_system, const std::string& directory);

  PlanHead head_;
  PackPlan totals_;
  std::string fingerprint_;
  std::unique_ptr<ShardReader> units_;
  std::vector<uint64_t> bytes_;    // of each unit
  std::vector<uint64_t> samples_;  // of each unit
};

// The path of the plan in a dataset's directory.
std::string PlanPath(const std::string& directory);

}  // namespace shardkit::operations
