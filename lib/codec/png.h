// PNG files (ISO 15948), through libpng.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace shardkit {

// Decodes the whole image and throws the pixels away. DataLoss when the file is damaged or cut short; ResourceExhausted
// when decoding takes more than `max_memory` bytes (4 a pixel). Thread-safe.
absl::Status CheckPng(std::string_view bytes, uint64_t max_memory);

}  // namespace shardkit
