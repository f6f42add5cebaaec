// PNG files (ISO 15948), through libpng.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace shardkit {

// Decodes the whole image and throws the pixels away. DataLoss when the file is damaged or cut short; ResourceExhausted
// above `max_pixels`. Thread-safe.
absl::Status CheckPng(std::string_view bytes, uint64_t max_pixels = uint64_t{1} << 28);

}  // namespace shardkit
