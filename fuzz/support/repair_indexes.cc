#include <xxhash.h>

#include <cstdio>

#include "format/foreign/tar_index_layout.h"
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
  Store<uint64_t>(&bytes, 80, bytes.size());
  const auto blocks = Load<uint64_t>(bytes, 48), pages = Load<uint64_t>(bytes, 64), keys = Load<uint64_t>(bytes, 72);
  const uint64_t front = format::kTarIndexHeaderBytes;
  if (pages >= front && pages <= bytes.size() && blocks <= (pages - front) / format::kTarPageEntryBytes) {
    const uint64_t directory = pages - format::kTarPageEntryBytes * blocks;
    for (uint64_t i = 0; i < blocks; ++i) {
      const uint64_t entry = directory + format::kTarPageEntryBytes * i;
      const auto begin = Load<uint64_t>(bytes, entry);
      const uint64_t end = i + 1 < blocks ? Load<uint64_t>(bytes, entry + format::kTarPageEntryBytes) : keys;
      if (begin <= end && end <= bytes.size())
        Store(&bytes, entry + 32, Hash(std::string_view(bytes).substr(begin, end - begin)));
    }
    Store(&bytes, 88, Hash(std::string_view(bytes).substr(front, pages - front)));
  }
  if (keys <= bytes.size()) RepairTable(&bytes, keys, bytes.size() - keys);
  Store(&bytes, 120, Hash(std::string_view(bytes).substr(0, 120)));
}

}  // namespace shardkit::fuzz
