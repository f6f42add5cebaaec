// The files of mds_fuzzer's inputs.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace shardkit::fuzz {

enum MdsFile : size_t {
  kMdsIndex,
  kMdsFirst,
  kMdsSecond,
  kMdsZstd,
  kMdsGzip,
  kMdsBzip2,
  kMdsBrotli,
  kMdsSnappy,
  kMdsOrigin,
  kMdsFolder,
  kMdsFolderShard
};

inline constexpr std::array<std::string_view, 11> kMdsFiles = {
    "index.json",         "shard.00000.mds",     "shard.00001.mds",       "shard.00000.mds.zstd",
    "shard.00000.mds.gz", "shard.00000.mds.bz2", "shard.00000.mds.br",    "shard.00000.mds.snappy",
    "shardkit.json",      "folder/index.json",   "folder/shard.00000.mds"};

}  // namespace shardkit::fuzz
