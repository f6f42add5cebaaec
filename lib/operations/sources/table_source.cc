#include "operations/sources/table_source.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "codec/content_type.h"
#include "dataset/dataset_files.h"
#include "operations/sources/source_names.h"

namespace shardkit::operations {
namespace {

constexpr uint64_t kInferredRows = 256;
constexpr uint64_t kLargestSchema = uint64_t{16} << 20;  // of Parquet

// Folders for the parts of a dataset (train, test, ...). In a store each costs requests.
constexpr size_t kMostSplits = 64;

class RowsUnit : public TarredUnit {
 public:
  explicit RowsUnit(const SourceInput& of) : input(of) { path = of.path; }

  // Resuming compares what stands in the rows.
  std::string Names(size_t sample) const override { return StrCat(absl::Hex(Hash64(row(sample)), absl::kZeroPad16)); }

  std::string_view row(size_t sample) const { return std::string_view(text).substr(begins[sample], bytes[sample]); }

  const SourceInput& input;
  std::shared_ptr<const TableFormat> format;
  std::string text;
  std::vector<size_t> begins;   // of each sample's row, in text
  std::vector<uint64_t> lines;  // of each sample, in the file
};

// The name of a file without its ending.
std::string_view StemOf(std::string_view name) {
  const std::string_view ending = LastExtension(BasePart(name));
  const size_t stem = BasePart(name).size() - ending.size();
  return ending.empty() || stem <= 1 ? name : name.substr(0, name.size() - ending.size() - 1);
}

// Adds the table of a directory. False if there is none, or two, or one that names no files. InvalidArgument for one
// that names several files in a row by one column, and for Parquet.
absl::StatusOr<bool> AddMetadata(const std::string& directory, const SourceOptions& options, Tables* found) {
  std::optional<std::string> path;
  for (const std::string_view name :
       {std::string_view("metadata.csv"), std::string_view("metadata.jsonl"), kParquetMetadataName}) {
    const std::string there = JoinPath(directory, name);
    SHARDKIT_ASSIGN_OR_RETURN(const bool exists, dataset::Exists(*options.file_system, there));
    if (!exists || !NameFilter(options).Takes(name, /*directory=*/false)) continue;
    if (path) return false;
    path = there;
  }
  if (!path) return false;
  // What cannot be read as a table is a file like others.
  auto file = options.file_system->OpenForReading(*path);
  if (!file.ok()) return false;
  if (path->ends_with(kParquetMetadataName)) {
    Value parquet;
    parquet.file = *std::move(file);
    if (!ParquetNamesFiles(parquet)) return false;
    return InvalidArgument(*path,
                           ": names files, as Hugging Face's metadata does, and Parquet is read by Python alone: ",
                           kParquetMetadataWay, "; --from files packs the files as they are");
  }
  const absl::StatusOr<std::unique_ptr<TableReader>> rows = TableReader::Open(*std::move(file));
  if (!rows.ok()) return false;
  constexpr std::string_view kName = "file_name", kEnding = "_file_name", kNames = "file_names";
  std::string_view text;
  std::vector<std::pair<std::string, std::string>> names;  // with the values of the first row
  std::string lists;                                       // a column of lists of files
  for (const std::string& name : (*rows)->format()->names) names.emplace_back(name, "");
  TableRow row;
  const absl::StatusOr<bool> more = (*rows)->Next(&text);
  if (!more.ok()) return false;
  if (*more && row.Read(*(*rows)->format(), text, *path).ok()) {
    names.clear();
    row.ForEach([&](std::string_view name, const TableValue& value) {
      std::string of_file;
      if (!value.AppendName(&of_file).ok()) of_file.clear();
      const bool list = value.IsJson() && !value.IsNull() && of_file.empty();
      if (list && (name == kNames || name.ends_with(StrCat("_", kNames)))) lists = name;
      names.emplace_back(name, std::move(of_file));
      return true;
    });
  }
  bool any = false;
  if (!lists.empty()) {
    return InvalidArgument(
        *path, ": column \"", lists,
        "\" names several files in a row, and a value is one file: give each a column of its own, in ",
        "Python (docs/recipes.md, Several images in a sample); --from files packs the files as they ",
        "are, --from table ", *path, " the rows with the names");
  }
  for (const auto& [name, value] : names) {
    if (name != kName && (!name.ends_with(kEnding) || name.size() == kEnding.size())) continue;
    any = true;
    const bool image = value.empty() || codec::IsImageExtension(LastExtension(value));
    std::string column = StrCat(name, "=",
                                name != kName ? std::string_view(name).substr(0, name.size() - kEnding.size())
                                : image       ? std::string_view("image")
                                              : kFileColumn);
    const auto same = [&, begin = StrCat(name, "=")](const std::string& other) { return other.starts_with(begin); };
    if (std::ranges::none_of(found->files, same)) {
      found->files.insert(name == kName ? found->files.begin() : found->files.end(),
                          std::move(column));  // it is the key
    }
  }
  if (any) found->inputs.push_back({.path = *path, .tar = true, .listed = nullptr});
  return any;
}

}  // namespace

// The columns of the first rows, in the order in which they came.
class TableSource::FoundColumns {
 public:
  void AddNames(const std::vector<std::string>& names) {
    for (const std::string& name : names) Find(name);
  }

