// Puts the members of a tar together to samples.
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

namespace shardkit {

// One thread at a time. `path`, for messages, and `index`, empty at first, must outlive it.
class TarSampleGrouper {
 public:
  TarSampleGrouper(const std::string& path, format::TarIndex* index) : path_(path), index_(index) {}

  // The next member of the tar; what is no part of a sample is passed over. DataLoss for an extension that a
  // sample has twice, Unimplemented for what a schema cannot hold and for sparse members.
  absl::Status Add(const TarHeader& header);

 private:
  absl::Status AddToSample(const TarHeader& header, const format::WebDatasetName& name);
  absl::StatusOr<uint32_t> FindColumn(std::string_view extension);

  const std::string& path_;
  format::TarIndex* const index_;
  std::unordered_map<std::string, uint32_t> columns_;
  std::vector<uint64_t> used_;  // per column: by the sample with this number, counted from 1
};

}  // namespace shardkit
