#include "operations/sources/image_folder_source.h"

#include <algorithm>
#include <utility>

#include "base/endian.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "codec/content_type.h"
#include "operations/python_float.h"
#include "operations/sources/source_names.h"
#include "operations/sources/source_walk.h"

namespace shardkit::operations {
namespace {

constexpr std::string_view kImageName = "image";
constexpr size_t kMixedHeadBytes = 17;  // before each name of a Mixed
constexpr uint64_t kMixedNoSize = UINT64_MAX;
constexpr size_t kLookedAtFiles = 65536;  // to decide that there are only images
constexpr size_t kLookedAtMore = 1024;    // behind the first file that is none

// So many directories may lie around the class directories.
constexpr int kDirectoriesAround = 4;

Column MakeColumn(const char* name, Type type) {
  Column column;
  column.name = name;
  column.type = type;
  column.codec = Codec::kZstd;
  return column;
}

// The class of each label, as a JSON array. Empty when one is not UTF-8: its samples fail, because their keys are not
// UTF-8 either.
std::optional<std::string> ClassList(const std::map<std::string, int64_t, std::less<>>& labels) {
  std::string list = "[";
  for (const auto& [name, label] : labels) {
    if (label > 0) list += ", ";
    if (!AppendPythonJsonString(name, &list)) return std::nullopt;
  }
  return list + "]";
}

Column LabelColumn(const std::map<std::string, int64_t, std::less<>>& labels) {
  Column column = MakeColumn("label", Type::kI64);
  if (const auto classes = ClassList(labels)) column.metadata[kClassNames] = *classes;
  return column;
}

bool IsImageFile(const WalkedFile& file) {
  return file.kind == EntryKind::kFile && file.has_dot &&
         codec::IsImageExtension(file.rest.substr(file.rest.rfind('.') + 1));
}

// The directories of the input, or of the innermost directory around which there is nothing else.
absl::StatusOr<ClassFolders> FindClassFolders(const std::string& path, const SourceOptions& options) {
  ClassFolders found{.path = path, .folder = {}, .names = {}};
  for (int depth = 0;; ++depth) {
    SHARDKIT_ASSIGN_OR_RETURN(const auto listing,
                              DirectoryListing::Read(*options.file_system, found.path, "", NameSplit::kNever,
                                                     RulesOf(options, PassOver::kHidden, found.folder)));
    found.names.clear();
    for (size_t i = 0; i < listing->size(); ++i) {
      const std::string_view name = listing->name(i);
      if (listing->kind(i) == EntryKind::kDirectory) found.names.emplace_back(name.substr(0, name.size() - 1));
      found.images =
          found.images || (listing->kind(i) == EntryKind::kFile && codec::IsImageExtension(LastExtension(name)));
    }
    if (found.names.size() != 1 || listing->size() != 1 || depth == kDirectoriesAround) return found;
    found.path = JoinPath(found.path, found.names[0]);
    found.folder += StrCat(found.names[0], "/");
  }
}

}  // namespace

std::string FoundWithin(const std::string& path, const ClassFolders& found) {
  return StrCat(path, ": its classes are the folders in ", found.path);
}

absl::Status FindClassesInArchives(ReadableFileSystem& given, const SourceOptions& options,
                                   std::vector<SourceInput>* inputs, std::vector<std::string>* notes) {
  for (SourceInput& input : *inputs) {
    SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, given.Stat(input.path));
    if (info.type == FileType::kDirectory || input.tar) continue;
    SHARDKIT_ASSIGN_OR_RETURN(ClassFolders found, FindClassFolders(input.path, options));
    if (found.folder.empty() || found.names.size() < 2 || found.images) continue;
    notes->push_back(FoundWithin(input.path, found));
    input.path = std::move(found.path);
    input.folder = std::move(found.folder);
  }
  return absl::OkStatus();
}

absl::StatusOr<ImageFolder> LookAtImageFolder(const std::string& input, const SourceOptions& options) {
  ImageFolder found;
  SHARDKIT_ASSIGN_OR_RETURN(found.classes, FindClassFolders(input, options));
  if (found.classes.names.size() < 2) return found;
  const std::string& path = found.classes.path;
  TreeWalk walk(options.file_system, path, NameSplit::kLastDot,
                RulesOf(options, PassOver::kHidden, found.classes.folder));
  WalkedGroup group;
  size_t images = 0, others = 0, limit = kLookedAtFiles;
  while (images + others < limit) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, walk.Next(&group));
    if (!more) break;
    const auto wrong = [&](const WalkedFile& file) { return group.directory.empty() || !IsImageFile(file); };
    const auto other = std::ranges::find_if(group.files, wrong);
    if (other == group.files.end()) {
      images += group.files.size();
      continue;
    }
    // An image with something of the same name is a sample of files.
    if (std::ranges::any_of(group.files, IsImageFile) && group.files.size() > 1) return found;
    if (others == 0) {
      found.but = StrCat(JoinPath(path, StrCat(group.directory, group.stem)), other->has_dot ? "." : "", other->rest,
                         IsImageFile(*other) ? " lies in none" : " is no image");
      limit = std::min(limit, images + kLookedAtMore);
    }
    others += group.files.size();
  }
  found.fits = images > 0 && others == 0;
  if (images <= others) found.but.clear();
  return found;
}

