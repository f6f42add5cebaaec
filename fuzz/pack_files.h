// The files of pack_fuzzer's inputs.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace shardkit::fuzz {

enum PackFile : size_t { kPackZip, kPackLines, kPackCsv, kPackCoco };

inline constexpr std::array<std::string_view, 4> kPackFiles = {"x.zip", "x.jsonl", "x.csv", "x.json"};

}  // namespace shardkit::fuzz
