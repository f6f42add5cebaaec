// Groups the members of a tar into samples.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "foreign/webdataset/tar_archive.h"
#include "foreign/webdataset/tar_samples.h"
#include "foreign/webdataset/webdataset_names.h"

namespace shardkit::foreign {

// A sample of a tar that cannot be taken, and why.
struct LostTarSample {
  std::string key;  // as it stands in the tar, perhaps not UTF-8
  absl::Status status;
};

// One thread at a time. `path` is for messages. `index` and `lost` must be empty at first. All must outlive the object.
class TarSampleGrouper {
 public:
  TarSampleGrouper(const std::string& path, foreign::TarIndex* index, std::vector<LostTarSample>* lost = nullptr)
      : path_(path), index_(index), lost_(lost) {}

  // Adds the next member of the tar, whose data lies at `offset`, unless it is sparse. Skips members that belong to no
  // sample. DataLoss when a sample has an extension twice, for what a schema cannot hold (names that are not UTF-8),
  // and for sparse members; with `lost`, the sample is added to *lost instead, and its other members are skipped.
  // Unimplemented for too large a tar.
  absl::Status Add(const TarMember& member, std::optional<uint64_t> offset);

  // Whether the sample that the last member belongs to is the last of *lost.
  bool last_is_lost() const { return lost_key_.has_value(); }

  // Bytes of memory that *lost takes.
  uint64_t lost_memory() const { return lost_memory_; }

  // Removes the last sample, of which there is one, from the index.
  void DropLastSample();

  // Removes the columns that no sample has. Nothing can be added after that.
  void DropUnusedColumns();

 private:
  absl::Status AddToSample(const foreign::WebDatasetName& name, uint64_t length, std::optional<uint64_t> offset);
  absl::StatusOr<uint32_t> FindColumn(std::string_view extension);

  const std::string& path_;
  foreign::TarIndex* const index_;
  std::vector<LostTarSample>* const lost_;
  uint64_t lost_memory_ = 0;
  std::optional<std::string> lost_key_;  // of the sample that the last member belongs to, when it was lost
  std::unordered_map<std::string, uint32_t> columns_;
  std::vector<uint64_t> used_;  // per column: the last sample that has it, counted from 1
};

}  // namespace shardkit::foreign
