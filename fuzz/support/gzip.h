// Gzip files for targets and seeds.
#pragma once

#include <string>

namespace shardkit::fuzz {

// `level` from 0, stored, to 9, as zlib's.
std::string Gzip(const std::string& bytes, int level);

}  // namespace shardkit::fuzz