  void Note(std::string_view name, const TableValue& value) {
    Found& found = Find(name);
    value.NoteIn(&found.kinds);
    found.json = found.json || value.IsJson();
  }

  bool Has(std::string_view name) const { return found_.contains(name); }
  const std::vector<std::string>& names() const { return names_; }

  // The type that takes all values. In CSV all values are texts, too.
  absl::StatusOr<Type> TypeOf(const std::string& name) const {
    const Found& found = found_.find(name)->second;
    const absl::StatusOr<Type> type = found.kinds.TypeOfAll();
    return type.ok() || found.json ? type : Type::kUtf8;
  }

 private:
  struct Found {
    JsonKinds kinds;
    bool json = false;
  };
  Found& Find(std::string_view name) {
    auto found = found_.find(name);
    if (found == found_.end()) {
      found = found_.emplace(std::string(name), Found()).first;
      names_.emplace_back(name);
    }
    return found->second;
  }

  std::vector<std::string> names_;
  std::map<std::string, Found, std::less<>> found_;
};

std::string TableSource::RowPlace::Text() const { return StrCat(input.path, ": line ", line); }

absl::StatusOr<std::unique_ptr<TableReader>> TableSource::OpenRows(const SourceInput& input) const {
  SHARDKIT_ASSIGN_OR_RETURN(auto file, options_.file_system->OpenForReading(input.path));
  return TableReader::Open(std::move(file));
}

absl::Status TableSource::ForFirstRows(absl::FunctionRef<void(const TableFormat&)> begin,
                                       absl::FunctionRef<bool(TableRow&, const RowPlace&)> take) const {
  TableRow row;
  uint64_t count = 0;
  for (const SourceInput& input : inputs_) {
    if (count == kInferredRows) break;
    SHARDKIT_ASSIGN_OR_RETURN(const auto rows, OpenRows(input));
    begin(*rows->format());
    std::string_view text;
    while (count < kInferredRows) {
      const absl::StatusOr<bool> more = rows->Next(&text);
      if (!more.ok() && !options_.skip_errors) return more.status();
      if (!more.ok() || !*more) break;
      const RowPlace place{input, rows->number()};
      if (const absl::Status status = row.Read(*rows->format(), text, place.Text()); !status.ok()) {
        if (options_.skip_errors) continue;  // Load reports it
        return status;
      }
      ++count;
      if (!take(row, place)) return absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

template <typename Has>
void TableSource::FindFileColumns(Has has) {
  file_columns_.clear();
  for (const std::string& file : options_.file) {
    const size_t equals = file.rfind('=');
    if (equals == file.npos || has(file)) {
      file_columns_.push_back({file, file});
    } else {
      file_columns_.push_back({file.substr(0, equals), file.substr(equals + 1)});
    }
  }
}

absl::StatusOr<std::vector<Column>> TableSource::InitialColumns() {
  FoundColumns found;
  uint64_t rows = 0;
  SHARDKIT_RETURN_IF_ERROR(ForFirstRows([&](const TableFormat& format) { found.AddNames(format.names); },
                                        [&](TableRow& row, const RowPlace&) {
                                          ++rows;
                                          row.ForEach([&](std::string_view name, const TableValue& value) {
                                            found.Note(name, value);
                                            return true;
                                          });
                                          return true;
                                        }));
  const std::string first = inputs_.empty() ? std::string() : inputs_[0].path;
  const bool any = rows > 0 || !found.names().empty();
  key_ = KeyColumn();
  if (!options_.key.empty()) key_.name = options_.key;
  if (!options_.key.empty() && !found.Has(key_.name)) {
    return NotFound(first, ": no row has the key, \"", key_.name, "\"");
  }
  FindFileColumns([&](const std::string& name) { return found.Has(name); });
  std::vector<std::string> order = found.names();
  for (const auto& [names, values] : file_columns_) {
    if (values == key_.name || (values != names && found.Has(values)) ||
        std::ranges::count(file_columns_, values, &FileColumn::values) > 1) {
      return InvalidArgument("--file ", names, ": there is another column \"", values, "\": --file ", names,
                             "=NAME gives the files one of their own");
    }
    if (!found.Has(names) && any) {
      return NotFound(first, ": no row has the column \"", names, "\", which --file names");
    }
    const auto place = std::ranges::find(order, names);
    if (values != names || place == order.end()) order.insert(place == order.end() ? place : place + 1, values);
  }
  const auto is_file = [&](std::string_view name) {
    return std::ranges::find(file_columns_, name, &FileColumn::values) != file_columns_.end();
  };
  for (const auto& [name, type] : options_.types) {
    if (name == key_.name) return InvalidArgument("--type ", name, ": is the key, whose type is utf8");
    if (is_file(name) && !IsByteString(type)) {
      return InvalidArgument("--type ", name, "=", TypeName(type), ": files are bytes, utf8, json, jpeg, png or image");
    }
    if (!is_file(name) && !IsJsonTarget(type)) {
      return InvalidArgument("--type ", name, "=", TypeName(type), ": values of JSON cannot be made that");
    }
    if (std::ranges::find(order, name) == order.end()) order.push_back(name);
  }
  columns_.clear();
  for (const std::string& name : order) {
    if (name == key_.name || is_file(name)) continue;
    Column column{.name = name, .codec = Codec::kZstd, .nullable = true};
    if (const auto asked = options_.types.find(name); asked != options_.types.end()) {
      column.type = asked->second;
    } else {
      const absl::StatusOr<Type> type = found.TypeOf(name);
      if (!type.ok()) {
        return Annotate(type.status(),
                        StrCat(first, ": column \"", name, "\" of the first ", rows, " rows (--type ", name, "=TYPE)"));
      }
      column.type = *type;
    }
    columns_.emplace(name, std::move(column));
  }
  std::map<std::string, Type, std::less<>> types;
  SHARDKIT_RETURN_IF_ERROR(FindFileTypes(&types));
  std::vector<Column> columns{key_};
  for (const std::string& name : order) {
    if (name == key_.name) continue;
    columns.push_back(is_file(name) ? *values_.Find(name, types.find(name)->second) : columns_.find(name)->second);
  }
  return columns;
}

absl::Status TableSource::FindFileTypes(std::map<std::string, Type, std::less<>>* types) {
  std::set<std::string_view> unknown;
  for (const FileColumn& column : file_columns_) {
    const std::optional<Type> asked = values_.Asked(column.values);
    types->emplace(column.values, asked.value_or(Type::kBytes));
    if (!asked) unknown.insert(column.values);
  }
  if (unknown.empty()) return absl::OkStatus();
  ByteArena arena;
  std::vector<NamedFile> files;
  const auto take = [&](TableRow& row, const RowPlace& place) {
    arena.Clear();
    Sample sample;
    // Load reports what is wrong.
    if (!ReadSample(row, place, &arena, &sample, &files).ok()) return true;
    for (const NamedFile& file : files) {
      const std::string& column = file.column->values;
      const absl::StatusOr<uint64_t> size = SizeOf(file);
      if (!unknown.contains(column) || !size.ok()) continue;
      const auto value = LoadFile(options_.file_system, file.path, *size, options_.stream_above, &arena);
      if (!value.ok()) continue;
      const auto type = values_.TypeOf(column, *value, LastExtension(file.path));
      if (!type.ok()) continue;
      (*types)[column] = *type;
      unknown.erase(column);
    }
    return !unknown.empty();
  };
  return ForFirstRows([](const TableFormat&) {}, take);
}

void TableSource::UseColumns(const std::vector<Column>& columns) {
  FindFileColumns(
      [&](const std::string& name) { return std::ranges::find(columns, name, &Column::name) != columns.end(); });
  columns_.clear();
  for (const Column& column : columns) {
    if (column.is_key) {
      key_ = column;
    } else if (std::ranges::find(file_columns_, column.name, &FileColumn::values) == file_columns_.end()) {
      columns_.emplace(column.name, column);
    }
  }
}

absl::StatusOr<std::unique_ptr<TreeUnit>> TableSource::NextFromTree(size_t /*max_samples*/) {
  return Internal(input().path, ": this source reads files");
}

absl::StatusOr<std::unique_ptr<WorkUnit>> TableSource::NextFromTar(size_t max_samples) {
  if (!rows_) {
    SHARDKIT_ASSIGN_OR_RETURN(rows_, OpenRows(input()));
  }
  auto unit = std::make_unique<RowsUnit>(input());
  unit->format = rows_->format();
  std::string_view row;
  while (unit->bytes.size() < max_samples && unit->text.size() < kTarUnitBytes) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, rows_->Next(&row));
    if (!more) break;
    unit->begins.push_back(unit->text.size());
    unit->bytes.push_back(row.size());
    unit->lines.push_back(rows_->number());
    unit->text += row;
  }
  unit->sample_count = unit->bytes.size();
  return unit;
}

void TableSource::CloseInput() {
  FileSource::CloseInput();
  rows_.reset();
}

std::string TableSource::RootOf(const SourceInput& input) const {
  if (options_.root.empty()) return std::string(DirectoryPart(input.path));
  return options_.root.ends_with('/') ? options_.root : StrCat(options_.root, "/");
}

absl::StatusOr<std::string> TableSource::RelativeName(std::string_view name, const SourceInput& input) const {
  const std::string root = RootOf(input);
  if (!root.empty() && name.starts_with(root)) name.remove_prefix(root.size());
  while (name.starts_with("./")) name.remove_prefix(2);
  if (name.empty() || name.ends_with('/')) return InvalidArgument("'", name, "' is no name of a file");
  if (name.find('\0') != name.npos) return InvalidArgument("'", name, "' holds a NUL byte");
  const bool leads_out = StrCat("/", name, "/").find("/../") != std::string::npos;
  if (name.starts_with('/') || name.find("://") != name.npos || leads_out) {
    return InvalidArgument("'", name, "' lies outside of ", root.empty() ? "the working directory" : root,
                           ": --root names the folder that holds all files");
  }
  return std::string(name);
}

absl::StatusOr<uint64_t> TableSource::SizeOf(const NamedFile& file) const {
  for (size_t end = file.root_bytes; !options_.follow_links && end != std::string::npos;) {
    end = file.path.find('/', end + 1);
    const std::string path = file.path.substr(0, end);
    SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, options_.file_system->Stat(path, /*follow=*/false));
    if (info.type == FileType::kSymbolicLink) return Annotate(CheckEntryKind(EntryKind::kLink), path);
  }
  SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, options_.file_system->Stat(file.path));
  if (info.type == FileType::kDirectory) return InvalidArgument(file.path, ": is a folder, not a file");
  if (info.type != FileType::kRegular) return Annotate(CheckEntryKind(EntryKind::kOther), file.path);
  return info.size;
}

