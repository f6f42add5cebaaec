#include "dataset/change/merge_parts.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "container/read/key_table_reader.h"
#include "dataset/bases.h"
#include "dataset/change/column_file_writer.h"
#include "dataset/foreign/foreign_dataset.h"
#include "dataset/manifest_text.h"
#include "dataset/read/removed_samples.h"
#include "dataset/read/united_parts.h"
#include "dataset/write/job_folder.h"
#include "dataset/write/k_way_merge.h"
#include "dataset/write/segment_tables.h"
#include "dataset/write/shard_collector.h"
#include "format/footer.h"

namespace shardkit::dataset {
namespace {

constexpr std::string_view kMergingStage = "merging datasets";

absl::Status Check(const Cancellation* cancellation) {
  return cancellation ? cancellation->Check(kMergingStage) : absl::OkStatus();
}

// Reads the trailer of the shard, and nothing else.
absl::Status CheckShard(FileSystem& file_system, const std::string& path, const SegmentPart& part,
                        const ManifestShard& listed) {
  const auto opened = file_system.OpenForReading(path);
  if (!opened.ok()) return InBase(opened.status(), part.manifest, listed.name);
  const std::unique_ptr<RandomAccessFile>& file = *opened;
  std::string bytes(format::kTrailerBytes, '\0');
  if (file->size() == listed.bytes && listed.bytes >= bytes.size()) {
    SHARDKIT_RETURN_IF_ERROR(file->ReadAt(listed.bytes - bytes.size(), {bytes.data(), bytes.size()}));
    const auto trailer = format::DecodeTrailer(bytes, listed.bytes);
    if (trailer.ok() && trailer->content_hash == listed.content_hash) return absl::OkStatus();
  }
  return InBase(DataLoss(path, ": is not the shard that the manifest of ", part.directory, " lists"), part.manifest,
                listed.name);
}

// All shards of the parts, with their paths as names.
std::vector<ManifestShard> ShardsByPath(std::span<const SegmentPart> parts) {
  std::vector<ManifestShard> shards;
  for (const SegmentPart& part : parts) {
    for (const ManifestShard& shard : part.manifest.shards) {
      shards.push_back(shard);
      shards.back().name = part.manifest.PathOf(part.directory, shard.name);
    }
  }
  return shards;
}

// Where the samples of each part end.
std::vector<uint64_t> EndsOf(std::span<const SegmentPart> parts) {
  std::vector<uint64_t> ends;
  for (const SegmentPart& part : parts) ends.push_back((ends.empty() ? 0 : ends.back()) + part.manifest.sample_count);
  return ends;
}

absl::Status Refusal(const DuplicateKey& found, std::span<const SegmentPart> parts) {
  std::vector<std::string> inputs;
  for (const SegmentPart& part : parts) inputs.push_back(part.directory);
  return DuplicateAcrossInputs(found, inputs, EndsOf(parts));
}

// Of the samples that readers of the parts see, those that are not chosen are removed, too.
absl::StatusOr<RemovedList> RemoveOthers(std::span<const SegmentPart> parts, const RemovedList& removed,
                                         const SampleSet& chosen) {
  uint64_t stored = 0;
  for (const SegmentPart& part : parts) stored += part.manifest.sample_count;
  if (stored - removed.size() != chosen.samples()) {
    return FailedPrecondition(parts[0].directory, ": has changed since its samples were chosen; start again");
  }
  return removed.With([&](uint64_t seen) { return !chosen.Has(seen); }, stored);
}

// Leaves out shards none of whose samples readers see, with what says something of these.
RemovedList LeaveOutUnseen(std::vector<SegmentPart>& parts, const RemovedList& removed) {
  std::vector<uint64_t> left;
  uint64_t first = 0, dropped = 0;  // samples of all parts before a shard, and how many of them are gone
  for (SegmentPart& part : parts) {
    Manifest& manifest = part.manifest;
    std::vector<ManifestShard> shards;
    std::vector<std::vector<ColumnRun>> runs(manifest.column_files.size());
    const uint64_t begin = first, dropped_before = dropped;
    for (const ManifestShard& shard : manifest.shards) {
      const auto of_shard = removed.Within(first, first + shard.samples);
      if (of_shard.size() == shard.samples) {
        dropped += shard.samples;
      } else {
        for (size_t i = 0; i < runs.size(); ++i) {
          KeepRuns(manifest.column_files[i].runs, first - begin, first - begin + shard.samples,
                   dropped - dropped_before, &runs[i]);
        }
        for (const uint64_t sample : of_shard) left.push_back(sample - dropped);
        shards.push_back(shard);
      }
      first += shard.samples;
    }
    if (shards.size() == manifest.shards.size()) continue;
    part.whole = std::make_shared<const Manifest>(manifest);
    manifest.SetShards(std::move(shards));
    manifest.segments.clear();
    std::vector<ColumnFile> files = std::exchange(manifest.column_files, {});
    for (size_t i = 0; i < files.size(); ++i) {
      if (runs[i].empty()) continue;
      files[i].runs = std::move(runs[i]);
      manifest.column_files.push_back(std::move(files[i]));
    }
  }
  return RemovedList(std::move(left));
}

// Names files of the parts in *manifest, a dataset in `output`, where they stay in their places.
class References {
 public:
  References(FileSystem& file_system, const std::string& output, Manifest* manifest)
      : file_system_(file_system), output_(output), manifest_(*manifest) {}

