#include "shardkit/validate.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "container/read/native_shard_reader.h"
#include "container/read/shard_index_part.h"
#include "container/sha256.h"
#include "dataset/bases.h"
#include "dataset/check/validate_keys.h"
#include "dataset/check/validate_shard.h"
#include "dataset/dataset_files.h"
#include "dataset/foreign/foreign_dataset.h"
#include "dataset/foreign/validate_foreign.h"
#include "dataset/manifest_text.h"
#include "dataset/patterns.h"
#include "dataset/read/any_dataset_reader.h"
#include "dataset/read/column_files.h"
#include "dataset/read/index_reader.h"
#include "dataset/read/removed_samples.h"
#include "dataset/read/shard_list_reader.h"
#include "dataset/write/segment_tables.h"
#include "shardkit/dataset_reader.h"

namespace shardkit::dataset {
namespace {

// Compares what the offset index says about one shard with the shard. Not thread-safe. A status other than OK means
// that the comparison could not be made.
class ShardIndexCheck {
 public:
  // `index` has passed CheckAll; it must outlive the object. `number` is the shard's position in the manifest,
  // `first_sample` its first sample's in the dataset.
  ShardIndexCheck(const IndexReader& index, size_t number, uint64_t first_sample)
      : index_(index), number_(number), first_sample_(first_sample) {}

  // Call first. `shard` must outlive the calls of Add.
  void Begin(const container::NativeShardReader& shard);

  // Compares the index with block `block` and its `places`, which are as in ShardIndexPart. Blocks may be left out.
  absl::Status Add(size_t block, std::span<const uint64_t> places);

  // The first difference found, as "PATH: index: WHAT of shard K; ..."; empty when there was none.
  const std::string& problem() const { return problem_; }
  // Of the index that it was found in.
  const std::string& path() const { return path_; }

 private:
  const IndexReader& index_;
  const size_t number_;
  const uint64_t first_sample_;
  const container::NativeShardReader* shard_ = nullptr;
  std::vector<std::string> columns_;  // IndexedColumns of the shard
  std::string path_;
  std::string problem_;
};

void ShardIndexCheck::Begin(const container::NativeShardReader& shard) {
  shard_ = &shard;
  for (const size_t column : container::IndexedColumns(shard.schema())) columns_.push_back(shard.schema()[column].name);
}

absl::Status ShardIndexCheck::Add(size_t block, std::span<const uint64_t> places) {
  if (!problem_.empty()) return absl::OkStatus();
  const BlockInfo& info = shard_->blocks()[block];
  SHARDKIT_ASSIGN_OR_RETURN(const IndexedBlock indexed, index_.BlockOfSample(first_sample_ + info.first_sample));
  const auto problem = [&](std::string_view what) {
    path_ = index_.path(indexed);
    problem_ = StrCat(path_, ": index: wrong ", what, " for block ", block, " of shard ", number_,
                      "; run shardctl index to rebuild it");
    return absl::OkStatus();
  };
  const format::IndexBlock& entry = indexed.entry;
  if (entry.offset != info.offset || entry.length != info.length || entry.front_length != info.front_length ||
      entry.first_sample != first_sample_ + info.first_sample || entry.sample_count != info.sample_count ||
      entry.header_checksum != info.header_checksum || indexed.shard != number_) {
    return problem("entry");
  }
  if (index_.BlobColumns(indexed) != columns_) return problem("columns");
  SHARDKIT_ASSIGN_OR_RETURN(const std::vector<uint64_t> indexed_places, index_.Places(indexed));
  return std::ranges::equal(indexed_places, places) ? absl::OkStatus() : problem("places");
}

}  // namespace
}  // namespace shardkit::dataset

namespace shardkit {
namespace {

class Validator {
 public:
  Validator(ReadableFileSystem& file_system, const ValidateOptions& options)
      : file_system_(file_system),
        options_(options),
        threads_(std::max(options.threads, 1)),
        hashing_(threads_, "hashing a shard", options.cancellation, SIZE_MAX) {}

