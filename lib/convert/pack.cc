#include "shardkit/pack.h"

#include <utility>

#include "base/status_macros.h"
#include "base/strings.h"
#include "convert/packer.h"
#include "dataset/job_record.h"

namespace shardkit {

absl::StatusOr<PackReport> Pack(FileSystem& file_system, Source& source, const std::string& directory,
                                const PackOptions& options) {
  SHARDKIT_RETURN_IF_ERROR(CheckPartition(options.dataset.partition, options.dataset.partition_count));
  DatasetWriterOptions writer_options = options.dataset;
  writer_options.shard.metadata["shardkit.source"] = std::string(source.name());
  writer_options.job += StrCat("\n", source.name(), options.skip_errors ? " skip" : " fail");
  for (auto& [name, value] : source.metadata()) writer_options.shard.metadata[name] = value;
  SHARDKIT_ASSIGN_OR_RETURN(std::vector<Column> columns, FirstColumns(source, options));
  SHARDKIT_ASSIGN_OR_RETURN(const Schema schema, Schema::Create(std::move(columns)));
  SHARDKIT_ASSIGN_OR_RETURN(const std::unique_ptr<DatasetWriter> writer,
                            DatasetWriter::Create(file_system, directory, schema, writer_options));
  return PackInto(file_system, source, options, *writer);
}

absl::StatusOr<PackReport> DryRunPack(Source& source, const PackOptions& options) {
  SHARDKIT_RETURN_IF_ERROR(CheckPartition(options.dataset.partition, options.dataset.partition_count));
  return PackNowhere(source, options);
}

}  // namespace shardkit