  absl::StatusOr<std::string> Refer(const SegmentPart& part, const std::string& name) {
    const Base* const theirs = part.manifest.BaseOf(name);
    const std::string rest = theirs == nullptr ? name : name.substr(theirs->name.size() + 1);
    std::string& base = names_[{&part, theirs}];
    // Two parts may refer to one file, and no two files of a dataset have one name: the second is in a base of its own.
    while (base.empty() || !used_.insert(JoinPath(base, rest)).second) {
      SHARDKIT_ASSIGN_OR_RETURN(Base added,
                                theirs == nullptr
                                    ? BaseFor(output_, part.directory, part.manifest.generation, part.manifest.checksum)
                                    : BaseFor(output_, theirs->path, theirs->generation, theirs->checksum));
      if (theirs == nullptr) SHARDKIT_RETURN_IF_ERROR(CheckPlace(part, added));
      SHARDKIT_ASSIGN_OR_RETURN(base, Add(std::move(added), /*again=*/!base.empty()));
    }
    return JoinPath(base, rest);
  }

 private:
  // Takes the base into the manifest under a name that says where it lies, unless it is there, and `again` is false.
  absl::StatusOr<std::string> Add(Base base, bool again) {
    std::string& known = known_[{base.path, base.checksum}];
    if (!again && !known.empty()) return known;
    if (manifest_.bases.size() == kMostBases) {
      return InvalidArgument(output_, ": would refer to more than ", kMostBases, " datasets: merge them by copying");
    }
    std::string stem = base.path.substr(base.path.rfind('/') + 1);
    if (!IsSafeName(stem) || stem.size() > kMaxBaseNameBytes / 2) stem = "base";
    // Some file systems take names for one that differ in the case of letters.
    int& number = numbers_[absl::AsciiStrToLower(stem)];
    do {
      base.name = number++ == 0 ? stem : StrCat(stem, "-", number);
    } while (!taken_.insert(absl::AsciiStrToLower(base.name)).second);
    known = base.name;
    const auto place = std::ranges::lower_bound(manifest_.bases, base.name, {}, &Base::name);
    manifest_.bases.insert(place, std::move(base));
    return known;
  }

  // The base is opened by a path that was resolved by its letters alone, which may be another place.
  absl::Status CheckPlace(const SegmentPart& part, const Base& base) const {
    const absl::StatusOr<std::string> text = ReadManifestBytes(file_system_, base.path);
    if (!text.ok() && !absl::IsNotFound(text.status())) return text.status();
    const absl::StatusOr<Manifest> found = text.ok() ? ParseManifestText(*text) : text.status();
    if (found.ok() && found->checksum == part.manifest.checksum) return absl::OkStatus();
    return InvalidArgument(
        part.directory, ": a dataset that refers to it would look for it at ", base.path,
        ", where it is not: give its path without \"..\" behind links, and without repeated slashes");
  }

