// What kind of data set some inputs are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/sources/files_source.h"
#include "shardkit/source.h"

namespace shardkit {

// Directory or tar file, by looking. NotFound for a missing input, InvalidArgument for another kind of file.
absl::StatusOr<std::vector<SourceInput>> LookAtInputs(const std::vector<std::string>& inputs,
                                                      const SourceOptions& options);

// "mds", "sa1b", "imagefolder" or "files": the first three when every input is of that kind.
absl::StatusOr<std::string_view> DetectKind(const std::vector<SourceInput>& inputs, const SourceOptions& options);

}  // namespace shardkit
