#include "container/write/block_encoding.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "base/endian.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "format/chunk.h"
#include "format/constants.h"

namespace shardkit::container {
namespace {

// More training data does not improve the ratio visibly, and training takes longer with it.
constexpr size_t kMaxTrainingBytes = size_t{8} << 20;

constexpr uint32_t kMinDictionaryBytes = 256;

// Level 3 makes masks 2 to 7 % smaller and takes 1.4 times as long.
constexpr int kDefaultRleZstdLevel = 1;

int DefaultZstdLevel(const Column& column) {
  return column.type == Type::kRle ? kDefaultRleZstdLevel : codec::kDefaultZstdLevel;
}

absl::Status CheckOptions(const Schema& schema, const ShardOptions& options) {
  if (options.block_size == 0) return InvalidArgument("block size: 0 is not allowed");
  if (options.max_block_samples == 0 || options.max_block_samples > format::kMaxBlockSamples) {
    return InvalidArgument("samples per block: 1 to ", format::kMaxBlockSamples, " are allowed, not ",
                           options.max_block_samples);
  }
  if (!std::has_single_bit(options.alignment) || options.alignment < format::kMinAlignment ||
      options.alignment > format::kMaxAlignment) {
    return InvalidArgument("alignment: ", options.alignment, " is not a power of two from 64 to 1048576");
  }
  for (const auto& [name, value] : options.metadata) {
    if (!ValidUtf8(name) || !ValidUtf8(value)) return InvalidArgument("metadata \"", name, "\" is not valid UTF-8");
    SHARDKIT_RETURN_IF_ERROR(CheckName(name, "metadata name"));
  }
  // Names are not checked against the schema here, because their columns may be added later.
  for (const auto& [name, level] : options.zstd_levels) {
    if (level < codec::MinZstdLevel() || level > codec::MaxZstdLevel()) {
      return InvalidArgument("column \"", name, "\": zstd level ", level, " is not from ", codec::MinZstdLevel(),
                             " to ", codec::MaxZstdLevel());
    }
  }
  for (const auto& [name, size] : options.dictionaries) {
    if (size < kMinDictionaryBytes || size > format::kMaxDictionaryLength) {
      return InvalidArgument("column \"", name, "\": a dictionary has 256 to ", format::kMaxDictionaryLength,
                             " bytes, not ", size);
    }
    const auto index = schema.Find(name);
    if (index && schema[*index].codec != Codec::kZstd) {
      return InvalidArgument("column \"", name, "\": only a column of codec zstd has a dictionary");
    }
  }
  for (const auto& [name, storage] : options.storage) {
    if (storage != Storage::kPaged && storage != Storage::kBlob) {
      return InvalidArgument("column \"", name, "\": a storage of paged or blob can be chosen");
    }
    const auto index = schema.Find(name);
    if (index && !schema[*index].has_values_chunk()) {
      return InvalidArgument("column \"", name, "\": only a column of codec none whose values differ in size has a ",
                             "storage to choose");
    }
  }
  return absl::OkStatus();
}

// By the rule for columns without an option.
Storage StorageFor(const RawColumn& raw, const RawBlock& block) {
  uint64_t present = block.sample_count;
  if (!raw.presence.empty()) present = static_cast<uint64_t>(std::ranges::count(raw.presence, 1));
  if (present == 0) return Storage::kBlob;
  const uint64_t records = LoadLittle<uint64_t>(raw.ends.data() + raw.ends.size() - 8);
  return records - present * format::kValueChecksumBytes < present * kSmallValueBytes ? Storage::kPaged
                                                                                      : Storage::kBlob;
}

}  // namespace

bool StoragesAreOpen(const ShardOptions& options, const Schema& schema) {
  return std::ranges::any_of(schema.values_columns(),
                             [&](size_t column) { return !options.storage.contains(schema[column].name); });
}

bool EqualButStorages(const Schema& a, const Schema& b) {
  return std::ranges::equal(a.columns(), b.columns(), [](Column one, const Column& other) {
    if (one.has_values_chunk() && other.has_values_chunk()) one.storage = other.storage;
    return one == other;
  });
}

absl::StatusOr<Schema> ChooseStorages(const ShardOptions& options, const Schema& schema, const RawBlock* first) {
  std::vector<Column> columns = schema.columns();
  for (const size_t i : schema.values_columns()) {
    const auto chosen = options.storage.find(columns[i].name);
    if (chosen != options.storage.end()) {
      columns[i].storage = chosen->second;
    } else {
      columns[i].storage = first == nullptr ? Storage::kBlob : StorageFor(first->columns[i], *first);
    }
  }
  return Schema::Create(std::move(columns));
}

absl::StatusOr<BlockEncoding> MakeBlockEncoding(const Schema& schema, const ShardOptions& options) {
  SHARDKIT_RETURN_IF_ERROR(CheckOptions(schema, options));
  BlockEncoding plan;
  plan.schema = schema;
  plan.dictionaries.resize(schema.size());
  for (const Column& column : schema.columns()) {
    SHARDKIT_RETURN_IF_ERROR(format::CheckCodec(column));
    const auto level = options.zstd_levels.find(column.name);
    plan.zstd_levels.push_back(level == options.zstd_levels.end() ? DefaultZstdLevel(column) : level->second);
  }
  return plan;
}

absl::Status TrainDictionaries(const ShardOptions& options, std::span<const RawBlock> blocks, BlockEncoding* plan) {
  for (const auto& [name, size] : options.dictionaries) {
    const auto index = plan->schema.Find(name);
    if (!index) continue;
    const Column& column = plan->schema[*index];
    std::string samples;
    std::vector<size_t> lengths;
    for (const RawBlock& block : blocks) {
      const RawColumn& raw = block.columns[*index];
      uint64_t begin = 0;
      for (uint32_t i = 0; i < block.sample_count && samples.size() < kMaxTrainingBytes; ++i) {
        const uint64_t end =
            column.fixed_size() ? begin + *column.fixed_size() : LoadLittle<uint64_t>(raw.ends.data() + 8 * size_t{i});
        if (end > begin) {
          samples.append(raw.values.data() + begin, end - begin);
          lengths.push_back(end - begin);
        }
        begin = end;
      }
    }
    absl::StatusOr<std::string> dictionary = codec::TrainZstdDictionary(samples, lengths, size);
    if (absl::IsNotFound(dictionary.status())) continue;
    if (!dictionary.ok()) return dictionary.status();
    SHARDKIT_ASSIGN_OR_RETURN(plan->dictionaries[*index],
                              codec::ZstdDictionary::Create(*std::move(dictionary), plan->zstd_levels[*index]));
  }
  return absl::OkStatus();
}

}  // namespace shardkit::container
