// One round of the soak command. A random dataset goes through all operations of this library on datasets, and is
// compared with a model at each step. The same seed gives the same round.
#pragma once

#include <cstdint>
#include <string>

#include "unit/operations/copy/containers_support.h"

namespace shardkit::test {

struct SoakCounts {
  uint64_t rounds = 0;
  uint64_t datasets = 0;  // written, conversions among them
  uint64_t resumed = 0;   // of which after a power cut
  uint64_t failed = 0;    // attempts to write that a failing file system ended
  uint64_t conversions = 0;
  uint64_t samples = 0;  // written
  uint64_t bytes = 0;    // of shards
  uint64_t damages = 0;  // files
  uint64_t found = 0;    // by Validate
  uint64_t blocks_recovered = 0;
  uint64_t blocks_lost = 0;
  uint64_t samples_lost = 0;

  // "12 rounds, 30 datasets (4 resumed, 3 failed, 8 converted), …"
  std::string Text() const;
};

class SoakRound {
 public:
  SoakRound(uint64_t seed, SoakCounts* counts);

  // The contradiction with the model or a promise, or empty.
  std::string Run();

 private:
  void Expect(bool holds, const std::string& what);

  // Writes the dataset to /data, sometimes after a failure or a power cut.
  void Pack();
  void ReadBack(const std::string& path);
  void ReadEpoch();
  void Convert();
  void DamageAndRepair();

  // Everything that a reader returns for /damaged without an error must be the original's.
  void ReadDamaged();

  DatasetGenerator generator_;
  SoakCounts& counts_;
  std::unique_ptr<FileSystem> files_;
  bool to_mds_ = false;
  bool to_tar_ = false;
  std::string contradiction_;
};

}  // namespace shardkit::test
