// NumPy's .npy files, version 1.0 (numpy.lib.format).
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/ndarray.h"

namespace shardkit {

// Replaces *out. bf16, which NumPy does not have, becomes a field of raw two-byte elements.
absl::Status FormatNpy(const NdarrayView& array, std::string* out);

// The elements of a file that FormatNpy wrote, borrowed from `file`. DataLoss for any other file, even a well-formed
// one.
absl::StatusOr<NdarrayView> ParseNpy(Type dtype, std::string_view file);

}  // namespace shardkit