absl::Status TableSource::ReadSample(TableRow& row, const RowPlace& place, ByteArena* arena, Sample* sample,
                                     std::vector<NamedFile>* files) const {
  files->clear();
  absl::Status status;
  std::string bytes;
  std::string first_name;  // of the file that the first of file_columns_ names
  const auto take_file = [&](const FileColumn& column, const TableValue& value) -> absl::Status {
    if (std::ranges::find(*files, &column, &NamedFile::column) != files->end()) {
      return InvalidArgument("occurs twice");
    }
    std::string text;
    SHARDKIT_RETURN_IF_ERROR(value.AppendName(&text));
    SHARDKIT_ASSIGN_OR_RETURN(const std::string name, RelativeName(text, place.input));
    const std::string root = RootOf(place.input);
    files->push_back({&column, StrCat(root, name), root.size(), uint64_t{0}});
    if (&column == &file_columns_[0]) first_name = StrCat(place.input.key_prefix, name);
    return absl::OkStatus();
  };
  const auto take = [&](std::string_view name, const TableValue& value) -> absl::Status {
    bool replaced = false;
    for (const FileColumn& column : file_columns_) {
      if (column.names != name) continue;
      SHARDKIT_RETURN_IF_ERROR(take_file(column, value));
      replaced = replaced || column.values == name;
    }
    bytes.clear();
    if (name == key_.name) {
      if (!sample->key.empty()) return InvalidArgument("occurs twice");
      SHARDKIT_RETURN_IF_ERROR(value.AppendKey(&bytes));
      sample->key = arena->Copy(bytes);
      return absl::OkStatus();
    }
    if (replaced) return absl::OkStatus();
    const auto column = columns_.find(name);
    if (column == columns_.end()) {
      return InvalidArgument("no row before it had this column: --type ", name, "=TYPE names it");
    }
    if (std::ranges::find(sample->fields, &column->second, &Field::column) != sample->fields.end()) {
      return InvalidArgument("occurs twice");
    }
    SHARDKIT_RETURN_IF_ERROR(value.AppendAs(column->second.type, &bytes));
    sample->fields.push_back({&column->second, arena->Copy(bytes)});
    return absl::OkStatus();
  };
  row.ForEach([&](std::string_view name, const TableValue& value) {
    if (!value.IsNull()) status = take(name, value);
    if (!status.ok()) status = Annotate(status, StrCat(place.Text(), ": column \"", name, "\""));
    return status.ok();
  });
  if (!status.ok()) {
    files->clear();
    return status;
  }
  if (!sample->key.empty()) return absl::OkStatus();
  if (!options_.key.empty()) return InvalidArgument(place.Text(), ": has no key, \"", key_.name, "\"");
  if (!first_name.empty()) {
    sample->key = arena->Copy(StemOf(first_name));
  } else if (!file_columns_.empty()) {
    return InvalidArgument(place.Text(), ": has no key, and no \"", file_columns_[0].names,
                           "\" that names a file, which would be the key");
  } else {
    sample->key = arena->Copy(BasePart(place.Text()));  // "part.jsonl: line 7"
  }
  return absl::OkStatus();
}

