// The kinds of files that rows come from.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "shardkit/change.h"
#include "shardkit/filesystem.h"

namespace shardkit::operations {

// As OpenColumnRows says. Errors name the file.
absl::StatusOr<std::unique_ptr<ColumnRows>> OpenNdjsonRows(std::unique_ptr<RandomAccessFile> file,
                                                           const ColumnRowsOptions& options);
absl::StatusOr<std::unique_ptr<ColumnRows>> OpenNpyRows(std::unique_ptr<RandomAccessFile> file,
                                                        const ColumnRowsOptions& options);
absl::StatusOr<std::unique_ptr<ColumnRows>> OpenDatasetRows(ReadableFileSystem& file_system, const std::string& path,
                                                            const ColumnRowsOptions& options);

}  // namespace shardkit::operations
