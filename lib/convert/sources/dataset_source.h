// The samples of datasets, of whatever container, as a source: block by block, one dataset after the other.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "convert/conversion_plan.h"
#include "convert/sample_mapper.h"
#include "convert/sources/source_unit.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/source.h"

namespace shardkit {

// A dataset and what becomes of its columns.
struct ConversionInput {
  std::unique_ptr<DatasetReader> dataset;
  ConversionPlan plan;
};

// Opens the dataset at `path`, reads what lies beside it (kOriginName), and plans.
absl::StatusOr<ConversionInput> OpenConversionInput(FileSystem& file_system, const std::string& path,
                                                    const ConvertOptions& options);

class DatasetSource final : public Source {
 public:
  // At least one input; all are of one container and have the same form. With `skip_errors` what is damaged is looked
  // into, so that no sample fails for another's sake. `types` are for the form kGuessed.
  DatasetSource(std::vector<ConversionInput> inputs, bool skip_errors, const std::map<std::string, Type>& types = {});

  // Reads the block directories.
  absl::Status Start();

  // Of the first input.
  const ConversionInput& input() const { return parts_[0]->input; }

  std::string_view name() const override { return input().dataset->container(); }
  absl::StatusOr<std::vector<Column>> InitialColumns() override;
  bool keys_ascend() const override { return false; }
  bool keys_are_unique() const override { return false; }
  bool has_own_units() const override { return true; }
  std::map<std::string, std::string> metadata() const override { return input().plan.origin.metadata; }

  // What is left of a block, or the beginning of that.
  absl::StatusOr<std::unique_ptr<WorkUnit>> Next(size_t max_samples) override;
  void Load(WorkUnit& unit, SampleBatch* batch) override;
  absl::StatusOr<uint64_t> Skip(uint64_t count) override;
  absl::StatusOr<uint64_t> Count() override;

 private:
  // A block, or what cannot be read: then its samples have `status`.
  struct Piece {
    DatasetBlock block;
    uint64_t position = 0;  // in the part
    std::string key;        // of all its samples, where they cannot be read
    absl::Status status;

    uint64_t end() const { return position + block.sample_count; }
  };
  struct Part {
    explicit Part(ConversionInput from) : input(std::move(from)) {}
    uint64_t positions() const { return pieces.empty() ? 0 : pieces.back().end(); }
    ConversionInput input;
    std::vector<Piece> pieces;
    std::mutex mutex;
    std::vector<std::unique_ptr<SampleMapper>> idle;
  };
  absl::Status List(Part& part) const;
  absl::Status ListShards(Part& part) const;
  absl::Status ReadPiece(const Part& part, const Piece& piece, BlockBuffer* buffer, BlockView* view,
                         BlockDamage* damage) const;
  std::unique_ptr<SampleMapper> TakeMapper(Part& part);
  absl::Status GuessColumns(const Part& part, std::vector<Column>* columns);

  const bool skip_errors_;
  std::vector<std::unique_ptr<Part>> parts_;
  ColumnTable guessed_;
  size_t part_ = 0;        // to be listed next,
  size_t piece_ = 0;       // in it,
  uint64_t position_ = 0;  // from this position of the part on
};

}  // namespace shardkit
