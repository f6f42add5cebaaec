#include "operations/coco/coco_source.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "operations/sources/source_names.h"

namespace shardkit::operations {
namespace {

constexpr size_t kSoughtImages = 16;  // to find the folder that they are in
constexpr size_t kTypedImages = 16;   // to find the type of the column

// Consecutive images.
class ImagesUnit : public WorkUnit {
 public:
  explicit ImagesUnit(const CocoIndex& index) : index_(index) {}

  std::string Names(size_t sample) const override {
    const size_t image = first + sample;
    return StrCat(index_.file_name(image), std::string_view("\0", 1), absl::Hex(index_.fingerprint(image)));
  }

  size_t first = 0;

 private:
  const CocoIndex& index_;
};

bool IsJson(const std::string& path) { return absl::EndsWithIgnoreCase(ToAbsl(path), ".json"); }

std::string KeyOf(std::string_view file_name) {
  return StrCat(DirectoryPart(file_name), DivideName(BasePart(file_name), NameSplit::kLastDot).stem);
}

}  // namespace

// The place where the images are, or the PNGs. Thread-safe.
class CocoImages {
 public:
  // `path` is a directory, which a mounted archive is, too. Names of files are relative to it, or to the one folder in
  // it (train2017/) that has one of the `first` names. InvalidArgument for another kind of file, and when two folders
  // have the first images.
  static absl::StatusOr<std::unique_ptr<CocoImages>> Open(const std::string& path,
                                                          std::span<const std::string_view> first,
                                                          const SourceOptions& options);

  // Whether the place has one of the first names.
  bool found() const { return found_; }

  // What messages call the file.
  std::string PathOf(std::string_view file_name) const;
  // As LoadFile. NotFound when it is missing, InvalidArgument for a name that leads out of the place.
  absl::StatusOr<Value> Load(std::string_view file_name, ByteArena* arena) const;
  // 0 for a file that is missing.
  absl::StatusOr<uint64_t> Bytes(std::string_view file_name) const;

 private:
  CocoImages(std::string path, const SourceOptions& options) : path_(std::move(path)), options_(options) {}
  absl::Status FindFolder(std::span<const std::string_view> first);
  absl::StatusOr<bool> Has(std::string_view name) const;
  absl::Status CheckName(std::string_view file_name) const;

  const std::string path_;
  const SourceOptions options_;
  bool found_ = false;
  std::string folder_;  // within path_: empty, or ends in '/'
};

absl::StatusOr<std::unique_ptr<CocoImages>> CocoImages::Open(const std::string& path,
                                                             std::span<const std::string_view> first,
                                                             const SourceOptions& options) {
  std::unique_ptr<CocoImages> images(new CocoImages(path, options));
  SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, options.file_system->Stat(path));
  if (info.type != FileType::kDirectory) {
    return InvalidArgument(path, ": neither a directory nor a tar or zip: give the place of the images");
  }
  SHARDKIT_RETURN_IF_ERROR(images->FindFolder(first));
  return images;
}

absl::StatusOr<bool> CocoImages::Has(std::string_view name) const {
  const auto info = options_.file_system->Stat(JoinPath(path_, name));
  if (absl::IsNotFound(info.status()) || absl::IsPermissionDenied(info.status())) return false;
  SHARDKIT_RETURN_IF_ERROR(info.status());
  return info->type == FileType::kRegular;
}

absl::Status CocoImages::FindFolder(std::span<const std::string_view> first) {
  std::set<std::string> folders;
  bool listed = false;
  for (const std::string_view name : first) {
    if (!CheckName(name).ok()) continue;
    SHARDKIT_ASSIGN_OR_RETURN(found_, Has(name));
    if (found_) return absl::OkStatus();
    if (!std::exchange(listed, true)) {
      SHARDKIT_RETURN_IF_ERROR(options_.file_system->ForEachEntry(path_, [&](const ListedEntry& entry) {
        if (entry.type == FileType::kDirectory || entry.type == FileType::kSymbolicLink) {
          folders.insert(StrCat(entry.name, "/"));
        }
        return absl::OkStatus();
      }));
    }
    for (const std::string& folder : folders) {
      SHARDKIT_ASSIGN_OR_RETURN(const bool there, Has(StrCat(folder, name)));
      if (!there) continue;
      if (std::exchange(found_, true)) {
        return InvalidArgument(path_, ": both ", folder_, " and ", folder, " have an image ", name,
                               ": give the folder ", "that the annotation file is for");
      }
      folder_ = folder;
    }
    if (found_) return absl::OkStatus();
  }
  return absl::OkStatus();
}

