#include "operations/sources/files_source.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "codec/content_type.h"
#include "dataset/foreign/foreign_dataset.h"
#include "operations/sources/source_names.h"
#include "operations/sources/table_source.h"

namespace shardkit::operations {
namespace {

// A tar is not read twice to learn its columns. Only this much of its beginning is looked at.
constexpr uint64_t kSniffedTarBytes = uint64_t{16} << 20;
constexpr size_t kSniffedTarSamples = 256;

// A file *.bin of as many bytes is hardly one sample.
constexpr uint64_t kManyBinBytes = uint64_t{16} << 20;

// A sample with more members is unusual: names may be divided at the wrong dot.
constexpr size_t kManyMembers = 32;

// Whether other kinds of sources take the tar for a folder.
bool IsPlainTar(std::string_view path) { return path.ends_with(".tar"); }

class TarUnit : public TarredUnit {
 public:
  std::string Names(size_t sample) const override {
    std::string names(samples[sample].key);
    for (const TarValue& value : samples[sample].values) names.append(1, '\0').append(value.column);
    return names;
  }

  ByteArena arena;
  std::vector<TarSample> samples;
};

}  // namespace

// The columns of all inputs, each with the type asked for, or the type of the first value that could be read.
class FilesSource::FoundColumns {
 public:
  explicit FoundColumns(ColumnTable& table) : table_(table) {}

  // Where to put the type of the column's first value. Null when the column's type is known.
  std::optional<Type>* Unknown(std::string_view column) {
    auto found = types_.find(column);
    if (found == types_.end()) found = types_.emplace(std::string(column), table_.Asked(column)).first;
    return found->second ? nullptr : &found->second;
  }

  absl::Status Check(const std::string& path) const {
    if (types_.size() < kMaxColumns) return absl::OkStatus();  // the key is one more column
    return InvalidArgument(path, ": more than ", kMaxColumns - 1, " different extensions, as '", types_.begin()->first,
                           "' and '", types_.rbegin()->first,
                           "'. What follows the first dot of a file's name is its column, or what follows another "
                           "(--group-by): rename the files");
  }

  std::vector<Column> Columns() const {
    std::vector<Column> columns{KeyColumn()};
    for (const auto& [name, type] : types_) {
      columns.push_back(*table_.Find(name, type.value_or(Type::kBytes)));
    }
    return columns;
  }