  absl::StatusOr<ValidateReport> Run(const std::string& path) {
    const absl::StatusOr<FileInfo> found = file_system_.Stat(path);
    const bool pattern = dataset::IsPattern(path, found.status());
    if (!pattern && !found.ok()) return found.status();
    const FileInfo info = found.value_or(FileInfo{});
    DatasetOptions dataset_options;
    dataset_options.mode = options_.mode;
    std::vector<std::string> paths = {path};
    if (pattern) {
      SHARDKIT_ASSIGN_OR_RETURN(paths, dataset::ExpandPattern(file_system_, path));
    }
    auto foreign = pattern ? dataset::OpenForeignMembers(file_system_, path, paths, dataset_options)
                           : dataset::OpenForeign(file_system_, path, info, dataset_options);
    const bool lost = absl::IsDataLoss(foreign.status()) || absl::IsNotFound(foreign.status());
    if (lost && !pattern && dataset::ForeignContainerAt(file_system_, path, info).value_or("") == "mds") {
      // Types that the first sample tells are not known. All shards are checked nevertheless.
      dataset_options.mds_as_stored = true;
      auto stored = dataset::OpenForeign(file_system_, path, info, dataset_options);
      if (stored.ok()) {
        if (absl::IsDataLoss(foreign.status())) SHARDKIT_RETURN_IF_ERROR(ReportDamage(path, foreign.status()));
        foreign = std::move(stored);
      }
    }
    if (!foreign.ok()) {
      if (absl::IsNotFound(foreign.status())) return foreign.status();  // not a dataset, rather than a damaged one
      SHARDKIT_RETURN_IF_ERROR(ReportDamage(path, foreign.status()));
      return std::move(report_);
    }
    if (*foreign != nullptr) {
      SHARDKIT_RETURN_IF_ERROR(dataset::ValidateForeign(
          **foreign, path, options_, threads_, &report_,
          [&](const std::string& file, const absl::Status& problem) { Report(file, problem); }));
      return std::move(report_);
    }
    for (const std::string& each : paths) SHARDKIT_RETURN_IF_ERROR(CheckNative(each));
    return std::move(report_);
  }

 private:
  absl::Status CheckNative(const std::string& path) {
    SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, file_system_.Stat(path));
    if (info.type == FileType::kDirectory) return CheckDataset(path);
    if (options_.task != 0) return absl::OkStatus();
    bytes_total_ += info.size;
    return CheckShard(path, nullptr, nullptr, nullptr);
  }

  void Report(const std::string& path, const absl::Status& problem) {
    ++report_.problem_count;
    if (report_.problems.size() == options_.max_problems) return;
    report_.problems.push_back({path, std::string(ToStd(problem.message())), problem.code()});
  }

  // Reports damage. Returns an error that kept the check from being done.
  absl::Status ReportDamage(const std::string& path, const absl::Status& status) {
    if (absl::IsDataLoss(status) || absl::IsUnimplemented(status) || absl::IsNotFound(status) ||
        absl::IsOutOfRange(status)) {
      Report(path, status);
      return absl::OkStatus();
    }
    return status;
  }

