// The shard beside a tar that tells where its values lie (format-spec/interop.md).
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "format/foreign/tar_samples.h"

namespace shardkit::container {

// The bytes of the shard. `index` has all samples and checksums; its blocks are formed.
absl::StatusOr<std::string> EncodeTarIndex(format::TarIndex index);

}  // namespace shardkit::container
