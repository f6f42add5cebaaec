#include <xxhash.h>

#include <algorithm>
#include <cstdio>

#include "format/foreign/tar_index_layout.h"
#include "format/index_layout.h"
#include "shardkit/manifest.h"
#include "support/little_endian.h"
#include "support/repair_checksums.h"

namespace shardkit::fuzz {
namespace {

uint64_t Hash(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace

void RepairOffsetIndex(std::string* index, std::string_view manifest) {
  std::string& bytes = *index;
  if (bytes.size() < format::kIndexHeaderBytes) return;
  if (const auto parsed = ParseManifest(manifest); parsed.ok()) Store(&bytes, 96, parsed->dataset_hash());
  const auto pages = Load<uint64_t>(bytes, 80);
  if (pages >= format::kIndexHeaderBytes && pages <= bytes.size()) {
    uint64_t checksum = pages;
    for (uint64_t page = format::kIndexHeaderBytes; page < pages && checksum + 8 <= bytes.size(); checksum += 8) {
      const uint64_t length = std::min(format::kIndexPageBytes, pages - page);
      Store(&bytes, checksum, Hash(std::string_view(bytes).substr(page, length)));
      page += length;
    }
    Store(&bytes, 104, Hash(std::string_view(bytes).substr(pages)));
  }
  Store(&bytes, 184, Hash(std::string_view(bytes).substr(0, 184)));
}

void RepairManifest(std::string* manifest) {
  constexpr std::string_view kKey = "  \"checksum\": \"";
  const size_t line = manifest->rfind(kKey);
  if (line == manifest->npos || manifest->size() < line + kKey.size() + 16) return;
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx",
                static_cast<unsigned long long>(Hash(std::string_view(*manifest).substr(0, line))));
  manifest->replace(line + kKey.size(), 16, digits, 16);
}

void RepairTarIndex(std::string* index, std::string_view tar) {
  std::string& bytes = *index;
  if (bytes.size() < format::kTarIndexHeaderBytes) return;
  const size_t part = std::min<size_t>(tar.size(), format::kTarIdentityBytes);
  Store<uint64_t>(&bytes, 16, tar.size());
  Store(&bytes, 24, format::TarIdentity(tar.substr(0, part), tar.substr(tar.size() - part)));
  Store<uint64_t>(&bytes, 56, bytes.size());
  Store(&bytes, 64, Hash(std::string_view(bytes).substr(format::kTarIndexHeaderBytes)));
  Store(&bytes, 120, Hash(std::string_view(bytes).substr(0, 120)));
}

}  // namespace shardkit::fuzz