  absl::Status CheckDataset(const std::string& directory) {
    const std::string manifest_path = JoinPath(directory, kManifestName);
    absl::StatusOr<Manifest> manifest = dataset::ReadManifestText(file_system_, directory);
    if (absl::IsNotFound(manifest.status())) {
      return dataset::DescribeNoDataset(file_system_, directory);  // rather than a damaged one
    }
    if (!manifest.ok()) return ReportDamage(manifest_path, manifest.status());
    const absl::Status listed = dataset::ReadListedShards(file_system_, directory, &*manifest);
    if (!listed.ok()) {
      return ReportDamage(JoinPath(directory, NameOfSegment(directory, manifest->segments, listed)), listed);
    }
    const auto [begin, end] = dataset::ShardsOfTask(options_, manifest->shards.size());
    const bool first_task = options_.task == 0;
    for (size_t i = 0; i < manifest->bases.size() && first_task; ++i) {
      std::string change = dataset::ChangeOf(file_system_, manifest->bases[i]);
      if (!change.empty()) report_.warnings.push_back({directory, std::move(change)});
    }
    for (size_t i = begin; i < end; ++i) bytes_total_ += manifest->shards[i].bytes;

    const Schema stored_schema = manifest->StoredSchema();
    std::vector<dataset::SegmentKeys> keys;
    SHARDKIT_ASSIGN_OR_RETURN(const std::unique_ptr<dataset::IndexReader> index,
                              CheckSegments(directory, *manifest, stored_schema, &keys));

    // The dataset reader compares each shard with the manifest.
    absl::StatusOr<std::unique_ptr<DatasetReader>> dataset = dataset::OpenWithRemoved(file_system_, directory);
    if (!dataset.ok()) return ReportDamage(manifest_path, dataset.status());
    compare_pairs_ = manifest->shards_have_columns() && !manifest->removed;
    uint64_t first_sample = 0;
    std::vector<dataset::KeyIndexPlace> key_indexes;
    const uint64_t problems_before_shards = report_.problem_count;
    hashes_begun_ = begin;
    for (size_t i = 0; i < end; first_sample += manifest->shards[i++].samples) {
      if (i < begin) continue;
      const ManifestShard& shard = manifest->shards[i];
      const std::string path = manifest->PathOf(directory, shard.name);
      const uint64_t problems_before = report_.problem_count;
      HashAhead(*manifest, directory, i, end);
      const auto matches = (*dataset)->OpenShard(i);
      if (!matches.ok()) SHARDKIT_RETURN_IF_ERROR(DescribeShardDamage(path, i, matches.status()));
      if (matches.ok())
        SHARDKIT_RETURN_IF_ERROR(
            CompareMetadata(*manifest, StrCat("shard ", i, " \"", shard.name, "\""), **matches, manifest_path));
      if (!absl::IsNotFound(matches.status())) {
        std::optional<dataset::ShardIndexCheck> index_check;
        dataset::KeyIndexPlace key_index{.path = path, .first_sample = first_sample};
        if (matches.ok() && index) index_check.emplace(*index, i, first_sample);
        SHARDKIT_RETURN_IF_ERROR(CheckShard(path, matches.ok() ? nullptr : &matches.status(),
                                            index_check ? &*index_check : nullptr, &key_index));
        if (key_index.samples > 0) key_indexes.push_back(std::move(key_index));
        if (index_check && !index_check->problem().empty()) {
          Report(index_check->path(), DataLoss(index_check->problem()));
        }
      }
      SHARDKIT_RETURN_IF_ERROR(CompareSha256(path, shard, report_.problem_count > problems_before));
    }
    if (!compare_pairs_) SHARDKIT_RETURN_IF_ERROR(LookAsReaders(directory, *manifest, {begin, end}));
    if (first_task) SHARDKIT_RETURN_IF_ERROR(CheckColumnFiles(directory, *manifest, **dataset));
    // After any problem of a shard, its key index is not reliable.
    if (!first_task || report_.problem_count != problems_before_shards) return absl::OkStatus();
    for (size_t i = end; i < manifest->shards.size(); first_sample += manifest->shards[i++].samples) {
      SHARDKIT_ASSIGN_OR_RETURN(
          const bool sound_shard,
          FindKeyIndex(manifest->PathOf(directory, manifest->shards[i].name), first_sample, &key_indexes));
      if (!sound_shard) return absl::OkStatus();
    }
    return CompareKeys(directory, *manifest, **dataset, key_indexes, keys);
  }

  // Each file as a shard, and whether it fits the dataset.
  absl::Status CheckColumnFiles(const std::string& directory, const Manifest& manifest, const DatasetReader& stored) {
    if (manifest.column_files.empty()) return absl::OkStatus();
    std::vector<DatasetBlock> blocks;
    const absl::Status listed = stored.ForEachBlock([&](const DatasetBlock& block) {
      blocks.push_back(block);
      return absl::OkStatus();
    });
    if (!listed.ok() && !absl::IsDataLoss(listed)) return listed;
    const dataset::ColumnFiles files(file_system_, directory, manifest, {}, ReadOptions());
    const bool compared_pairs = std::exchange(compare_pairs_, false);
    for (size_t i = 0; i < manifest.column_files.size(); ++i) {
      const ColumnFile& file = manifest.column_files[i];
      const std::string path = manifest.PathOf(directory, file.name);
      const ValidateReport counted = report_;
      const uint64_t problems_before = report_.problem_count;
      ++report_.column_files;
      const auto opened = files.Open(i);
      if (!opened.ok()) SHARDKIT_RETURN_IF_ERROR(ReportDamage(path, opened.status()));
      if (absl::IsNotFound(opened.status())) continue;
      SHARDKIT_RETURN_IF_ERROR(CheckShard(path, opened.ok() ? nullptr : &opened.status(), nullptr, nullptr));
      report_.samples = counted.samples;  // they are the same samples
      report_.shards = counted.shards;
      report_.blocks = counted.blocks;
      report_.bytes = counted.bytes;
      const std::string manifest_path = JoinPath(directory, kManifestName);
      if (opened.ok())
        SHARDKIT_RETURN_IF_ERROR(
            CompareMetadata(manifest, StrCat("column file ", i, " \"", file.name, "\""), **opened, manifest_path));
      if (opened.ok() && listed.ok()) {
        SHARDKIT_RETURN_IF_ERROR(ReportDamage(path, files.CheckRuns(i, blocks)));
      }
      HashFile(path, file);
      SHARDKIT_RETURN_IF_ERROR(CompareSha256(path, file, report_.problem_count > problems_before));
    }
    compare_pairs_ = compared_pairs;
    return CheckShardsLackColumns(directory, manifest, stored);
  }

