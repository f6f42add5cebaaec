// shardctl inspect PATH --shard I --block J: one block and the size of each column in it.
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "dataset_access.h"
#include "inspect.h"
#include "json.h"
#include "numbers.h"
#include "output.h"
#include "report.h"
#include "scalar.h"
#include "table.h"

namespace shardctl {
namespace {

struct ColumnUse {
  uint64_t present = 0;
  uint64_t value_bytes = 0;
  uint64_t min_length = 0;
  uint64_t max_length = 0;
};

ColumnUse Measure(const shardkit::ColumnView& column, uint32_t samples) {
  ColumnUse use;
  for (uint32_t i = 0; i < samples; ++i) {
    const std::optional<std::string_view> value = column.value(i);
    if (!value.has_value()) continue;
    const uint64_t length = value->size();
    use.min_length = use.present == 0 ? length : std::min(use.min_length, length);
    use.max_length = std::max(use.max_length, length);
    use.value_bytes += length;
    ++use.present;
  }
  return use;
}

// A minimum or maximum, as ScalarText and ScalarJson take it.
struct RangeEnd {
  shardkit::Type type;
  std::array<char, 8> bytes;
};

RangeEnd EndOfRange(shardkit::RangeKind kind, uint64_t bits) {
  RangeEnd end{kind == shardkit::RangeKind::kI64   ? shardkit::Type::kI64
               : kind == shardkit::RangeKind::kU64 ? shardkit::Type::kU64
                                                   : shardkit::Type::kF64,
               {}};
  for (char& byte : end.bytes) {
    byte = static_cast<char>(bits);
    bits >>= 8;
  }
  return end;
}

}  // namespace

int InspectBlock(const shardkit::DatasetReader& dataset, uint64_t shard_index, uint64_t block_index, bool json) {
  if (shard_index >= dataset.shard_count()) {
    return Fail(absl::OutOfRangeError(dataset.path() + ": there is no shard " + std::to_string(shard_index) +
                                      ": it has " + std::to_string(dataset.shard_count())));
  }
  const absl::StatusOr<std::shared_ptr<const shardkit::ShardReader>> opened = dataset.OpenShard(shard_index);
  if (!opened.ok()) return Fail(opened.status());
  const shardkit::ShardReader& shard = **opened;
  if (block_index >= shard.blocks().size()) {
    return Fail(absl::OutOfRangeError(shard.path() + ": there is no block " + std::to_string(block_index) +
                                      ": it has " + std::to_string(shard.blocks().size())));
  }
  const shardkit::BlockInfo& info = shard.blocks()[block_index];
  shardkit::BlockBuffer buffer;
  shardkit::BlockView view;
  // Of columns whose codec is not known nothing can be said. One of them alone is asked for to get the error.
  std::vector<size_t> readable;
  for (size_t i = 0; i < shard.schema().size(); ++i) {
    if (shardkit::IsKnownCodec(shard.schema()[i].codec)) readable.push_back(i);
  }
  if (readable.size() == shard.schema().size()) readable.clear();
  const absl::Status status = shard.ReadBlock(block_index, readable, &buffer, &view);
  if (!status.ok()) return Fail(status);
  const absl::StatusOr<shardkit::BlockRanges> ranges = shard.ReadBlockRanges();
  if (!ranges.ok() && !absl::IsNotFound(ranges.status())) return Fail(ranges.status());
  const bool ranged = ranges.ok() && !ranges->columns.empty();

  Json document;
  document["path"] = shard.path();
  document["shard"] = shard_index;
  document["block"] = block_index;
  document["offset"] = info.offset;
  document["length"] = info.length;
  document["front_length"] = info.front_length;
  document["first_sample"] = info.first_sample;
  document["samples"] = info.sample_count;
  document["header_checksum"] = FormatHex(info.header_checksum);
  document["columns"] = Json::array();
  Table table(ranged ? "llrrrrrr" : "llrrrr");
  std::vector<std::string> titles = {"column", "type", "present", "bytes", "shortest", "longest"};
  if (ranged) titles.insert(titles.end(), {"minimum", "maximum"});
  table.AddRow(titles);
  for (size_t i = 0; i < shard.schema().size(); ++i) {
    const shardkit::Column& column = shard.schema()[i];
    if (!shardkit::IsKnownCodec(column.codec)) {
      document["columns"].push_back({{"name", column.name}, {"codec", static_cast<int>(column.codec)}});
      std::vector<std::string> unknown = {Printable(column.name), TypeText(column)};
      unknown.resize(titles.size(), "-");
      table.AddRow(unknown);
      continue;
    }
    const ColumnUse use = Measure(view.column(i), info.sample_count);
    document["columns"].push_back({{"name", column.name},
                                   {"present", use.present},
                                   {"value_bytes", use.value_bytes},
                                   {"min_length", use.min_length},
                                   {"max_length", use.max_length}});
    std::vector<std::string> row = {Printable(column.name),         TypeText(column),
                                    std::to_string(use.present),    std::to_string(use.value_bytes),
                                    std::to_string(use.min_length), std::to_string(use.max_length)};
    if (const shardkit::BlockRange* const range = ranged ? ranges->Find(block_index, i) : nullptr) {
      const bool has_range = range->range_kind != shardkit::RangeKind::kNone;
      for (const auto& [name, bits] : {std::pair("minimum", range->minimum), std::pair("maximum", range->maximum)}) {
        const RangeEnd end = EndOfRange(range->range_kind, bits);
        document["columns"].back()[name] = has_range ? ScalarJson(end.type, end.bytes.data()) : Json(nullptr);
        row.push_back(has_range ? ScalarText(end.type, end.bytes.data()) : "-");
      }
    } else if (ranged) {
      row.insert(row.end(), {"-", "-"});
    }
    table.AddRow(row);
  }
  if (json) {
    PrintJson(document);
    return kExitSuccess;
  }
  const uint64_t last = info.first_sample + info.sample_count - 1;
  Stdout().Write(Printable(shard.path()) + ": block " + std::to_string(block_index) + ": " +
                 Counted(info.sample_count, "sample") + ", " + std::to_string(info.first_sample) + " to " +
                 std::to_string(last) + " of the shard\nat byte " + std::to_string(info.offset) + ", " +
                 std::to_string(info.length) + " bytes, of them front " + std::to_string(info.front_length) +
                 ", header checksum " + FormatHex(info.header_checksum) + "\n\n" + table.Format());
  return kExitSuccess;
}

}  // namespace shardctl
