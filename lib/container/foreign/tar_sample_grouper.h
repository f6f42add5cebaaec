// Groups the members of a tar into samples.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "container/foreign/tar_archive.h"
#include "format/foreign/tar_index_layout.h"
#include "format/foreign/webdataset_names.h"

namespace shardkit::container {

// One thread at a time. `path` is for messages. `index` must be empty at first. Both must outlive the object.
class TarSampleGrouper {
 public:
  TarSampleGrouper(const std::string& path, format::TarIndex* index) : path_(path), index_(index) {}

  // Adds the next member of the tar. Skips members that belong to no sample. DataLoss when a sample has an extension
  // twice, Unimplemented for what a schema cannot hold and for sparse members.
  absl::Status Add(const TarHeader& header);

 private:
  absl::Status AddToSample(const TarHeader& header, const format::WebDatasetName& name);
  absl::StatusOr<uint32_t> FindColumn(std::string_view extension);

  const std::string& path_;
  format::TarIndex* const index_;
  std::unordered_map<std::string, uint32_t> columns_;
  std::vector<uint64_t> used_;  // per column: the last sample that has it, counted from 1
};

}  // namespace shardkit::container
