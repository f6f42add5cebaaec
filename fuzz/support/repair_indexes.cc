#include <xxhash.h>

#include <cstdio>

#include "foreign/webdataset/tar_samples.h"
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
  // In the metadata a value follows its name and four bytes with its length.
  const auto set = [&](std::string_view name, const std::string& value) {
    const size_t at = index->rfind(name);
    if (at == index->npos || index->size() - at < name.size() + 4 + value.size()) return;
    if (Load<uint32_t>(*index, at + name.size()) == value.size())
      index->replace(at + name.size() + 4, value.size(), value);
  };
  const size_t part = std::min<size_t>(tar.size(), foreign::kTarIdentityBytes);
  set(foreign::kTarLengthName, std::to_string(tar.size()));
  set(foreign::kTarIdentityName, Digits(foreign::TarIdentity(tar.substr(0, part), tar.substr(tar.size() - part))));
  RepairShard(index);
}

}  // namespace shardkit::fuzz
