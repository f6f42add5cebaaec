// Finds out what kind of data set the inputs are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/sources/files_source.h"
#include "shardkit/source.h"

namespace shardkit::convert {

// Finds out whether each input is a directory or a tar file. NotFound for a missing input, InvalidArgument for another
// kind of file, or for an empty directory without allow_empty.
absl::StatusOr<std::vector<SourceInput>> LookAtInputs(const std::vector<std::string>& inputs,
                                                      const SourceOptions& options);

struct DetectedInputs {
  std::string_view kind;            // "webdataset", "mds", "sa1b", "imagefolder" or "files"
  std::vector<SourceInput> inputs;  // for the last three kinds; a directory of only tars becomes these tars
  std::vector<std::string> notes;   // what the user may not intend, one line each
};

// A kind other than "files" means that every input is of that kind. InvalidArgument when inputs are datasets of shards,
// or when only some of them are datasets of another container. An incomplete dataset is an error too.
absl::StatusOr<DetectedInputs> DetectKind(const std::vector<std::string>& paths, const SourceOptions& options);

}  // namespace shardkit::convert
