#include "operations/coco/coco_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "operations/sources/source_names.h"

namespace shardkit::operations {
namespace {

constexpr size_t kTypedImages = 16;  // to find the type of the column

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

absl::StatusOr<bool> CocoSource::AreInputs(const std::vector<std::string>& inputs, const SourceOptions& options) {
  if (inputs.size() != 2 || IsJson(inputs[0]) == IsJson(inputs[1])) return false;
  SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, options.file_system->Stat(inputs[IsJson(inputs[0]) ? 0 : 1]));
  return info.type == FileType::kRegular;
}

absl::StatusOr<std::unique_ptr<CocoSource>> CocoSource::Open(const std::vector<std::string>& inputs,
                                                             const SourceOptions& options,
                                                             std::shared_ptr<ReadableFileSystem> zips) {
  SHARDKIT_ASSIGN_OR_RETURN(const bool fits, AreInputs(inputs, options));
  if (!fits) {
    return InvalidArgument(inputs[0],
                           ": --from coco takes one annotation file *.json and one place of images, a folder, ",
                           "tar or zip: shardctl pack --from coco instances_train2017.json train2017.zip -o OUT");
  }
  const bool json_first = IsJson(inputs[0]);
  SHARDKIT_ASSIGN_OR_RETURN(auto file, options.file_system->OpenForReading(inputs[json_first ? 0 : 1]));
  SHARDKIT_ASSIGN_OR_RETURN(auto index, CocoIndex::Read(std::move(file)));
  SHARDKIT_ASSIGN_OR_RETURN(auto images, CocoImages::Open(inputs[json_first ? 1 : 0], *index, options));
  return std::unique_ptr<CocoSource>(new CocoSource(std::move(index), std::move(images), options, std::move(zips)));
}

CocoSource::CocoSource(std::unique_ptr<CocoIndex> index, std::unique_ptr<CocoImages> images,
                       const SourceOptions& options, std::shared_ptr<ReadableFileSystem> zips)
    : zips_(std::move(zips)),
      index_(std::move(index)),
      images_(std::move(images)),
      options_(options),
      columns_(CocoColumns(index_->classes())) {}

std::string CocoSource::Identity() const {
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

absl::StatusOr<std::vector<uint64_t>> CocoSource::InputBytes(const WorkUnit& unit) const {
  std::vector<uint64_t> bytes;
  const size_t first = static_cast<const ImagesUnit&>(unit).first;
  for (size_t i = 0; i < unit.sample_count; ++i) {
    SHARDKIT_ASSIGN_OR_RETURN(bytes.emplace_back(), images_->Bytes(index_->file_name(first + i)));
  }
  return bytes;
}

absl::Status CocoSource::LoadSample(size_t image, CocoConverter& converter, ByteArena* arena, Sample* sample) {
  const std::string_view file_name = index_->file_name(image);
  sample->key = arena->Copy(KeyOf(file_name));
  SHARDKIT_ASSIGN_OR_RETURN(Value value, images_->Load(file_name, arena));
  const absl::StatusOr<const Column*> column = ImageColumn(value, file_name);
  if (!column.ok()) return Annotate(column.status(), images_->PathOf(file_name));
  if ((*column)->type == Type::kImage) ++other_images_;
  sample->fields.push_back({*column, std::move(value)});
  SHARDKIT_RETURN_IF_ERROR(converter.Convert(image, arena, &sample->fields));
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
        return sample != nullptr ? sample->fields[0].value.length()
                                 : images_->Bytes(index_->file_name(first + i)).value_or(0);
      });
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(converter));
}

std::map<std::string, std::string> CocoSource::metadata() const {
  return {{std::string(kCocoFile), std::string(BasePart(index_->path()))},
          {std::string(kCocoMembers), index_->members()}};
}

std::vector<std::string> CocoSource::warnings() const {
  std::vector<std::string> warnings;
  if (std::string unknown = index_->unknown_images(); !unknown.empty()) warnings.push_back(std::move(unknown));
  if (unmasked_ > 0) {
    warnings.push_back(
        StrCat(unmasked_.load(), unmasked_ == 1 ? " sample has" : " samples have",
               " annotations whose segmentation is neither polygons nor RLE; column masks is absent there"));
  }
  if (other_images_ > 0) {
    warnings.push_back(
        StrCat(other_images_.load(), other_images_ == 1 ? " image is" : " images are",
               " neither JPEG nor PNG: their column is of type image, and the loader does not decode them"));
  }
  return warnings;
}

}  // namespace shardkit::operations
