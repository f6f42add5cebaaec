#include "operations/coco/coco_writer.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "operations/python_float.h"
#include "operations/sources/source_names.h"

namespace shardkit::operations {
namespace {

constexpr uint64_t kCopiedBytes = uint64_t{1} << 20;

std::string AnnotationsPath(const std::string& path) { return StrCat(path, ".annotations"); }

absl::Status AppendTo(WritableFile& file, std::string_view elements, bool* any) {
  if (elements.empty()) return absl::OkStatus();
  if (std::exchange(*any, true)) SHARDKIT_RETURN_IF_ERROR(file.Append(",\n"));
  return file.Append(elements);
}

// The objects of one sample, which columns add members to.
class Entries {
 public:
  explicit Entries(const CocoValues& values) : values_(values), columns_(CocoColumns(std::nullopt)) {}

  absl::Status Build() {
    if (Has(kCocoSourceJson)) {
      SHARDKIT_ASSIGN_OR_RETURN(const JsonElement rest, Parse(kCocoSourceJson, &rest_tree_));
      rest.ForEachMember([this](std::string_view name, JsonElement value) {
        if (name == "image") rest_of_image_ = value;
        if (name == "panoptic") rest_of_panoptic_ = value;
        if (name == "annotations") {
          value.ForEach([this](JsonElement annotation) {
            rest_.push_back(annotation);
            return true;
          });
          annotations_.emplace(rest_.size());
        }
        return true;
      });
    }
    SHARDKIT_RETURN_IF_ERROR(Image());
    SHARDKIT_RETURN_IF_ERROR(Array("id", kCocoAnnotationId));
    SHARDKIT_RETURN_IF_ERROR(Array("id", kCocoSegmentId));
    SHARDKIT_RETURN_IF_ERROR(Array("category_id", kCocoCategoryId));
    SHARDKIT_RETURN_IF_ERROR(List("segmentation", kCocoSegmentation));
    SHARDKIT_RETURN_IF_ERROR(Array("area", kCocoArea));
    SHARDKIT_RETURN_IF_ERROR(Array("bbox", kCocoBbox));
    SHARDKIT_RETURN_IF_ERROR(Array("iscrowd", kCocoIscrowd));
    SHARDKIT_RETURN_IF_ERROR(Array("keypoints", kCocoKeypoints));
    SHARDKIT_RETURN_IF_ERROR(Array("num_keypoints", kCocoNumKeypoints));
    SHARDKIT_RETURN_IF_ERROR(List("caption", kCocoCaptions));
    for (size_t i = 0; i < rest_.size(); ++i) AddAll(rest_[i], &objects()[i]);
    if (Has(kCocoPanopticFileName)) SHARDKIT_RETURN_IF_ERROR(JoinSegments());
    for (std::string& object : objects()) {
      if (Has(kCocoImageId)) SHARDKIT_RETURN_IF_ERROR(Add("image_id", image_id_, &object));
    }
    return absl::OkStatus();
  }

  // After Build. Without the closing brace of each annotation.
  const std::string& image() const { return image_; }
  std::vector<std::string>& objects() {
    if (!annotations_) annotations_.emplace();
    return *annotations_;
  }

 private:
  bool Has(CocoColumn column) const { return values_[column].data() != nullptr; }

  absl::StatusOr<JsonElement> Parse(CocoColumn column, JsonTree* tree) const {
    absl::StatusOr<JsonElement> parsed = tree->Parse(values_[column]);
    return parsed.ok() ? parsed : Annotate(parsed.status(), StrCat("column '", columns_[column].name, "'"));
  }

  static absl::Status Add(std::string_view name, std::string_view value, std::string* object) {
    return AppendJsonMember(name, value, object) ? absl::OkStatus() : DataLoss("a name is not valid UTF-8");
  }
  static void AddAll(JsonElement members, std::string* object) {
    members.ForEachMember([&](std::string_view name, JsonElement value) {
      (void)AppendJsonMember(name, value.Format(), object);
      return true;
    });
  }

  absl::Status AddText(std::string_view name, CocoColumn column, std::string* object) const {
    if (!Has(column)) return absl::OkStatus();
    std::string text;
    if (AppendPythonJsonString(values_[column], &text)) return Add(name, text, object);
    return DataLoss("column '", columns_[column].name, "' is not UTF-8");
  }