absl::Status TableSource::LoadFiles(const std::vector<NamedFile>& files, const RowPlace& place, ByteArena* arena,
                                    Sample* sample) {
  for (const NamedFile& file : files) {
    const auto load = [&]() -> absl::Status {
      SHARDKIT_RETURN_IF_ERROR(file.size.status());
      SHARDKIT_ASSIGN_OR_RETURN(Value value,
                                LoadFile(options_.file_system, file.path, *file.size, options_.stream_above, arena));
      const auto type = values_.TypeOf(file.column->values, value, LastExtension(file.path));
      if (!type.ok()) return Annotate(type.status(), file.path);
      if (!values_.Asked(file.column->values)) undecoded_images_.Count(*type, value);
      sample->fields.push_back({values_.Find(file.column->values, *type), std::move(value)});
      return absl::OkStatus();
    };
    SHARDKIT_RETURN_IF_ERROR(Annotate(load(), StrCat(place.Text(), ": column \"", file.column->names, "\"")));
  }
  return absl::OkStatus();
}

void TableSource::Load(WorkUnit& unit, SampleBatch* batch) {
  batch->Clear();
  const auto& rows = static_cast<const RowsUnit&>(unit);
  TableRow row;
  std::vector<NamedFile> files;
  const auto place = [&](size_t i) { return RowPlace{rows.input, rows.lines[i]}; };
  const auto load = [&](size_t i, Sample* sample) -> absl::Status {
    files.clear();
    SHARDKIT_RETURN_IF_ERROR(row.Read(*rows.format, rows.row(i), place(i).Text()));
    SHARDKIT_RETURN_IF_ERROR(ReadSample(row, place(i), &batch->arena, sample, &files));
    for (NamedFile& file : files) file.size = SizeOf(file);
    return LoadFiles(files, place(i), &batch->arena, sample);
  };
  LoadEach(
      rows, batch, load,
      [&](size_t i, const Sample& sample) { return sample.key.empty() ? place(i).Text() : std::string(sample.key); },
      [&](size_t i, const Sample*) {
        uint64_t bytes = rows.bytes[i];
        for (const NamedFile& file : files) bytes += file.size.value_or(0);
        return bytes;
      });
}

