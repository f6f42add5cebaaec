#include "shardkit/copy.h"

#include <memory>
#include <utility>

#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "dataset/foreign/foreign_job.h"
#include "dataset/manifest_json.h"
#include "dataset/write/dataset_job.h"
#include "operations/copy/column_mapping.h"
#include "operations/copy/conversion.h"
#include "operations/pack/packer.h"
#include "shardkit/dataset_reader.h"

namespace shardkit {
namespace {

bool KeepsBlocks(const ConvertOptions& options) {
  const ShardOptions& shard = options.pack.dataset.shard;
  const ShardOptions first;
  return options.keep_blocks.value_or(shard.block_size == first.block_size &&
                                      shard.max_block_samples == first.max_block_samples);
}

// Identifies the job. A run resumes an earlier run only when both texts are equal.
absl::StatusOr<std::string> JobOf(const operations::DatasetSource& source, const ConvertOptions& options) {
  std::string job = options.pack.dataset.job;
  job += StrCat("\nconvert to ", ContainerName(options.to), options.pack.skip_errors ? " skip" : " fail",
                options.lossy ? " lossy" : "", KeepsBlocks(options) ? "" : " new blocks", "\n");
  SHARDKIT_ASSIGN_OR_RETURN(const std::string inputs, source.Identity());
  job += inputs;
  return job;
}

absl::Status CheckOptions(const ConvertOptions& options) {
  if (options.pack.dataset.append && options.to != Container::kShard) {
    return InvalidArgument("--append is only for --to shard");
  }
  if (!options.pack.dataset.sha256 || options.to == Container::kShard) return absl::OkStatus();
  return InvalidArgument("--sha256 is only for --to shard",
                         options.to == Container::kMds ? "; --hash sha256 writes hashes into the index of MDS" : "");
}

absl::StatusOr<std::unique_ptr<dataset::DatasetJob>> CreateForeignJob(FileSystem& file_system,
                                                                      const operations::DatasetSource& source,
                                                                      const Schema& schema, const std::string& output,
                                                                      const ConvertOptions& options) {
  const DatasetWriterOptions& common = options.pack.dataset;
  const operations::ConversionInput& input = source.input();
  SHARDKIT_ASSIGN_OR_RETURN(const std::string job, JobOf(source, options));
  const auto prepare = [&](ForeignWriterOptions& writer_options) {
    writer_options.threads = common.threads;
    writer_options.resume = common.resume;
    writer_options.sync = common.sync;
    writer_options.job = job;
    writer_options.cancellation = common.cancellation;
    writer_options.origin = input.plan.origin;
  };
  if (options.to == Container::kMds) {
    MdsWriterOptions mds = options.mds;
    prepare(mds);
    // insert() keeps the encodings that the options name.
    mds.encodings.insert(input.plan.mds_encodings.begin(), input.plan.mds_encodings.end());
    return dataset::CreateMdsJob(file_system, output, schema, mds);
  }
  WebDatasetWriterOptions webdataset = options.webdataset;
  prepare(webdataset);
  return dataset::CreateWebDatasetJob(file_system, output, schema, webdataset);
}

}  // namespace

absl::StatusOr<std::unique_ptr<operations::DatasetSource>> operations::OpenConversion(
    FileSystem& file_system, const std::vector<std::string>& paths, const ConvertOptions& options) {
  SHARDKIT_RETURN_IF_ERROR(CheckOptions(options));
  std::vector<operations::ConversionInput> inputs;
  for (const std::string& path : paths) {
    SHARDKIT_ASSIGN_OR_RETURN(inputs.emplace_back(), operations::OpenConversionInput(file_system, path, options));
  }
  auto source = std::make_unique<operations::DatasetSource>(std::move(inputs), options.pack.skip_errors);
  source->KeepBlocks(KeepsBlocks(options));
  SHARDKIT_RETURN_IF_ERROR(source->Start());
  if (options.mds.encodings.empty()) return source;
  SHARDKIT_ASSIGN_OR_RETURN(const std::vector<Column> columns, source->InitialColumns());
  for (const auto& [name, encoding] : options.mds.encodings) {
    SHARDKIT_RETURN_IF_ERROR(operations::CheckIsColumn("--encoding", name, columns));
  }
  return source;
}

absl::StatusOr<DatasetWriterOptions> operations::NativeOptionsOf(const operations::DatasetSource& source,
                                                                 const ConvertOptions& options) {
  DatasetWriterOptions native = options.pack.dataset;
  SHARDKIT_ASSIGN_OR_RETURN(native.job, JobOf(source, options));
  for (const auto& [name, value] : source.metadata()) native.shard.metadata.emplace(name, value);
  return native;
}

absl::StatusOr<Schema> operations::SchemaOf(operations::DatasetSource& source, const PackOptions& options) {
  SHARDKIT_ASSIGN_OR_RETURN(std::vector<Column> columns, operations::FirstColumns(source, options));
  auto schema = Schema::Create(std::move(columns));
  return schema.ok() ? schema : Annotate(schema.status(), source.input().dataset->path());
}

std::string_view ContainerName(Container container) {
  switch (container) {
    case Container::kShard:
      return "shard";
    case Container::kMds:
      return "mds";
    case Container::kWebDataset:
      return "webdataset";
  }
  return "?";
}

absl::StatusOr<PackReport> operations::ConvertToShards(FileSystem& file_system, operations::DatasetSource& source,
                                                       const std::string& output, const ConvertOptions& options,
                                                       dataset::DuplicateKeyCheck repeated) {
  SHARDKIT_ASSIGN_OR_RETURN(const Schema schema, operations::SchemaOf(source, options.pack));
  SHARDKIT_ASSIGN_OR_RETURN(const DatasetWriterOptions native, operations::NativeOptionsOf(source, options));
  SHARDKIT_ASSIGN_OR_RETURN(const auto job,
                            dataset::CreateUnitWriter(file_system, output, schema, native, dataset::JobKind::kUnits));
  if (repeated.take) job->OnDuplicateKey(std::move(repeated));
  return operations::RunPack(source, options.pack, *job, /*ends_shards=*/true);
}

absl::StatusOr<PackReport> Convert(FileSystem& file_system, const std::string& input, const std::string& output,
                                   const ConvertOptions& options) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto source, operations::OpenConversion(file_system, {input}, options));
  if (options.to == Container::kShard) return operations::ConvertToShards(file_system, *source, output, options);
  SHARDKIT_ASSIGN_OR_RETURN(const Schema schema, operations::SchemaOf(*source, options.pack));
  SHARDKIT_ASSIGN_OR_RETURN(const auto job, CreateForeignJob(file_system, *source, schema, output, options));
  return operations::RunPack(*source, options.pack, *job, /*ends_shards=*/false);
}

absl::StatusOr<PackReport> DryRunConvert(FileSystem& file_system, const std::string& input,
                                         const ConvertOptions& options) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto source, operations::OpenConversion(file_system, {input}, options));
  return operations::DryRun(*source, options.pack);
}

}  // namespace shardkit
