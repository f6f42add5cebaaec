// NumPy's .npy files, version 1.0 (numpy.lib.format).
#pragma once

#include <string>

#include "absl/status/status.h"
#include "shardkit/ndarray.h"

namespace shardkit {

// Replaces *out. bf16, which NumPy does not have, becomes a field of raw two-byte elements.
absl::Status FormatNpy(const NdarrayView& array, std::string* out);

}  // namespace shardkit
