// Any bytes as a predicate on a dataset with columns of every kind. What is accepted selects the same samples with and
// without leaving out blocks by their ranges, and obeys the laws of "not", "and" and "or".

#include "shardkit/select.h"

#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shardkit/dataset_reader.h"
#include "shardkit/dataset_writer.h"
#include "shardkit/rle.h"
#include "shardkit/schema.h"
#include "support/memory_bound.h"
#include "support/require.h"

namespace {

using namespace shardkit;
using namespace shardkit::fuzz;

constexpr uint64_t kSamples = 24;

Column MakeColumn(const std::string& name, Type type, Type dtype = Type::kU8) {
  Column column;
  column.name = name;
  column.type = type;
  column.dtype = dtype;
  column.nullable = name != "key";
  column.is_key = name == "key";
  return column;
}

template <typename T>
std::string Bytes(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

std::string Floats(uint64_t count, uint64_t sample) {
  std::string elements, value;
  for (uint64_t i = 0; i < count; ++i) elements += Bytes(static_cast<float>(i * sample) / 4);
  RequireOk(AppendNdarray(Type::kF32, std::vector<uint64_t>{count}, elements, &value), "making an array");
  return value;
}

// Written once. Blocks have four samples, whose numbers are near each other.
FileSystem& Dataset() {
  static const std::unique_ptr<FileSystem> files = [] {
    auto made = NewMemoryFileSystem();
    const Schema schema =
        Schema::Create({MakeColumn("key", Type::kUtf8), MakeColumn("i", Type::kI64), MakeColumn("u", Type::kU64),
                        MakeColumn("f", Type::kF64), MakeColumn("b", Type::kBool), MakeColumn("t", Type::kUtf8),
                        MakeColumn("a", Type::kNdarray, Type::kF32), MakeColumn("m", Type::kRle)})
            .value();
    DatasetWriterOptions options;
    options.shard.max_block_samples = 4;
    auto writer = DatasetWriter::Create(*made, "/d", schema, options);
    RequireOk(writer.status(), "creating the dataset");
    RleList masks;
    masks.Append(Rle{2, 2, {1, 3}});
    std::string mask;
    RequireOk(AppendRleValue(masks, &mask), "making a mask");
    for (uint64_t i = 0; i < kSamples; ++i) {
      const uint64_t block = i / 4;
      const std::vector<std::string> values = {std::to_string(i),
                                               Bytes(static_cast<int64_t>(i) - 12),
                                               Bytes(block == 5 ? UINT64_MAX - i : i),
                                               Bytes(block == 1 ? std::bit_cast<double>(~uint64_t{0}) : double(i) / 2),
                                               Bytes(static_cast<uint8_t>(block % 2)),
                                               std::string(i % 3, 'a'),
                                               Floats(i % 5, i),
                                               mask};
      std::vector<std::optional<Value>> row;
      for (size_t k = 0; k < values.size(); ++k) {
        // Some are absent, and in one block all.
        const bool absent = k > 0 && (block == 3 || (i + k) % 7 == 0);
        row.push_back(absent ? std::nullopt : std::optional(Value(values[k])));
      }
      RequireOk((*writer)->Append(row), "appending a sample");
    }
    RequireOk((*writer)->Finish().status(), "finishing the dataset");
    return made;
  }();
  return *files;
}

// The selected samples, found by looking at all. Empty when the text is no predicate, or when a sample has no answer.
std::optional<std::vector<uint64_t>> Select(const std::string& text) {
  static const std::unique_ptr<DatasetReader> whole = DatasetReader::Open(Dataset(), "/d").value();
  const auto predicate = Predicate::Parse(text, whole->columns());
  if (!predicate.ok()) {
    Require(absl::IsInvalidArgument(predicate.status()) && predicate.status().message().find("predicate: ") == 0,
            "a text that is no predicate is the caller's mistake");
    return std::nullopt;
  }
  DatasetOptions options;
  options.columns = predicate->columns();
  const auto dataset = DatasetReader::Open(Dataset(), "/d", options);
  RequireOk(dataset.status(), "opening the columns of a predicate");
  const auto scanner = (*dataset)->Scan({.threads = 0});
  RequireOk(scanner.status(), "scanning");
  std::vector<uint64_t> selected;
  std::vector<uint32_t> in_block;
  while (true) {
    const auto block = (*scanner)->Next();
    RequireOk(block.status(), "scanning");
    if (*block == nullptr) return selected;
    const absl::Status status = predicate->Select((*block)->view(), &in_block);
    if (!status.ok()) {
      Require(absl::IsInvalidArgument(status), "sound values fail only when integers become too large");
      return std::nullopt;
    }
    for (const uint32_t i : in_block) selected.push_back((*block)->first_sample() + i);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Dataset();
  const MemoryBound bound(size);
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto selected = Select(text);
  if (!selected) return 0;
  SampleSelection selection;
  selection.where = text;
  const auto report = CountSamples(Dataset(), "/d", selection);
  RequireOk(report.status(), "counting what can be selected");
  Require(report->selected == selected->size(), "a block that is left out has no selected sample");
  const std::string again = "(" + text + ")";
  // These can exceed the limits on length and depth.
  if (const auto both = Select(again + " and " + again)) Require(*both == *selected, "x and x is x");
  if (const auto twice = Select("not not " + again)) Require(*twice == *selected, "not not x is x");
  const auto other = Select("not " + again), unknown = Select(again + " is null");
  if (!other || !unknown) return 0;
  Require(selected->size() + other->size() + unknown->size() == kSamples, "each sample is true, false or unknown");
  if (const auto none = Select(again + " and not " + again)) Require(none->empty(), "x and not x is never true");
  return 0;
}
