// The samples of a source on their way into a dataset: loaded by threads, stored in listing order.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/dataset_writer.h"
#include "shardkit/filesystem.h"
#include "shardkit/pack.h"
#include "shardkit/source.h"

namespace shardkit {

// OutOfRange, listing the columns there are, when `name`, given by `option` ("--codec"), is none of them.
absl::Status CheckIsColumn(std::string_view option, std::string_view name, const std::vector<Column>& columns);

// The same for the columns that the options for the output name.
absl::Status CheckColumnsOf(const DatasetWriterOptions& options, const std::vector<Column>& columns);

// The source's columns before any sample, after the checks and the note that they allow.
absl::StatusOr<std::vector<Column>> FirstColumns(Source& source, const PackOptions& options);

// Stores all samples (or the partition) that the writer does not have yet, and finishes it. On failure it is aborted,
// or suspended with keep_on_cancel. OutOfRange, after which nothing is kept, when options.dataset names a column that
// no sample had; of a partition that is known only where the source knows all columns.
absl::StatusOr<PackReport> PackInto(FileSystem& file_system, Source& source, const PackOptions& options,
                                    DatasetWriter& writer);

// Loads them, and stores nothing. The report's manifest is that of the columns known beforehand.
absl::StatusOr<PackReport> PackNowhere(Source& source, const PackOptions& options);

}  // namespace shardkit
