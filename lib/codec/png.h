// PNG files (ISO 15948), through libpng.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace shardkit {

// Decodes the whole image, row by row, and keeps no pixel. DataLoss when the file is damaged or cut short. Takes memory
// for a row, and for what libpng reads of chunks: 8 MB each at most. Thread-safe.
absl::Status CheckPng(std::string_view bytes);

}  // namespace shardkit
