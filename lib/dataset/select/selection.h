// Decides which samples of a dataset are selected, before any other of their values is read.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/select.h"

namespace shardkit::dataset {

// Some of the samples of a dataset, by ordinal: one bit for each.
class SampleSet {
 public:
  explicit SampleSet(uint64_t samples) : samples_(samples), words_(samples / 64 + 1) {}

  uint64_t samples() const { return samples_; }  // of the dataset
  void Add(uint64_t sample) { words_[sample / 64] |= uint64_t{1} << (sample % 64); }
  bool Has(uint64_t sample) const { return ((words_[sample / 64] >> (sample % 64)) & 1) != 0; }

  // Of the samples [begin, end), those in the set.
  uint64_t CountIn(uint64_t begin, uint64_t end) const;
  uint64_t Count() const { return CountIn(0, samples_); }

 private:
  uint64_t samples_;
  std::vector<uint64_t> words_;
};

// Shares in steps of 1e-9: what a share begins or ends with.
inline constexpr uint64_t kWholeShare = 1'000'000'000;

// A share as steps; InvalidArgument unless it has at least one and at most all. `name` is that of the share.
absl::StatusOr<uint64_t> ShareSteps(double share, std::string_view name);

struct Selected {
  // Of each part the samples in it.
  std::vector<SampleSet> parts;
  SelectionReport report;  // `selected` counts those of all parts
};

// Divides the selected samples into parts by the hashes of their keys: part i ends where `ends`[i], in steps of a
// share, ends, and begins where the part before ends, or at 0. Ascending, at most kWholeShare. `selection.share` is not
// used.
absl::StatusOr<Selected> SelectParts(ReadableFileSystem& file_system, const std::string& path,
                                     const SampleSelection& selection, std::span<const uint64_t> ends,
                                     const SelectionOptions& options);

// The selected samples, as one part.
absl::StatusOr<Selected> SelectSamples(ReadableFileSystem& file_system, const std::string& path,
                                       const SampleSelection& selection, const SelectionOptions& options);

}  // namespace shardkit::dataset
