#include <algorithm>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "container/write/block_builder.h"
#include "container/write/block_encoder.h"
#include "container/write/shard_file_writer.h"
#include "shardkit/shard.h"

namespace shardkit {
namespace {

class NativeShardWriter : public ShardWriter {
 public:
  NativeShardWriter(FileSystem& file_system, std::string path, container::BlockEncoding plan,
                    const ShardOptions& options)
      : file_system_(file_system),
        path_(std::move(path)),
        options_(options),
        plan_(std::move(plan)),
        builder_(plan_.schema, options.block_size, options.max_block_samples) {}

  ~NativeShardWriter() override {
    (void)Guarded("giving up", [this] { return Abort(); });
  }

  absl::Status Append(std::span<const std::optional<Value>> values) override {
    if (finished_) return FailedPrecondition(path_, ": the writer is finished");
    if (absl::Status status = container::CheckValues(plan_.schema, values); !status.ok())
      return Annotate(status, path_);
    if (builder_.MustFlushBefore(values)) SHARDKIT_RETURN_IF_ERROR(CloseBlock());
    builder_.Add(values);
    return builder_.full() ? CloseBlock() : absl::OkStatus();
  }

  absl::StatusOr<ShardSummary> Finish() override {
    if (finished_) return FailedPrecondition(path_, ": the writer is finished");
    if (!builder_.empty()) SHARDKIT_RETURN_IF_ERROR(CloseBlock());
    SHARDKIT_RETURN_IF_ERROR(Start());
    SHARDKIT_ASSIGN_OR_RETURN(ShardSummary summary, file_->Finish());
    finished_ = true;
    return summary;
  }

  absl::Status Abort() override {
    finished_ = true;
    held_.clear();
    return file_ ? file_->Abort() : absl::OkStatus();
  }

 private:
  absl::Status CloseBlock() {
    if (file_) return WriteBlock(builder_.Take());
    held_.push_back(builder_.Take());
    const bool wait = !options_.dictionaries.empty() && held_.size() < container::kTrainingBlocks;
    return wait ? absl::OkStatus() : Start();
  }

  // Creates the file and writes what was held back; does nothing the second time.
  absl::Status Start() {
    if (file_) return absl::OkStatus();
    SHARDKIT_ASSIGN_OR_RETURN(
        plan_.schema, container::ChooseStorages(options_, plan_.schema, held_.empty() ? nullptr : &held_.front()));
    SHARDKIT_RETURN_IF_ERROR(container::TrainDictionaries(options_, held_, &plan_));
    SHARDKIT_ASSIGN_OR_RETURN(file_, container::ShardFileWriter::Create(file_system_, path_, plan_, options_));
    for (container::RawBlock& block : std::exchange(held_, {})) SHARDKIT_RETURN_IF_ERROR(WriteBlock(std::move(block)));
    return absl::OkStatus();
  }

  absl::Status WriteBlock(container::RawBlock block) {
    SHARDKIT_ASSIGN_OR_RETURN(container::EncodedBlock encoded, encoder_.Encode(plan_, std::move(block)));
    SHARDKIT_RETURN_IF_ERROR(file_->Write(encoded, nullptr));
    builder_.Recycle(std::move(encoded.raw));
    return absl::OkStatus();
  }

  FileSystem& file_system_;
  const std::string path_;
  const ShardOptions options_;
  container::BlockEncoding plan_;
  container::BlockBuilder builder_;
  container::BlockEncoder encoder_;
  std::vector<container::RawBlock> held_;
  std::unique_ptr<container::ShardFileWriter> file_;
  bool finished_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ShardWriter>> ShardWriter::Create(FileSystem& file_system, const std::string& path,
                                                                 const Schema& schema, const ShardOptions& options) {
  absl::StatusOr<container::BlockEncoding> plan = container::MakeBlockEncoding(schema, options);
  if (!plan.ok()) return Annotate(plan.status(), path);
  for (const auto& [name, level] : options.zstd_levels) {
    if (!schema.Find(name)) return InvalidArgument(path, ": there is no column \"", name, "\" to set a level for");
  }
  for (const auto& [name, size] : options.dictionaries) {
    if (!schema.Find(name))
      return InvalidArgument(path, ": there is no column \"", name, "\" to make a dictionary for");
  }
  for (const auto& [name, storage] : options.storage) {
    if (!schema.Find(name)) return InvalidArgument(path, ": there is no column \"", name, "\" to choose a storage for");
  }
  if (file_system.Stat(path).ok()) return absl::AlreadyExistsError(StrCat(path, ": already exists"));
  return std::make_unique<NativeShardWriter>(file_system, path, *std::move(plan), options);
}

}  // namespace shardkit
