// The file system through which a source reads its inputs.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/source.h"

namespace shardkit::operations {

// Replaces options->file_system by one over it, in which inputs, and SourceOptions::root, that are zips, by their names
// (*.zip) and first bytes, are directories, and so are tars, by their names, of the kinds of sources that do not read
// tars from front to back. Names below the inputs are text, as SourceOptions::names says. Returns it; it must live as
// long as *options is used. Null where nothing is to be changed.
absl::StatusOr<std::shared_ptr<ReadableFileSystem>> OpenInputs(std::string_view kind,
                                                               const std::vector<std::string>& inputs,
                                                               SourceOptions* options);

}  // namespace shardkit::operations
