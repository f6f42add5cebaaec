// The samples of a source on their way into a dataset: loaded by threads, stored in listing order.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "shardkit/dataset_writer.h"
#include "shardkit/filesystem.h"
#include "shardkit/pack.h"
#include "shardkit/source.h"

namespace shardkit {

// Stores all samples (or the partition) that the writer does not have yet, and finishes it. On failure it is aborted,
// or suspended with keep_on_cancel.
absl::StatusOr<PackReport> PackInto(FileSystem& file_system, Source& source, const PackOptions& options,
                                    DatasetWriter& writer);

// Loads them, and stores nothing. The report's manifest is that of the columns known beforehand.
absl::StatusOr<PackReport> PackNowhere(Source& source, const PackOptions& options);

}  // namespace shardkit