absl::StatusOr<Type> ImageFolderSource::ImageType(const Value& value, std::string_view name) {
  SHARDKIT_ASSIGN_OR_RETURN(const Type type, images_.TypeOf(kImageName, value, LastExtension(name)));
  if (images_.Asked(kImageName) || IsImage(type)) return type;
  return InvalidArgument("not an image; `--from files` packs any kind of file");
}

absl::StatusOr<std::unique_ptr<FileSource>> ImageFolderSource::Open(std::vector<SourceInput> inputs,
                                                                    const SourceOptions& options,
                                                                    const std::vector<std::string>& classes) {
  for (const auto& [name, type] : options.types) {
    if (name == kImageName) continue;
    return InvalidArgument("--type ", name, "=", TypeName(type),
                           ": of the columns of an image folder, key, image, label and class_name, only image has a "
                           "type to choose");
  }
  std::map<std::string, int64_t, std::less<>> labels;
  for (const std::string& name : classes) labels.emplace(name, 0);
  for (const SourceInput& input : inputs) {
    if (!classes.empty()) break;
    SHARDKIT_ASSIGN_OR_RETURN(const auto listing,
                              DirectoryListing::Read(*options.file_system, input.path, "", NameSplit::kNever,
                                                     RulesOf(options, PassOver::kHidden, input.folder)));
    for (size_t i = 0; i < listing->size(); ++i) {
      if (listing->kind(i) != EntryKind::kDirectory) continue;
      labels.emplace(listing->name(i).substr(0, listing->name(i).size() - 1), 0);
    }
  }
  if (labels.empty()) {
    return InvalidArgument(inputs.empty() ? "" : inputs[0].path,
                           ": no class directories; imagefolder expects INPUT/CLASS/IMAGE");
  }
  int64_t next = 0;
  for (auto& [name, label] : labels) label = next++;
  return std::unique_ptr<FileSource>(new ImageFolderSource(std::move(inputs), std::move(labels), options));
}

ImageFolderSource::ImageFolderSource(std::vector<SourceInput> inputs,
                                     std::map<std::string, int64_t, std::less<>> labels, const SourceOptions& options)
    : FileSource(std::move(inputs), options, PassOver::kHidden),
      labels_(std::move(labels)),
      images_(/*nullable=*/false, options.types),
      label_(LabelColumn(labels_)),
      class_name_(MakeColumn("class_name", Type::kUtf8)) {}

std::map<std::string, std::string> ImageFolderSource::metadata() const {
  const auto classes = ClassList(labels_);
  if (!classes) return {};
  return {{"imagefolder.classes", *classes}};
}

absl::StatusOr<std::optional<Type>> ImageFolderSource::FirstImageType() {
  if (const std::optional<Type> asked = images_.Asked(kImageName)) return asked;
  for (const SourceInput& input : inputs_) {
    const std::unique_ptr<GroupWalk> walk = OpenGroups(options_, input, NameSplit::kNever, rules_, nullptr);
    WalkedGroup group;
    while (true) {
      SHARDKIT_ASSIGN_OR_RETURN(const bool more, walk->Next(&group));
      if (!more) break;
      if (group.directory.empty() || group.files[0].kind != EntryKind::kFile) continue;
      TreeUnit unit(input.path, 0);
      unit.Add(group, 0, 1);
      ByteArena arena;
      const TreeUnit::File& file = unit.files(0)[0];
      const auto value =
          LoadFile(options_.file_system, unit.FullPath(0, file), file.size, options_.stream_above, &arena);
      if (!value.ok()) continue;  // Load will report it
      const auto type = ImageType(*value, group.stem);
      if (type.ok()) return std::optional(*type);
    }
  }
  return std::optional<Type>();
}

absl::StatusOr<std::vector<Column>> ImageFolderSource::InitialColumns() {
  SHARDKIT_ASSIGN_OR_RETURN(const std::optional<Type> type, FirstImageType());
  return std::vector<Column>{KeyColumn(), *images_.Find(kImageName, type.value_or(Type::kBytes)), label_, class_name_};
}

