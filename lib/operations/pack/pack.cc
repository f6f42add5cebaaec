#include "shardkit/pack.h"

#include <map>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "dataset/write/dataset_job.h"
#include "operations/pack/packer.h"
#include "operations/sources/file_source.h"
#include "operations/sources/source_names.h"

namespace shardkit {

absl::StatusOr<DatasetWriterOptions> operations::WriterOptionsOf(const Source& source, const PackOptions& options) {
  DatasetWriterOptions writer_options = options.dataset;
  writer_options.shard.metadata["shardkit.source"] = std::string(source.name());
  writer_options.job += StrCat("\n", source.name(), options.skip_errors ? " skip" : " fail");
  const auto* const files = dynamic_cast<const operations::FileSource*>(&source);
  if (files != nullptr && files->options().keep_hidden) writer_options.job += " keep-hidden";
  if (files != nullptr && !files->options().key.empty()) writer_options.job += StrCat("\nkey ", files->options().key);
  if (files != nullptr && !files->options().names.empty()) {
    writer_options.shard.metadata[std::string(operations::kNamesName)] = files->options().names;
    writer_options.job += StrCat("\nnames ", files->options().names);
  }
  for (const std::string& column : files == nullptr ? std::vector<std::string>() : files->options().file) {
    writer_options.job += StrCat("\nfile ", column);
  }
  if (files != nullptr && !files->options().root.empty())
    writer_options.job += StrCat("\nroot ", files->options().root);
  for (const auto& [column, type] : files == nullptr ? std::map<std::string, Type>() : files->options().types) {
    writer_options.job += StrCat("\ntype ", column, " ", TypeName(type));
  }
  for (const std::string& pattern : files == nullptr ? std::vector<std::string>() : files->options().include) {
    writer_options.job += StrCat("\ninclude ", pattern);
  }
  for (const std::string& pattern : files == nullptr ? std::vector<std::string>() : files->options().exclude) {
    writer_options.job += StrCat("\nexclude ", pattern);
  }
  if (files != nullptr && !files->options().follow_links) writer_options.job += " no-follow";
  if (files != nullptr && files->options().order == FolderOrder::kPath) writer_options.job += " path-order";
  SHARDKIT_ASSIGN_OR_RETURN(const std::string inputs, source.Identity());
  if (!inputs.empty()) writer_options.job += StrCat("\n", inputs);
  for (auto& [name, value] : source.metadata()) writer_options.shard.metadata[name] = value;
  return writer_options;
}

absl::StatusOr<PackReport> Pack(FileSystem& file_system, Source& source, const std::string& directory,
                                const PackOptions& options) {
  if (options.limit != UINT64_MAX && options.dataset.resume) {
    return InvalidArgument("limit is for trying a source: not with resume");
  }
  SHARDKIT_ASSIGN_OR_RETURN(const DatasetWriterOptions writer_options, operations::WriterOptionsOf(source, options));
  SHARDKIT_ASSIGN_OR_RETURN(std::vector<Column> columns, operations::FirstColumns(source, options));
  SHARDKIT_ASSIGN_OR_RETURN(const Schema schema, Schema::Create(std::move(columns)));
  SHARDKIT_ASSIGN_OR_RETURN(
      const std::unique_ptr<dataset::DatasetJob> job,
      dataset::CreateUnitWriter(file_system, directory, schema, writer_options, dataset::JobKind::kUnits));
  return operations::RunPack(source, options, *job, /*ends_shards=*/true);
}

absl::StatusOr<PackReport> DryRunPack(Source& source, const PackOptions& options) {
  return operations::DryRun(source, options);
}

}  // namespace shardkit
