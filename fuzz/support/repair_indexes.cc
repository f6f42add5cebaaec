#include <xxhash.h>

#include <cstdio>

#include "format/foreign/tar_index_layout.h"
#include "format/paged_table.h"
#include "support/little_endian.h"
#include "support/repair_checksums.h"

namespace shardkit::fuzz {
namespace {

std::string Digits(uint64_t number) {
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(number));
  return digits;
}

uint64_t Hash(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace

void RepairTable(std::string* table) {
  std::string& bytes = *table;
  if (bytes.size() < format::kTableMagicBytes + format::kTableTailBytes) return;
  const uint64_t tail = bytes.size() - format::kTableTailBytes;
  const auto pages = Load<uint64_t>(bytes, tail + 8), payload = Load<uint64_t>(bytes, tail + 16);
  // Larger ones have fence pages, which no input of a fuzzer has.
  if (pages <= format::kMostRootFences && payload <= tail && format::kFenceBytes * pages <= tail - payload) {
    const uint64_t root = tail - payload - format::kFenceBytes * pages;
    for (uint64_t i = 0; i < pages; ++i) {
      const uint64_t fence = root + format::kFenceBytes * i;
      const auto begin = Load<uint64_t>(bytes, fence + 8);
      const uint64_t end = i + 1 < pages ? Load<uint64_t>(bytes, fence + format::kFenceBytes + 8) : root;
      if (begin <= end && end <= root) {
        Store(&bytes, fence + 16, Hash(std::string_view(bytes).substr(begin, end - begin)));
      }
    }
    Store(&bytes, tail + 32, Hash(std::string_view(bytes).substr(root, tail - root)));
  }
  Store(&bytes, tail + 48, Hash(std::string_view(bytes).substr(tail, 48)));
}

void RepairReference(std::string_view index, std::string* manifest) {
  constexpr std::string_view kStart = "\"index\": {", kKey = "\"checksum\": \"";
  const size_t start = manifest->find(kStart);
  const size_t key = start == manifest->npos ? start : manifest->find(kKey, start);
  if (key == manifest->npos || manifest->size() < key + kKey.size() + 16) return;
  if (index.size() < format::kTableTailBytes) return;
  const std::string digits = Digits(Load<uint64_t>(index, index.size() - 16));
  manifest->replace(key + kKey.size(), 16, digits);
}

void RepairManifest(std::string* manifest) {
  constexpr std::string_view kKey = "  \"checksum\": \"";
  const size_t line = manifest->rfind(kKey);
  if (line == manifest->npos || manifest->size() < line + kKey.size() + 16) return;
  manifest->replace(line + kKey.size(), 16, Digits(Hash(std::string_view(*manifest).substr(0, line))));
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
