// Mutates a tar or a file beside it, and usually repairs the checksums of the headers and of the index.

#include <cstdio>

#include "support/mutate.h"
#include "support/repair_checksums.h"
#include "tar_files.h"

using namespace shardkit::fuzz;

namespace {

// Sets the checksum of every block with "ustar": the sum of its bytes, with spaces in the checksum field (POSIX.1, pax,
// "ustar Interchange Format").
void RepairTar(std::string* tar) {
  for (size_t at = 0; at + 512 <= tar->size(); at += 512) {
    if (std::string_view(*tar).substr(at + 257, 5) != "ustar") continue;
    tar->replace(at + 148, 8, 8, ' ');
    unsigned sum = 0;
    for (size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>((*tar)[at + i]);
    char digits[8];
    std::snprintf(digits, sizeof(digits), "%06o", sum);
    tar->replace(at + 148, 7, digits, 7);
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return MutateSections(data, size, max_size, seed, kTarFiles.size(), [](auto& sections) {
    std::string_view tar;
    for (auto& [name, content] : sections) {
      if (name != kTar) continue;
      RepairTar(&content);
      tar = content;
    }
    for (auto& [name, content] : sections) {
      if (name == kTarIndex) RepairTarIndex(&content, tar);
      if (name == kOrigin) RepairManifest(&content);
    }
  });
}