  // Makes one annotation of all of them.
  absl::Status JoinSegments() {
    std::string list = "[", annotation;
    for (const std::string& segment : objects()) {
      list += StrCat(list.size() > 1 ? ", " : "", segment.empty() ? "{" : segment, "}");
    }
    SHARDKIT_RETURN_IF_ERROR(Add(kCocoSegments, list + "]", &annotation));
    SHARDKIT_RETURN_IF_ERROR(AddText("file_name", kCocoPanopticFileName, &annotation));
    if (rest_of_panoptic_) AddAll(*rest_of_panoptic_, &annotation);
    annotations_ = {std::move(annotation)};
    return absl::OkStatus();
  }

  absl::Status Image() {
    const auto integer = [&](std::string_view name, CocoColumn column) -> absl::Status {
      if (!Has(column)) return absl::OkStatus();
      if (values_[column].size() != sizeof(int64_t)) {
        return DataLoss("column '", columns_[column].name, "' has ", values_[column].size(), " bytes instead of 8");
      }
      const std::string text = StrCat(LoadLittle<int64_t>(values_[column].data()));
      if (column == kCocoImageId) image_id_ = text;
      return Add(name, text, &image_);
    };
    SHARDKIT_RETURN_IF_ERROR(integer("id", kCocoImageId));
    SHARDKIT_RETURN_IF_ERROR(AddText("file_name", kCocoFileName, &image_));
    SHARDKIT_RETURN_IF_ERROR(integer("width", kCocoWidth));
    SHARDKIT_RETURN_IF_ERROR(integer("height", kCocoHeight));
    if (rest_of_image_) AddAll(*rest_of_image_, &image_);
    image_ += image_.empty() ? "{}" : "}";
    return absl::OkStatus();
  }

  // The number of annotations, which all columns agree on.
  absl::Status Agree(CocoColumn column, uint64_t count) {
    if (!annotations_) annotations_.emplace(count);
    if (annotations_->size() == count) return absl::OkStatus();
    return DataLoss("column '", columns_[column].name, "' has ", count, " annotations, and another column ",
                    annotations_->size());
  }

  static void AppendNumber(double number, std::string* text) {
    if (std::fabs(number) <= 9007199254740992.0 && number == std::trunc(number) &&  // 2^53
        !(number == 0 && std::signbit(number))) {
      *text += StrCat(static_cast<int64_t>(number));
      return;
    }
    char digits[kMaxPythonFloatBytes];
    text->append(digits, FormatPythonFloat(number, digits));
  }

  absl::Status Array(std::string_view name, CocoColumn column) {
    if (!Has(column)) return absl::OkStatus();
    const absl::StatusOr<NdarrayView> array = ParseNdarray(columns_[column], values_[column]);
    if (!array.ok()) return Annotate(array.status(), StrCat("column '", columns_[column].name, "'"));
    // Without numbers the length is a mere claim.
    if (array->shape.empty() || (array->data.empty() && array->shape[0] > 0)) {
      return DataLoss("column '", columns_[column].name, "' has no numbers");
    }
    SHARDKIT_RETURN_IF_ERROR(Agree(column, array->shape[0]));
    uint64_t row = 1;
    for (const uint64_t side : std::span(array->shape).subspan(1)) row *= side;
    const bool is_list = array->shape.size() > 1;
    const char* number = array->data.data();
    for (std::string& object : *annotations_) {
      std::string text = is_list ? "[" : "";
      for (uint64_t i = 0; i < row; ++i, number += 8) {
        if (i > 0) text += ", ";
        if (columns_[column].dtype == Type::kI64) {
          text += StrCat(LoadLittle<int64_t>(number));
        } else {
          AppendNumber(LoadLittle<double>(number), &text);
        }
      }
      if (is_list) text += "]";
      SHARDKIT_RETURN_IF_ERROR(Add(name, text, &object));
    }
    return absl::OkStatus();
  }

  absl::Status List(std::string_view name, CocoColumn column) {
    if (!Has(column)) return absl::OkStatus();
    JsonTree tree;
    SHARDKIT_ASSIGN_OR_RETURN(const JsonElement list, Parse(column, &tree));
    std::vector<std::string> texts;
    list.ForEach([&](JsonElement value) {
      texts.push_back(value.Format());
      return true;
    });
    SHARDKIT_RETURN_IF_ERROR(Agree(column, texts.size()));
    for (size_t i = 0; i < texts.size(); ++i) SHARDKIT_RETURN_IF_ERROR(Add(name, texts[i], &(*annotations_)[i]));
    return absl::OkStatus();
  }

