// Moves the samples of a source into a dataset: threads load them, and they are stored in listing order.
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

// OutOfRange, with a list of the existing columns, when none of them is `name`. `option` ("--codec") gave the name.
absl::Status CheckIsColumn(std::string_view option, std::string_view name, const std::vector<Column>& columns);

// The same check for every column that the output options name.
absl::Status CheckColumnsOf(const DatasetWriterOptions& options, const std::vector<Column>& columns);

// The columns that the source knows before any sample. Makes the checks that are possible then, and gives the note.
absl::StatusOr<std::vector<Column>> FirstColumns(Source& source, const PackOptions& options);

// Stores all samples (or those of the partition) that the writer does not have yet, and finishes the writer. On failure
// the writer is aborted, or suspended with keep_on_cancel. OutOfRange when options.dataset names a column that no
// sample had; then nothing is kept. For a partition this is known only when the source knows all columns.
absl::StatusOr<PackReport> PackInto(FileSystem& file_system, Source& source, const PackOptions& options,
                                    DatasetWriter& writer);

// Loads the samples and stores nothing. The report's manifest has the columns known before any sample.
absl::StatusOr<PackReport> PackNowhere(Source& source, const PackOptions& options);

}  // namespace shardkit
