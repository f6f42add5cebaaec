// The files of tar_fuzzer's inputs.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace shardkit::fuzz {

enum TarFile : size_t { kTar, kTarIndex, kDaliIndex, kWidsIndex, kOrigin, kGzip, kZstd };

inline constexpr std::array<std::string_view, 7> kTarFiles = {
    "x.tar", "x.tar.shardidx", "x.idx", "wids.json", "shardkit.json", "y.tar.gz", "y.tar.zst"};

}  // namespace shardkit::fuzz