 private:
  ColumnTable& table_;
  std::map<std::string, std::optional<Type>, std::less<>> types_;
};

FilesSource::FilesSource(std::vector<SourceInput> inputs, const SourceOptions& options)
    : FileSource(std::move(inputs), options), split_(SplitOf(options)), columns_(/*nullable=*/true, options.types) {}

std::map<std::string, std::string> FilesSource::metadata() const {
  if (split_ == NameSplit::kFirstDot) return {};
  return {{std::string(kGroupByName), std::string(GroupByName(*options_.group_by))}};
}

std::vector<std::string> FilesSource::notes() const {
  std::vector<std::string> notes = FileSource::notes();
  if (!detected_) return notes;
  for (const auto& [ending, way] : containers_) {
    const auto extract = [&, &way = way](const SourceInput& input) {
      return input.tar && !(IsPlainTar(input.path) && way.starts_with(dataset::kWayByOption));
    };
    notes.push_back(StrCat("files *.", ending,
                           " of the input are packed as they are, not the samples in them: ", "to have those, ", way,
                           std::ranges::any_of(inputs_, extract) ? ", extracted from the tar" : "",
                           " (--from files says that it is meant)"));
  }
  if (!classes_in_.empty()) {
    notes.push_back(StrCat(classes_in_, ": its images lie in folders: are these classes? Then ",
                           IsPlainTar(classes_in_) ? "pack with --from imagefolder" : "extract it and pack the folder",
                           ", to have labels (--from files says that it is meant)"));
  }
  return notes;
}

std::vector<std::string> FilesSource::warnings() const {
  std::vector<std::string> warnings = FileSource::warnings();
  if (unnamed_samples_ > 0) {
    warnings.push_back(StrCat(
        first_unnamed_, unnamed_samples_ == 1 ? "" : StrCat(" (and ", unnamed_samples_ - 1, " more such samples)"),
        ": its files have names that begin with a dot, before which there is nothing for a key: leave them out, or "
        "--group-by none gives each its name as key"));
  }
  if (large_samples_ == 0) return warnings;
  warnings.push_back(StrCat(first_large_,
                            large_samples_ == 1 ? "" : StrCat(" (and ", large_samples_ - 1, " more such samples)"),
                            ": is that one sample? Where names have several dots --group-by says how they are divided: "
                            "first-dot, last-dot or none"));
  return warnings;
}

void FilesSource::NoteContainer(std::string_view name, size_t members, uint64_t bytes) {
  std::string_view ending = LastExtension(name);
  if (ending == "tar" || ending == "shard" || ending == "mds") {
    containers_.try_emplace(std::string(ending), "pack or convert them by themselves");
    return;
  }
  if (members > 1) return;  // others are often a part of a sample
  std::string_view way = dataset::WayIntoShards(name);
  // Many inputs have a small *.bin for each sample.
  if (way.empty() && ending == "bin" && bytes >= kManyBinBytes) {
    way = "give sk.pack of Python what their own library reads, as dicts";
  }
  if (way.empty()) return;
  const std::string_view plain = dataset::WithoutCompression(name);
  containers_.try_emplace(StrCat(LastExtension(plain), name.substr(plain.size())), way);
}

void FilesSource::NoteMembers(const std::string& input, std::string_view key, size_t members) {
  if ((key.empty() || key.ends_with('/')) && unnamed_samples_++ == 0) {
    first_unnamed_ = StrCat(input, ": sample \"", key, "\"");
  }
  if (members <= kManyMembers || large_samples_++ > 0) return;
  first_large_ = StrCat(input, ": sample \"", key, "\" has ", members, " members");
}

absl::StatusOr<std::vector<Column>> FilesSource::InitialColumns() {
  FoundColumns found(columns_);
  containers_.clear();
  classes_in_.clear();
  for (const SourceInput& input : inputs_) {
    SHARDKIT_RETURN_IF_ERROR(input.tar ? FindTarColumns(input, &found) : FindTreeColumns(input, &found));
  }
  std::vector<Column> columns = found.Columns();
  // Only the beginning of a tar was looked at, so a named column may come later.
  if (std::ranges::none_of(inputs_, &SourceInput::tar)) SHARDKIT_RETURN_IF_ERROR(columns_.CheckTypes());
  return columns;
}

absl::Status FilesSource::FindTreeColumns(const SourceInput& input, FoundColumns* found) {
  const auto walk = OpenGroups(options_, input, split_, rules_, nullptr);
  WalkedGroup group;
  std::string name;
  uint64_t count = 0;
  while (true) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, walk->Next(&group));
    if (!more) break;
    ++count;
    for (size_t i = 0; i < group.files.size(); ++i) {
      const WalkedFile& file = group.files[i];
      const std::string_view column = ColumnOfFile({group.stem, file.rest, file.has_dot}, split_);
      if (file.kind != EntryKind::kFile || !CheckExtension(column).ok()) continue;
      name.assign(group.stem);
      if (file.has_dot) name.append(".").append(file.rest);
      NoteContainer(name, group.files.size(), file.size.value_or(0));
      std::optional<Type>* const type = found->Unknown(column);
      if (type == nullptr) continue;
      SHARDKIT_RETURN_IF_ERROR(found->Check(input.path));
      TreeUnit unit(input.path, 0);
      unit.Add(group, i, 1);
      ByteArena arena;
      const TreeUnit::File& listed = unit.files(0)[0];
      const auto value =
          LoadFile(options_.file_system, unit.FullPath(0, listed), listed.size, options_.stream_above, &arena);
      if (!value.ok()) continue;  // Load will report it
      NoteContainer(name, group.files.size(), value->length());
      const auto guessed = columns_.TypeOf(column, *value, LastExtension(unit.name(listed)));
      if (guessed.ok()) *type = *guessed;
    }
  }
  // This walk counted all samples of the input. When there is no other input, Count() needs no second walk.
  if (inputs_.size() == 1) count_ = count;
  return absl::OkStatus();
}