  // Of a column, a sample has one value.
  absl::Status CheckShardsLackColumns(const std::string& directory, const Manifest& manifest,
                                      const DatasetReader& stored) {
    uint64_t first = 0;
    for (size_t i = 0; i < manifest.shards.size(); first += manifest.shards[i++].samples) {
      const uint64_t end = first + manifest.shards[i].samples;
      for (const ColumnFile& file : manifest.column_files) {
        const bool serves = std::ranges::any_of(
            file.runs, [&](const ColumnRun& run) { return run.sample < end && run.sample + run.samples > first; });
        const auto shard = serves ? stored.OpenShard(i) : absl::StatusOr<std::shared_ptr<const ShardReader>>(nullptr);
        if (!shard.ok() || *shard == nullptr) continue;  // its problem was reported
        for (const std::string& name : file.columns) {
          if (!(*shard)->schema().Find(name)) continue;
          const std::string path = manifest.PathOf(directory, file.name);
          Report(path, DataLoss(path, ": has column \"", name, "\" of samples of shard ", i, ", which has it, too"));
        }
      }
    }
    return absl::OkStatus();
  }

  // Counts samples as readers do, and compares the masks and images that they see.
  absl::Status LookAsReaders(const std::string& directory, const Manifest& manifest, std::pair<size_t, size_t> shards) {
    const auto opened = DatasetReader::Open(file_system_, directory);
    if (!opened.ok()) {
      const std::string path = PlaceOf(opened.status()).path;
      return options_.task == 0 ? ReportDamage(path.empty() ? directory : path, opened.status()) : absl::OkStatus();
    }
    const DatasetReader& seen = **opened;
    uint64_t first = 0;
    for (size_t i = 0; i < shards.second; ++i) {
      const absl::StatusOr<ManifestShard> shard = seen.Shard(i);
      if (!shard.ok()) return ReportDamage(seen.path(), shard.status());
      if (i >= shards.first) {
        const uint64_t removed = std::min(manifest.shards[i].samples - shard->samples, report_.samples);
        report_.removed_samples += removed;
        report_.samples -= removed;
        if (options_.deep) SHARDKIT_RETURN_IF_ERROR(ComparePairs(seen, {first, shard->samples}));
      }
      first += shard->samples;
    }
    return absl::OkStatus();
  }

  absl::Status ComparePairs(const DatasetReader& seen, const SampleRange& samples) {
    const dataset::MaskPairs all(seen.columns());
    if (all.empty()) return absl::OkStatus();
    DatasetOptions options;
    for (const std::vector<size_t>* const columns : {&all.images(), &all.masks()}) {
      for (const size_t column : *columns) options.columns.push_back(seen.columns()[column].name);
    }
    SHARDKIT_ASSIGN_OR_RETURN(const auto reader, DatasetReader::Open(file_system_, seen.path(), options));
    const dataset::MaskPairs pairs(reader->columns());
    BlockBuffer buffer;
    const absl::Status read = reader->ForEachBlockOf({&samples, 1}, [&](const DatasetBlock& block) -> absl::Status {
      if (options_.cancellation) SHARDKIT_RETURN_IF_ERROR(options_.cancellation->Check("comparing masks and images"));
      BlockView view;
      const absl::Status status = reader->ReadBlock(block.shard, block.block, &buffer, &view);
      if (absl::IsDataLoss(status)) return absl::OkStatus();  // reported with its shard or column file
      SHARDKIT_RETURN_IF_ERROR(status);
      for (const size_t column : pairs.masks()) {
        for (uint32_t i = 0; i < view.sample_count(); ++i) {
          const absl::Status fits = pairs.Check(view, i, column);
          if (fits.ok()) continue;
          Report(seen.path(), DataLoss(seen.path(), ": sample ", block.first_sample + i, ", column \"",
                                       reader->columns()[column].name, "\": ", ToStd(fits.message())));
        }
      }
      return absl::OkStatus();
    });
    return absl::IsDataLoss(read) ? absl::OkStatus() : read;
  }