std::string CocoImages::PathOf(std::string_view file_name) const { return JoinPath(path_, StrCat(folder_, file_name)); }

absl::Status CocoImages::CheckName(std::string_view file_name) const {
  if (file_name.empty() || file_name.ends_with('/')) return InvalidArgument("\"file_name\" is none of a file");
  return OutputName("", file_name).status();
}

absl::StatusOr<Value> CocoImages::Load(std::string_view file_name, ByteArena* arena) const {
  if (const absl::Status status = CheckName(file_name); !status.ok()) return Annotate(status, PathOf(file_name));
  const std::string path = PathOf(file_name);
  if (!options_.follow_links) {
    const std::string below = StrCat(folder_, file_name);
    for (size_t end = below.find('/');; end = below.find('/', end + 1)) {
      SHARDKIT_ASSIGN_OR_RETURN(
          const FileInfo info,
          options_.file_system->Stat(JoinPath(path_, std::string_view(below).substr(0, end)), /*follow=*/false));
      if (info.type == FileType::kSymbolicLink) return Annotate(CheckEntryKind(EntryKind::kLink), path);
      if (end == below.npos) break;
    }
  }
  absl::StatusOr<Value> value = LoadFile(options_.file_system, path, std::nullopt, options_.stream_above, arena);
  if (absl::IsNotFound(value.status())) return NotFound(path, ": is missing, and the annotation file names it");
  return value;
}

absl::StatusOr<uint64_t> CocoImages::Bytes(std::string_view file_name) const {
  if (!CheckName(file_name).ok()) return 0;
  const auto info = options_.file_system->Stat(PathOf(file_name));
  if (absl::IsNotFound(info.status()) || absl::IsPermissionDenied(info.status())) return 0;
  SHARDKIT_RETURN_IF_ERROR(info.status());
  return info->size;
}

absl::StatusOr<bool> CocoSource::AreInputs(const std::vector<std::string>& inputs, const SourceOptions& options) {
  if (inputs.size() < 2 || inputs.size() > 3 || std::ranges::count_if(inputs, IsJson) != 1) return false;
  SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, options.file_system->Stat(*std::ranges::find_if(inputs, IsJson)));
  return info.type == FileType::kRegular;
}

absl::StatusOr<std::unique_ptr<CocoSource>> CocoSource::Open(const std::vector<std::string>& inputs,
                                                             const SourceOptions& options,
                                                             std::shared_ptr<ReadableFileSystem> opened) {
  SHARDKIT_ASSIGN_OR_RETURN(const bool fits, AreInputs(inputs, options));
  if (!fits) {
    return InvalidArgument(inputs[0],
                           ": --from coco takes one annotation file *.json and one place of images, a folder, ",
                           "tar or zip: shardctl pack --from coco instances_train2017.json train2017.zip -o OUT; for ",
                           "panoptic_train2017.json that of its PNGs, too");
  }
  SHARDKIT_ASSIGN_OR_RETURN(auto file, options.file_system->OpenForReading(*std::ranges::find_if(inputs, IsJson)));
  SHARDKIT_ASSIGN_OR_RETURN(auto index, CocoIndex::Read(std::move(file)));
  std::vector<std::string> places;
  std::ranges::remove_copy_if(inputs, std::back_inserter(places), IsJson);
  if (places.size() > 1 && !index->panoptic()) {
    return InvalidArgument(places[1], ": a second place, and ", index->path(), " has no \"", kCocoSegments,
                           "\", which would have PNGs: give the place of the images alone");
  }
  std::vector<std::string_view> image_names, png_names;
  for (size_t i = 0; i < index->size() && image_names.size() < kSoughtImages; ++i) {
    image_names.push_back(index->file_name(i));
    if (!index->png_name(i).empty()) png_names.push_back(index->png_name(i));
  }
  std::unique_ptr<CocoImages> images, pngs;
  const auto open = [&]() -> absl::Status {
    SHARDKIT_ASSIGN_OR_RETURN(images, CocoImages::Open(places.front(), image_names, options));
    if (!index->panoptic()) return absl::OkStatus();
    SourceOptions whole = options;
    whole.stream_above = UINT64_MAX;
    SHARDKIT_ASSIGN_OR_RETURN(pngs, CocoImages::Open(places.back(), png_names, whole));
    return absl::OkStatus();
  };
  SHARDKIT_RETURN_IF_ERROR(open());
  if (places.size() > 1 && !images->found() && !pngs->found()) {
    std::ranges::reverse(places);
    SHARDKIT_RETURN_IF_ERROR(open());
  }
  if (pngs && !pngs->found() && !png_names.empty()) {
    return InvalidArgument(places.back(), ": has no PNG ", png_names[0], ", where ", index->path(),
                           " has its segments: give the place of the PNGs behind that of the images");
  }
  return std::unique_ptr<CocoSource>(
      new CocoSource(std::move(index), std::move(images), std::move(pngs), options, std::move(opened)));
}