absl::StatusOr<std::vector<uint64_t>> TableSource::InputBytes(const WorkUnit& unit) const {
  const auto& rows = static_cast<const RowsUnit&>(unit);
  std::vector<uint64_t> bytes = rows.bytes;
  TableRow row;
  ByteArena arena;
  std::vector<NamedFile> files;
  for (size_t i = 0; i < bytes.size() && !file_columns_.empty(); ++i) {
    arena.Clear();
    Sample sample;
    const RowPlace place{rows.input, rows.lines[i]};
    if (!row.Read(*rows.format, rows.row(i), place.Text()).ok()) continue;
    if (!ReadSample(row, place, &arena, &sample, &files).ok()) continue;
    for (NamedFile& file : files) {
      file.size = SizeOf(file);
      bytes[i] += file.size.value_or(0);
      const absl::Status& status = file.size.status();
      const bool of_file =
          absl::IsNotFound(status) || absl::IsPermissionDenied(status) || absl::IsInvalidArgument(status);
      if (!status.ok() && !of_file) return status;  // what loading the sample meets, too
    }
  }
  return bytes;
}

absl::StatusOr<uint64_t> TableSource::Count() {
  uint64_t count = 0;
  for (const SourceInput& input : inputs_) {
    SHARDKIT_ASSIGN_OR_RETURN(const auto rows, OpenRows(input));
    std::string_view row;
    for (;; ++count) {
      SHARDKIT_ASSIGN_OR_RETURN(const bool more, rows->Next(&row));
      if (!more) break;
    }
  }
  return count;
}

