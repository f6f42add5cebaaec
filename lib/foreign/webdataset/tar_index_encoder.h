// The shard beside a tar that tells where its values lie (format-spec/interop.md).
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "foreign/webdataset/tar_samples.h"

namespace shardkit::foreign {

// The bytes of the shard. `index` has all samples and checksums; its blocks are formed.
absl::StatusOr<std::string> EncodeTarIndex(foreign::TarIndex index);

}  // namespace shardkit::foreign
