#include "shardkit/convert.h"

#include <algorithm>

#include <memory>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "convert/conversion_plan.h"
#include "convert/dataset_source.h"
#include "convert/packer.h"
#include "io/publish_file.h"
#include "shardkit/dataset_reader.h"

namespace shardkit {
namespace {

constexpr uint64_t kMaxOriginBytes = uint64_t{16} << 20;

// An input with all that is needed to read its samples in their new form.
struct Input {
  std::unique_ptr<DatasetReader> dataset;
  ConversionPlan plan;
};

absl::StatusOr<std::optional<Manifest>> ReadOrigin(FileSystem& file_system, const DatasetReader& dataset) {
  if (dataset.container() == "shard") return std::nullopt;
  SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, file_system.Stat(dataset.path()));
  const bool is_directory = info.type == FileType::kDirectory;
  const std::string path = JoinPath(is_directory ? dataset.path() : ParentDirectory(dataset.path()), kOriginName);
  const auto text = file_system.ReadFile(path, kMaxOriginBytes);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  if (!text.ok()) return text.status();
  auto origin = ParseManifest(*text);
  if (!origin.ok()) return Annotate(origin.status(), StrCat(path, " (remove it to convert without what it says)"));
  return *std::move(origin);
}

absl::StatusOr<Input> OpenInput(FileSystem& file_system, const std::string& path, const ConvertOptions& options) {
  Input input;
  DatasetOptions dataset_options;
  dataset_options.columns = options.columns;
  // Chosen columns are read with the key.
  if (!options.columns.empty()) {
    SHARDKIT_ASSIGN_OR_RETURN(const auto all, DatasetReader::Open(file_system, path));
    for (const Column& column : all->columns()) {
      const bool key = options.key_column ? column.name == *options.key_column : column.is_key;
      const auto& names = options.columns;
      if (key && std::ranges::find(names, column.name) == names.end()) {
        dataset_options.columns.insert(dataset_options.columns.begin(), column.name);
      }
    }
  }
  SHARDKIT_ASSIGN_OR_RETURN(input.dataset, DatasetReader::Open(file_system, path, dataset_options));
  SHARDKIT_ASSIGN_OR_RETURN(std::optional<Manifest> origin, ReadOrigin(file_system, *input.dataset));
  SHARDKIT_ASSIGN_OR_RETURN(input.plan, PlanConversion(*input.dataset, std::move(origin), options));
  return input;
}

// What a run must have in common with the one that it resumes.
std::string JobOf(const Input& input, const ConvertOptions& options) {
  std::string job = StrCat(options.pack.dataset.job, "\nconvert to ", ContainerName(options.to), " ", input.dataset->sample_count(), " ",
                           options.pack.partition, "/", options.pack.partition_count, options.pack.skip_errors ? " skip" : " fail",
                           options.lossy ? " lossy" : "", "\n");
  for (const ManifestShard& shard : input.dataset->manifest().shards) {
    job += StrCat(shard.name, " ", shard.bytes, " ", ToHex(shard.content_hash), "\n");
  }
  return job;
}

absl::StatusOr<std::unique_ptr<DatasetWriter>> CreateWriter(FileSystem& file_system, const Input& input, const Schema& schema,
                                                            const std::string& output, const ConvertOptions& options) {
  const DatasetWriterOptions& common = options.pack.dataset;
  const auto prepare = [&](ForeignWriterOptions& writer_options) {
    writer_options.threads = common.threads;
    writer_options.resume = common.resume;
    writer_options.job = JobOf(input, options);
    writer_options.cancellation = common.cancellation;
    writer_options.origin = input.plan.origin;
  };
  switch (options.to) {
    case Container::kMds: {
      MdsWriterOptions mds = options.mds;
      prepare(mds);
      // Those that were asked for stay.
      mds.encodings.insert(input.plan.mds_encodings.begin(), input.plan.mds_encodings.end());
      return CreateMdsWriter(file_system, output, schema, mds);
    }
    case Container::kWebDataset: {
      WebDatasetWriterOptions webdataset = options.webdataset;
      prepare(webdataset);
      return CreateWebDatasetWriter(file_system, output, schema, webdataset);
    }
    case Container::kShard:
      break;
  }
  DatasetWriterOptions native = common;
  native.job = JobOf(input, options);
  for (const auto& [name, value] : input.plan.origin.metadata) native.shard.metadata.emplace(name, value);
  return DatasetWriter::Create(file_system, output, schema, native);
}

}  // namespace

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

absl::StatusOr<PackReport> Convert(FileSystem& file_system, const std::string& input_path, const std::string& output,
                                   const ConvertOptions& options) {
  SHARDKIT_RETURN_IF_ERROR(CheckPackOptions(options.pack));
  SHARDKIT_ASSIGN_OR_RETURN(const Input input, OpenInput(file_system, input_path, options));
  DatasetSource source(*input.dataset, input.plan);
  SHARDKIT_RETURN_IF_ERROR(source.Start());
  SHARDKIT_ASSIGN_OR_RETURN(std::vector<Column> columns, source.InitialColumns());
  auto schema = Schema::Create(std::move(columns));
  if (!schema.ok()) return Annotate(schema.status(), input_path);
  SHARDKIT_ASSIGN_OR_RETURN(const auto writer, CreateWriter(file_system, input, *schema, output, options));
  return PackInto(file_system, source, output, options.pack, *writer);
}

absl::StatusOr<PackReport> DryRunConvert(FileSystem& file_system, const std::string& input_path, const ConvertOptions& options) {
  SHARDKIT_RETURN_IF_ERROR(CheckPackOptions(options.pack));
  SHARDKIT_ASSIGN_OR_RETURN(const Input input, OpenInput(file_system, input_path, options));
  DatasetSource source(*input.dataset, input.plan);
  SHARDKIT_RETURN_IF_ERROR(source.Start());
  return PackNowhere(source, options.pack);
}

}  // namespace shardkit
