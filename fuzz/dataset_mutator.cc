// Mutates a file of a dataset and usually repairs the checksums of all its files.

#include "dataset_files.h"
#include "support/mutate.h"
#include "support/repair_checksums.h"

using namespace shardkit::fuzz;

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return MutateSections(data, size, max_size, seed, kDatasetFiles.size(), [](auto& sections) {
    std::string* manifest = nullptr;
    std::string segment, second;
    for (auto& [name, content] : sections) {
      if (name == kManifest) manifest = &content;
      if (name == kSegment || name == kSecondSegment) RepairTable(&content);
      if (name == kSegment) segment = content;
      if (name == kSecondSegment) second = content;
      if (name == kFirstShard || name == kSecondShard) RepairShard(&content);
    }
    if (manifest == nullptr) return;
    RepairReference(manifest, kDatasetFiles[kSegment], segment);
    RepairReference(manifest, kDatasetFiles[kSecondSegment], second);
    RepairManifest(manifest);
  });
}
