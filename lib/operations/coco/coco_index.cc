#include "operations/coco/coco_index.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "codec/content_type.h"
#include "operations/python_float.h"

namespace shardkit::operations {
namespace {

constexpr std::string_view kLists[] = {"images", "annotations"};
constexpr uint64_t kNamedUnknown = 3;
constexpr uint64_t kMostMembersBytes = uint64_t{16} << 20;  // each shard has them

}  // namespace

class CocoIndex::Reader {
 public:
  explicit Reader(CocoIndex& index) : index_(index) {}

  absl::Status Read() {
    SHARDKIT_RETURN_IF_ERROR(ReadJsonPieces(
        *index_.file_, kLists, [this](const JsonPiece& piece) { return Take(piece); }, &index_.hash_));
    if (!has_images_) {
      return DataLoss(index_.path(), ": has no list \"images\": not an annotation file of COCO, as instances_*.json, ",
                      "captions_*.json or person_keypoints_*.json");
    }
    index_.members_ += index_.members_.empty() ? "{}" : "}";
    for (const CocoColumn always : {kCocoKey, kCocoImage, kCocoImageId, kCocoWidth, kCocoHeight, kCocoFileName}) {
      index_.columns_.set(always);
    }
    index_.columns_.set(kCocoSourceJson);
    index_.columns_.set(kCocoLabel, index_.columns_[kCocoCategoryId] && index_.has_categories_);
    index_.columns_.set(kCocoMasks, index_.columns_[kCocoSegmentation]);
    DivideByImage();
    return absl::OkStatus();
  }

 private:
  struct Annotation {
    int64_t image_id = 0;
    Place place;
    uint64_t hash = 0;
  };

  absl::Status Refuse(const JsonPiece& piece, std::string_view what) const {
    return DataLoss(index_.path(), ": byte ", piece.offset, ": ", what);
  }

  absl::Status Take(const JsonPiece& piece) {
    const absl::StatusOr<JsonElement> parsed = tree_.Parse(piece.text);
    if (absl::IsResourceExhausted(parsed.status())) return Annotate(parsed.status(), index_.path());
    if (!parsed.ok()) {
      const std::string why = codec::DescribeInvalidJson(piece.text);
      return Refuse(piece,
                    StrCat("in the value that begins here: ", why.empty() ? ToStd(parsed.status().message()) : why));
    }
    if (piece.element) return piece.member == "images" ? TakeImage(piece, *parsed) : TakeAnnotation(piece, *parsed);
    if (std::ranges::find(kLists, piece.member) != std::end(kLists) && parsed->kind() != JsonKind::kList) {
      return Refuse(piece, StrCat("\"", piece.member, "\" is no list"));
    }
    has_images_ = has_images_ || piece.member == "images";
    if (piece.member == "categories") TakeCategories(*parsed);
    (void)AppendJsonMember(piece.member, parsed->Format(), &index_.members_);
    if (index_.members_.size() > kMostMembersBytes) {
      return ResourceExhausted(index_.path(), ": \"", piece.member,
                               "\": the members beside images and annotations have more than 16 MiB, which each shard "
                               "would hold");
    }
    return absl::OkStatus();
  }

  void TakeCategories(JsonElement list) {
    index_.has_categories_ = true;
    std::string classes = "[";
    bool named = true;
    int64_t label = 0;
    list.ForEach([&](JsonElement category) {
      bool has_name = false;
      category.ForEachMember([&](std::string_view name, JsonElement value) {
        int64_t id = 0;
        if (name == "id" && value.Get(&id)) index_.labels_.emplace(id, label);
        if (std::string_view text; name == "name" && value.Get(&text)) {
          if (label > 0) classes += ", ";
          has_name = AppendPythonJsonString(text, &classes);
        }
        if (name == "keypoints" && index_.keypoints_ == 0) {
          value.ForEach([&](JsonElement) {
            ++index_.keypoints_;
            return true;
          });
        }
        return true;
      });
      named = named && has_name;
      ++label;
      return true;
    });
    if (named) index_.classes_ = classes + "]";
  }

  absl::Status TakeImage(const JsonPiece& piece, JsonElement image) {
    std::optional<int64_t> id;
    std::optional<std::string_view> file_name;
    image.ForEachMember([&](std::string_view name, JsonElement value) {
      int64_t number = 0;
      std::string_view text;
      if (name == "id") id = value.Get(&number) ? std::optional(number) : std::nullopt;
      if (name == "file_name") file_name = value.Get(&text) ? std::optional(text) : std::nullopt;
      return true;
    });
    if (!id) return Refuse(piece, "an image without \"id\", an integer");
    if (!file_name) return Refuse(piece, StrCat("image ", *id, " has no \"file_name\", a text"));
    if (!ordinals_.emplace(*id, index_.images_.size()).second) {
      return Refuse(piece, StrCat("image ", *id, " is there twice; each image has an id of its own"));
    }
    index_.images_.push_back({.offset = piece.offset,
                              .fingerprint = Hash64(piece.text),
                              .name = index_.names_.size(),
                              .length = static_cast<uint32_t>(piece.text.size()),
                              .name_length = static_cast<uint32_t>(file_name->size())});
    index_.names_ += *file_name;
    return absl::OkStatus();
  }

