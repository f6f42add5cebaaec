#include "dataset/change/column_file_writer.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "dataset/dataset_files.h"
#include "format/constants.h"

namespace shardkit::dataset {
namespace {

// Blocks have the samples of blocks of the shards, and so perhaps few bytes: room between them would outweigh these.
ShardOptions Options() {
  ShardOptions options;
  options.alignment = format::kMinAlignment;
  return options;
}

}  // namespace

void AddRun(const ColumnRun& run, std::vector<ColumnRun>* runs) {
  const bool goes_on = !runs->empty() && runs->back().sample + runs->back().samples == run.sample &&
                       runs->back().begin + runs->back().samples == run.begin;
  if (goes_on) {
    runs->back().samples += run.samples;
  } else {
    runs->push_back(run);
  }
}

void KeepRuns(const std::vector<ColumnRun>& runs, uint64_t first, uint64_t end, uint64_t dropped,
              std::vector<ColumnRun>* kept) {
  for (const ColumnRun& run : runs) {
    const uint64_t begin = std::max(first, run.sample), stop = std::min(end, run.sample + run.samples);
    if (begin >= stop) continue;
    AddRun({begin - dropped, stop - begin, run.begin + (begin - run.sample)}, kept);
  }
}

ColumnFileWriter::ColumnFileWriter(FileSystem& file_system, std::string directory, uint64_t generation,
                                   const Schema& schema, int threads, const Cancellation* cancellation,
                                   uint64_t file_bytes)
    : file_system_(file_system),
      directory_(std::move(directory)),
      generation_(generation),
      schema_(schema),
      cancellation_(cancellation),
      file_bytes_(file_bytes),
      builder_(schema_, format::kMaxLength, UINT32_MAX),
      threads_(std::max(threads, 1)),
      encoding_(threads_, "writing columns", cancellation, static_cast<size_t>(threads_.thread_count()) + 2) {}

absl::Status ColumnFileWriter::Append(std::span<const std::optional<Value>> row) {
  SHARDKIT_RETURN_IF_ERROR(container::CheckValues(schema_, row));
  builder_.Add(row);
  return absl::OkStatus();
}

absl::Status ColumnFileWriter::EndBlock(uint64_t first) {
  container::RawBlock block = builder_.Take();
  if (!plan_) {
    const ShardOptions options = Options();
    SHARDKIT_ASSIGN_OR_RETURN(container::BlockEncoding plan, container::MakeBlockEncoding(schema_, options));
    SHARDKIT_ASSIGN_OR_RETURN(plan.schema, container::ChooseStorages(options, plan.schema, &block));
    plan_ = std::make_shared<const container::BlockEncoding>(std::move(plan));
  }
  while (encoding_.full()) SHARDKIT_RETURN_IF_ERROR(WriteOne());
  encoding_.Add(
      [plan = plan_, block = std::move(block)]() mutable {
        container::BlockEncoder encoder;
        return encoder.Encode(*plan, std::move(block));
      },
      first);
  return absl::OkStatus();
}

absl::Status ColumnFileWriter::WriteOne() {
  auto [first, result] = encoding_.Take();
  SHARDKIT_ASSIGN_OR_RETURN(container::EncodedBlock block, std::move(result));
  const bool full = file_ && (file_->position() + block.length() > file_bytes_ ||
                              file_->sample_count() + block.header.sample_count > format::kMaxShardSamples);
  if (full) SHARDKIT_RETURN_IF_ERROR(FinishFile());
  if (!file_) {
    std::string name = ColumnFileName(generation_, first_number_ + files_.size());
    ColumnFile& file = files_.emplace_back();
    file.name = std::move(name);
    for (const Column& column : schema_.columns()) file.columns.push_back(column.name);
    std::unique_ptr<NamedHash> sha256;
    if (hashes_) {
      SHARDKIT_ASSIGN_OR_RETURN(sha256, NamedHash::Create("sha256"));
    }
    SHARDKIT_ASSIGN_OR_RETURN(file_, container::ShardFileWriter::Create(file_system_, JoinPath(directory_, file.name),
                                                                        *plan_, Options(), std::move(sha256)));
  }
  AddRun({first, block.header.sample_count, file_->sample_count()}, &files_.back().runs);
  SHARDKIT_RETURN_IF_ERROR(file_->Write(block, cancellation_));
  builder_.Recycle(std::move(block.raw));
  return absl::OkStatus();
}

absl::Status ColumnFileWriter::FinishFile() {
  if (!file_) return absl::OkStatus();
  SHARDKIT_ASSIGN_OR_RETURN(const ShardSummary summary, file_->Finish());
  ColumnFile& file = files_.back();
  file.sha256 = file_->sha256();
  file_.reset();
  file.bytes = summary.file_length;
  file.samples = summary.sample_count;
  file.blocks = summary.block_count;
  file.content_hash = summary.content_hash;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ColumnFile>> ColumnFileWriter::Finish() {
  while (!encoding_.empty()) SHARDKIT_RETURN_IF_ERROR(WriteOne());
  SHARDKIT_RETURN_IF_ERROR(FinishFile());
  return std::move(files_);
}

}  // namespace shardkit::dataset
