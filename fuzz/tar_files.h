// The files of tar_fuzzer's inputs.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace shardkit::fuzz {

enum TarFile : size_t { kTar, kTarIndex, kOrigin, kGzip, kZstd };

inline constexpr std::array<std::string_view, 5> kTarFiles = {"x.tar", "x.tar.shardidx", "shardkit.json", "y.tar.gz",
                                                              "y.tar.zst"};

}  // namespace shardkit::fuzz
