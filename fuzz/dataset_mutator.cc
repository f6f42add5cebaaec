// Mutates a file of a dataset and usually repairs the checksums of all its files.

#include "dataset_files.h"
#include "support/mutate.h"
#include "support/repair_checksums.h"

using namespace shardkit::fuzz;

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return MutateSections(data, size, max_size, seed, kDatasetFiles.size(), [](auto& sections) {
    std::string keys;
    for (auto& [name, content] : sections) {
      if (name != kKeys) continue;
      RepairTable(&content, 0, content.size());
      keys = content;
    }
    std::string_view manifest;
    for (auto& [name, content] : sections) {
      if (name == kManifest) {
        RepairReference(&content, kDatasetFiles[kKeys], keys);
        RepairManifest(&content);
        manifest = content;
      }
    }
    for (auto& [name, content] : sections) {
      if (name == kIndex) RepairOffsetIndex(&content, manifest);
      if (name == kFirstShard || name == kSecondShard) RepairShard(&content);
    }
  });
}
