#include "dataset/read/segments.h"

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "container/read/native_shard_reader.h"
#include "container/read/shard_index_part.h"
#include "dataset/read/index_reader.h"
#include "dataset/write/key_table_builder.h"
#include "dataset/write/segment_tables.h"

namespace shardkit::dataset {
namespace {

// The segments as a dataset of their own.
Manifest PartOf(const Manifest& manifest, size_t first, size_t count) {
  Manifest part;
  part.schema = manifest.schema;
  part.bases = manifest.bases;
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
                        SegmentWriter& writer) {
  const Manifest& part = of.manifest;
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

// `shards` are some of the dataset's.
absl::Status AddShards(FileSystem& file_system, const std::string& directory, const ManifestSummary& dataset,
                       std::span<const ManifestShard> shards, const Cancellation* cancellation, SegmentWriter& writer) {
  for (const ManifestShard& shard : shards) {
    if (cancellation) SHARDKIT_RETURN_IF_ERROR(cancellation->Check(kJoiningStage));
    Schema schema;
    SHARDKIT_ASSIGN_OR_RETURN(
        const container::ShardIndexPart index,
        container::ReadShardIndexPart(file_system, dataset.PathOf(directory, shard.name), &schema));
    SHARDKIT_RETURN_IF_ERROR(writer.Add(schema, index));
  }
  return absl::OkStatus();
}

// The index of the shards of `manifest`: from the tables of `before` for those that it has, too.
absl::Status AddKnown(FileSystem& file_system, const std::string& directory, const Manifest& before,
                      const Manifest& manifest, const Cancellation* cancellation, SegmentWriter& writer) {
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
        AddShards(file_system, directory, manifest, std::span(manifest.shards).subspan(i++, 1), cancellation, writer));
  }
  return absl::OkStatus();
}

// Adds all parts to a new index.
absl::StatusOr<std::unique_ptr<SegmentWriter>> AddParts(FileSystem& file_system, std::span<const SegmentPart> parts,
                                                        const std::string& directory,
                                                        const Cancellation* cancellation) {
  std::vector<bool> lost;  // the indexes of a part
  for (const SegmentPart& part : parts) lost.push_back(part.manifest.segments.empty() && !part.whole);
  while (true) {
    SHARDKIT_ASSIGN_OR_RETURN(auto writer, SegmentWriter::Create(file_system, directory));
    absl::Status status;
    size_t i = 0;
    for (; i < parts.size(); ++i) {
      const auto& [part_directory, manifest, whole] = parts[i];
      status = lost[i] ? AddShards(file_system, part_directory, manifest, manifest.shards, cancellation, *writer)
               : whole ? AddKnown(file_system, part_directory, *whole, manifest, cancellation, *writer)
                       : AddIndexes(file_system, parts[i], cancellation, *writer);
      if (!status.ok()) break;
    }
    if (status.ok()) return writer;
    if (lost[i] || !CannotBeUsed(status)) return status;
    lost[i] = true;
    SHARDKIT_RETURN_IF_ERROR(writer->Abort());
  }
}

// A name of the generation that no segment of the manifest has.
std::string FreeName(const Manifest& manifest) {
  std::string name = NameInGeneration(kSegmentName, manifest.generation);
  const auto taken = [&](const Segment& segment) { return segment.table.name == name; };
  for (int number = 1; std::ranges::any_of(manifest.segments, taken); ++number) {
    name = StrCat("dataset-", manifest.generation, "-", number, kSegmentName.substr(kSegmentName.rfind('.')));
  }
  return name;
}

// The samples of a segment of part.whole, its shards from *shard on, that lie in shards of the part, from *next on.
std::vector<KeptSamples> KeptOf(const SegmentPart& part, const Segment& segment, size_t* shard, size_t* next) {
  std::vector<KeptSamples> kept;
  uint64_t sample = 0, count = 0;
  for (const size_t end = *shard + segment.shards; *shard < end; sample += part.whole->shards[(*shard)++].samples) {
    if (*next == part.manifest.shards.size()) continue;
    const ManifestShard& wanted = part.manifest.shards[*next];
    if (wanted.name != part.whole->shards[*shard].name) continue;
    ++*next;
    if (wanted.samples > 0) kept.push_back({sample, wanted.samples, count});
    count += wanted.samples;
  }
  return kept;
}

// The keys of the segments, where there are some, or else of the shards, are the inputs.
absl::StatusOr<std::vector<KeyTableInput>> KeyInputs(FileSystem& file_system, std::span<const SegmentPart> parts,
                                                     bool of_segments) {
  std::vector<KeyTableInput> inputs;
  uint64_t sample = 0;
  for (const SegmentPart& part : parts) {
    const std::vector<Segment>& segments = part.whole ? part.whole->segments : part.manifest.segments;
    if (of_segments && !segments.empty()) {
      size_t shard = 0, next = 0;
      for (const Segment& segment : segments) {
        const TableReference& table = segment.table;
        KeyTableInput input{JoinPath(part.directory, table.name),
                            {.length = table.bytes, .root = table.root},
                            segment.samples,
                            sample,
                            table.checksum};
        if (part.whole) {
          input.kept = KeptOf(part, segment, &shard, &next);
          if (input.kept->empty()) continue;
        }
        sample += input.count();
        inputs.push_back(std::move(input));
      }
      continue;
    }
    for (const ManifestShard& shard : part.manifest.shards) {
      const std::string path = part.manifest.PathOf(part.directory, shard.name);
      SHARDKIT_ASSIGN_OR_RETURN(const auto reader, container::NativeShardReader::Open(file_system, path, {}));
      const std::optional<format::TablePlace> place = reader->key_table_place();
      if (!place) return DataLoss(path, ": has no key column, unlike the dataset");
      inputs.push_back({path, *place, shard.samples, sample});
      sample += shard.samples;
    }
  }
  return inputs;
}

}  // namespace

