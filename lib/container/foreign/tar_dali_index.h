// A tar as DALI's wds2idx sees it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "container/foreign/tar_index.h"
#include "format/foreign/dali_index.h"

namespace shardkit::container {

// X.idx for X.tar; empty for a file of another name.
std::string DaliIndexPath(const std::string& path);

struct DaliView {
  std::vector<format::DaliSample> samples;
  std::vector<TarProblem> additional;  // members that belong to a sample for DALI, but not for webdataset
  std::vector<TarProblem> missing;     // members that belong to a sample for webdataset, but not for DALI
};

// The tar must not be compressed. DataLoss when it is damaged.
absl::StatusOr<DaliView> FindDaliSamples(const RandomAccessFile& file);

}  // namespace shardkit::container