absl::Status FilesSource::FindTarColumns(const SourceInput& input, FoundColumns* found) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto tar, TarSamples::Open(input.path, options_, /*headers_only=*/false));
  ByteArena arena;
  TarSample sample;
  uint64_t bytes = 0;
  std::set<std::string> folders;
  bool images = true;  // each sample is one image in a folder
  for (size_t i = 0; i < kSniffedTarSamples && bytes < kSniffedTarBytes; ++i) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, tar->Next(&arena, &sample));
    if (!more) break;
    folders.emplace(DirectoryPart(sample.key));
    images = images && sample.values.size() == 1 && codec::IsImageExtension(sample.values[0].extension) &&
             !folders.contains("");
    for (const TarValue& value : sample.values) {
      bytes += value.value.length();
      const std::string name = StrCat(BasePart(sample.key), SuffixOfColumn(value.column));
      NoteContainer(split_ == NameSplit::kNever ? BasePart(sample.key) : name, sample.values.size(),
                    value.value.length());
      if (name == kParquetMetadataName && ParquetNamesFiles(value.value)) {
        containers_.insert_or_assign("parquet", std::string(kParquetMetadataWay));
      }
      std::optional<Type>* const type = found->Unknown(value.column);
      if (type == nullptr || !sample.status.ok()) continue;
      SHARDKIT_RETURN_IF_ERROR(found->Check(input.path));
      const auto guessed = columns_.TypeOf(value.column, value.value, value.extension);
      if (guessed.ok()) *type = *guessed;  // else Load will report it
    }
    arena.Clear();
  }
  if (images && folders.size() > 1 && classes_in_.empty()) classes_in_ = input.path;
  return absl::OkStatus();
}

void FilesSource::CloseInput() {
  FileSource::CloseInput();
  tar_.reset();
}

absl::StatusOr<std::unique_ptr<TreeUnit>> FilesSource::NextFromTree(size_t max_samples) {
  auto unit = std::make_unique<TreeUnit>(NewUnit());
  WalkedGroup group;
  while (unit->size() < max_samples) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, Walk(split_).Next(&group));
    if (!more) break;
    NoteMembers(input().path, StrCat(group.directory, group.stem), group.files.size());
    unit->Add(group, 0, group.files.size());
  }
  return unit;
}

absl::StatusOr<std::unique_ptr<WorkUnit>> FilesSource::NextFromTar(size_t max_samples) {
  if (!tar_) {
    SHARDKIT_ASSIGN_OR_RETURN(tar_, TarSamples::Open(input().path, options_, /*headers_only=*/false, &passed_over_));
  }
  auto unit = std::make_unique<TarUnit>();
  unit->path = input().path;
  TarSample sample;
  uint64_t bytes = 0;
  while (unit->samples.size() < max_samples && bytes < kTarUnitBytes) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, tar_->Next(&unit->arena, &sample));
    if (!more) break;
    NoteMembers(input().path, sample.key, sample.values.size());
    unit->bytes.push_back(0);
    for (const TarValue& value : sample.values) {
      bytes += value.value.bytes.size();
      unit->bytes.back() += value.value.length();
    }
    unit->samples.push_back(std::move(sample));
  }
  unit->sample_count = unit->samples.size();
  return unit;
}

