#include "dataset/change/column_file_writer.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "dataset/job_directory.h"
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
  SHARDKIT_RETURN_IF_ERROR(builder_.Check(row));
  builder_.Add(row);
  return absl::OkStatus();
}

absl::Status ColumnFileWriter::EndBlock() {
  if (builder_.empty()) return absl::OkStatus();
  container::RawBlock block = builder_.Take();
  if (!plan_) {
    const ShardOptions options = Options();
    SHARDKIT_ASSIGN_OR_RETURN(container::EncodingPlan plan, container::MakeEncodingPlan(schema_, options));
    SHARDKIT_ASSIGN_OR_RETURN(plan.schema, container::ChooseStorages(options, plan.schema, &block));
    plan_ = std::make_shared<const container::EncodingPlan>(std::move(plan));
  }
  while (encoding_.full()) SHARDKIT_RETURN_IF_ERROR(WriteOne());
  encoding_.Add([plan = plan_, block = std::move(block)]() mutable {
    container::BlockEncoder encoder;
    return encoder.Encode(*plan, std::move(block));
  });
  return absl::OkStatus();
}

absl::Status ColumnFileWriter::WriteOne() {
  SHARDKIT_ASSIGN_OR_RETURN(container::EncodedBlock block, encoding_.Take().result);
  const bool full = file_ && (file_->position() + block.length() > file_bytes_ ||
                              file_->sample_count() + block.header.sample_count > format::kMaxShardSamples);
  if (full) SHARDKIT_RETURN_IF_ERROR(FinishFile());
  if (!file_) {
    std::string name = ColumnFileName(generation_, files_.size());
    ColumnFile& file = files_.emplace_back();
    file.name = std::move(name);
    for (const Column& column : schema_.columns()) file.columns.push_back(column.name);
    SHARDKIT_ASSIGN_OR_RETURN(
        file_, container::ShardFileWriter::Create(file_system_, JoinPath(directory_, file.name), *plan_, Options()));
  }
  SHARDKIT_RETURN_IF_ERROR(file_->Write(block, cancellation_));
  builder_.Recycle(std::move(block.raw));
  return absl::OkStatus();
}

absl::Status ColumnFileWriter::FinishFile() {
  if (!file_) return absl::OkStatus();
  SHARDKIT_ASSIGN_OR_RETURN(const ShardSummary summary, file_->Finish());
  file_.reset();
  ColumnFile& file = files_.back();
  file.bytes = summary.file_length;
  file.samples = summary.sample_count;
  file.blocks = summary.block_count;
  file.content_hash = summary.content_hash;
  file.runs = {{.sample = samples_, .samples = file.samples}};
  samples_ += file.samples;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ColumnFile>> ColumnFileWriter::Finish() {
  SHARDKIT_RETURN_IF_ERROR(EndBlock());
  while (!encoding_.empty()) SHARDKIT_RETURN_IF_ERROR(WriteOne());
  SHARDKIT_RETURN_IF_ERROR(FinishFile());
  return std::move(files_);
}

}  // namespace shardkit::dataset
