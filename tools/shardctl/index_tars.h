// The parts of shardctl index for tars of WebDataset.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "json.h"
#include "shardkit/tar_index.h"

namespace shardctl {

// Makes the index of one tar: Shardkit's, or DALI's with `dali`. Reports it in *tars with `json`, otherwise on standard
// output.
absl::Status IndexTar(const std::string& path, bool dali, bool json, Json* tars);

// The tars among the paths, and the tars in the directories among them. NotFound for a directory without tars,
// InvalidArgument for a file that is not a tar.
absl::StatusOr<std::vector<std::string>> CollectTars(const std::vector<std::string>& paths);

}  // namespace shardctl
