#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "dataset/write/schema_mapper.h"
#include "operations/columns/open_rows.h"
#include "shardkit/dataset_reader.h"

namespace shardkit::operations {
namespace {

class DatasetRows final : public ColumnRows {
 public:
  DatasetRows(std::unique_ptr<DatasetReader> dataset, std::unique_ptr<BlockScanner> scanner, Schema schema)
      : dataset_(std::move(dataset)), schema_(std::move(schema)), scanner_(std::move(scanner)) {}

  const Schema& schema() const override { return schema_; }
  std::optional<uint64_t> count() const override { return dataset_->sample_count(); }

  absl::StatusOr<bool> Next(std::span<std::optional<std::string_view>> row) override {
    while (block_ == nullptr || next_ == block_->view().sample_count()) {
      if (block_ != nullptr) SHARDKIT_RETURN_IF_ERROR(block_->CheckMapped());
      block_.reset();
      SHARDKIT_ASSIGN_OR_RETURN(block_, scanner_->Next());
      if (block_ == nullptr) return false;
      next_ = 0;
    }
    for (size_t i = 0; i < row.size(); ++i) row[i] = block_->view().column(i).value(next_);
    ++next_;
    return true;
  }

 private:
  const std::unique_ptr<DatasetReader> dataset_;
  const Schema schema_;
  const std::unique_ptr<BlockScanner> scanner_;
  std::unique_ptr<ScannedBlock> block_;
  uint32_t next_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ColumnRows>> OpenDatasetRows(ReadableFileSystem& file_system, const std::string& path,
                                                            const ColumnRowsOptions& options) {
  if (!options.types.empty()) return InvalidArgument(path, ": the columns of a dataset have their own types");
  SHARDKIT_ASSIGN_OR_RETURN(const auto whole, DatasetReader::Open(file_system, path));
  DatasetOptions reading;
  reading.columns = options.columns;
  if (reading.columns.empty()) {
    for (const Column& column : whole->columns()) {
      if (!column.is_key && column.name != options.key) reading.columns.push_back(column.name);
    }
  }
  if (reading.columns.empty()) return InvalidArgument(path, ": has no column besides its key");
  if (!options.key.empty() && std::ranges::find(reading.columns, options.key) == reading.columns.end()) {
    reading.columns.push_back(options.key);
  }
  SHARDKIT_ASSIGN_OR_RETURN(auto dataset, DatasetReader::Open(file_system, path, reading));
  std::vector<Column> columns = dataset->columns();
  for (Column& column : columns) {
    const bool is_key = !options.key.empty() && column.name == options.key;
    if (is_key && column.type != Type::kUtf8) {
      return InvalidArgument(path, ": column \"", column.name, "\": keys are of type utf8, not ",
                             TypeName(column.type));
    }
    if (is_key) column.nullable = false;  // a row without one is refused when it comes
    if (!is_key && column.is_key) {
      return InvalidArgument(path, ": column \"", column.name, "\": is the key there; a column of values is no key");
    }
    column.is_key = is_key;
    // Storages are chosen again, by what is written.
    column.storage = Storage::kDerived;
    column.value_size = 0;
  }
  absl::StatusOr<Schema> schema = Schema::Create(std::move(columns));
  if (!schema.ok()) return Annotate(schema.status(), path);
  SHARDKIT_ASSIGN_OR_RETURN(auto scanner, dataset->Scan({}));
  return std::make_unique<DatasetRows>(std::move(dataset), std::move(scanner), *std::move(schema));
}

}  // namespace shardkit::operations
