#include "dataset/view/shard_rewrite.h"

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

// What the shard was written with, as far as it can be told.
absl::StatusOr<ShardOptions> OptionsOf(const ShardReader& shard, const Schema& schema) {
  ShardOptions options;
  options.alignment = shard.alignment();
  SHARDKIT_ASSIGN_OR_RETURN(options.metadata, shard.ReadMetadata());
  for (const size_t column : shard.dictionary_columns()) {
    const std::string& name = shard.schema()[column].name;
    if (schema.Find(name)) options.dictionaries[name] = kDictionaryBytes;
  }
  for (const Column& column : shard.schema().columns()) {
    const std::optional<size_t> position = schema.Find(column.name);
    if (!position || column.codec != Codec::kNone || schema[*position].codec != Codec::kNone) continue;
    if (column.fixed_size() || schema[*position].fixed_size()) continue;
    options.storage[column.name] = column.storage;
  }
  return options;
}

}  // namespace

absl::StatusOr<ManifestShard> ShardRewriter::Rewrite(size_t number, const std::string& name) const {
  SHARDKIT_ASSIGN_OR_RETURN(const PlacedShard place, stored_.Place(number));
  SHARDKIT_ASSIGN_OR_RETURN(const auto shard, stored_.OpenShard(number));
  const Schema& schema = seen_ != nullptr ? seen_->summary().schema : shard->schema();
  SHARDKIT_ASSIGN_OR_RETURN(const ShardOptions options, OptionsOf(*shard, schema));
  SHARDKIT_ASSIGN_OR_RETURN(container::EncodingPlan plan, container::MakeEncodingPlan(schema, options));
  const std::string path = JoinPath(stored_.path(), name);
  std::unique_ptr<container::ShardFileWriter> writer;
  container::BlockEncoder encoder;
  std::vector<container::RawBlock> held;  // until the dictionaries are trained
  container::BlockBuilder builder(schema, format::kMaxLength, UINT32_MAX);
  const auto begin_shard = [&]() -> absl::Status {
    SHARDKIT_ASSIGN_OR_RETURN(plan.schema,
                              container::ChooseStorages(options, plan.schema, held.empty() ? nullptr : &held[0]));
    SHARDKIT_RETURN_IF_ERROR(container::TrainDictionaries(options, held, &plan));
    std::unique_ptr<NamedHash> sha256;
    if (place.shard.sha256) {
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
  const bool copies = seen_ == nullptr && native && container::BlocksCanBeCopied(*native, schema);
  container::WholeBlocks whole_blocks;
  BlockBuffer buffer;
  BlockView view;
  std::vector<std::optional<Value>> row(schema.size());
  for (size_t block = 0; block < shard->blocks().size(); ++block) {
    if (cancellation_) SHARDKIT_RETURN_IF_ERROR(cancellation_->Check("rewriting shards"));
    const BlockInfo& info = shard->blocks()[block];
    const uint64_t first = place.first_sample + info.first_sample;
    const auto removed = removed_.Within(first, first + info.sample_count);
    if (copies && removed.empty()) {
      if (!writer) SHARDKIT_RETURN_IF_ERROR(begin_shard());
      SHARDKIT_ASSIGN_OR_RETURN(container::StoredBlock stored, whole_blocks.Read(native, block));
      SHARDKIT_RETURN_IF_ERROR(writer->Copy(std::move(stored), cancellation_));
    } else if (removed.size() < info.sample_count) {
      // Of what is seen, removed samples are no part.
      SHARDKIT_RETURN_IF_ERROR(seen_ != nullptr ? seen_->ReadBlock(number, block, &buffer, &view)
                                                : shard->ReadBlock(block, {}, &buffer, &view));
      auto next = removed.begin();
      for (uint32_t i = 0; i < view.sample_count(); ++i) {
        if (seen_ == nullptr && next != removed.end() && *next == first + i) {
          ++next;
          continue;
        }
        for (size_t column = 0; column < schema.size(); ++column) {
          row[column].reset();
          if (const auto value = view.column(column).value(i)) row[column].emplace(*value);
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
