#include <cmath>
#include <vector>

#include "base/endian.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "operations/coco/coco_columns.h"
#include "operations/python_float.h"

namespace shardkit::operations {
namespace {

// The objects of one sample, which columns add members to.
class Entries {
 public:
  explicit Entries(const CocoValues& values) : values_(values), columns_(CocoColumns(std::nullopt)) {}

  absl::Status Build() {
    if (Has(kCocoSourceJson)) {
      SHARDKIT_ASSIGN_OR_RETURN(const JsonElement rest, Parse(kCocoSourceJson, &rest_tree_));
      rest.ForEachMember([this](std::string_view name, JsonElement value) {
        if (name == "image") rest_of_image_ = value;
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
    SHARDKIT_RETURN_IF_ERROR(Array("category_id", kCocoCategoryId));
    SHARDKIT_RETURN_IF_ERROR(List("segmentation", kCocoSegmentation));
    SHARDKIT_RETURN_IF_ERROR(Array("area", kCocoArea));
    SHARDKIT_RETURN_IF_ERROR(Array("bbox", kCocoBbox));
    SHARDKIT_RETURN_IF_ERROR(Array("iscrowd", kCocoIscrowd));
    SHARDKIT_RETURN_IF_ERROR(Array("keypoints", kCocoKeypoints));
    SHARDKIT_RETURN_IF_ERROR(Array("num_keypoints", kCocoNumKeypoints));
    SHARDKIT_RETURN_IF_ERROR(List("caption", kCocoCaptions));
    for (std::string& object : objects()) {
      if (Has(kCocoImageId)) SHARDKIT_RETURN_IF_ERROR(Add("image_id", image_id_, &object));
    }
    for (size_t i = 0; i < rest_.size(); ++i) AddAll(rest_[i], &objects()[i]);
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
    if (Has(kCocoFileName)) {
      std::string text;
      if (!AppendPythonJsonString(values_[kCocoFileName], &text)) return DataLoss("column 'file_name' is not UTF-8");
      SHARDKIT_RETURN_IF_ERROR(Add("file_name", text, &image_));
    }
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
  std::optional<JsonElement> rest_of_image_;
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

}  // namespace shardkit::operations
