#include "container/write/block_builder.h"

#include <algorithm>
#include <utility>

#include "base/endian.h"
#include "base/errors.h"
#include "base/utf8.h"
#include "format/constants.h"

namespace shardkit::container {
namespace {

uint64_t TotalBytes(std::span<const std::optional<Value>> values) {
  uint64_t bytes = 0;
  for (const std::optional<Value>& value : values) {
    if (value) bytes += value->length();
  }
  return bytes;
}

bool HasFile(std::span<const std::optional<Value>> values) {
  for (const std::optional<Value>& value : values) {
    if (value && value->file) return true;
  }
  return false;
}

}  // namespace

BlockBuilder::BlockBuilder(const Schema& schema, uint64_t block_size, uint32_t max_samples)
    : schema_(schema), block_size_(block_size), max_samples_(max_samples) {
  Reset();
}

void BlockBuilder::Reset() {
  block_ = RawBlock();
  if (!spares_.empty()) {
    block_ = std::move(spares_.back());
    spares_.pop_back();
  }
  block_.columns.resize(schema_.size());
  bytes_ = 0;
  // Blocks are most often alike. Memory that grows is copied, and touched for the first time, at each step.
  // A value larger than a block stands alone, and says nothing of the next ones.
  for (size_t i = 0; i < before_.size(); ++i) {
    const uint64_t expected = std::min<uint64_t>(before_[i], block_size_);
    block_.columns[i].values.reserve(expected + expected / 8);
  }
}

absl::Status CheckValues(const Schema& schema, std::span<const std::optional<Value>> values) {
  if (values.size() != schema.size()) {
    return InvalidArgument("a sample has ", values.size(), " values, the schema ", schema.size(), " columns");
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const Column& column = schema[i];
    const auto refuse = [&](std::string_view why) {
      return At(InvalidArgument("column \"", column.name, "\": ", why), {.column = column.name});
    };
    if (!values[i]) {
      if (!column.nullable) return refuse("the value is absent but the column is not nullable");
      continue;
    }
    const uint64_t length = values[i]->length();
    if (column.fixed_size() && length != *column.fixed_size()) {
      return refuse(StrCat("the value has ", length, " bytes instead of ", *column.fixed_size()));
    }
    if (length > format::kMaxLength / 2) return refuse("the value passes 2^61 bytes");
    if (!column.has_values_chunk() && length > format::kMaxZstdRawLength / 2) {
      return refuse("the value passes 1 GiB, the limit of a compressed column; use codec none");
    }
    if (!column.has_values_chunk() && values[i]->file)
      return refuse("only a column of codec none takes a file as its value");
    if (column.is_key && !ValidUtf8(values[i]->bytes)) return refuse("the key is not valid UTF-8");
  }
  return absl::OkStatus();
}

bool BlockBuilder::MustFlushBefore(std::span<const std::optional<Value>> values) const {
  return !empty() && (HasFile(values) || TotalBytes(values) >= block_size_);
}

void BlockBuilder::Add(std::span<const std::optional<Value>> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const Column& column = schema_[i];
    RawColumn& raw = block_.columns[i];
    const std::optional<Value>& value = values[i];
    if (column.nullable) raw.presence.push_back(value.has_value());
    uint64_t end = raw.values.size();
    if (value) {
      const uint64_t length = value->length();
      bytes_ += length;
      if (value->file) {
        raw.file = value->file;
        end = length + format::kValueChecksumBytes;
      } else {
        char* const to = raw.values.Extend(length + (column.has_values_chunk() ? format::kValueChecksumBytes : 0));
        if (length != 0) std::memcpy(to, value->bytes.data(), length);
        end = raw.values.size();
      }
    } else if (const auto size = column.fixed_size()) {
      raw.values.AppendZeros(*size);
    }
    if (!column.fixed_size()) StoreLittle(raw.ends.Extend(8), end);
  }
  ++block_.sample_count;
  if (HasFile(values)) bytes_ = std::max(bytes_, block_size_);
}

// Memory touched for the first time costs more than copying the values to it.
void BlockBuilder::Recycle(RawBlock block) {
  constexpr size_t kMostSpares = 4;
  if (spares_.size() >= kMostSpares || block.columns.size() != schema_.size()) return;
  block.sample_count = 0;
  for (RawColumn& column : block.columns) {
    column.presence.clear();
    column.ends.clear();
    column.values.clear();
    column.file.reset();
    // The memory of a value larger than a block is not kept.
    if (column.values.capacity() / 2 > block_size_) column.values = Buffer();
  }
  spares_.push_back(std::move(block));
}

RawBlock BlockBuilder::Take() {
  RawBlock block = std::move(block_);
  before_.clear();
  for (const RawColumn& column : block.columns) before_.push_back(column.values.size());
  Reset();
  return block;
}

}  // namespace shardkit::container
