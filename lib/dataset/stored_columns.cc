#include "dataset/stored_columns.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "dataset/write/schema_mapper.h"

namespace shardkit::dataset {

std::set<std::string> UsedStoredNames(const ManifestSummary& manifest) {
  std::set<std::string> used(manifest.dropped.begin(), manifest.dropped.end());
  for (const Column& column : manifest.schema.columns()) used.emplace(manifest.StoredName(column.name));
  return used;
}

std::string NewStoredName(std::string_view name, uint64_t generation, std::set<std::string>* used) {
  std::string stored(name);
  for (uint64_t number = 0; !used->insert(stored).second; ++number) {
    const std::string end = StrCat("@", generation, number == 0 ? "" : StrCat("-", number));
    // Names of the greatest length are cut, before a byte that begins a character.
    size_t length = std::min(name.size(), kMaxColumnNameBytes - end.size());
    while (length > 0 && length < name.size() && (static_cast<uint8_t>(name[length]) & 0xC0) == 0x80) --length;
    stored = StrCat(name.substr(0, length), end);
  }
  return stored;
}

Schema WithStoredNames(const ManifestSummary& manifest, const Schema& schema) {
  ManifestSummary part;
  part.schema = schema;
  part.stored_names = manifest.stored_names;
  return part.StoredSchema();
}

absl::StatusOr<Schema> WithKeyOf(const ManifestSummary& manifest, const Schema& appended) {
  const std::optional<size_t> key = manifest.schema.key_column(), given = appended.key_column();
  if (!key || !given) return appended;
  const std::string& name = manifest.schema[*key].name;
  if (const auto clash = appended.Find(name); clash && clash != given) {
    return InvalidArgument("column \"", name, "\" has the name of the dataset's key");
  }
  std::vector<Column> columns = appended.columns();
  columns[*given].name = name;
  return Schema::Create(std::move(columns));
}

absl::Status AppendColumns(const Schema& appended, Manifest* manifest) {
  SHARDKIT_ASSIGN_OR_RETURN(const Schema merged, MergeSchemas(manifest->schema, appended));
  std::vector<Column> columns = merged.columns();
  std::set<std::string> used = UsedStoredNames(*manifest);
  for (Column& column : columns) {
    const auto before = manifest->schema.Find(column.name);
    const auto now = appended.Find(column.name);
    if (!before) {
      std::string stored = NewStoredName(column.name, manifest->generation, &used);
      if (stored != column.name) manifest->stored_names[column.name] = std::move(stored);
      continue;
    }
    // What the samples say nothing of stays, unlike what they contradict.
    column.metadata = manifest->schema[*before].metadata;
    if (!now) continue;
    std::erase_if(column.metadata, [&](const auto& entry) {
      const auto found = appended[*now].metadata.find(entry.first);
      return found != appended[*now].metadata.end() && found->second != entry.second;
    });
  }
  SHARDKIT_ASSIGN_OR_RETURN(manifest->schema, Schema::Create(std::move(columns)));
  return absl::OkStatus();
}

ColumnEdit::ColumnEdit(const ManifestSummary& manifest) {
  for (const Column& column : manifest.schema.columns()) {
    columns.push_back({column, std::string(manifest.StoredName(column.name))});
  }
}

ColumnEdit::EditedColumn* ColumnEdit::Find(std::string_view name) {
  const auto found = std::ranges::find(columns, name, [](const EditedColumn& each) { return each.column.name; });
  return found == columns.end() ? nullptr : &*found;
}

absl::Status ColumnEdit::NoColumn(std::string_view name) const {
  std::vector<Column> seen;
  for (const EditedColumn& each : columns) seen.push_back(each.column);
  return NoSuchColumn(name, seen);
}

absl::Status ColumnEdit::Apply(Manifest* manifest) && {
  std::set<std::string> dropped = UsedStoredNames(*manifest);
  std::vector<Column> seen;
  manifest->stored_names.clear();
  for (EditedColumn& each : columns) {
    dropped.erase(each.stored_name);
    if (each.stored_name != each.column.name) manifest->stored_names[each.column.name] = std::move(each.stored_name);
    seen.push_back(std::move(each.column));
  }
  SHARDKIT_ASSIGN_OR_RETURN(manifest->schema, Schema::Create(std::move(seen)));
  manifest->dropped.assign(dropped.begin(), dropped.end());
  if (manifest->shards.empty()) {
    // No file has a stored column.
    manifest->stored_names.clear();
    manifest->dropped.clear();
  }
  std::erase_if(manifest->column_files, [&](const ColumnFile& file) {
    return std::ranges::all_of(file.columns, [&](const std::string& name) { return dropped.contains(name); });
  });
  return absl::OkStatus();
}

}  // namespace shardkit::dataset