  FileSystem& file_system_;
  const std::string& output_;
  Manifest& manifest_;
  std::map<std::pair<const SegmentPart*, const Base*>, std::string> names_;
  std::map<std::pair<std::string, uint64_t>, std::string> known_;  // by path and checksum
  std::map<std::string, int> numbers_;                             // given to bases of a name, in lower case
  std::set<std::string> taken_;                                    // names of bases, in lower case
  std::set<std::string> used_;                                     // names of files
};

}  // namespace

absl::Status DuplicateAcrossInputs(const DuplicateKey& found, std::span<const std::string> inputs,
                                   std::span<const uint64_t> ends) {
  const auto input = [&](uint64_t ordinal) -> const std::string& {
    return inputs[static_cast<size_t>(std::ranges::upper_bound(ends, ordinal) - ends.begin())];
  };
  std::string keys = StrCat("\"", found.key, "\"");
  for (const std::string& key : found.more) keys += StrCat(", \"", key, "\"");
  if (found.count > found.more.size() + 1) keys += ", …";
  return InvalidArgument(input(found.second), ": key \"", found.key, "\" stands in ", input(found.first), ", too; ",
                         found.count, found.count == 1 ? " sample has" : " samples have",
                         " a key of an input before theirs: ", keys,
                         "; nothing was merged; keep repeated keys (--repeated-keys keep) to take them all");
}

absl::StatusOr<std::vector<SegmentPart>> ReadParts(ReadableFileSystem& file_system,
                                                   const std::vector<std::string>& directories) {
  std::vector<SegmentPart> parts;
  for (const std::string& directory : directories) {
    absl::StatusOr<Manifest> manifest = ReadManifestText(file_system, directory);
    if (absl::IsNotFound(manifest.status())) return DescribeNoDataset(file_system, directory);
    if (!manifest.ok()) return manifest.status();
    SHARDKIT_RETURN_IF_ERROR(ReadListedShards(file_system, directory, &*manifest));
    parts.push_back({directory, *std::move(manifest)});
  }
  return parts;
}

absl::Status CheckShardsDiffer(std::span<const SegmentPart> parts) {
  absl::flat_hash_map<ContentHash, std::pair<size_t, size_t>> seen;  // part and shard
  for (size_t i = 0; i < parts.size(); ++i) {
    for (size_t k = 0; k < parts[i].manifest.shards.size(); ++k) {
      const ManifestShard& shard = parts[i].manifest.shards[k];
      const auto [found, is_new] = seen.try_emplace(shard.content_hash, i, k);
      if (is_new || found->second.first == i) continue;
      const SegmentPart& other = parts[found->second.first];
      // Readers may see other samples of the same shard; keys tell.
      const bool chosen = parts[i].manifest.removed || other.manifest.removed;
      if (chosen && parts[i].manifest.schema.key_column() && other.manifest.schema.key_column()) continue;
      const std::string& known = other.manifest.shards[found->second.second].name;
      return InvalidArgument(parts[i].manifest.PathOf(parts[i].directory, shard.name), ": holds the same samples as ",
                             other.manifest.PathOf(other.directory, known),
                             ": give each dataset once, or keep repeated keys (--repeated-keys keep)");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckKeysOfParts(FileSystem& file_system, std::span<const SegmentPart> parts,
                              const Cancellation* cancellation) {
  std::vector<std::shared_ptr<const container::KeyTable>> tables;
  std::vector<container::KeyCursor> cursors;
  std::vector<uint64_t> begins;
  uint64_t sample = 0;
  for (const SegmentPart& part : parts) {
    const auto opened = OpenSegments(file_system, part.directory, part.manifest.segments);
    for (size_t i = 0; i < opened.size(); ++i) {
      const absl::Status& status = opened[i].status();
      if (status.ok() && opened[i]->keys) {
        tables.push_back(opened[i]->keys);
        cursors.emplace_back(*tables.back());
        begins.push_back(sample);
      } else if (!status.ok() && !CannotBeUsed(status)) {
        return status;
      }
      sample += part.manifest.segments[i].samples;
    }
  }
  KWayMerge merge(tables.size(), [&](size_t list, format::KeyEntry* entry) -> absl::StatusOr<bool> {
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, cursors[list].Next(entry));
    if (more) entry->ordinal += begins[list];
    return more;
  });
  const std::vector<ManifestShard> shards = ShardsByPath(parts);
  DuplicateKeyFinder repeated(file_system, "", shards, EndsOf(parts));
  constexpr uint64_t kEntriesOfCheck = 65536;
  for (uint64_t taken = 0;; ++taken) {
    if (taken % kEntriesOfCheck == 0) SHARDKIT_RETURN_IF_ERROR(Check(cancellation));
    format::KeyEntry entry;
    const absl::StatusOr<bool> more = merge.Next(&entry);
    if (!more.ok() && CannotBeUsed(more.status())) return absl::OkStatus();  // found again when the keys are made
    SHARDKIT_RETURN_IF_ERROR(more.status());
    if (!*more) break;
    SHARDKIT_RETURN_IF_ERROR(repeated.Add(entry));
  }
  return repeated.found() ? Refusal(*repeated.found(), parts) : absl::OkStatus();
}

absl::StatusOr<Manifest> LinkParts(FileSystem& file_system, std::vector<SegmentPart> parts, const std::string& output,
                                   const LinkOptions& options) {
  if (!options.keep_repeated_keys) SHARDKIT_RETURN_IF_ERROR(CheckShardsDiffer(parts));
  SHARDKIT_ASSIGN_OR_RETURN(Manifest manifest, UniteColumns(parts));
  std::erase_if(parts, [](const SegmentPart& part) { return part.manifest.shards.empty(); });
  SHARDKIT_ASSIGN_OR_RETURN(const auto job, JobFolder::Open(file_system, output, FingerprintOf("merge"), {}));
  SHARDKIT_RETURN_IF_ERROR(Check(options.cancellation));
  SHARDKIT_ASSIGN_OR_RETURN(RemovedList removed, UniteRemoved(file_system, parts));
  if (options.chosen != nullptr && !parts.empty()) {
    SHARDKIT_ASSIGN_OR_RETURN(removed, RemoveOthers(parts, removed, *options.chosen));
    removed = LeaveOutUnseen(parts, removed);
    std::erase_if(parts, [](const SegmentPart& part) { return part.manifest.shards.empty(); });
    if (parts.empty()) {
      manifest.stored_names.clear();
      manifest.dropped.clear();
    }
  }
  References references(file_system, output, &manifest);
  // The file's name in the new dataset, and bringing it there.
  const auto name_of = [&](const SegmentPart& part, const ManifestShard& file, std::string linked) {
    return options.by_reference ? references.Refer(part, file.name) : absl::StatusOr<std::string>(std::move(linked));
  };
  const auto bring = [&](const SegmentPart& part, const ManifestShard& file, const std::string& name) -> absl::Status {
    SHARDKIT_RETURN_IF_ERROR(Check(options.cancellation));
    if (options.by_reference) return absl::OkStatus();
    const std::string path = part.manifest.PathOf(part.directory, file.name);
    SHARDKIT_RETURN_IF_ERROR(CheckShard(file_system, path, part, file));
    return LinkOrCopy(file_system, path, JoinPath(output, name), options.cancellation);
  };
  std::vector<ManifestShard> listed;
  if (!parts.empty()) {
    // Before shards are copied, which in a store may take long.
    const std::vector<ManifestShard> shards = ShardsByPath(parts);
    DuplicateKeyFinder repeated(file_system, "", shards, EndsOf(parts), &removed);
    for (const SegmentPart& part : parts) {
      for (const ManifestShard& shard : part.manifest.shards) {
        const size_t number = listed.size();
        listed.push_back(shard);
        SHARDKIT_ASSIGN_OR_RETURN(listed.back().name, name_of(part, shard, ShardName(number)));
      }
    }
    SHARDKIT_ASSIGN_OR_RETURN(manifest.segments.emplace_back(),
                              MakeSegment(file_system, parts, output, std::string(kSegmentName), listed,
                                          options.cancellation, options.keep_repeated_keys ? nullptr : &repeated));
    if (repeated.found()) return Refusal(*repeated.found(), parts);
  }
  const std::vector<uint64_t> ends = EndsOf(parts);
  uint64_t done = 0;
  for (const SegmentPart& part : parts) {
    for (const ManifestShard& shard : part.manifest.shards) {
      const ManifestShard& entry = listed[manifest.shards.size()];
      SHARDKIT_RETURN_IF_ERROR(bring(part, shard, entry.name));
      manifest.AddShard(entry);
      done += shard.samples;
      if (options.progress) options.progress(done, ends.back());
    }
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    for (const ColumnFile& file : parts[i].manifest.column_files) {
      ColumnFile linked = file;
      SHARDKIT_ASSIGN_OR_RETURN(
          linked.name, name_of(parts[i], file, ColumnFileName(manifest.generation, manifest.column_files.size())));
      SHARDKIT_RETURN_IF_ERROR(bring(parts[i], file, linked.name));
      for (ColumnRun& run : linked.runs) run.sample += i == 0 ? 0 : ends[i - 1];
      manifest.column_files.push_back(std::move(linked));
    }
  }
  if (removed.size() > 0) {
    SHARDKIT_ASSIGN_OR_RETURN(manifest.removed, WriteRemoved(file_system, output, std::string(kRemovedName), removed));
  }
  SHARDKIT_RETURN_IF_ERROR(PublishManifest(file_system, output, manifest, /*must_be_new=*/true));
  SHARDKIT_RETURN_IF_ERROR(job->Finish());
  return manifest;
}

}  // namespace shardkit::dataset
