// The plan of a dataset that is packed in tasks: a folder in the dataset's directory, from PlanPack to FinishPack.
//
//   .shardkit-plan/units.shard     for each unit the samples to pack, and their bytes
//   .shardkit-plan/plan.json       inputs, options and columns; written last, so a folder without it is no plan
//
// It is read by the same version alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "convert/sources/file_source.h"
#include "convert/unit_records.h"
#include "shardkit/pack.h"
#include "shardkit/shard.h"

namespace shardkit::convert {

// What all units have in common.
struct PlanHead {
  std::string kind;  // Source::name()
  std::vector<std::string> inputs;
  SourceOptions source;
  PackOptions pack;                  // with the job and the metadata that the dataset gets
  std::vector<Column> columns;       // of the dataset, before any sample is looked at
  std::vector<std::string> classes;  // of an image folder
  std::string datasets;              // DatasetSource::Identity of inputs that are datasets, as a hash
  PackPlan totals;
};

// Some consecutive samples, with shards of their own.
struct PlannedUnit {
  uint64_t samples = UINT64_MAX;    // UINT64_MAX: a tar's, not known
  uint64_t bytes = 0;               // in the input
  uint64_t skip = 0;                // of datasets: samples before it
  std::vector<SourceInput> inputs;  // of other sources
};

// Writes the units of a plan, one after the other. One thread at a time.
class PlanWriter {
 public:
  static absl::StatusOr<std::unique_ptr<PlanWriter>> Create(FileSystem& file_system, const std::string& directory);

  absl::Status Add(const PlannedUnit& unit);

  // Publishes the plan. InvalidArgument when a path or name in `head` is not UTF-8.
  absl::Status Finish(const PlanHead& head);

 private:
  PlanWriter(FileSystem& file_system, std::string directory)
      : file_system_(file_system), directory_(std::move(directory)) {}

  FileSystem& file_system_;
  const std::string directory_;
  std::unique_ptr<ShardWriter> units_;
};

// Thread-safe.
class PlanReader {
 public:
  // NotFound when there is no plan.
  static absl::StatusOr<std::unique_ptr<PlanReader>> Open(FileSystem& file_system, const std::string& directory);

  const PlanHead& head() const { return head_; }
  // Which plan it is: 16 hexadecimal digits.
  const std::string& fingerprint() const { return fingerprint_; }
  absl::StatusOr<PlannedUnit> Unit(uint64_t number) const;

  // Of each unit, in the input.
  const std::vector<uint64_t>& unit_bytes() const { return bytes_; }

 private:
  PlanReader(FileSystem& file_system, std::string directory)
      : file_system_(file_system), directory_(std::move(directory)) {}
  absl::Status Read();

  FileSystem& file_system_;
  const std::string directory_;
  PlanHead head_;
  std::string fingerprint_;
  std::unique_ptr<ShardReader> units_;
  std::vector<uint64_t> bytes_;  // of each unit
};

// Whether the dataset's directory has a plan.
absl::StatusOr<bool> HasPlan(ReadableFileSystem& file_system, const std::string& directory);

}  // namespace shardkit::convert