absl::StatusOr<std::unique_ptr<ImageFolderSource::Mixed>> ImageFolderSource::Mix() {
  auto mixed = std::make_unique<Mixed>();
  WalkedGroup group;
  while (true) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, Walk(NameSplit::kNever).Next(&group));
    if (!more) break;
    if (mixed->directories.empty() || mixed->directories.back() != group.directory) {
      mixed->directories.emplace_back(group.directory);
    }
    const WalkedFile& file = group.files[0];
    mixed->files.push_back({Hash64(StrCat(group.directory, group.stem)), mixed->text.size()});
    char head[kMixedHeadBytes];
    StoreLittle(head, static_cast<uint32_t>(mixed->directories.size() - 1));
    StoreLittle(head + 4, static_cast<uint32_t>(group.stem.size()));
    StoreLittle(head + 8, file.size.value_or(kMixedNoSize));
    head[16] = static_cast<char>(file.kind);
    mixed->text.append(head, sizeof(head)).append(group.stem);
  }
  std::ranges::sort(mixed->files);
  return mixed;
}

void ImageFolderSource::CloseInput() {
  FileSource::CloseInput();
  mixed_.reset();
}

absl::StatusOr<std::unique_ptr<TreeUnit>> ImageFolderSource::NextFromTree(size_t max_samples) {
  auto unit = std::make_unique<TreeUnit>(NewUnit());
  WalkedGroup group;
  if (!ByPath() && !input().listed) {
    if (!mixed_) {
      SHARDKIT_ASSIGN_OR_RETURN(mixed_, Mix());
    }
    for (; unit->size() < max_samples && mixed_->next < mixed_->files.size(); ++mixed_->next) {
      const char* const head = mixed_->text.data() + mixed_->files[mixed_->next].begin;
      const auto size = LoadLittle<uint64_t>(head + 8);
      group.directory = mixed_->directories[LoadLittle<uint32_t>(head)];
      group.stem = {head + kMixedHeadBytes, LoadLittle<uint32_t>(head + 4)};
      group.files = {{.kind = static_cast<EntryKind>(head[16]),
                      .size = size == kMixedNoSize ? std::nullopt : std::optional<uint64_t>(size)}};
      unit->Add(group, 0, 1);
    }
    return unit;
  }
  while (unit->size() < max_samples) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, Walk(NameSplit::kNever).Next(&group));
    if (!more) break;
    unit->Add(group, 0, 1);
  }
  return unit;
}

absl::Status ImageFolderSource::LoadSample(const TreeUnit& unit, size_t i, ByteArena* arena, Sample* sample) {
  const TreeUnit::File& file = unit.files(i)[0];
  const std::string path = unit.FullPath(i, file);
  SHARDKIT_RETURN_IF_ERROR(Annotate(CheckEntryKind(file.kind), path));
  const std::string_view directory = unit.directory(i);
  if (directory.empty()) {
    return InvalidArgument(path, ": lies outside of the class directories; imagefolder expects INPUT/CLASS/IMAGE");
  }
  sample->key = arena->Copy(unit.RelativePath(i, file));
  SHARDKIT_RETURN_IF_ERROR(Annotate(CheckKey(sample->key), path));
  const std::string_view class_name = sample->key.substr(0, sample->key.find('/'));
  const auto label = labels_.find(class_name);
  if (label == labels_.end()) return NotFound(path, ": the class directory was not there when packing began");

  SHARDKIT_ASSIGN_OR_RETURN(Value value, LoadFile(options_.file_system, path, file.size, options_.stream_above, arena));
  const auto type = ImageType(value, unit.name(file));
  if (!type.ok()) return Annotate(type.status(), path);
  if (!images_.Asked(kImageName)) undecoded_images_.Count(*type, value);
  sample->fields.push_back({images_.Find(kImageName, *type), std::move(value)});
  const int64_t number = label->second;
  sample->fields.push_back({&label_, arena->Copy({reinterpret_cast<const char*>(&number), sizeof(number)})});
  sample->fields.push_back({&class_name_, class_name});
  return absl::OkStatus();
}

void ImageFolderSource::Load(WorkUnit& work, SampleBatch* batch) {
  batch->Clear();
  const auto& unit = static_cast<const TreeUnit&>(work);
  LoadEach(
      unit, batch, [&](size_t i, Sample* sample) { return LoadSample(unit, i, &batch->arena, sample); },
      [&](size_t i, const Sample&) { return unit.RelativePath(i, unit.files(i)[0]); },
      [&](size_t i, const Sample* sample) {
        return sample != nullptr ? sample->fields[0].value.length() : unit.StatBytes(*options_.file_system, i);
      });
}

absl::StatusOr<uint64_t> ImageFolderSource::Count() {
  uint64_t count = 0;
  for (const SourceInput& input : inputs_) {
    SHARDKIT_ASSIGN_OR_RETURN(const uint64_t groups,
                              CountGroups(*OpenGroups(options_, input, NameSplit::kNever, rules_, nullptr)));
    count += groups;
  }
  return count;
}

}  // namespace shardkit::operations
