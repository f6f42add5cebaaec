#include "dataset/repair/repair_columns.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "dataset/change/column_file_writer.h"
#include "dataset/dataset_files.h"
#include "dataset/read/column_files.h"
#include "dataset/read/removed_samples.h"
#include "dataset/shard_collector.h"
#include "shardkit/validate.h"

namespace shardkit::dataset {
namespace {

class ColumnRepair {
 public:
  ColumnRepair(FileSystem& file_system, const std::string& directory, const std::string& output, const Manifest& before,
               std::span<const KeptShard> shards, const RepairOptions& options, std::vector<std::string>* notes)
      : file_system_(file_system),
        directory_(directory),
        output_(output),
        before_(before),
        shards_(shards),
        options_(options),
        notes_(*notes),
        after_(before),
        files_(file_system, directory, before_, {}, Reading(options)) {}

  absl::StatusOr<ManifestSummary> Run() {
    SHARDKIT_RETURN_IF_ERROR(KeepRemoved());
    after_.column_files.clear();
    for (size_t i = 0; i < before_.column_files.size(); ++i) {
      SHARDKIT_ASSIGN_OR_RETURN(const bool linked, LinkFile(i));
      if (linked) continue;
      changed_ = true;
      SHARDKIT_RETURN_IF_ERROR(RewriteFile(i));
    }
    if (changed_) SHARDKIT_RETURN_IF_ERROR(LetBeAbsent());
    return std::move(after_);
  }

 private:
  static ReadOptions Reading(const RepairOptions& options) {
    ReadOptions reading;
    reading.max_decompression = options.max_decompression;
    return reading;
  }

  absl::Status KeepRemoved() {
    after_.removed.reset();
    if (!before_.removed) return absl::OkStatus();
    SHARDKIT_ASSIGN_OR_RETURN(const RemovedList list,
                              RemovedList::Read(file_system_, directory_, *before_.removed, before_.sample_count));
    std::vector<uint64_t> removed;
    for (const KeptShard& shard : shards_) {
      uint64_t first = shard.first_sample;
      for (const SampleRange& range : shard.from) {
        for (const uint64_t sample : list.Within(range.first, range.first + range.count)) {
          removed.push_back(first + (sample - range.first));
        }
        first += range.count;
      }
    }
    if (removed.empty()) return absl::OkStatus();
    SHARDKIT_ASSIGN_OR_RETURN(after_.removed, WriteRemoved(file_system_, output_, std::string(kRemovedName),
                                                           RemovedList(std::move(removed))));
    return absl::OkStatus();
  }

  // False where the file is damaged, or samples of it were lost.
  absl::StatusOr<bool> LinkFile(size_t number) {
    const ColumnFile& file = before_.column_files[number];
    const std::string path = before_.PathOf(directory_, file.name);
    std::vector<ColumnRun> runs;
    uint64_t wanted = 0, found = 0;
    for (const ColumnRun& run : file.runs) wanted += run.samples;
    for (const KeptShard& shard : shards_) {
      if (!shard.whole || shard.from.empty()) continue;
      const SampleRange& from = shard.from.front();
      for (const ColumnRun& run : file.runs) {
        const uint64_t begin = std::max(run.sample, from.first);
        const uint64_t end = std::min(run.sample + run.samples, from.first + from.count);
        if (begin >= end) continue;
        found += end - begin;
        AddRun({shard.first_sample + (begin - from.first), end - begin, run.begin + (begin - run.sample)}, &runs);
      }
    }
    if (found != wanted || !files_.Open(number).ok()) return false;
    ValidateOptions validate;
    validate.cancellation = options_.cancellation;
    validate.max_problems = 1;
    validate.max_decompression = options_.max_decompression;
    SHARDKIT_ASSIGN_OR_RETURN(const ValidateReport report, Validate(file_system_, path, validate));
    if (!report.ok()) return false;
    ColumnFile linked = file;
    linked.name = ColumnFileName(1, after_.column_files.size());
    linked.sha256.reset();
    linked.runs = std::move(runs);
    SHARDKIT_RETURN_IF_ERROR(LinkOrCopy(file_system_, path, JoinPath(output_, linked.name), options_.cancellation));
    after_.column_files.push_back(std::move(linked));
    return true;
  }