absl::StatusOr<Segment> MakeSegment(FileSystem& file_system, std::span<const SegmentPart> parts,
                                    const std::string& directory, const std::string& name,
                                    std::span<const ManifestShard> listed, const Cancellation* cancellation,
                                    DuplicateKeyFinder* repeated) {
  absl::StatusOr<Segment> segment;
  for (const bool of_segments : {true, false}) {
    SHARDKIT_ASSIGN_OR_RETURN(const auto writer, AddParts(file_system, parts, directory, cancellation));
    KeySources keys{.repeated = repeated, .cancellation = cancellation};
    if (parts[0].manifest.schema.key_column()) {
      SHARDKIT_ASSIGN_OR_RETURN(keys.tables, KeyInputs(file_system, parts, of_segments));
    }
    if (repeated) repeated->Restart();
    segment = writer->Finish(name, listed, keys);
    if (segment.ok() || !CannotBeUsed(segment.status())) break;
  }
  return segment;
}

absl::Status FinishOneSegment(FileSystem& file_system, const std::string& directory, SegmentWriter& segment,
                              Manifest* manifest, const Cancellation* cancellation, const DuplicateKeyCheck& check) {
  manifest->segments.clear();
  if (manifest->shards.empty()) return segment.Abort();
  DuplicateKeyFinder repeated(file_system, directory, manifest->shards, check.ends);
  const KeySources keys{.tables = segment.KeysOf(*manifest, manifest->shards),
                        .repeated = check.take ? &repeated : nullptr,
                        .check = [&] { return repeated.found() ? check.take(*repeated.found()) : absl::OkStatus(); },
                        .cancellation = cancellation};
  SHARDKIT_ASSIGN_OR_RETURN(
      manifest->segments.emplace_back(),
      segment.Finish(NameInGeneration(kSegmentName, manifest->generation), manifest->shards, keys));
  return absl::OkStatus();
}

absl::Status MakeOneSegment(FileSystem& file_system, const std::string& directory, const Manifest& before,
                            const Cancellation* cancellation, Manifest* manifest) {
  manifest->segments.clear();
  if (manifest->shards.empty()) return absl::OkStatus();
  const SegmentPart all{directory, *manifest};
  SHARDKIT_ASSIGN_OR_RETURN(std::unique_ptr<SegmentWriter> writer, SegmentWriter::Create(file_system, directory));
  const absl::Status added = AddKnown(file_system, directory, before, *manifest, cancellation, *writer);
  if (!added.ok()) {
    if (!CannotBeUsed(added)) return added;
    SHARDKIT_RETURN_IF_ERROR(writer->Abort());
    SHARDKIT_ASSIGN_OR_RETURN(writer, SegmentWriter::Create(file_system, directory));
    SHARDKIT_RETURN_IF_ERROR(AddShards(file_system, directory, *manifest, manifest->shards, cancellation, *writer));
  }
  KeySources keys{.cancellation = cancellation};
  if (manifest->schema.key_column()) {
    SHARDKIT_ASSIGN_OR_RETURN(keys.tables, KeyInputs(file_system, {&all, 1}, /*of_segments=*/false));
  }
  SHARDKIT_ASSIGN_OR_RETURN(
      manifest->segments.emplace_back(),
      writer->Finish(NameInGeneration(kSegmentName, manifest->generation), manifest->shards, keys));
  return absl::OkStatus();
}

absl::Status JoinSegments(FileSystem& file_system, const std::string& directory, size_t first, size_t count,
                          const Cancellation* cancellation, Manifest* manifest) {
  const SegmentPart part{directory, PartOf(*manifest, first, count)};
  SHARDKIT_ASSIGN_OR_RETURN(Segment segment, MakeSegment(file_system, {&part, 1}, directory, FreeName(*manifest),
                                                         part.manifest.shards, cancellation));
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
