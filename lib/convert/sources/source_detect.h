// What kind of data set some inputs are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/sources/files_source.h"
#include "shardkit/source.h"

namespace shardkit {

// Directory or tar file, by looking. NotFound for a missing input, InvalidArgument for another kind of file, or an
// empty directory without allow_empty.
absl::StatusOr<std::vector<SourceInput>> LookAtInputs(const std::vector<std::string>& inputs,
                                                      const SourceOptions& options);

struct DetectedInputs {
  std::string_view kind;            // "webdataset", "mds", "sa1b", "imagefolder" or "files"
  std::vector<SourceInput> inputs;  // of the last three; the tars of directories that hold nothing else
};

// All but "files" when every input is of that kind. InvalidArgument for inputs that are datasets of shards, or some of
// which are datasets of other containers; an error too for datasets that are not whole.
absl::StatusOr<DetectedInputs> DetectKind(const std::vector<std::string>& paths, const SourceOptions& options);

}  // namespace shardkit