  // The file of the segment that an error is about: its message begins with the path. Else the manifest.
  static std::string NameOfSegment(const std::string& directory, const std::vector<Segment>& segments,
                                   const absl::Status& status) {
    for (const Segment& segment : segments) {
      const std::string path = JoinPath(directory, segment.table.name);
      if (ToStd(status.message()).starts_with(StrCat(path, ":"))) return segment.table.name;
    }
    return std::string(kManifestName);
  }

  // Opens the index of all segments; null when it cannot be used. The first task checks all that the segments say by
  // themselves, and sets *keys.
  absl::StatusOr<std::unique_ptr<dataset::IndexReader>> CheckSegments(const std::string& directory,
                                                                      const Manifest& manifest, const Schema& schema,
                                                                      std::vector<dataset::SegmentKeys>* keys) {
    auto segments = dataset::OpenSegments(file_system_, directory, manifest.segments);
    const bool first_task = options_.task == 0;
    size_t shard = 0;
    uint64_t first_sample = 0;
    bool opened = true;
    for (size_t i = 0; i < segments.size(); ++i) {
      const Segment& segment = manifest.segments[i];
      const auto shards = std::span(manifest.shards).subspan(shard, segment.shards);
      dataset::SegmentKeys& checked = keys->emplace_back();
      checked.first_sample = first_sample;
      shard += segment.shards;
      first_sample += segment.samples;
      opened = opened && segments[i].ok();
      if (!first_task) continue;
      absl::Status status = segments[i].status();
      if (status.ok()) status = CheckList(std::move(segments[i]->list), segment, shards);
      if (status.ok() && segments[i]->keys) {
        status = segments[i]->keys->CheckAll();
        if (status.ok()) checked.table = segments[i]->keys;
      }
      SHARDKIT_RETURN_IF_ERROR(ReportSegment(directory, segment.table.name, status));
    }
    if (!opened) {
      // No shard is compared with the index then. The other segments are looked at as they are.
      shard = 0;
      for (size_t i = 0; i < segments.size() && first_task; shard += manifest.segments[i++].shards) {
        if (!segments[i].ok()) continue;
        std::vector<absl::StatusOr<dataset::SegmentTables>> one;
        one.push_back(std::move(segments[i]));
        const auto index = dataset::IndexReader::Open(&one, schema, std::span(manifest.segments).subspan(i, 1));
        absl::Status status = index.status();
        if (status.ok()) {
          status = (*index)->CheckAll(std::span(manifest.shards).subspan(shard, manifest.segments[i].shards));
        }
        SHARDKIT_RETURN_IF_ERROR(ReportSegment(directory, manifest.segments[i].table.name, status));
      }
      return nullptr;
    }
    auto index = dataset::IndexReader::Open(&segments, schema, manifest.segments);
    absl::Status sound = index.status();
    if (sound.ok() && first_task) sound = (*index)->CheckAll(manifest.shards);
    if (sound.ok()) return manifest.segments.empty() ? nullptr : *std::move(index);
    if (first_task) {
      SHARDKIT_RETURN_IF_ERROR(ReportSegment(directory, NameOfSegment(directory, manifest.segments, sound), sound));
    }
    return nullptr;
  }

  // The list repeats what the manifest says of the shards.
  static absl::Status CheckList(std::unique_ptr<container::PagedTable> table, const Segment& segment,
                                std::span<const ManifestShard> shards) {
    const std::string path = table->path();
    SHARDKIT_ASSIGN_OR_RETURN(const auto list, dataset::ShardListReader::Of(std::move(table), segment));
    size_t number = 0;
    return list->ForEach([&](const ManifestShard& shard) {
      if (shard == shards[number++]) return absl::OkStatus();
      return DataLoss(path, ": list of shards: shard ", number - 1, " is not the one that ", kManifestName, " lists");
    });
  }

