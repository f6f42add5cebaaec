#include "dataset/segments.h"

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "container/native_shard_reader.h"
#include "container/shard_index_part.h"
#include "dataset/index_reader.h"
#include "dataset/index_writer.h"
#include "dataset/key_table_builder.h"
#include "dataset/key_tables.h"
#include "format/shard_list.h"

namespace shardkit::dataset {
namespace {

// The segments as a dataset of their own.
Manifest PartOf(const Manifest& manifest, size_t first, size_t count) {
  Manifest part;
  part.schema = manifest.schema;
  size_t begin = 0;
  for (size_t i = 0; i < first; ++i) begin += manifest.segments[i].shards;
  for (size_t i = first; i < first + count; ++i) {
    const auto shards = std::span(manifest.shards).subspan(begin, manifest.segments[i].shards);
    for (const ManifestShard& shard : shards) part.AddShard(shard);
    part.segments.push_back(manifest.segments[i]);
    begin += shards.size();
  }
  return part;
}

constexpr std::string_view kJoiningStage = "joining the segments";

absl::Status AddIndexes(FileSystem& file_system, const SegmentPart& of, const Cancellation* cancellation,
                        IndexWriter& writer) {
  const Manifest& part = of.manifest;
  if (part.segments.empty() && !part.shards.empty()) return NotFound(of.directory, ": has no offset index");
  SHARDKIT_ASSIGN_OR_RETURN(const auto reader,
                            IndexReader::Open(file_system, of.directory, part.schema, part.segments));
  SHARDKIT_RETURN_IF_ERROR(reader->CheckAll(part.shards));
  size_t shard = 0;
  const auto add = [&](const IndexedBlock& block) -> absl::Status {
    if (cancellation) SHARDKIT_RETURN_IF_ERROR(cancellation->Check(kJoiningStage));
    for (; shard < block.shard; ++shard) writer.EndShard();
    SHARDKIT_ASSIGN_OR_RETURN(const std::vector<uint64_t> places, reader->Places(block));
    return writer.AddBlock(reader->BlobColumns(block), block.entry, places);
  };
  SHARDKIT_RETURN_IF_ERROR(reader->ForEachBlock(add));
  for (; shard < part.shards.size(); ++shard) writer.EndShard();
  return absl::OkStatus();
}

absl::Status AddShards(FileSystem& file_system, const std::string& directory, std::span<const ManifestShard> shards,
                       const Cancellation* cancellation, IndexWriter& writer) {
  for (const ManifestShard& shard : shards) {
    if (cancellation) SHARDKIT_RETURN_IF_ERROR(cancellation->Check(kJoiningStage));
    Schema schema;
    SHARDKIT_ASSIGN_OR_RETURN(const container::ShardIndexPart index,
                              container::ReadShardIndexPart(file_system, JoinPath(directory, shard.name), &schema));
    SHARDKIT_RETURN_IF_ERROR(writer.Add(schema, index));
  }
  return absl::OkStatus();
}

// The index of the shards of `manifest`: from the tables of `before` for those that it has, too.
absl::Status AddKnown(FileSystem& file_system, const std::string& directory, const Manifest& before,
                      const Manifest& manifest, const Cancellation* cancellation, IndexWriter& writer) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto reader,
                            IndexReader::Open(file_system, directory, before.schema, before.segments));
  SHARDKIT_RETURN_IF_ERROR(reader->CheckAll(before.shards));
  std::map<std::string_view, std::pair<size_t, uint64_t>> known;  // number and first sample of each
  uint64_t first_sample = 0;
  for (size_t i = 0; i < before.shards.size(); first_sample += before.shards[i++].samples) {
    known[before.shards[i].name] = {i, first_sample};
  }
  for (size_t i = 0; i < manifest.shards.size();) {
    std::vector<SampleRange> ranges;  // of a run of known shards, those that have samples
    std::vector<size_t> numbers;
    for (; i < manifest.shards.size(); ++i) {
      const auto found = known.find(manifest.shards[i].name);
      if (found == known.end()) break;
      numbers.push_back(found->second.first);
      if (manifest.shards[i].samples > 0) ranges.push_back({found->second.second, manifest.shards[i].samples});
    }
    size_t ended = 0;
    const auto add = [&](const IndexedBlock& block) -> absl::Status {
      if (cancellation) SHARDKIT_RETURN_IF_ERROR(cancellation->Check(kJoiningStage));
      for (; numbers[ended] < block.shard; ++ended) writer.EndShard();
      SHARDKIT_ASSIGN_OR_RETURN(const std::vector<uint64_t> places, reader->Places(block));
      return writer.AddBlock(reader->BlobColumns(block), block.entry, places);
    };
    SHARDKIT_RETURN_IF_ERROR(reader->ForEachBlockOf(ranges, add));
    for (; ended < numbers.size(); ++ended) writer.EndShard();
    if (i == manifest.shards.size()) break;
    SHARDKIT_RETURN_IF_ERROR(
        AddShards(file_system, directory, std::span(manifest.shards).subspan(i++, 1), cancellation, writer));
  }
  return absl::OkStatus();
}