  absl::Status TakeAnnotation(const JsonPiece& piece, JsonElement annotation) {
    std::optional<int64_t> image_id;
    annotation.ForEachMember([&](std::string_view name, JsonElement value) {
      const std::optional<CocoColumn> column = ColumnOfAnnotationMember(name);
      if (column) index_.columns_.set(*column);
      int64_t number = 0;
      if (column == kCocoImageId) image_id = value.Get(&number) ? std::optional(number) : std::nullopt;
      return true;
    });
    if (!image_id) return Refuse(piece, "an annotation without \"image_id\", an integer");
    pending_.push_back({*image_id, {piece.offset, static_cast<uint32_t>(piece.text.size())}, Hash64(piece.text)});
    return absl::OkStatus();
  }

  void DivideByImage() {
    const size_t images = index_.images_.size();
    std::vector<uint64_t> counts(images + 1, 0);
    const auto ordinal = [&](const Annotation& annotation) {
      const auto found = ordinals_.find(annotation.image_id);
      return found == ordinals_.end() ? images : found->second;
    };
    for (const Annotation& annotation : pending_) {
      const size_t image = ordinal(annotation);
      ++counts[image];
      if (image < images) {
        // The order counts: a sum alone would be the same for two that changed places.
        uint64_t& fingerprint = index_.images_[image].fingerprint;
        fingerprint = fingerprint * 0x9e3779b97f4a7c15 + annotation.hash;
      } else if (index_.unknown_++ < kNamedUnknown) {
        index_.first_unknown_ += StrCat(index_.first_unknown_.empty() ? "" : ", ", "at byte ", annotation.place.offset,
                                        " of image ", annotation.image_id);
      }
    }
    uint64_t next = 0;
    for (size_t i = 0; i < images; ++i) {
      index_.images_[i].first_annotation = next;
      next += std::exchange(counts[i], next);
    }
    index_.annotations_.resize(next);
    for (const Annotation& annotation : pending_) {
      const size_t image = ordinal(annotation);
      if (image < images) index_.annotations_[counts[image]++] = annotation.place;
    }
  }

  CocoIndex& index_;
  JsonTree tree_;
  bool has_images_ = false;
  absl::flat_hash_map<int64_t, size_t> ordinals_;
  std::vector<Annotation> pending_;
};

absl::StatusOr<std::unique_ptr<CocoIndex>> CocoIndex::Read(std::unique_ptr<RandomAccessFile> file) {
  std::unique_ptr<CocoIndex> index(new CocoIndex(std::move(file)));
  SHARDKIT_RETURN_IF_ERROR(Reader(*index).Read());
  return index;
}

std::string_view CocoIndex::file_name(size_t image) const {
  return std::string_view(names_).substr(images_[image].name, images_[image].name_length);
}

std::optional<int64_t> CocoIndex::LabelOf(int64_t category_id) const {
  const auto found = labels_.find(category_id);
  return found == labels_.end() ? std::nullopt : std::optional(found->second);
}

std::string CocoIndex::unknown_images() const {
  if (unknown_ == 0) return {};
  return StrCat(path(), ": ", unknown_, unknown_ == 1 ? " annotation is" : " annotations are",
                " left out, because their images are not in \"images\" (", first_unknown_,
                unknown_ > kNamedUnknown ? ", …)" : ")");
}

absl::Status CocoIndex::ReadImage(size_t image, std::string* bytes, std::vector<JsonPiece>* pieces) const {
  const Image& entry = images_[image];
  const uint64_t end = image + 1 < images_.size() ? images_[image + 1].first_annotation : annotations_.size();
  std::vector<Place> places{{entry.offset, entry.length}};
  places.insert(places.end(), annotations_.begin() + static_cast<ptrdiff_t>(entry.first_annotation),
                annotations_.begin() + static_cast<ptrdiff_t>(end));
  uint64_t length = 0;
  for (const Place& place : places) length += place.length;
  bytes->resize(length);
  pieces->clear();
  std::vector<ReadRequest> requests;
  uint64_t at = 0;
  for (const Place& place : places) {
    requests.push_back({place.offset, std::span(*bytes).subspan(at, place.length)});
    pieces->push_back({.member = pieces->empty() ? kLists[0] : kLists[1],
                       .element = true,
                       .offset = place.offset,
                       .text = std::string_view(*bytes).substr(at, place.length)});
    at += place.length;
  }
  return file_->ReadBatch(requests);
}

}  // namespace shardkit::operations
