#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "io/publish_file.h"
#include "operations/columns/open_rows.h"
#include "operations/npy.h"

namespace shardkit::operations {
namespace {

constexpr uint64_t kNpyPieceBytes = uint64_t{1} << 20;

class NpyRows final : public ColumnRows {
 public:
  NpyRows(std::unique_ptr<RandomAccessFile> file, Schema schema, uint64_t data, uint64_t count)
      : file_(std::move(file)),
        schema_(std::move(schema)),
        row_bytes_(*schema_[0].fixed_size()),
        count_(count),
        offset_(data) {}

  const Schema& schema() const override { return schema_; }
  std::optional<uint64_t> count() const override { return count_; }

  absl::StatusOr<bool> Next(std::span<std::optional<std::string_view>> row) override {
    if (next_ == count_) return false;
    if (taken_ == piece_.size()) {
      const uint64_t rows = std::clamp<uint64_t>(kNpyPieceBytes / std::max<uint64_t>(row_bytes_, 1), 1, count_ - next_);
      piece_.resize(rows * row_bytes_);
      taken_ = 0;
      SHARDKIT_RETURN_IF_ERROR(file_->ReadAt(offset_, piece_));
      offset_ += piece_.size();
    }
    row[0] = std::string_view(piece_).substr(taken_, row_bytes_);
    taken_ += row_bytes_;
    ++next_;
    return true;
  }

 private:
  const std::unique_ptr<RandomAccessFile> file_;
  const Schema schema_;
  const uint64_t row_bytes_;
  const uint64_t count_;
  uint64_t offset_;  // of what is read next
  uint64_t next_ = 0;
  std::string piece_;
  size_t taken_ = 0;
};

// The file's name without its extension.
std::string NameOf(const std::string& path) {
  const std::string_view name = io::BaseName(path);
  return std::string(name.substr(0, name.rfind('.')));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ColumnRows>> OpenNpyRows(std::unique_ptr<RandomAccessFile> file,
                                                        const ColumnRowsOptions& options) {
  const std::string path = file->path();
  std::string front(std::min(file->size(), kNpyFrontBytes), '\0');
  SHARDKIT_RETURN_IF_ERROR(file->ReadAt(0, front));
  const absl::StatusOr<NpyHeader> header = ParseNpyHeader(front);
  if (!header.ok()) return Annotate(header.status(), path);
  if (!options.key.empty()) {
    return InvalidArgument(path,
                           ": an array has no column of keys: leave the key out where its rows have the order of "
                           "the samples, or give NDJSON or a dataset");
  }
  if (options.columns.size() > 1) return InvalidArgument(path, ": an array is one column, and has one name");
  if (!options.types.empty()) return InvalidArgument(path, ": an array has its own type");
  if (header->shape.empty()) return InvalidArgument(path, ": is a single number, without rows");
  Column column{.name = options.columns.empty() ? NameOf(path) : options.columns[0], .type = header->dtype};
  if (header->shape.size() == 1) {
    column.codec = Codec::kZstd;
  } else {
    column.type = Type::kNdarray;
    column.dtype = header->dtype;
    column.shape.emplace(header->shape.begin() + 1, header->shape.end());
  }
  absl::StatusOr<Schema> schema = Schema::Create({std::move(column)});
  if (!schema.ok()) return Annotate(schema.status(), path);
  uint64_t bytes = 0;
  const uint64_t count = header->shape[0];
  if (!CheckedMultiply(count, *(*schema)[0].fixed_size(), &bytes) || file->size() - header->data != bytes) {
    return InvalidArgument(path, ": has ", file->size() - header->data, " bytes of elements, which its shape ",
                           "contradicts: it was cut off or damaged");
  }
  return std::make_unique<NpyRows>(std::move(file), *std::move(schema), header->data, count);
}

}  // namespace shardkit::operations