// Adds all parts to a new index.
absl::StatusOr<std::unique_ptr<IndexWriter>> AddParts(FileSystem& file_system, std::span<const SegmentPart> parts,
                                                      const std::string& directory, const Cancellation* cancellation) {
  std::vector<bool> lost(parts.size());  // the indexes of a part
  while (true) {
    SHARDKIT_ASSIGN_OR_RETURN(auto writer, IndexWriter::Create(file_system, directory));
    absl::Status status;
    size_t i = 0;
    for (; i < parts.size(); ++i) {
      status = lost[i] ? AddShards(file_system, parts[i].directory, parts[i].manifest.shards, cancellation, *writer)
                       : AddIndexes(file_system, parts[i], cancellation, *writer);
      if (!status.ok()) break;
    }
    if (status.ok()) return writer;
    if (lost[i] || (!absl::IsDataLoss(status) && !absl::IsNotFound(status))) return status;
    lost[i] = true;
    SHARDKIT_RETURN_IF_ERROR(writer->Abort());
  }
}

// A name of the generation that no table of the manifest has.
std::string FreeName(const Manifest& manifest, std::string_view first) {
  std::string name = NameInGeneration(first, manifest.generation);
  const auto taken = [&](const Segment& segment) {
    return std::ranges::any_of(segment.tables(), [&](const TableReference* table) { return table->name == name; });
  };
  for (int number = 1; std::ranges::any_of(manifest.segments, taken); ++number) {
    name = StrCat("dataset-", manifest.generation, "-", number, first.substr(first.rfind('.')));
  }
  return name;
}

// The key tables of the segments, or else of the shards, are the inputs.
absl::StatusOr<std::vector<KeyTableInput>> KeyInputs(FileSystem& file_system, std::span<const SegmentPart> parts,
                                                     bool of_segments) {
  std::vector<KeyTableInput> inputs;
  uint64_t sample = 0;
  for (const SegmentPart& part : parts) {
    if (of_segments) {
      for (const Segment& segment : part.manifest.segments) {
        SHARDKIT_RETURN_IF_ERROR(OpenKeyTable(file_system, part.directory, segment).status());
        const TableReference& keys = *segment.keys;
        inputs.push_back(
            {JoinPath(part.directory, keys.name), {.length = keys.bytes, .root = keys.root}, segment.samples, sample});
        sample += segment.samples;
      }
      if (part.manifest.segments.empty() && !part.manifest.shards.empty()) {
        return NotFound(part.directory, ": has no table of the keys");
      }
      continue;
    }
    for (const ManifestShard& shard : part.manifest.shards) {
      const std::string path = JoinPath(part.directory, shard.name);
      SHARDKIT_ASSIGN_OR_RETURN(const auto reader, container::NativeShardReader::Open(file_system, path, {}));
      const std::optional<container::TablePlace> place = reader->key_table_place();
      if (!place) return DataLoss(path, ": has no key column, unlike the dataset");
      inputs.push_back({path, *place, shard.samples, sample});
      sample += shard.samples;
    }
  }
  return inputs;
}

