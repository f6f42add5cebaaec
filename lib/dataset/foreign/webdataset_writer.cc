// Writing WebDataset.
#include <charconv>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/errors.h"
#include "base/exceptions.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "dataset/foreign/foreign_job.h"
#include "foreign/webdataset/tar_shard_writer.h"
#include "foreign/webdataset/webdataset_names.h"
#include "shardkit/tar_index.h"

namespace shardkit {
namespace {

// Readers take tars in the order of their names. Names with more digits would break this order.
constexpr size_t kMostTars = 1'000'000;
constexpr size_t kDigits = 6;

constexpr std::string_view kTarSuffix = ".tar";

std::string TarName(size_t number) {
  char name[32];
  std::snprintf(name, sizeof(name), "%06zu.tar", number);
  return name;
}

class WebDatasetJobFiles final : public dataset::ForeignJobFiles {
 public:
  std::string_view manifest_name() const override { return kOriginName; }

  Name Recognize(std::string_view name) const override {
    const bool temporary = name.ends_with(".tmp");
    if (temporary) name.remove_suffix(4);
    if (name == kOriginName) return {true, {}};
    if (name.ends_with(kTarIndexSuffix)) name.remove_suffix(kTarIndexSuffix.size());
    size_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error != std::errc() || end != name.data() + kDigits || name.substr(kDigits) != kTarSuffix) return {};
    return {true, temporary ? std::string_view() : name};
  }
};

class WebDatasetWriter final : public dataset::ForeignJob {
 public:
  WebDatasetWriter(FileSystem& file_system, std::string directory, const WebDatasetWriterOptions& options)
      : dataset::ForeignJob(file_system, std::move(directory), options), options_(options) {}

  ~WebDatasetWriter() override {
    (void)Guarded("giving up", [this] { return Abort(); });
  }

  absl::Status Start(const Schema& schema) {
    return StartForeign(schema, files_, StrCat("webdataset", options_.index ? " index" : ""));
  }

 protected:
  absl::Status AppendSample(const Sample& sample, uint64_t /*next_position*/) override {
    members_.clear();
    for (const Field& field : sample.fields) {
      if (!IsByteString(*field.column)) {
        return InvalidArgument("column \"", field.column->name, "\": a tar holds byte strings, no ",
                               TypeName(field.column->type));
      }
      members_.push_back({foreign::WebDatasetExtension(field.column->name), field.value});
    }
    if (tar_ && tar_->sample_count() > 0 &&
        (tar_->sample_count() == options_.shard_samples || keys_.contains(Hash128(sample.key)) ||
         tar_->LengthWith(sample.key, members_) > options_.shard_size)) {
      SHARDKIT_RETURN_IF_ERROR(Fail(FinishTar()));
    }
    if (!tar_) {
      if (manifest_.shards.size() == kMostTars) {
        return FailedPrecondition(directory_, ": more than ", kMostTars, " tars: choose larger ones");
      }
      SHARDKIT_RETURN_IF_ERROR(Fail(BeginTar()));
    }
    if (options_.cancellation) SHARDKIT_RETURN_IF_ERROR(options_.cancellation->Check("writing tars"));
    SHARDKIT_RETURN_IF_ERROR(tar_->Append(sample.key, members_, options_.cancellation));
    keys_.insert(Hash128(sample.key));
    return absl::OkStatus();
  }

  absl::Status AdoptShard(const dataset::ShardRecord& /*record*/) override { return absl::OkStatus(); }

  // A folder without tars is not a WebDataset, so a dataset without samples is one tar without members.
  absl::Status FinishShards() override {
    if (!tar_ && manifest_.shards.empty()) SHARDKIT_RETURN_IF_ERROR(BeginTar());
    return tar_ && (tar_->sample_count() > 0 || manifest_.shards.empty()) ? FinishTar() : DiscardOpen();
  }

  absl::Status PublishIndexes() override { return PublishOrigin(/*must_be_new=*/true); }

  absl::Status DiscardOpen() override {
    const absl::Status status = tar_ ? tar_->Abort() : absl::OkStatus();
    tar_.reset();
    return status;
  }

 private:
  absl::Status BeginTar() {
    keys_.clear();
    SHARDKIT_ASSIGN_OR_RETURN(tar_,
                              foreign::TarShardWriter::Create(file_system_, Path(TarName(manifest_.shards.size()))));
    return absl::OkStatus();
  }

  absl::Status FinishTar() {
    SHARDKIT_ASSIGN_OR_RETURN(const foreign::TarSummary summary, tar_->Finish(options_.index));
    tar_.reset();
    dataset::ShardRecord record;
    record.shard.name = TarName(manifest_.shards.size());
    record.shard.bytes = summary.bytes;
    record.shard.samples = summary.samples;
    record.shard.blocks = 1;
    record.next_position = next_position();
    record.skipped = TakeSkipped();
    return Record(std::move(record));
  }

  const WebDatasetWriterOptions options_;
  const WebDatasetJobFiles files_;
  std::vector<foreign::NamedTarValue> members_;
  std::unique_ptr<foreign::TarShardWriter> tar_;
  // Of the samples in the tar: where one comes again, it begins the next tar, in which it is a sample of its own.
  absl::flat_hash_set<Hash128Bytes> keys_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DatasetWriter>> CreateWebDatasetWriter(FileSystem& file_system,
                                                                      const std::string& directory,
                                                                      const Schema& schema,
                                                                      const WebDatasetWriterOptions& options) {
  return dataset::CreateWebDatasetJob(file_system, directory, schema, options);
}

absl::StatusOr<std::unique_ptr<dataset::DatasetJob>> dataset::CreateWebDatasetJob(
    FileSystem& file_system, const std::string& directory, const Schema& schema,
    const WebDatasetWriterOptions& options) {
  return dataset::StartOrSuspend(std::make_unique<WebDatasetWriter>(file_system, directory, options), schema);
}

}  // namespace shardkit
