// Moves the samples of a source into a dataset: threads load them, and they are stored in listing order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "dataset/write/dataset_job.h"
#include "shardkit/filesystem.h"
#include "shardkit/pack.h"
#include "shardkit/source.h"

namespace shardkit::operations {

// OutOfRange, with a list of the existing columns, when none of them is `name`. `option` ("--codec") gave the name.
absl::Status CheckIsColumn(std::string_view option, std::string_view name, const std::vector<Column>& columns);

// The same check for every column that the output options name.
absl::Status CheckColumnsOf(const DatasetWriterOptions& options, const std::vector<Column>& columns);

// The columns that the source knows before any sample. Makes the checks that are possible then, and gives the note.
absl::StatusOr<std::vector<Column>> FirstColumns(Source& source, const PackOptions& options);

// Those of the source, after its notes where nobody takes them.
std::vector<std::string> WarningsOf(const Source& source, const PackOptions& options);

// The options of the dataset that a source is packed into, with its job and its metadata.
absl::StatusOr<DatasetWriterOptions> WriterOptionsOf(const Source& source, const PackOptions& options);

// Where a shard ends: with the sample that reaches the bytes of input, or the number of samples.
class ShardLimit {
 public:
  explicit ShardLimit(const DatasetWriterOptions& options)
      : most_bytes_(options.shard_size),
        most_samples_(options.shard_samples == 0 ? kMaxSamples : options.shard_samples) {}

  // True when the shard ends here.
  bool Add(uint64_t samples, uint64_t bytes) {
    samples_ += samples;
    bytes_ += std::min(bytes, UINT64_MAX - bytes_);
    return samples_ >= most_samples_ || bytes_ >= most_bytes_;
  }
  uint64_t samples_left() const { return most_samples_ - samples_; }
  void Reset() { samples_ = bytes_ = 0; }

 private:
  // Bounds the memory for keys and offsets while a shard of tiny samples is written.
  static constexpr uint64_t kMaxSamples = uint64_t{1} << 20;

  uint64_t most_bytes_;
  uint64_t most_samples_;
  uint64_t samples_ = 0;
  uint64_t bytes_ = 0;
};

// Which samples of a source are packed.
struct PackPart {
  uint64_t skip = 0;                            // samples of the source before the part; positions count from here
  uint64_t count = UINT64_MAX;                  // samples of the part; UINT64_MAX: all that follow
  uint64_t resume = 0;                          // the position to begin at
  uint64_t unit = 0;                            // number of the unit that begins next
  std::optional<dataset::UnitShard> continued;  // the next shard, where the source goes on within a tar
};

struct PartReport {
  uint64_t listed = 0;   // samples, with those that were skipped
  uint64_t listing = 0;  // of these (see dataset::DatasetJob::SetListing)
  uint64_t samples = 0;
  uint64_t input_bytes = 0;
};

// Stores the samples of some units. The writer is not finished.
absl::StatusOr<PartReport> RunUnits(Source& source, const PackOptions& options, const PackPart& part,
                                    dataset::DatasetJob& job);

// InvalidArgument, naming the files where it can, for a key that occurs twice in the input.
absl::Status DuplicateKeyError(Source& source, std::string_view key);

// What becomes of a dataset in which keys are repeated: DuplicateKeyError, or with skip_errors a warning.
absl::Status ReportDuplicateKeys(Source& source, const PackOptions& options, const dataset::DuplicateKey& found,
                                 std::vector<std::string>* warnings);

// Stores all samples that the writer does not have yet, and finishes the writer. On failure the writer is aborted, or
// suspended with keep_on_cancel. OutOfRange when options.dataset names a column that no sample had; then nothing is
// kept. `ends_shards`: the job leaves it to this function where shards end.
absl::StatusOr<PackReport> RunPack(Source& source, const PackOptions& options, dataset::DatasetJob& job,
                                   bool ends_shards);

// Loads the samples and stores nothing. The report's manifest has the columns known before any sample.
absl::StatusOr<PackReport> DryRun(Source& source, const PackOptions& options);

}  // namespace shardkit::operations
