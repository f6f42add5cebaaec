// The parts of shardctl index that are about tars of WebDataset.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "json.h"
#include "shardkit/tar_index.h"

namespace shardctl {

// Makes the index of one tar, ours or with `dali` that of DALI, and tells of it: in *tars, or else on
// standard output.
absl::Status IndexTar(const std::string& path, bool dali, bool json, Json* tars);

// The tars that the paths name: themselves, or those of a directory. NotFound for a directory without any,
// InvalidArgument for another file.
absl::StatusOr<std::vector<std::string>> CollectTars(const std::vector<std::string>& paths);

// Writes the wids index of the tars that the paths name to `output` and returns the exit code.
int WriteWids(const std::vector<std::string>& paths, const std::string& output, const shardkit::WidsOptions& options,
              bool json);

}  // namespace shardctl
