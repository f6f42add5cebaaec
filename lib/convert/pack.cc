#include "shardkit/pack.h"

#include <utility>

#include "base/status_macros.h"
#include "base/strings.h"
#include "convert/packer.h"
#include "convert/sources/dataset_source.h"
#include "convert/sources/file_source.h"
#include "dataset/dataset_job.h"

namespace shardkit {

absl::StatusOr<DatasetWriterOptions> convert::WriterOptionsOf(const Source& source, const PackOptions& options) {
  DatasetWriterOptions writer_options = options.dataset;
  writer_options.shard.metadata["shardkit.source"] = std::string(source.name());
  writer_options.job += StrCat("\n", source.name(), options.skip_errors ? " skip" : " fail");
  const auto* const files = dynamic_cast<const convert::FileSource*>(&source);
  if (files != nullptr && files->options().keep_hidden) writer_options.job += " keep-hidden";
  if (files != nullptr && !files->options().follow_links) writer_options.job += " no-follow";
  if (files != nullptr && files->options().order == FolderOrder::kPath) writer_options.job += " path-order";
  if (const auto* const datasets = dynamic_cast<const convert::DatasetSource*>(&source)) {
    SHARDKIT_ASSIGN_OR_RETURN(const std::string inputs, datasets->Identity());
    writer_options.job += StrCat("\n", inputs);
  }
  for (auto& [name, value] : source.metadata()) writer_options.shard.metadata[name] = value;
  return writer_options;
}

absl::StatusOr<PackReport> Pack(FileSystem& file_system, Source& source, const std::string& directory,
                                const PackOptions& options) {
  SHARDKIT_ASSIGN_OR_RETURN(const DatasetWriterOptions writer_options, convert::WriterOptionsOf(source, options));
  SHARDKIT_ASSIGN_OR_RETURN(std::vector<Column> columns, convert::FirstColumns(source, options));
  SHARDKIT_ASSIGN_OR_RETURN(const Schema schema, Schema::Create(std::move(columns)));
  SHARDKIT_ASSIGN_OR_RETURN(
      const std::unique_ptr<dataset::DatasetJob> job,
      dataset::CreateUnitJob(file_system, directory, schema, writer_options, dataset::JobKind::kUnits));
  return convert::PackInto(source, options, *job, /*ends_shards=*/true);
}

absl::StatusOr<PackReport> DryRunPack(Source& source, const PackOptions& options) {
  return convert::PackNowhere(source, options);
}

}  // namespace shardkit
