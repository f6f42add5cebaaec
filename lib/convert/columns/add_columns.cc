#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "convert/columns/row_match.h"
#include "dataset/change/column_file_writer.h"
#include "dataset/dataset_files.h"
#include "dataset/dataset_update.h"
#include "dataset/read/any_dataset_reader.h"
#include "dataset/read/removed_samples.h"
#include "dataset/stored_columns.h"
#include "shardkit/change.h"

namespace shardkit {
namespace {

// Writes the rows as column files of the dataset in input.directory, with these columns, which have their stored names.
// Samples without a row have no values.
absl::StatusOr<std::vector<ColumnFile>> WriteFiles(const convert::MatchInput& input, const Manifest& after,
                                                   const Schema& schema, convert::PlacedRows& rows) {
  dataset::ColumnFileWriter writer(input.file_system, input.directory, after.generation, schema, input.options.threads,
                                   input.options.cancellation);
  if (std::ranges::any_of(after.shards, [](const ManifestShard& shard) { return shard.sha256.has_value(); })) {
    writer.HashFiles();
  }
  std::vector<convert::RowValue> ahead(schema.size());  // the values of sample `next`
  std::vector<std::optional<Value>> row(schema.size());
  uint64_t next = 0;
  SHARDKIT_ASSIGN_OR_RETURN(bool more, rows.Next(&next, ahead));
  const auto write = [&](const DatasetBlock& base) -> absl::Status {
    for (uint64_t sample = base.first_sample; sample < base.first_sample + base.sample_count; ++sample) {
      const bool present = more && next == sample;
      for (size_t i = 0; i < row.size(); ++i) {
        row[i].reset();
        if (present && ahead[i]) row[i].emplace(*ahead[i]);
      }
      if (absl::Status status = writer.Append(row); !status.ok()) {
        return Annotate(status, StrCat("the value of sample ", sample));
      }
      if (!present) continue;
      SHARDKIT_ASSIGN_OR_RETURN(more, rows.Next(&next, ahead));
    }
    SHARDKIT_RETURN_IF_ERROR(writer.EndBlock(base.first_sample));
    if (input.options.progress) {
      input.options.progress(base.first_sample + base.sample_count, input.stored.sample_count());
    }
    return absl::OkStatus();
  };
  SHARDKIT_RETURN_IF_ERROR(input.stored.ForEachBlock(write));
  if (more) return Internal(input.directory, ": a row belongs to sample ", next, ", which is in no block");
  return writer.Finish();
}

// The columns that are added: the columns of the rows but the key.
absl::StatusOr<Schema> AddedColumns(const Schema& rows, const Manifest& manifest, bool all_have_values) {
  const std::optional<size_t> key = manifest.schema.key_column();
  std::vector<Column> columns;
  for (const Column& given : rows.columns()) {
    if (given.is_key) continue;
    if (key && manifest.schema[*key].name == given.name) {
      return InvalidArgument("column \"", given.name, "\": is the key of the samples, which stays as it is");
    }
    Column column = given;
    column.nullable = column.nullable || !all_have_values;
    columns.push_back(std::move(column));
  }
  if (columns.empty()) return InvalidArgument("there is no column to add besides the key");
  return Schema::Create(std::move(columns));
}

absl::StatusOr<AddColumnsReport> Add(FileSystem& file_system, const std::string& directory,
                                     dataset::DatasetUpdate& update, ColumnRows& rows,
                                     const AddColumnsOptions& options) {
  const Manifest& before = update.before();
  AddColumnsReport report;
  report.samples = before.seen_samples();
  // Refused before anything is read.
  SHARDKIT_RETURN_IF_ERROR(Annotate(AddedColumns(rows.schema(), before, true).status(), directory));
  if (before.sample_count == 0) {
    return FailedPrecondition(directory, ": has no samples, whose values could be added; pack some first");
  }
  DatasetOptions reading;
  const bool by_key = rows.schema().key_column().has_value();
  if (by_key) {
    const std::optional<size_t> key = before.schema.key_column();
    if (!key) {
      return FailedPrecondition(directory,
                                ": has no column of keys to match rows with; leave out the key: rows then "
                                "have the order of the samples");
    }
    reading.columns = {before.schema[*key].name};
  }
  SHARDKIT_ASSIGN_OR_RETURN(const auto stored, dataset::OpenWithRemoved(file_system, directory, reading));
  dataset::RemovedList removed;
  if (before.removed) {
    SHARDKIT_ASSIGN_OR_RETURN(removed,
                              dataset::RemovedList::Read(file_system, directory, *before.removed, before.sample_count));
  }
  const convert::MatchInput input{file_system, directory, *stored, removed, rows, options};
  absl::StatusOr<std::unique_ptr<convert::PlacedRows>> placed =
      by_key ? convert::PlaceByKey(input, &report) : convert::PlaceByOrder(input, &report);
  SHARDKIT_RETURN_IF_ERROR(placed.status());
  const bool replaces = std::ranges::any_of(
      rows.schema().columns(), [&](const Column& column) { return !column.is_key && before.schema.Find(column.name); });
  if (by_key && report.matched == 0 && report.rows > 0 && replaces) {
    return InvalidArgument(directory, ": no sample has a key of the rows, as \"", report.unmatched_keys.at(0),
                           "\": values would be replaced by none; is that the column with the keys?");
  }
  const bool all_have_values = by_key ? report.matched == before.sample_count : removed.size() == 0;
  SHARDKIT_ASSIGN_OR_RETURN(const Schema schema, AddedColumns(rows.schema(), before, all_have_values));
  Manifest after = before;
  after.BeginGeneration({.name = "columns", .arguments = {}});
  dataset::ColumnEdit edit(before);
  std::vector<Column> stored_columns = schema.columns();
  std::set<std::string> used = dataset::UsedStoredNames(before);
  for (Column& column : stored_columns) {
    dataset::ColumnEdit::EditedColumn added{column, dataset::NewStoredName(column.name, after.generation, &used)};
    column.name = added.stored_name;
    report.columns.push_back(added.column.name);
    dataset::ColumnEdit::EditedColumn* const old = edit.Find(added.column.name);
    after.operation.arguments[old == nullptr ? "add" : "replace"].push_back(added.column.name);
    if (old == nullptr) {
      edit.columns.push_back(std::move(added));
    } else {
      if (added.column.metadata.empty()) added.column.metadata = std::move(old->column.metadata);
      report.replaced.push_back(added.column.name);
      *old = std::move(added);
    }
  }
  SHARDKIT_ASSIGN_OR_RETURN(const Schema stored_schema, Schema::Create(std::move(stored_columns)));
  SHARDKIT_ASSIGN_OR_RETURN(std::vector<ColumnFile> files, WriteFiles(input, after, stored_schema, **placed));
  placed->reset();  // and its temporary file
  SHARDKIT_RETURN_IF_ERROR(Annotate(std::move(edit).Apply(&after), directory));
  report.files = files.size();
  for (ColumnFile& file : files) {
    report.bytes += file.bytes;
    after.column_files.push_back(std::move(file));
  }
  report.generation = after.generation;
  SHARDKIT_RETURN_IF_ERROR(update.Publish(&after));
  return report;
}

}  // namespace

absl::StatusOr<AddColumnsReport> AddColumns(FileSystem& file_system, const std::string& directory, ColumnRows& rows,
                                            const AddColumnsOptions& options) {
  return Guarded("adding columns", [&]() -> absl::StatusOr<AddColumnsReport> {
    SHARDKIT_ASSIGN_OR_RETURN(const auto update, dataset::BeginChange(file_system, directory));
    absl::StatusOr<AddColumnsReport> report = Add(file_system, directory, *update, rows, options);
    // The first error is reported, even when the cleanup fails too: the next change then does it.
    if (!report.ok()) (void)update->Abort();
    return report;
  });
}

}  // namespace shardkit