CocoSource::CocoSource(std::unique_ptr<CocoIndex> index, std::unique_ptr<CocoImages> images,
                       std::unique_ptr<CocoImages> pngs, const SourceOptions& options,
                       std::shared_ptr<ReadableFileSystem> opened)
    : opened_(std::move(opened)),
      index_(std::move(index)),
      images_(std::move(images)),
      pngs_(std::move(pngs)),
      options_(options),
      columns_(CocoColumns(index_->classes())) {}

CocoSource::~CocoSource() = default;

absl::StatusOr<std::string> CocoSource::Identity() const {
  return StrCat("annotations ", absl::Hex(index_->hash(), absl::kZeroPad16), options_.follow_links ? "" : " no-follow");
}

absl::StatusOr<std::vector<Column>> CocoSource::InitialColumns() {
  std::vector<Column> columns;
  for (size_t i = 0; i < kCocoColumnCount; ++i) {
    if (index_->columns()[i]) columns.push_back(columns_[i]);
  }
  for (size_t i = 0; i < std::min(index_->size(), kTypedImages); ++i) {
    ByteArena arena;
    const absl::StatusOr<Value> value = images_->Load(index_->file_name(i), &arena);
    if (!value.ok()) continue;  // Load reports it
    const absl::StatusOr<const Column*> column = ImageColumn(*value, index_->file_name(i));
    if (!column.ok()) continue;
    columns[kCocoImage] = **column;
    break;
  }
  return columns;
}

absl::StatusOr<const Column*> CocoSource::ImageColumn(const Value& value, std::string_view file_name) {
  const std::string& name = columns_[kCocoImage].name;
  SHARDKIT_ASSIGN_OR_RETURN(const Type type, image_columns_.TypeOf(name, value, LastExtension(file_name)));
  if (IsImage(type)) return image_columns_.Find(name, type);
  return InvalidArgument("not an image; remove it, or pack with --on-error skip");
}

absl::StatusOr<std::vector<std::string>> CocoSource::FindKey(std::string_view key) {
  std::vector<std::string> found;
  for (size_t i = 0; i < index_->size() && found.size() < 2; ++i) {
    if (KeyOf(index_->file_name(i)) == key) found.push_back(images_->PathOf(index_->file_name(i)));
  }
  return found;
}

absl::StatusOr<std::unique_ptr<WorkUnit>> CocoSource::Next(size_t max_samples) {
  auto unit = std::make_unique<ImagesUnit>(*index_);
  unit->first = next_;
  unit->sample_count = std::min(max_samples, index_->size() - next_);
  next_ += unit->sample_count;
  return unit->sample_count > 0 ? std::move(unit) : nullptr;
}

absl::StatusOr<uint64_t> CocoSource::Skip(uint64_t count) {
  const uint64_t passed = std::min<uint64_t>(count, index_->size() - next_);
  next_ += passed;
  return passed;
}

