// Gzip files for targets and seeds.
#pragma once

#include <string>

namespace shardkit::fuzz {

// `level` is zlib's: from 0 (stored) to 9.
std::string Gzip(const std::string& bytes, int level);

}  // namespace shardkit::fuzz
