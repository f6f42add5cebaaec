// Mutates a file of a dataset and usually repairs the checksums of all its files.

#include "dataset_files.h"
#include "support/mutate.h"
#include "support/repair_checksums.h"

using namespace shardkit::fuzz;

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return MutateSections(data, size, max_size, seed, kDatasetFiles.size(), [](auto& sections) {
    std::string* manifest = nullptr;
    std::string index, keys, list;
    for (auto& [name, content] : sections) {
      if (name == kManifest) manifest = &content;
      if (name == kIndex || name == kSecondIndex || name == kKeys || name == kList) RepairTable(&content);
      if (name == kIndex) index = content;
      if (name == kKeys) keys = content;
      if (name == kList) list = content;
      if (name == kFirstShard || name == kSecondShard) RepairShard(&content);
    }
    if (manifest == nullptr) return;
    RepairReference(manifest, kDatasetFiles[kIndex], index);
    RepairReference(manifest, kDatasetFiles[kKeys], keys);
    RepairReference(manifest, kDatasetFiles[kList], list);
    RepairManifest(manifest);
  });
}
