// What several tests of codecs need.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/status/status.h"

namespace shardkit {

inline constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

inline std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline int HexDigit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

}  // namespace shardkit