  const CocoValues& values_;
  const std::vector<Column> columns_;
  JsonTree rest_tree_;
  std::optional<JsonElement> rest_of_image_, rest_of_panoptic_;
  std::vector<JsonElement> rest_;
  std::optional<std::vector<std::string>> annotations_;
  std::string image_, image_id_;
};

}  // namespace

absl::Status RegenerateCocoJson(const CocoValues& values, std::string* image, std::string* annotations) {
  Entries entries(values);
  SHARDKIT_RETURN_IF_ERROR(entries.Build());
  *image += StrCat(image->empty() ? "" : ",\n", entries.image());
  for (const std::string& object : entries.objects()) {
    *annotations += StrCat(annotations->empty() ? "" : ",\n", object.empty() ? "{" : object, "}");
  }
  return absl::OkStatus();
}

std::string CocoFileName(const Metadata& metadata) {
  const auto name = metadata.find(std::string(kCocoFile));
  const bool fits = name != metadata.end() && BasePart(name->second) == name->second &&
                    absl::EndsWithIgnoreCase(name->second, ".json") && OutputName("", name->second).ok();
  return fits ? name->second : "annotations.json";
}

absl::StatusOr<std::unique_ptr<CocoWriter>> CocoWriter::Create(FileSystem& file_system, const std::string& directory,
                                                               const Metadata& metadata) {
  std::unique_ptr<CocoWriter> writer(new CocoWriter(file_system, JoinPath(directory, CocoFileName(metadata))));
  std::string members;
  if (const auto text = metadata.find(std::string(kCocoMembers)); text != metadata.end()) {
    JsonTree tree;
    const auto parsed = tree.Parse(text->second);
    if (!parsed.ok()) return Annotate(parsed.status(), StrCat("metadata ", kCocoMembers));
    parsed->ForEachMember([&](std::string_view member, JsonElement value) {
      if (member == "annotations") writer->has_annotations_ = true;
      if (member != "images" && member != "annotations") (void)AppendJsonMember(member, value.Format(), &members);
      return true;
    });
  }
  (void)AppendJsonMember("images", "[\n", &members);
  SHARDKIT_ASSIGN_OR_RETURN(writer->file_, file_system.Create(writer->path_));
  SHARDKIT_ASSIGN_OR_RETURN(writer->annotations_, file_system.Create(AnnotationsPath(writer->path_)));
  SHARDKIT_RETURN_IF_ERROR(writer->file_->Append(members));
  return writer;
}

absl::Status CocoWriter::Append(std::string_view images, std::string_view annotations) {
  SHARDKIT_RETURN_IF_ERROR(AppendTo(*file_, images, &any_images_));
  return AppendTo(*annotations_, annotations, &any_annotations_);
}

absl::StatusOr<uint64_t> CocoWriter::Finish() {
  SHARDKIT_RETURN_IF_ERROR(annotations_->Close());
  const std::string path = AnnotationsPath(path_);
  SHARDKIT_RETURN_IF_ERROR(file_->Append("\n]"));
  if (has_annotations_ || any_annotations_) {
    SHARDKIT_RETURN_IF_ERROR(file_->Append(", \"annotations\": [\n"));
    SHARDKIT_ASSIGN_OR_RETURN(const auto annotations, file_system_.OpenForReading(path));
    std::string piece;
    for (uint64_t offset = 0; offset < annotations->size(); offset += piece.size()) {
      piece.resize(std::min(kCopiedBytes, annotations->size() - offset));
      SHARDKIT_RETURN_IF_ERROR(annotations->ReadAt(offset, piece));
      SHARDKIT_RETURN_IF_ERROR(file_->Append(piece));
    }
    SHARDKIT_RETURN_IF_ERROR(file_->Append("\n]"));
  }
  SHARDKIT_RETURN_IF_ERROR(file_->Append("}\n"));
  SHARDKIT_RETURN_IF_ERROR(file_->Close());
  SHARDKIT_RETURN_IF_ERROR(file_system_.RemoveFile(path));
  return file_->size();
}

}  // namespace shardkit::operations
