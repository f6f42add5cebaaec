#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "dataset/change/dataset_update.h"
#include "dataset/stored_columns.h"
#include "shardkit/change.h"

namespace shardkit {
namespace {

// Publishes what `change` makes of the columns. `arguments` describe it in the manifest.
absl::StatusOr<uint64_t> Change(FileSystem& file_system, const std::string& directory,
                                const std::map<std::string, std::vector<std::string>>& arguments,
                                const std::function<absl::Status(dataset::ColumnEdit&)>& change) {
  return Guarded("changing columns", [&]() -> absl::StatusOr<uint64_t> {
    SHARDKIT_ASSIGN_OR_RETURN(const auto update, dataset::BeginChange(file_system, directory));
    uint64_t generation = update->before().generation;
    const auto publish = [&]() -> absl::Status {
      Manifest after = update->before();
      dataset::ColumnEdit edit(after);
      SHARDKIT_RETURN_IF_ERROR(change(edit));
      SHARDKIT_RETURN_IF_ERROR(std::move(edit).Apply(&after));
      if (after.schema == update->before().schema) return update->Release();
      after.BeginGeneration({.name = "columns", .arguments = arguments});
      generation = after.generation;
      return update->Publish(&after);
    };
    if (absl::Status status = publish(); !status.ok()) {
      (void)update->Abort();
      // Errors of files name them already.
      const bool of_change = absl::IsInvalidArgument(status) || absl::IsOutOfRange(status);
      return of_change ? Annotate(status, directory) : status;
    }
    return generation;
  });
}

}  // namespace

absl::StatusOr<uint64_t> DropColumns(FileSystem& file_system, const std::string& directory,
                                     const std::vector<std::string>& columns) {
  const auto change = [&](dataset::ColumnEdit& edit) -> absl::Status {
    for (const std::string& name : columns) {
      const dataset::ColumnEdit::EditedColumn* const found = edit.Find(name);
      if (found == nullptr) return edit.NoColumn(name);
      if (found->column.is_key) return InvalidArgument("column \"", name, "\": is the key of the samples, and stays");
      edit.columns.erase(edit.columns.begin() + (found - edit.columns.data()));
    }
    if (columns.empty()) return InvalidArgument("no column is named");
    if (edit.columns.empty()) return InvalidArgument("a dataset has at least one column");
    return absl::OkStatus();
  };
  return Change(file_system, directory, {{"drop", columns}}, change);
}

absl::StatusOr<uint64_t> RenameColumns(FileSystem& file_system, const std::string& directory,
                                       const std::vector<std::pair<std::string, std::string>>& names) {
  const auto change = [&](dataset::ColumnEdit& edit) -> absl::Status {
    std::vector<std::pair<dataset::ColumnEdit::EditedColumn*, const std::string*>> renamed;
    for (const auto& [from, to] : names) {
      dataset::ColumnEdit::EditedColumn* const found = edit.Find(from);
      if (found == nullptr) return edit.NoColumn(from);
      if (std::ranges::count(names, from, [](const auto& each) { return each.first; }) > 1) {
        return InvalidArgument("column \"", from, "\": gets two names");
      }
      if (from == to) return InvalidArgument("column \"", from, "\": has that name already");
      renamed.emplace_back(found, &to);
    }
    if (names.empty()) return InvalidArgument("no column is named");
    for (const auto& [column, to] : renamed) column->column.name = *to;
    std::set<std::string_view> seen;
    for (const dataset::ColumnEdit::EditedColumn& each : edit.columns) {
      if (!seen.insert(each.column.name).second) {
        return InvalidArgument("two columns would have the name \"", each.column.name, "\"; drop one first");
      }
    }
    return absl::OkStatus();
  };
  std::map<std::string, std::vector<std::string>> arguments;
  for (const auto& [from, to] : names) {
    arguments["rename"].push_back(from);
    arguments["to"].push_back(to);
  }
  return Change(file_system, directory, arguments, change);
}

absl::StatusOr<uint64_t> SetColumnMetadata(FileSystem& file_system, const std::string& directory,
                                           const std::string& column, const Metadata& changes) {
  const auto change = [&](dataset::ColumnEdit& edit) -> absl::Status {
    dataset::ColumnEdit::EditedColumn* const found = edit.Find(column);
    if (found == nullptr) return edit.NoColumn(column);
    if (changes.empty()) return InvalidArgument("no metadata is named");
    for (const auto& [name, value] : changes) {
      SHARDKIT_RETURN_IF_ERROR(CheckName(name, "metadata name"));
      if (!ValidUtf8(value)) return InvalidArgument("metadata \"", name, "\" is not valid UTF-8");
      if (value.empty()) {
        found->column.metadata.erase(name);
        continue;
      }
      found->column.metadata[name] = value;
      if (name == kClassNames) SHARDKIT_RETURN_IF_ERROR(ClassNames(found->column).status());
    }
    return absl::OkStatus();
  };
  return Change(file_system, directory, {{"describe", {column}}}, change);
}

}  // namespace shardkit