  absl::Status ReportSegment(const std::string& directory, const std::string& name, const absl::Status& status) {
    if (status.ok()) return status;
    // The segment repeats what the shards say: whatever it lacks can be made again.
    const bool unusable =
        absl::IsNotFound(status) || absl::IsUnimplemented(status) || absl::IsInvalidArgument(status);  // of its name
    const auto code = unusable ? absl::StatusCode::kDataLoss : status.code();
    const std::string_view advice = "run shardctl index ";
    const std::string message(ToStd(status.message()));
    const bool advised = absl::StrContains(message, ToAbsl(advice));
    return ReportDamage(
        JoinPath(directory, name),
        absl::Status(code,
                     ToAbsl(StrCat(message, advised ? "" : StrCat("; ", advice, directory, " to make it again")))));
  }

  // Starts to hash the files of shard `first` and of some shards after it, up to `last`. A file is hashed by one
  // thread, so only several files at once keep all threads busy.
  void HashAhead(const Manifest& manifest, const std::string& directory, size_t first, size_t last) {
    const size_t end = std::min(last, first + static_cast<size_t>(threads_.thread_count()));
    for (; hashes_begun_ < end; ++hashes_begun_) {
      const ManifestShard& shard = manifest.shards[hashes_begun_];
      HashFile(manifest.PathOf(directory, shard.name), shard);
    }
  }

  // Where the manifest lists a hash of it.
  void HashFile(const std::string& path, const ManifestShard& listed) {
    if (!listed.sha256) return;
    hashing_.Add([this, path]() -> absl::StatusOr<Sha256> {
      SHARDKIT_ASSIGN_OR_RETURN(const auto file, file_system_.OpenForReading(path, options_.mode));
      return container::FileSha256(*file, [this] { return hashing_.Check(); });
    });
  }

  // `damaged`: the shard has been found to have another problem.
  absl::Status CompareSha256(const std::string& path, const ManifestShard& shard, bool damaged) {
    if (!shard.sha256) return absl::OkStatus();
    const absl::StatusOr<Sha256> found = hashing_.Take().result;
    if (absl::IsUnimplemented(found.status())) {
      report_.warnings.push_back({path, StrCat("sha256 was not compared: ", ToStd(found.status().message()))});
      return absl::OkStatus();
    }
    if (!found.ok()) {
      const bool known = damaged && (absl::IsNotFound(found.status()) || absl::IsDataLoss(found.status()) ||
                                     absl::IsOutOfRange(found.status()));
      return known ? absl::OkStatus() : ReportDamage(path, found.status());
    }
    if (*found == *shard.sha256) return absl::OkStatus();
    Report(path, DataLoss(path, ": sha256 is ", ToHex(*found), ", but ", kManifestName, " lists ", ToHex(*shard.sha256),
                          damaged ? ""
                                  : ": the content differs although every XXH3 checksum fits: not the file that was "
                                    "published"));
    return absl::OkStatus();
  }

  absl::Status CompareKeys(const std::string& directory, const Manifest& manifest, const DatasetReader& dataset,
                           const std::vector<dataset::KeyIndexPlace>& key_indexes,
                           std::vector<dataset::SegmentKeys>& tables) {
    dataset::RemovedList removed;
    if (manifest.removed) {
      auto read = dataset::RemovedList::Read(file_system_, directory, *manifest.removed, manifest.sample_count);
      if (read.ok()) removed = *std::move(read);  // else LookAsReaders has reported it
    }
    SHARDKIT_ASSIGN_OR_RETURN(
        dataset::DuplicateKeyReport repeated,
        dataset::CheckKeys(file_system_, dataset, removed, key_indexes, tables, options_.cancellation));
    for (size_t i = 0; i < tables.size(); ++i) {
      if (tables[i].difference.ok()) continue;
      SHARDKIT_RETURN_IF_ERROR(
          ReportSegment(directory, dataset.summary().segments[i].table.name, tables[i].difference));
    }
    report_.repeated_keys = repeated.count;
    if (repeated.count == 0) return absl::OkStatus();
    report_.warnings.push_back({directory, StrCat(repeated.count, repeated.count == 1 ? " sample has" : " samples have",
                                                  " a key that an earlier one has, and cannot be found by it")});
    for (std::string& example : repeated.examples) report_.warnings.push_back({directory, std::move(example)});
    return absl::OkStatus();
  }