absl::Status FilesSource::LoadTreeSample(const TreeUnit& unit, size_t i, ByteArena* arena, Sample* sample) {
  for (const TreeUnit::File& file : unit.files(i)) {
    const std::string path = unit.FullPath(i, file);
    SHARDKIT_RETURN_IF_ERROR(Annotate(CheckEntryKind(file.kind), path));
    const std::string_view name = unit.name(file);
    const NameParts parts = DivideName(name, split_);
    const std::string_view column = ColumnOfFile(parts, split_);
    if (sample->fields.empty()) {
      sample->key = arena->Copy(StrCat(unit.directory(i), parts.stem));
      SHARDKIT_RETURN_IF_ERROR(Annotate(CheckKey(sample->key), path));
    }
    SHARDKIT_RETURN_IF_ERROR(Annotate(CheckExtension(column), path));
    SHARDKIT_ASSIGN_OR_RETURN(Value value,
                              LoadFile(options_.file_system, path, file.size, options_.stream_above, arena));
    const auto type = columns_.TypeOf(column, value, LastExtension(name));
    if (!type.ok()) return Annotate(type.status(), path);
    if (!columns_.Asked(column)) undecoded_images_.Count(*type, value);
    sample->fields.push_back({columns_.Find(column, *type), std::move(value)});
  }
  return absl::OkStatus();
}

absl::Status FilesSource::LoadTarSample(const std::string& path, TarSample& listed, Sample* sample) {
  SHARDKIT_RETURN_IF_ERROR(listed.status);
  sample->key = listed.key;
  for (TarValue& value : listed.values) {
    const auto type = columns_.TypeOf(value.column, value.value, value.extension);
    if (!type.ok()) {
      return Annotate(type.status(), StrCat(path, ": member '", listed.key, SuffixOfColumn(value.column), "'"));
    }
    if (!columns_.Asked(value.column)) undecoded_images_.Count(*type, value.value);
    sample->fields.push_back({columns_.Find(value.column, *type), std::move(value.value)});
  }
  return absl::OkStatus();
}

void FilesSource::Load(WorkUnit& unit, SampleBatch* batch) {
  batch->Clear();
  TreeUnit* const tree = dynamic_cast<TreeUnit*>(&unit);
  TarUnit* const tar = dynamic_cast<TarUnit*>(&unit);
  // The data read from a tar moves to the batch without a copy.
  if (tar != nullptr) std::swap(batch->arena, tar->arena);
  const auto load = [&](size_t i, Sample* sample) {
    return tree != nullptr ? LoadTreeSample(*tree, i, &batch->arena, sample)
                           : LoadTarSample(tar->path, tar->samples[i], sample);
  };
  const auto key = [&](size_t i, const Sample&) {
    return tree != nullptr ? tree->RelativePath(i, tree->files(i)[0]) : std::string(tar->samples[i].key);
  };
  LoadEach(unit, batch, load, key, [&](size_t i, const Sample* sample) {
    if (tree == nullptr) return tar->bytes[i];
    return sample != nullptr ? ValueBytes(*sample) : tree->StatBytes(*options_.file_system, i);
  });
}

absl::StatusOr<uint64_t> FilesSource::Count() {
  if (count_) return *count_;
  uint64_t count = 0;
  ByteArena arena;
  for (const SourceInput& input : inputs_) {
    if (input.tar) {
      SHARDKIT_ASSIGN_OR_RETURN(const auto tar, TarSamples::Open(input.path, options_, /*headers_only=*/true));
      TarSample sample;
      for (;; ++count) {
        SHARDKIT_ASSIGN_OR_RETURN(const bool more, tar->Next(&arena, &sample));
        if (!more) break;
        arena.Clear();
      }
    } else {
      SHARDKIT_ASSIGN_OR_RETURN(const uint64_t groups,
                                CountGroups(*OpenGroups(options_, input, split_, rules_, nullptr)));
      count += groups;
    }
  }
  count_ = count;
  return count;
}

}  // namespace shardkit::operations