absl::StatusOr<std::optional<TableReference>> JoinKeys(FileSystem& file_system, std::span<const SegmentPart> parts,
                                                       const std::string& directory, const std::string& name,
                                                       const Cancellation* cancellation, DuplicateKeyFinder* repeated) {
  if (!parts[0].manifest.schema.key_column()) return std::optional<TableReference>();
  absl::StatusOr<format::TableTail> tail;
  for (const bool of_segments : {true, false}) {
    std::function<absl::Status(const format::KeyEntry&)> take;
    if (repeated) {
      repeated->Restart();
      take = [&](const format::KeyEntry& entry) { return repeated->Add(entry); };
    }
    auto inputs = KeyInputs(file_system, parts, of_segments);
    tail = inputs.ok() ? BuildKeyTable(file_system, JoinPath(directory, name), *std::move(inputs), cancellation, take)
                       : absl::StatusOr<format::TableTail>(inputs.status());
    if (!absl::IsDataLoss(tail.status()) && !absl::IsNotFound(tail.status())) break;
  }
  SHARDKIT_RETURN_IF_ERROR(tail.status());
  return ReferenceTo(name, *tail);
}

}  // namespace

absl::StatusOr<TableReference> WriteShardList(FileSystem& file_system, const std::string& directory,
                                              std::span<const ManifestShard> shards, const std::string& name) {
  const std::string path = JoinPath(directory, name);
  const std::string temporary = StrCat(path, ".tmp");
  SHARDKIT_ASSIGN_OR_RETURN(const auto file, file_system.Create(temporary));
  const auto write = [&]() -> absl::StatusOr<format::TableTail> {
    format::PagedTableWriter table(format::TableKind::kShardList,
                                   [&](std::string_view bytes) { return file->Append(bytes); });
    format::ShardListTotals totals;
    std::vector<format::ShardEntry> entries;
    for (const ManifestShard& shard : shards) {
      if (shard.name.size() > format::kMaxShardNameBytes) {
        return InvalidArgument(JoinPath(directory, shard.name), ": the name of a shard has more than ",
                               format::kMaxShardNameBytes, " bytes: rename the file");
      }
      entries.push_back(
          {totals.samples, shard.samples, shard.bytes, shard.blocks, shard.content_hash, shard.sha256, shard.name});
      ++totals.shards;
      totals.samples += shard.samples;
      totals.blocks += shard.blocks;
      totals.bytes += shard.bytes;
      if (entries.size() < format::kShardsOfPage && totals.shards < shards.size()) continue;
      SHARDKIT_RETURN_IF_ERROR(table.AddPage(entries[0].first_sample, format::EncodeShardPage(entries)));
      entries.clear();
    }
    SHARDKIT_ASSIGN_OR_RETURN(const format::TableTail tail, table.Finish(format::EncodeShardListTotals(totals)));
    SHARDKIT_RETURN_IF_ERROR(file->Sync());
    SHARDKIT_RETURN_IF_ERROR(file->Close());
    SHARDKIT_RETURN_IF_ERROR(file_system.Rename(temporary, path));
    return tail;
  };
  const absl::StatusOr<format::TableTail> tail = write();
  if (!tail.ok()) {
    (void)file_system.RemoveFile(temporary);
    return tail.status();
  }
  return ReferenceTo(name, *tail);
}

absl::StatusOr<Segment> MakeSegment(FileSystem& file_system, std::span<const SegmentPart> parts,
                                    const std::string& directory, const std::string& index_name,
                                    const std::string& keys_name, const Cancellation* cancellation,
                                    DuplicateKeyFinder* repeated) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto writer, AddParts(file_system, parts, directory, cancellation));
  std::vector<ManifestShard> shards;
  for (const SegmentPart& part : parts) {
    shards.insert(shards.end(), part.manifest.shards.begin(), part.manifest.shards.end());
  }
  SHARDKIT_ASSIGN_OR_RETURN(Segment segment, writer->Finish(index_name, shards));
  SHARDKIT_ASSIGN_OR_RETURN(segment.keys, JoinKeys(file_system, parts, directory, keys_name, cancellation, repeated));
  return segment;
}

absl::Status FinishOneSegment(FileSystem& file_system, const std::string& directory, IndexWriter& index,
                              Manifest* manifest, const Cancellation* cancellation, const RepeatedKeyCheck& check) {
  manifest->segments.clear();
  if (manifest->shards.empty()) return index.Abort();
  DuplicateKeyFinder repeated(file_system, directory, manifest->shards, check.ends);
  // The keys first: a cancellation leaves no file then.
  SHARDKIT_ASSIGN_OR_RETURN(
      auto keys, index.BuildKeys(NameInGeneration(kKeyTableName, manifest->generation), manifest->shards, cancellation,
                                 check.take ? &repeated : nullptr));
  if (repeated.found()) SHARDKIT_RETURN_IF_ERROR(check.take(*repeated.found()));
  SHARDKIT_ASSIGN_OR_RETURN(Segment segment,
                            index.Finish(NameInGeneration(kIndexName, manifest->generation), manifest->shards));
  segment.keys = std::move(keys);
  manifest->segments.push_back(std::move(segment));
  return UpdateShardLists(file_system, directory, manifest);
}