  // Compares the names that both have. Damaged metadata of a shard is reported with the shard.
  absl::Status CompareMetadata(const Manifest& manifest, const std::string& which, const ShardReader& shard,
                               const std::string& manifest_path) {
    const absl::StatusOr<Metadata> of_shard = shard.ReadMetadata();
    if (!of_shard.ok()) return absl::IsDataLoss(of_shard.status()) ? absl::OkStatus() : of_shard.status();
    for (const auto& [name, value] : manifest.metadata) {
      const auto found = of_shard->find(name);
      if (found == of_shard->end() || found->second == value) continue;
      Report(manifest_path, DataLoss(manifest_path, ": metadata \"", name, "\" differs from that of ", which,
                                     "; run shardctl index to rebuild the manifest"));
    }
    return absl::OkStatus();
  }

  // What can be said of a shard's columns without their values.
  void CheckColumnTexts(const container::NativeShardReader& shard, const std::string& path) {
    for (size_t i = 0; i < shard.schema().size(); ++i) {
      const Column& column = shard.schema()[i];
      if (!ClassNames(column).ok()) {
        Report(path, DataLoss(path, ": header: column ", i, " \"", column.name, "\": ", kClassNames,
                              " in its metadata is not a JSON array of strings"));
      }
      if (IsKnownCodec(column.codec)) continue;
      report_.warnings.push_back({path, StrCat("column \"", column.name, "\" has ", CodecName(column.codec),
                                               ", which this version does not know: only the checksums of its chunks "
                                               "were compared, the values were not looked at")});
    }
  }

  absl::Status DescribeShardDamage(const std::string& path, size_t shard, const absl::Status& status) {
    // An error found by the dataset reader itself already names the shard.
    if (absl::StrContains(status.message(), "of the manifest")) return ReportDamage(path, status);
    return ReportDamage(
        path,
        absl::Status(status.code(), ToAbsl(StrCat(ToStd(status.message()), " (shard ", shard, " of the manifest)"))));
  }

  // `known` is an error that has been reported already. Sets `offset` and `samples` of *key_index. `known`, `index` and
  // `key_index` may be null.
  absl::Status CheckShard(const std::string& path, const absl::Status* known, dataset::ShardIndexCheck* index,
                          dataset::KeyIndexPlace* key_index) {
    ReadOptions read_options;
    read_options.mode = options_.mode;
    read_options.max_decompression = options_.max_decompression;
    auto opened = container::NativeShardReader::Open(file_system_, path, read_options);
    if (!opened.ok()) {
      if (absl::IsNotFound(opened.status())) return opened.status();
      if (known == nullptr || known->message() != opened.status().message()) {
        SHARDKIT_RETURN_IF_ERROR(ReportDamage(path, opened.status()));
      }
      return absl::OkStatus();
    }
    const std::unique_ptr<container::NativeShardReader> shard = *std::move(opened);
    CheckColumnTexts(*shard, path);
    const dataset::MaskPairs pairs(shard->schema().columns());
    const bool compare = options_.deep && compare_pairs_ && !pairs.empty();
    if (index) index->Begin(*shard);
    ++report_.shards;
    const dataset::ProblemSink sink = [&](const absl::Status& problem) { Report(path, problem); };
    dataset::ShardAccount account(*shard);
    OrderedTasks<absl::StatusOr<dataset::BlockFindings>> checking(threads_, "checking blocks", options_.cancellation,
                                                                  2 * static_cast<size_t>(threads_.thread_count()));
    size_t begun = 0;
    for (size_t block = 0; block < shard->blocks().size(); ++block) {
      for (; begun < shard->blocks().size() && !checking.full(); ++begun) {
        checking.Add([this, &shard = *shard, begun, pairs = compare ? &pairs : nullptr] {
          return CheckOne(shard, begun, pairs);
        });
      }
      absl::StatusOr<dataset::BlockFindings> findings = checking.Take().result;
      if (!findings.ok()) return findings.status();
      if (index && findings->places) SHARDKIT_RETURN_IF_ERROR(index->Add(block, *findings->places));
      report_.undecoded_images += findings->undecoded_images;
      NoteWarnedImages(shard->path(), findings->warned_images, &report_);
      account.Add(block, *std::move(findings), sink);
      ++report_.blocks;
      report_.samples += shard->blocks()[block].sample_count;
      Progress(shard->blocks()[block].length);
    }
    SHARDKIT_RETURN_IF_ERROR(account.Finish(sink));
    if (key_index) FindKeyIndex(*shard, key_index);
    report_.bytes += shard->file_length();
    return absl::OkStatus();
  }