absl::StatusOr<std::vector<std::string>> TableSource::FindKey(std::string_view key) {
  std::vector<std::string> found;
  TableRow row;
  ByteArena arena;
  std::vector<NamedFile> files;
  for (const SourceInput& input : inputs_) {
    SHARDKIT_ASSIGN_OR_RETURN(const auto rows, OpenRows(input));
    std::string_view text;
    while (true) {
      SHARDKIT_ASSIGN_OR_RETURN(const bool more, rows->Next(&text));
      if (!more) break;
      const RowPlace place{input, rows->number()};
      arena.Clear();
      Sample sample;
      if (!row.Read(*rows->format(), text, place.Text()).ok()) continue;
      if (!ReadSample(row, place, &arena, &sample, &files).ok() || sample.key != key) continue;
      found.push_back(place.Text());
      if (found.size() == 2) return found;
    }
  }
  return found;
}

bool ParquetNamesFiles(const Value& parquet) {
  const auto read = [&](uint64_t offset, std::span<char> to) {
    if (parquet.file) return parquet.file->ReadAt(offset, to).ok();
    std::ranges::copy(parquet.bytes.substr(offset, to.size()), to.begin());
    return true;
  };
  char end[8] = {};  // how many bytes the schema has, and the magic
  if (parquet.length() < sizeof(end)) return false;
  const uint64_t schema_end = parquet.length() - sizeof(end);
  if (!read(schema_end, end) || std::string_view(end + 4, 4) != "PAR1") return false;
  const auto length = LoadLittle<uint32_t>(end);
  if (length > std::min(kLargestSchema, schema_end)) return false;
  std::string schema(length, '\0');
  if (!read(schema_end - length, schema)) return false;
  // The length of a name precedes it: 9, 10.
  const std::string_view names[] = {"\tfile_name", "\nfile_names", "_file_name"};
  return std::ranges::any_of(names, [&](std::string_view name) { return schema.find(name) != schema.npos; });
}