  absl::Status RewriteFile(size_t number) {
    const ColumnFile& file = before_.column_files[number];
    std::vector<Column> columns;
    std::vector<size_t> positions;  // in the dataset's schema
    for (size_t i = 0; i < before_.schema.size(); ++i) {
      const std::string_view stored = before_.StoredName(before_.schema[i].name);
      if (std::ranges::find(file.columns, stored) == file.columns.end()) continue;
      Column& column = columns.emplace_back(before_.schema[i]);
      column.name = std::string(stored);
      column.nullable = true;
      positions.push_back(i);
    }
    if (columns.empty()) return absl::OkStatus();
    SHARDKIT_ASSIGN_OR_RETURN(const Schema schema, Schema::Create(std::move(columns)));
    const auto opened = files_.Open(number);
    if (!opened.ok()) {
      if (!absl::IsDataLoss(opened.status()) && !absl::IsNotFound(opened.status())) return opened.status();
      notes_.push_back(
          StrCat(file.name, " is lost, and with it all values of its columns: ", ToStd(opened.status().message())));
      return absl::OkStatus();
    }
    ColumnFileWriter writer(file_system_, output_, 1, schema, 1, options_.cancellation);
    writer.CountFrom(after_.column_files.size());
    uint64_t lost = 0;
    for (const KeptShard& shard : shards_) {
      SHARDKIT_RETURN_IF_ERROR(CopyValues(number, positions, shard, &writer, &lost));
    }
    if (lost > 0) notes_.push_back(StrCat(file.name, " is damaged: ", lost, " of its values are lost, and absent"));
    SHARDKIT_ASSIGN_OR_RETURN(std::vector<ColumnFile> written, writer.Finish());
    std::ranges::move(written, std::back_inserter(after_.column_files));
    return absl::OkStatus();
  }

  // The values that the file has for samples of the shard, in blocks of the shard.
  absl::Status CopyValues(size_t number, std::span<const size_t> positions, const KeptShard& shard,
                          ColumnFileWriter* writer, uint64_t* lost) {
    const auto in_file = [&](uint64_t sample) {
      const auto place = files_.Find(sample, positions[0]);
      return place && place->file == number;
    };
    // Runs begin and end with blocks, so all samples of a block are in one or none is.
    const bool any = std::ranges::any_of(before_.column_files[number].runs, [&](const ColumnRun& run) {
      return std::ranges::any_of(shard.from, [&](const SampleRange& range) {
        return range.first < run.sample + run.samples && run.sample < range.first + range.count;
      });
    });
    if (!any) return absl::OkStatus();
    SHARDKIT_ASSIGN_OR_RETURN(const auto reader, ShardReader::Open(file_system_, shard.path));
    std::vector<BlockBuffer> buffers(positions.size());
    std::vector<std::optional<Value>> row(positions.size());
    auto range = shard.from.begin();
    uint64_t in_range = 0;
    for (const BlockInfo& block : reader->blocks()) {
      if (options_.cancellation) SHARDKIT_RETURN_IF_ERROR(options_.cancellation->Check("repairing columns"));
      bool begun = false;
      for (uint32_t i = 0; i < block.sample_count && range != shard.from.end(); ++i) {
        const uint64_t sample = range->first + in_range;
        if (++in_range == range->count) ++range, in_range = 0;
        if (!begun && !in_file(sample)) continue;
        begun = true;
        for (size_t k = 0; k < positions.size(); ++k) {
          row[k].reset();
          const auto place = files_.Find(sample, positions[k]);
          if (!place || place->file != number) continue;
          const auto value = files_.ReadValue(sample, *place, &buffers[k]);
          if (absl::IsDataLoss(value.status())) {
            ++*lost;
            continue;
          }
          SHARDKIT_RETURN_IF_ERROR(value.status());
          if (*value) row[k].emplace(**value);
        }
        SHARDKIT_RETURN_IF_ERROR(writer->Append(row));
      }
      if (begun) SHARDKIT_RETURN_IF_ERROR(writer->EndBlock(shard.first_sample + block.first_sample));
    }
    return absl::OkStatus();
  }

  // Of what lay in column files, values may be missing now.
  absl::Status LetBeAbsent() {
    std::vector<Column> columns = after_.schema.columns();
    for (size_t i = 0; i < columns.size(); ++i) columns[i].nullable = columns[i].nullable || files_.Has(i);
    SHARDKIT_ASSIGN_OR_RETURN(after_.schema, Schema::Create(std::move(columns)));
    return absl::OkStatus();
  }

  FileSystem& file_system_;
  const std::string& directory_;
  const std::string& output_;
  const Manifest& before_;
  const std::span<const KeptShard> shards_;
  const RepairOptions& options_;
  std::vector<std::string>& notes_;
  ManifestSummary after_;
  ColumnFiles files_;
  bool changed_ = false;  // some values may be lost
};

}  // namespace

absl::StatusOr<ManifestSummary> RepairColumns(FileSystem& file_system, const std::string& directory,
                                              const std::string& output, const Manifest& before,
                                              std::span<const KeptShard> shards, const RepairOptions& options,
                                              std::vector<std::string>* notes) {
  return ColumnRepair(file_system, directory, output, before, shards, options, notes).Run();
}

}  // namespace shardkit::dataset