  static void FindKeyIndex(const container::NativeShardReader& shard, dataset::KeyIndexPlace* key_index) {
    for (const format::Section& section : shard.sections()) {
      if (section.kind != static_cast<uint32_t>(format::SectionKind::kKeyIndex)) continue;
      if (!IsKnownCodec(shard.schema()[*shard.schema().key_column()].codec)) continue;  // the keys cannot be compared
      key_index->offset = section.offset;
      key_index->samples = shard.sample_count();
    }
  }

  // Of a shard that another task checks. False when the shard is damaged, which that task reports.
  absl::StatusOr<bool> FindKeyIndex(const std::string& path, uint64_t first_sample,
                                    std::vector<dataset::KeyIndexPlace>* key_indexes) {
    if (options_.cancellation) SHARDKIT_RETURN_IF_ERROR(options_.cancellation->Check("finding keys"));
    const auto shard = container::NativeShardReader::Open(file_system_, path, {});
    if (absl::IsDataLoss(shard.status()) || absl::IsNotFound(shard.status())) return false;
    SHARDKIT_RETURN_IF_ERROR(shard.status());
    dataset::KeyIndexPlace place{.path = path, .first_sample = first_sample};
    FindKeyIndex(**shard, &place);
    if (place.samples > 0) key_indexes->push_back(std::move(place));
    return true;
  }

  absl::StatusOr<dataset::BlockFindings> CheckOne(const container::NativeShardReader& shard, size_t index,
                                                  const dataset::MaskPairs* pairs) {
    BlockBuffer buffer = AcquireBuffer();
    auto findings = dataset::CheckBlock(shard, index, options_, pairs, &buffer);
    std::lock_guard lock(mutex_);
    buffers_.push_back(std::move(buffer));
    return findings;
  }

  BlockBuffer AcquireBuffer() {
    std::lock_guard lock(mutex_);
    if (buffers_.empty()) return BlockBuffer();
    BlockBuffer buffer = std::move(buffers_.back());
    buffers_.pop_back();
    return buffer;
  }

  void Progress(uint64_t bytes) {
    bytes_done_ += bytes;
    if (options_.progress) options_.progress(bytes_done_, bytes_total_);
  }

  ReadableFileSystem& file_system_;
  const ValidateOptions& options_;
  ValidateReport report_;
  uint64_t bytes_done_ = 0;
  uint64_t bytes_total_ = 0;
  std::mutex mutex_;
  std::vector<BlockBuffer> buffers_;
  bool compare_pairs_ = true;  // masks and images of a shard are those that readers see
  size_t hashes_begun_ = 0;    // shards before this one are hashed, or need not be
  ThreadPool threads_;
  OrderedTasks<absl::StatusOr<Sha256>>
      hashing_;  // of the next shards that have one listed; last, as its tasks use the rest
};

}  // namespace

std::string_view Problem::error_class() const {
  switch (code) {
    case absl::StatusCode::kOk:
      return "";
    case absl::StatusCode::kUnimplemented:
      return "Unimplemented";
    case absl::StatusCode::kNotFound:
      return "NotFound";
    default:  // also of files that are too short
      return "DataLoss";
  }
}

absl::StatusOr<ValidateReport> Validate(ReadableFileSystem& file_system, const std::string& path,
                                        const ValidateOptions& options) {
  if (options.task >= options.tasks) {
    return InvalidArgument("task ", options.task, "/", options.tasks,
                           ": tasks count from 0 to one less than their number");
  }
  Validator validator(file_system, options);
  return Guarded("validating", [&] { return validator.Run(path); });
}

}  // namespace shardkit
