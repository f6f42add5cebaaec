#include "operations/columns/open_rows.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "operations/json_lines.h"

namespace shardkit {
namespace {

absl::StatusOr<std::unique_ptr<ColumnRows>> Open(ReadableFileSystem& file_system, const std::string& path,
                                                 const ColumnRowsOptions& options) {
  SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, file_system.Stat(path));
  if (info.type == FileType::kDirectory) return operations::OpenDatasetRows(file_system, path, options);
  SHARDKIT_ASSIGN_OR_RETURN(std::unique_ptr<RandomAccessFile> file, file_system.OpenForReading(path));
  char front[256];
  const std::span<char> begin(front, std::min<uint64_t>(file->size(), sizeof(front)));
  SHARDKIT_RETURN_IF_ERROR(file->ReadAt(0, begin));
  const std::string_view text(begin.data(), begin.size());
  if (text.starts_with("\x93NUMPY")) return operations::OpenNpyRows(std::move(file), options);
  if (text.starts_with("PAR1")) {
    return InvalidArgument(path, ": Parquet is read by the Python package: shardkit.add_columns(DATASET, \"", path,
                           "\", key=...)");
  }
  const size_t first = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  const bool named = operations::IsJsonLinesName(path) || path.ends_with(".json");
  if (!named && text.starts_with("\x1f\x8b")) {
    return InvalidArgument(path,
                           ": is compressed by gzip; decompress it, or name it *.jsonl.gz if it has lines of JSON");
  }
  if (text.empty() && !named) return InvalidArgument(path, ": is empty");
  if (named || (first != text.npos && text[first] == '{')) return operations::OpenNdjsonRows(std::move(file), options);
  absl::StatusOr<std::unique_ptr<ColumnRows>> rows = operations::OpenDatasetRows(file_system, path, options);
  if (absl::IsDataLoss(rows.status())) {
    return InvalidArgument(path, ": is neither NDJSON, NPY nor a dataset: ", ToStd(rows.status().message()));
  }
  return rows;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ColumnRows>> OpenColumnRows(ReadableFileSystem& file_system, const std::string& path,
                                                           const ColumnRowsOptions& options) {
  return Guarded("opening rows", [&] { return Open(file_system, path, options); });
}

}  // namespace shardkit