absl::Status UpdateShardLists(FileSystem& file_system, const std::string& directory, Manifest* manifest) {
  const bool wanted = manifest->shards.size() > kMostShardsInManifest;
  size_t begin = 0;
  for (Segment& segment : manifest->segments) {
    const auto shards = std::span<const ManifestShard>(manifest->shards).subspan(begin, segment.shards);
    begin += segment.shards;
    if (!wanted) segment.list.reset();
    if (!wanted || segment.list) continue;
    SHARDKIT_ASSIGN_OR_RETURN(segment.list,
                              WriteShardList(file_system, directory, shards, FreeName(*manifest, kShardListName)));
  }
  return absl::OkStatus();
}

absl::Status MakeOneSegment(FileSystem& file_system, const std::string& directory, const Manifest& before,
                            const Cancellation* cancellation, Manifest* manifest) {
  manifest->segments.clear();
  if (manifest->shards.empty() || (before.segments.empty() && !before.shards.empty())) return absl::OkStatus();
  const std::string name = NameInGeneration(kIndexName, manifest->generation);
  SHARDKIT_ASSIGN_OR_RETURN(std::unique_ptr<IndexWriter> writer, IndexWriter::Create(file_system, directory));
  const absl::Status added = AddKnown(file_system, directory, before, *manifest, cancellation, *writer);
  if (!added.ok()) {
    if (!absl::IsDataLoss(added) && !absl::IsNotFound(added)) return added;
    SHARDKIT_RETURN_IF_ERROR(writer->Abort());
    SHARDKIT_ASSIGN_OR_RETURN(writer, IndexWriter::Create(file_system, directory));
    SHARDKIT_RETURN_IF_ERROR(AddShards(file_system, directory, manifest->shards, cancellation, *writer));
  }
  SHARDKIT_ASSIGN_OR_RETURN(Segment segment, writer->Finish(name, manifest->shards));
  const SegmentPart all{directory, *manifest};
  SHARDKIT_ASSIGN_OR_RETURN(
      segment.keys, JoinKeys(file_system, {&all, 1}, directory, NameInGeneration(kKeyTableName, manifest->generation),
                             cancellation, nullptr));
  manifest->segments.push_back(std::move(segment));
  return UpdateShardLists(file_system, directory, manifest);
}

absl::Status JoinSegments(FileSystem& file_system, const std::string& directory, size_t first, size_t count,
                          const Cancellation* cancellation, Manifest* manifest) {
  const SegmentPart part{directory, PartOf(*manifest, first, count)};
  SHARDKIT_ASSIGN_OR_RETURN(Segment segment,
                            MakeSegment(file_system, {&part, 1}, directory, FreeName(*manifest, kIndexName),
                                        FreeName(*manifest, kKeyTableName), cancellation));
  const auto begin = manifest->segments.begin() + static_cast<std::ptrdiff_t>(first);
  manifest->segments.erase(begin + 1, begin + static_cast<std::ptrdiff_t>(count));
  manifest->segments[first] = std::move(segment);
  return absl::OkStatus();
}

absl::Status LimitSegments(FileSystem& file_system, const std::string& directory, const Cancellation* cancellation,
                           Manifest* manifest) {
  while (manifest->segments.size() > kMostSegments) {
    const std::vector<Segment>& segments = manifest->segments;
    size_t best = 0;
    uint64_t fewest = UINT64_MAX;
    for (size_t i = 0; i + 1 < segments.size(); ++i) {
      const uint64_t samples = segments[i].samples + segments[i + 1].samples;
      if (samples > fewest) continue;
      fewest = samples;
      best = i;
    }
    SHARDKIT_RETURN_IF_ERROR(JoinSegments(file_system, directory, best, 2, cancellation, manifest));
  }
  return absl::OkStatus();
}

}  // namespace shardkit::dataset
