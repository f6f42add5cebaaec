// A tar as DALI's wds2idx sees it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "foreign/webdataset/dali_index.h"
#include "foreign/webdataset/tar_index.h"

namespace shardkit::foreign {

// X.idx for X.tar; empty for a file of another name.
std::string DaliIndexPath(const std::string& path);

struct DaliView {
  std::vector<foreign::DaliSample> samples;
  std::vector<TarProblem> additional;  // members that belong to a sample for DALI, but not for webdataset
  std::vector<TarProblem> missing;     // members that belong to a sample for webdataset, but not for DALI
};

// The tar must not be compressed. DataLoss when it is damaged.
absl::StatusOr<DaliView> FindDaliSamples(const RandomAccessFile& file);

}  // namespace shardkit::foreign