absl::StatusOr<uint64_t> CocoSource::BytesOf(size_t image) const {
  SHARDKIT_ASSIGN_OR_RETURN(const uint64_t bytes, images_->Bytes(index_->file_name(image)));
  const std::string_view png = index_->png_name(image);
  if (png.empty()) return bytes;
  SHARDKIT_ASSIGN_OR_RETURN(const uint64_t png_bytes, pngs_->Bytes(png));
  return bytes + png_bytes;
}

absl::StatusOr<std::vector<uint64_t>> CocoSource::InputBytes(const WorkUnit& unit) const {
  std::vector<uint64_t> bytes;
  const size_t first = static_cast<const ImagesUnit&>(unit).first;
  for (size_t i = 0; i < unit.sample_count; ++i) {
    SHARDKIT_ASSIGN_OR_RETURN(bytes.emplace_back(), BytesOf(first + i));
  }
  return bytes;
}

absl::Status CocoSource::LoadSample(size_t image, CocoConverter& converter, ByteArena* arena, Sample* sample) {
  const std::string_view file_name = index_->file_name(image);
  sample->key = arena->Copy(KeyOf(file_name));
  SHARDKIT_ASSIGN_OR_RETURN(Value value, images_->Load(file_name, arena));
  const absl::StatusOr<const Column*> column = ImageColumn(value, file_name);
  if (!column.ok()) return Annotate(column.status(), images_->PathOf(file_name));
  undecoded_images_.Count((*column)->type, value);
  sample->fields.push_back({*column, std::move(value)});
  CocoPng png;
  if (const std::string_view name = index_->png_name(image); !name.empty()) {
    SHARDKIT_ASSIGN_OR_RETURN(const Value loaded, pngs_->Load(name, arena));
    png = {pngs_->PathOf(name), loaded.bytes};
    sample->fields.push_back({&columns_[kCocoPanoptic], loaded});
  }
  SHARDKIT_RETURN_IF_ERROR(converter.Convert(image, png, arena, &sample->fields));
  if (converter.lacks_masks()) ++unmasked_;
  return absl::OkStatus();
}

void CocoSource::Load(WorkUnit& unit, SampleBatch* batch) {
  batch->Clear();
  std::unique_ptr<CocoConverter> converter;
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      converter = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!converter) converter = std::make_unique<CocoConverter>(*index_, columns_);
  const size_t first = static_cast<const ImagesUnit&>(unit).first;
  LoadEach(
      unit, batch, [&](size_t i, Sample* sample) { return LoadSample(first + i, *converter, &batch->arena, sample); },
      [&](size_t i, const Sample&) { return KeyOf(index_->file_name(first + i)); },
      [&](size_t i, const Sample* sample) {
        if (sample == nullptr) return BytesOf(first + i).value_or(0);
        const bool has_png = !index_->png_name(first + i).empty();
        return sample->fields[0].value.length() + (has_png ? sample->fields[1].value.length() : 0);
      });
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(converter));
}

std::map<std::string, std::string> CocoSource::metadata() const {
  JsonValue columns = JsonValue::Array();
  for (size_t i = 0; i < kCocoColumnCount; ++i) {
    if (index_->columns()[i]) columns.Add(columns_[i].name);
  }
  return {{std::string(kCocoFile), std::string(BasePart(index_->path()))},
          {std::string(kCocoMembers), index_->members()},
          {std::string(kCocoColumns), columns.Format()}};
}

std::vector<std::string> CocoSource::warnings() const {
  std::vector<std::string> warnings;
  if (std::string unknown = index_->unknown_images(); !unknown.empty()) warnings.push_back(std::move(unknown));
  if (unmasked_ > 0) {
    warnings.push_back(
        StrCat(unmasked_.load(), unmasked_ == 1 ? " sample has" : " samples have",
               " annotations whose segmentation is neither polygons nor RLE; column masks is absent there"));
  }
  if (auto images = undecoded_images_.Warning()) warnings.push_back(*std::move(images));
  return warnings;
}

}  // namespace shardkit::operations
