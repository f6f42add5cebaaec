// The first inputs of a campaign: sound inputs for every target, so that mutations of them get past the first checks.
#pragma once

#include <string>
#include <string_view>

namespace shardkit::fuzz {

// Writes seeds to one folder per target.
class SeedWriter {
 public:
  explicit SeedWriter(std::string directory) : directory_(std::move(directory)) {}

  // Writes an input; ends the program when that fails.
  void Add(std::string_view target, std::string_view name, std::string_view input);

  uint64_t count() const { return count_; }

 private:
  std::string directory_;
  uint64_t count_ = 0;
};

// Inputs for: shard, dataset, format. `golden` is format-spec/golden.
void AddDatasetSeeds(const std::string& golden, SeedWriter& seeds);

// tar, mds, pack, foreign, numbers, remote, and bytes for writer, convert, npy, unpack.
void AddForeignSeeds(SeedWriter& seeds);

// avif, bmp, gif, tiff, webp.
void AddImageSeeds(SeedWriter& seeds);

// jpeg, png, rle, sa1b.
void AddPictureSeeds(SeedWriter& seeds);

// predicate.
void AddPredicateSeeds(SeedWriter& seeds);

// view.
void AddViewSeeds(SeedWriter& seeds);

// Bytes that depend only on the number, on every machine.
std::string SeedBytes(uint64_t number, size_t length);

}  // namespace shardkit::fuzz
