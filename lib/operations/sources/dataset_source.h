// A source that reads the samples of datasets of any container, block by block and one dataset after the other.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/hash.h"
#include "container/whole_block.h"
#include "dataset/select/selection.h"
#include "operations/copy/column_mapping.h"
#include "operations/copy/sample_mapper.h"
#include "operations/sources/source_unit.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/source.h"

namespace shardkit::operations {

// A dataset and the plan for its columns.
struct ConversionInput {
  std::shared_ptr<ReadableFileSystem> file_system;  // null, or what `dataset` is read through
  std::unique_ptr<DatasetReader> dataset;
  ColumnMapping plan;
  bool some_columns = false;  // others were not chosen
};

// Opens the dataset at `path`, reads the origin beside it (kOriginName) if there is one, and plans the conversion.
absl::StatusOr<ConversionInput> OpenConversionInput(ReadableFileSystem& file_system, const std::string& path,
                                                    const ConvertOptions& options);

class DatasetSource final : public Source {
 public:
  // Takes at least one input. With `skip_errors` damaged blocks
  // are salvaged, so that only damaged samples fail. `types` are for the form kGuessed.
  DatasetSource(std::vector<ConversionInput> inputs, bool skip_errors, const std::map<std::string, Type>& types = {});

  // Reads the block directories.
  absl::Status Start();

  // Lists from now on only these samples of the one input, counting positions among them: blocks without any are not
  // read. FailedPrecondition when the input has another number of samples.
  absl::Status Choose(const dataset::SampleSet& samples);

  // Whether blocks that are listed whole may be read as they are stored. Not at first.
  void KeepBlocks(bool keep) { keep_blocks_ = keep; }
  // The unit as the block that it is, for a dataset with these columns. None when it has to be loaded as samples: also
  // when the block is damaged. Thread-safe for different units.
  absl::StatusOr<std::optional<container::StoredBlock>> LoadWhole(const WorkUnit& unit, const Schema& columns);

  // The first input.
  const ConversionInput& input() const { return parts_[0]->input; }
  std::vector<const ConversionInput*> inputs() const;
  // Names, lengths and contents of shards, as far as their containers tell, and what is seen of them.
  absl::StatusOr<std::string> Identity() const override;
  // Of each input: how many samples are listed up to its end.
  std::vector<uint64_t> ends() const;

  std::string_view name() const override { return input().dataset->container(); }
  absl::StatusOr<std::vector<Column>> InitialColumns() override;
  bool keys_ascend() const override { return false; }
  bool keys_are_unique() const override { return false; }
  bool has_own_units() const override { return true; }
  std::vector<std::string> warnings() const override;
  // What all inputs have.
  std::map<std::string, std::string> metadata() const override;

  // The unit is the rest of a block, or the beginning of the rest.
  absl::StatusOr<std::unique_ptr<WorkUnit>> Next(size_t max_samples) override;
  void Load(WorkUnit& unit, SampleBatch* batch) override;
  absl::StatusOr<std::vector<uint64_t>> InputBytes(const WorkUnit& unit) const override;
  absl::StatusOr<uint64_t> Skip(uint64_t count) override;
  // Lists from the first sample again.
  void Rewind() { part_ = piece_ = position_ = 0; }
  absl::StatusOr<uint64_t> Count() override;

 private:
  // A block, or samples that cannot be read, which then fail with `status`. Of a block, `count` samples are listed.
  struct Piece {
    DatasetBlock block;
    uint64_t position = 0;  // in the part
    std::string key;        // of all its samples, when they cannot be read
    absl::Status status;
    uint32_t count = block.sample_count;

    uint64_t end() const { return position + count; }
  };
  struct Part {
    explicit Part(ConversionInput from) : input(std::move(from)) {}
    uint64_t positions() const { return pieces.empty() ? 0 : pieces.back().end(); }
    ConversionInput input;
    // Bytes in the input of a listed sample of a block, which the last one counts for all.
    uint64_t BytesAt(const Piece& piece, uint64_t number) const;
    // Where in its block each listed sample is.
    std::vector<uint32_t> PlacesIn(const Piece& piece) const;

    std::vector<Piece> pieces;
    double share = 1;  // of a block's bytes, the part that is in the columns chosen
    std::optional<dataset::SampleSet> chosen;
    std::mutex mutex;
    std::vector<std::unique_ptr<SampleMapper>> idle;
    // Of WebDataset, of the tars of which some samples and not all have been loaded.
    struct TarKeys {
      absl::flat_hash_set<Hash128Bytes> seen;
      uint64_t samples = 0;  // loaded, or failed
    };
    std::map<uint32_t, TarKeys> tars;
  };
  void CountTorn(Part& part, const Piece& piece, const SampleBatch& batch);
  absl::Status List(Part& part) const;
  absl::Status ListShards(Part& part) const;
  static absl::Status FindShare(Part& part);
  absl::Status ReadPiece(const Part& part, const Piece& piece, BlockBuffer* buffer, BlockView* view,
                         BlockDamage* damage) const;
  std::unique_ptr<SampleMapper> TakeMapper(Part& part);
  absl::Status GuessColumns(const Part& part, std::vector<Column>* columns);

  const bool skip_errors_;
  bool keep_blocks_ = false;
  container::WholeBlocks whole_blocks_;
  std::atomic<uint64_t> unnamed_samples_ = 0;  // loaded, of WebDataset: of members whose names begin with a dot
  std::atomic<uint64_t> torn_samples_ = 0;     // loaded, whose key an earlier one of their tar has
  std::atomic<uint64_t> filled_ = 0;           // absent values stored as empty
  std::vector<std::unique_ptr<Part>> parts_;
  ColumnTable guessed_;
  size_t part_ = 0;        // the part to list next
  size_t piece_ = 0;       // the piece of that part to list next
  uint64_t position_ = 0;  // the position in that part to list next
};

}  // namespace shardkit::operations
