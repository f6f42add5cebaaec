// The samples of a dataset, of whatever container, as a source: block by block.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "convert/conversion_plan.h"
#include "convert/sample_mapper.h"
#include "convert/source_unit.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/source.h"

namespace shardkit {

class DatasetSource final : public Source {
 public:
  // `dataset` outlives the source.
  DatasetSource(const DatasetReader& dataset, ConversionPlan plan) : dataset_(dataset), plan_(std::move(plan)) {}

  // Reads the block directory.
  absl::Status Start();

  std::string_view name() const override { return "dataset"; }
  absl::StatusOr<std::vector<Column>> InitialColumns() override;
  bool keys_ascend() const override { return false; }
  bool keys_are_unique() const override { return false; }
  bool has_own_units() const override { return true; }

  // What is left of a block, or the beginning of that.
  absl::StatusOr<std::unique_ptr<WorkUnit>> Next(size_t max_samples) override;
  void Load(WorkUnit& unit, SampleBatch* batch) override;
  absl::StatusOr<uint64_t> Skip(uint64_t count) override;
  absl::StatusOr<uint64_t> Count() override { return dataset_.sample_count(); }

 private:
  std::unique_ptr<SampleMapper> TakeMapper();
  void ReturnMapper(std::unique_ptr<SampleMapper> mapper);
  absl::Status GuessColumns(std::vector<Column>* columns);

  const DatasetReader& dataset_;
  const ConversionPlan plan_;
  ColumnTable guessed_{/*nullable=*/true};
  std::vector<DatasetBlock> blocks_;
  size_t block_ = 0;      // to be listed next,
  uint64_t position_ = 0;  // from this sample on
  std::mutex mutex_;
  std::vector<std::unique_ptr<SampleMapper>> idle_;
};

}  // namespace shardkit
