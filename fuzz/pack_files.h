// The files of pack_fuzzer's inputs; the PNG is of the segments of x.json.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace shardkit::fuzz {

enum PackFile : size_t { kPackZip, kPackLines, kPackCsv, kPackCoco, kPackPng };

inline constexpr std::array<std::string_view, 5> kPackFiles = {"x.zip", "x.jsonl", "x.csv", "x.json", "x.png"};

}  // namespace shardkit::fuzz
