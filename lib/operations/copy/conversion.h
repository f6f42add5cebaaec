// What converting at once and in tasks have in common.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "dataset/write/duplicate_key_finder.h"
#include "operations/sources/dataset_source.h"
#include "shardkit/copy.h"
#include "shardkit/schema.h"

namespace shardkit::operations {

// The samples of the datasets at `paths`, one after the other. InvalidArgument for options that do not fit them, or
// each other.
absl::StatusOr<std::unique_ptr<DatasetSource>> OpenConversion(FileSystem& file_system,
                                                              const std::vector<std::string>& paths,
                                                              const ConvertOptions& options);

// The schema of the new dataset, before any sample is looked at.
absl::StatusOr<Schema> SchemaOf(DatasetSource& source, const PackOptions& options);

// The options of the new dataset in our own container, with its job and its metadata.
absl::StatusOr<DatasetWriterOptions> NativeOptionsOf(const DatasetSource& source, const ConvertOptions& options);

// Converts the samples to a new dataset in our own container.
absl::StatusOr<PackReport> ConvertToShards(FileSystem& file_system, DatasetSource& source, const std::string& output,
                                           const ConvertOptions& options, dataset::DuplicateKeyCheck repeated = {});

}  // namespace shardkit::operations