bool IsTableName(std::string_view name) { return IsCsvName(name) || IsJsonLinesName(name); }

absl::Status NoParquet(const std::string& path) {
  return InvalidArgument(path, ": Parquet is read by the Python package: shardkit.pack(shardkit.sources.parquet(\"",
                         path, "\"), OUT)");
}

absl::StatusOr<bool> FindMetadata(const std::string& path, std::vector<std::string> folders,
                                  const SourceOptions& options, Tables* found) {
  SHARDKIT_ASSIGN_OR_RETURN(const bool at_the_top, AddMetadata(path, options, found));
  if (at_the_top) return true;
  Tables all = *found;
  bool each = !folders.empty();
  std::ranges::sort(folders);
  for (std::string& folder : folders) {
    // What is refused, is refused whatever the other folders have. Many of them are classes, and not splits.
    if (!each && folders.size() > kMostSplits) break;
    if (folder.ends_with('/')) folder.pop_back();
    absl::StatusOr<bool> added = AddMetadata(folder, options, &all);
    if (absl::IsPermissionDenied(added.status())) added = false;  // as a folder of files it is a bad sample
    SHARDKIT_RETURN_IF_ERROR(added.status());
    each = each && *added;
    if (*added && options.root.empty()) all.inputs.back().key_prefix = StrCat(BasePart(folder), "/");
  }
  if (each) *found = std::move(all);
  return each;
}

absl::StatusOr<Tables> FindTables(std::string_view kind, const std::vector<std::string>& inputs,
                                  const SourceOptions& options) {
  Tables found;
  const bool table = kind == "table";
  for (const std::string& path : inputs) {
    SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, options.file_system->Stat(path));
    if (info.type != FileType::kDirectory) {
      if (path.ends_with(".parquet")) return NoParquet(path);
      if (table ? !IsTableName(path) : IsCsvName(path)) {
        return InvalidArgument(path, table ? ": tables are files *.csv, *.tsv, *.jsonl and *.ndjson, perhaps compressed"
                                           : ": is not of lines of JSON: --from table");
      }
      found.inputs.push_back({path, true});
      continue;
    }
    if (table) {
      SHARDKIT_ASSIGN_OR_RETURN(const auto listing,
                                DirectoryListing::Read(*options.file_system, path, "", NameSplit::kNever,
                                                       RulesOf(options, PassOver::kHidden)));
      std::vector<std::string> folders;
      for (size_t i = 0; i < listing->size(); ++i) {
        if (listing->kind(i) == EntryKind::kDirectory) folders.push_back(JoinPath(path, listing->name(i)));
      }
      SHARDKIT_ASSIGN_OR_RETURN(const bool any, FindMetadata(path, std::move(folders), options, &found));
      if (any) continue;
    }
    TreeWalk walk(options.file_system, path, NameSplit::kNever, RulesOf(options, PassOver::kHidden));
    WalkedGroup group;
    const size_t before = found.inputs.size();
    while (true) {
      SHARDKIT_ASSIGN_OR_RETURN(const bool more, walk.Next(&group));
      if (!more) break;
      if (!IsJsonLinesName(group.stem) && !(table && IsCsvName(group.stem))) continue;
      found.inputs.push_back({.path = JoinPath(path, StrCat(group.directory, group.stem)),
                              .tar = true,
                              .listed = nullptr,
                              .key_prefix = options.root.empty() ? std::string(group.directory) : std::string()});
    }
    if (found.inputs.size() == before && !options.allow_empty) {
      return InvalidArgument(path, ": has no files ", table ? "*.csv, *.tsv, " : "",
                             "*.jsonl or *.ndjson; --allow-empty packs no samples");
    }
  }
  if (!options.file.empty()) found.files = options.file;
  return found;
}

}  // namespace shardkit::operations
