#include "dataset/change/shard_rewrite.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "container/block_builder.h"
#include "container/block_encoder.h"
#include "container/encoding_plan.h"
#include "container/native_shard_reader.h"
#include "container/shard_file_writer.h"
#include "container/whole_block.h"
#include "format/constants.h"

namespace shardkit::dataset {
namespace {

constexpr uint32_t kDictionaryBytes = 64 << 10;

// What the shard was written with, as far as it can be told. `names` are the names of its columns in the new one.
absl::StatusOr<ShardOptions> OptionsOf(const ShardReader& shard, const std::map<std::string, std::string>& names) {
  ShardOptions options;
  options.alignment = shard.alignment();
  SHARDKIT_ASSIGN_OR_RETURN(options.metadata, shard.ReadMetadata());
  const auto name_of = [&](const Column& column) {
    const auto found = names.find(column.name);
    return found == names.end() ? std::nullopt : std::optional(found->second);
  };
  for (const size_t column : shard.dictionary_columns()) {
    if (const auto name = name_of(shard.schema()[column])) options.dictionaries[*name] = kDictionaryBytes;
  }
  for (const Column& column : shard.schema().columns()) {
    const std::optional<std::string> name = name_of(column);
    if (!name || column.codec != Codec::kNone || column.fixed_size()) continue;
    options.storage[*name] = column.storage;
  }
  return options;
}

}  // namespace

ShardRewriter::ShardRewriter(FileSystem& file_system, const DatasetReader& dataset, const Manifest& manifest,
                             const RemovedList& removed, bool fold, const Cancellation* cancellation,
                             std::function<void(uint64_t)> progress)
    : file_system_(file_system),
      dataset_(dataset),
      manifest_(manifest),
      removed_(removed),
      fold_(fold),
      cancellation_(cancellation),
      progress_(std::move(progress)) {
  uint64_t first = 0;
  for (const ManifestShard& shard : manifest.shards) {
    first_samples_.push_back(first);
    first += shard.samples;
  }
}

absl::StatusOr<ShardRewriter::Columns> ShardRewriter::ColumnsOf(const Schema& shard, size_t number) const {
  const uint64_t first = first_samples_[number], end = first + manifest_.shards[number].samples;
  Columns result;
  std::vector<Column> columns;
  const Schema& seen = manifest_.schema;
  const auto add = [&](size_t position, Column column) {
    column.name = fold_ ? seen[position].name : std::string(manifest_.StoredName(seen[position].name));
    columns.push_back(std::move(column));
    result.positions.push_back(position);
  };
  if (fold_) {
    for (size_t i = 0; i < seen.size(); ++i) add(i, seen[i]);
  }
  // In the order of the shard, and as narrow as there.
  for (const Column& column : shard.columns()) {
    for (size_t i = 0; i < seen.size() && !fold_; ++i) {
      if (manifest_.StoredName(seen[i].name) == column.name) add(i, column);
    }
  }
  for (size_t i = 0; i < seen.size() && !fold_; ++i) {
    const std::string_view stored = manifest_.StoredName(seen[i].name);
    const bool in_files = std::ranges::any_of(manifest_.column_files, [&](const ColumnFile& file) {
      return std::ranges::find(file.columns, stored) != file.columns.end() &&
             std::ranges::any_of(
                 file.runs, [&](const ColumnRun& run) { return run.sample < end && run.sample + run.samples > first; });
    });
    if (in_files && std::ranges::find(result.positions, i) == result.positions.end()) add(i, seen[i]);
  }
  SHARDKIT_ASSIGN_OR_RETURN(result.schema, Schema::Create(std::move(columns)));
  return result;
}

absl::StatusOr<ManifestShard> ShardRewriter::Rewrite(size_t number, const std::string& name) const {
  const ManifestShard& listed = manifest_.shards[number];
  SHARDKIT_ASSIGN_OR_RETURN(const auto shard, dataset_.OpenShard(number));
  SHARDKIT_ASSIGN_OR_RETURN(const Columns columns, ColumnsOf(shard->schema(), number));
  const Schema& schema = columns.schema;
  std::map<std::string, std::string> names;
  for (size_t i = 0; i < schema.size(); ++i) {
    names.emplace(manifest_.StoredName(manifest_.schema[columns.positions[i]].name), schema[i].name);
  }
  SHARDKIT_ASSIGN_OR_RETURN(const ShardOptions options, OptionsOf(*shard, names));
  SHARDKIT_ASSIGN_OR_RETURN(container::EncodingPlan plan, container::MakeEncodingPlan(schema, options));
  const std::string path = JoinPath(dataset_.path(), name);
  std::unique_ptr<container::ShardFileWriter> writer;
  container::BlockEncoder encoder;
  std::vector<container::RawBlock> held;  // until the dictionaries are trained
  container::BlockBuilder builder(schema, format::kMaxLength, UINT32_MAX);
  const auto begin_shard = [&]() -> absl::Status {
    SHARDKIT_ASSIGN_OR_RETURN(plan.schema,
                              container::ChooseStorages(options, plan.schema, held.empty() ? nullptr : &held[0]));
    SHARDKIT_RETURN_IF_ERROR(container::TrainDictionaries(options, held, &plan));
    std::unique_ptr<NamedHash> sha256;
    if (listed.sha256) {
      SHARDKIT_ASSIGN_OR_RETURN(sha256, NamedHash::Create("sha256"));
    }
    SHARDKIT_ASSIGN_OR_RETURN(writer,
                              container::ShardFileWriter::Create(file_system_, path, plan, options, std::move(sha256)));
    return absl::OkStatus();
  };
  const auto write_held = [&]() -> absl::Status {
    if (!writer) SHARDKIT_RETURN_IF_ERROR(begin_shard());
    for (container::RawBlock& block : held) {
      SHARDKIT_ASSIGN_OR_RETURN(container::EncodedBlock encoded, encoder.Encode(plan, std::move(block)));
      SHARDKIT_RETURN_IF_ERROR(writer->Write(encoded, cancellation_));
      builder.Recycle(std::move(encoded.raw));
    }
    held.clear();
    return absl::OkStatus();
  };
  // Blocks of which nothing was removed are copied as they are stored. The storages of the shard are those of the
  // options, so the new one has them, too.
  const auto native = std::dynamic_pointer_cast<const container::NativeShardReader>(shard);
  bool copies = native && container::BlocksCanBeCopied(*native, schema);
  for (size_t i = 0; i < schema.size() && copies; ++i) {
    // Two columns may have changed their names.
    copies = manifest_.StoredName(manifest_.schema[columns.positions[i]].name) == shard->schema()[i].name;
  }
  container::WholeBlocks whole_blocks;
  BlockBuffer buffer;
  BlockView view;
  std::vector<std::optional<Value>> row(schema.size());
  for (size_t block = 0; block < shard->blocks().size(); ++block) {
    if (cancellation_) SHARDKIT_RETURN_IF_ERROR(cancellation_->Check("rewriting shards"));
    const BlockInfo& info = shard->blocks()[block];
    const uint64_t first = first_samples_[number] + info.first_sample;
    const auto removed = removed_.Within(first, first + info.sample_count);
    if (copies && removed.empty()) {
      if (!writer) SHARDKIT_RETURN_IF_ERROR(begin_shard());
      SHARDKIT_ASSIGN_OR_RETURN(container::StoredBlock stored, whole_blocks.Read(native, block));
      SHARDKIT_RETURN_IF_ERROR(writer->Copy(std::move(stored), cancellation_));
    } else if (removed.size() < info.sample_count) {
      SHARDKIT_RETURN_IF_ERROR(dataset_.ReadBlock(number, block, &buffer, &view));
      for (uint32_t i = 0; i < view.sample_count(); ++i) {
        for (size_t column = 0; column < schema.size(); ++column) {
          row[column].reset();
          if (const auto value = view.column(columns.positions[column]).value(i)) row[column].emplace(*value);
        }
        SHARDKIT_RETURN_IF_ERROR(builder.Check(row));
        builder.Add(row);
      }
      SHARDKIT_RETURN_IF_ERROR(buffer.CheckMapped());
      held.push_back(builder.Take());
      if (writer || options.dictionaries.empty() || held.size() == container::kTrainingBlocks) {
        SHARDKIT_RETURN_IF_ERROR(write_held());
      }
    }
    if (progress_) progress_(info.sample_count);
  }
  if (!held.empty()) SHARDKIT_RETURN_IF_ERROR(write_held());
  if (!writer) return ManifestShard{};
  SHARDKIT_ASSIGN_OR_RETURN(const ShardSummary summary, writer->Finish());
  return ManifestShard{
      name, summary.file_length, summary.sample_count, summary.block_count, summary.content_hash, writer->sha256()};
}

}  // namespace shardkit::dataset
