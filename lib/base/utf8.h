#pragma once

#include <string_view>

namespace shardkit {

// Whether the bytes are well-formed UTF-8 (Unicode 15, table 3-7).
bool ValidUtf8(std::string_view bytes);

}  // namespace shardkit
