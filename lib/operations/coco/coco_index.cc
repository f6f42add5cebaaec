#include "operations/coco/coco_index.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/checked.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "codec/content_type.h"
#include "container/read/value_file.h"
#include "operations/python_float.h"

namespace shardkit::operations {
namespace {

constexpr std::string_view kLists[] = {"images", "annotations"};
constexpr uint64_t kNamedUnknown = 3;
constexpr uint64_t kMostMembersBytes = uint64_t{16} << 20;  // each shard has them

constexpr uint64_t kWindowBytes = uint64_t{1} << 20;
constexpr uint64_t kMostPieceBytes = uint64_t{256} << 20;
constexpr uint64_t kMostHeldBytes = uint64_t{1} << 30;

// Bytes that matter outside of texts, and those that end a number or a word.
constexpr std::array<bool, 256> kStructure = [] {
  std::array<bool, 256> table{};
  for (const unsigned char c : std::string_view("\"{}[]")) table[c] = true;
  return table;
}();
constexpr std::array<bool, 256> kBehindScalar = [] {
  std::array<bool, 256> table{};
  for (const unsigned char c : std::string_view(",]}: \t\r\n")) table[c] = true;
  return table;
}();

// A window over the file that moves forward.
class Window {
 public:
  explicit Window(const RandomAccessFile& file) : file_(file) {}

  uint64_t offset() const { return begin_ + at_; }
  uint64_t hash() const { return hash_.Digest(); }

  // The next byte that is not white space; '\0' at the end.
  absl::StatusOr<char> Peek() {
    while (true) {
      for (; at_ < bytes_.size(); ++at_) {
        const char c = bytes_[at_];
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t') return c;
      }
      SHARDKIT_ASSIGN_OR_RETURN(const bool more, Fill());
      if (!more) return '\0';
    }
  }
  void Pass() { ++at_; }  // the byte of Peek

  // The value that begins with the byte of Peek. Valid until the next call.
  absl::StatusOr<std::string_view> Value() {
    const uint64_t offset = this->offset();
    const auto opened = [](char c) { return c == '{' || c == '['; };
    size_t end = at_;
    size_t depth = 0;
    bool in_text = false;
    const bool scalar = bytes_[at_] != '"' && !opened(bytes_[at_]);
    while (true) {
      for (; end < bytes_.size(); ++end) {
        const char c = bytes_[end];
        if (scalar) {
          if (kBehindScalar[static_cast<unsigned char>(c)]) return Take(end);
        } else if (in_text) {
          if (c == '\\') {
            ++end;
          } else if (c == '"') {
            in_text = false;
            if (depth == 0) return Take(end + 1);
          }
        } else if (!kStructure[static_cast<unsigned char>(c)]) {
          continue;
        } else if (c == '"') {
          in_text = true;
        } else if (opened(c)) {
          ++depth;
        } else if (--depth == 0) {
          return Take(end + 1);
        }
      }
      const size_t passed = end - at_;  // one more than there are, behind a backslash
      if (passed > kMostPieceBytes) {
        return ResourceExhausted(file_.path(), ": byte ", offset, ": the value that begins here has more than 256 MiB");
      }
      SHARDKIT_ASSIGN_OR_RETURN(const bool more, Fill());
      if (!more && scalar) return Take(bytes_.size());
      if (!more) {
        return DataLoss(file_.path(), ": ends within the value that begins at byte ", offset,
                        ": the file is cut off; get it again");
      }
      end = at_ + passed;
    }
  }

 private:
  std::string_view Take(size_t end) {
    const std::string_view value = std::string_view(bytes_).substr(at_, end - at_);
    at_ = end;
    return value;
  }

  // Reads more behind what is left of the window; false at the end of the file.
  absl::StatusOr<bool> Fill() {
    const uint64_t read = begin_ + bytes_.size();
    bytes_.erase(0, at_);
    begin_ += at_;
    at_ = 0;
    const uint64_t kept = bytes_.size();
    const uint64_t more = std::min(std::max(kWindowBytes, kept), file_.size() - read);
    if (more == 0) return false;
    bytes_.resize(kept + more);
    SHARDKIT_RETURN_IF_ERROR(file_.ReadAt(read, std::span(bytes_).subspan(kept)));
    hash_.Update(std::string_view(bytes_).substr(kept));
    return true;
  }

  const RandomAccessFile& file_;
  StreamingHash hash_;
  std::string bytes_;
  uint64_t begin_ = 0;  // of bytes_, in the file
  size_t at_ = 0;       // in bytes_
};

// Reads the file from front to back in pieces of 1 MiB, and calls `take` for each member of its object; of members in
// `lists` that are lists, for each element. Only the structure between the pieces is checked: `take` parses their text,
// which is valid until it returns. The largest piece is held in memory: ResourceExhausted above 256 MiB. DataLoss, with
// the place, for a file that is no object, is cut off, or has a member twice. *hash becomes Hash64 of the file.
absl::Status ReadJsonPieces(const RandomAccessFile& file, std::span<const std::string_view> lists,
                            absl::FunctionRef<absl::Status(const JsonPiece&)> take, uint64_t* hash) {
  Window window(file);
  const auto expected = [&](std::string_view what) {
    return DataLoss(file.path(), ": byte ", window.offset(), ": expected ", what,
                    ": not an annotation file of COCO, which is one JSON object, or damaged");
  };
  const auto pass = [&](char c, std::string_view what) -> absl::Status {
    SHARDKIT_ASSIGN_OR_RETURN(const char next, window.Peek());
    if (next != c) return expected(what);
    window.Pass();
    return absl::OkStatus();
  };
  // Calls `one` for each part of a list or object, whose opening was passed.
  const auto each = [&](char close, auto one) -> absl::Status {
    SHARDKIT_ASSIGN_OR_RETURN(char next, window.Peek());
    if (next == close) {
      window.Pass();
      return absl::OkStatus();
    }
    while (true) {
      SHARDKIT_RETURN_IF_ERROR(one());
      SHARDKIT_ASSIGN_OR_RETURN(next, window.Peek());
      if (next != ',' && next != close) return expected(close == ']' ? "',' or ']'" : "',' or '}'");
      window.Pass();
      if (next == close) return absl::OkStatus();
    }
  };
  const auto value = [&](JsonPiece piece) -> absl::Status {
    SHARDKIT_ASSIGN_OR_RETURN(const char next, window.Peek());
    piece.offset = window.offset();
    if (std::string_view(",:]}").find(next) != std::string_view::npos || next == '\0') return expected("a value");
    SHARDKIT_ASSIGN_OR_RETURN(piece.text, window.Value());
    return take(piece);
  };
  std::set<std::string> seen;
  JsonTree tree;
  const auto read_member = [&]() -> absl::Status {
    SHARDKIT_ASSIGN_OR_RETURN(char next, window.Peek());
    if (next != '"') return expected("the name of a member");
    const uint64_t offset = window.offset();
    SHARDKIT_ASSIGN_OR_RETURN(const std::string_view quoted, window.Value());
    const auto parsed = tree.Parse(quoted);
    std::string_view name;
    if (!parsed.ok() || !parsed->Get(&name)) return DataLoss(file.path(), ": byte ", offset, ": is no JSON text");
    const auto [member, added] = seen.emplace(name);
    if (!added) return DataLoss(file.path(), ": byte ", offset, ": has \"", name, "\" twice");
    SHARDKIT_RETURN_IF_ERROR(pass(':', "':'"));
    SHARDKIT_ASSIGN_OR_RETURN(next, window.Peek());
    if (next != '[' || std::ranges::find(lists, *member) == lists.end()) return value({.member = *member});
    SHARDKIT_RETURN_IF_ERROR(take({.member = *member, .offset = window.offset(), .text = "[]"}));
    window.Pass();
    const std::string_view list = *member;
    return each(']', [&] { return value({.member = list, .element = true}); });
  };
  SHARDKIT_RETURN_IF_ERROR(pass('{', "'{'"));
  SHARDKIT_RETURN_IF_ERROR(each('}', read_member));
  SHARDKIT_ASSIGN_OR_RETURN(const char next, window.Peek());
  if (next != '\0' || window.offset() != file.size()) return expected("the end of the file");
  *hash = window.hash();
  return absl::OkStatus();
}

}  // namespace

class CocoIndex::Reader {
 public:
  explicit Reader(CocoIndex& index) : index_(index) {}

  absl::Status Read() {
    SHARDKIT_RETURN_IF_ERROR(ReadJsonPieces(
        *index_.file_, kLists, [this](const JsonPiece& piece) { return Take(piece); }, &index_.hash_));
    if (!has_images_) {
      return DataLoss(index_.path(), ": has no list \"images\": not an annotation file of COCO, as instances_*.json, ",
                      "captions_*.json, person_keypoints_*.json or panoptic_*.json");
    }
    index_.members_ += index_.members_.empty() ? "{}" : "}";
    for (const CocoColumn always : {kCocoKey, kCocoImage, kCocoImageId, kCocoWidth, kCocoHeight, kCocoFileName}) {
      index_.columns_.set(always);
    }
    index_.columns_.set(kCocoSourceJson);
    index_.columns_.set(kCocoLabel, index_.columns_[kCocoCategoryId] && index_.has_categories_);
    for (const CocoColumn column : {kCocoPanoptic, kCocoPanopticFileName, kCocoSegmentId}) {
      index_.columns_.set(column, !pngs_.empty());
    }
    index_.columns_.set(kCocoMasks, index_.columns_[kCocoSegmentation] || !pngs_.empty());
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
    CocoColumnSet columns;
    std::optional<JsonElement> segments;
    std::optional<std::string_view> png;
    annotation.ForEachMember([&](std::string_view name, JsonElement value) {
      const std::optional<CocoColumn> column = ColumnOfAnnotationMember(name);
      if (column) columns.set(*column);
      int64_t number = 0;
      std::string_view text;
      if (column == kCocoImageId) image_id = value.Get(&number) ? std::optional(number) : std::nullopt;
      if (name == kCocoSegments) segments = value;
      if (name == "file_name") png = value.Get(&text) ? std::optional(text) : std::nullopt;
      return true;
    });
    if (!image_id) return Refuse(piece, "an annotation without \"image_id\", an integer");
    if (!pending_.empty() && segments.has_value() == pngs_.empty()) {
      return Refuse(piece, "some annotations have \"segments_info\" and others not: divide the file in two");
    }
    if (segments) {
      SHARDKIT_RETURN_IF_ERROR(TakeSegments(piece, *segments, png.value_or("")));
    } else {
      index_.columns_ |= columns;
    }
    pending_.push_back({*image_id, {piece.offset, static_cast<uint32_t>(piece.text.size())}, Hash64(piece.text)});
    return absl::OkStatus();
  }

  absl::Status TakeSegments(const JsonPiece& piece, JsonElement segments, std::string_view png) {
    const bool is_list = segments.ForEach([&](JsonElement segment) {
      return segment.ForEachMember([&](std::string_view name, JsonElement) {
        if (const auto column = ColumnOfSegmentMember(name)) index_.columns_.set(*column);
        return true;
      });
    });
    if (!is_list) return Refuse(piece, "\"segments_info\" is no list");
    if (png.empty()) return Refuse(piece, "an annotation with \"segments_info\" and no \"file_name\", that of its PNG");
    pngs_.push_back({index_.names_.size(), static_cast<uint32_t>(png.size())});
    index_.names_ += png;
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
    if (!pngs_.empty()) index_.pngs_.resize(images + 1);
    for (size_t i = 0; i < pending_.size(); ++i) {
      const size_t image = ordinal(pending_[i]);
      if (image < images) index_.annotations_[counts[image]++] = pending_[i].place;
      if (!pngs_.empty()) index_.pngs_[image] = pngs_[i];
    }
  }

  CocoIndex& index_;
  JsonTree tree_;
  bool has_images_ = false;
  absl::flat_hash_map<int64_t, size_t> ordinals_;
  std::vector<Annotation> pending_;
  std::vector<Place> pngs_;  // of all or none of them
};

absl::StatusOr<std::unique_ptr<CocoIndex>> CocoIndex::Read(std::unique_ptr<RandomAccessFile> file) {
  if (IsUrl(file->path()) && file->size() <= kMostHeldBytes) {
    // The annotations of an image lie all over it, and each would be a request.
    std::string bytes(file->size(), '\0');
    SHARDKIT_RETURN_IF_ERROR(file->ReadAt(0, bytes));
    file = std::make_unique<container::ValueFile>(file->path(), std::move(bytes));
  }
  std::unique_ptr<CocoIndex> index(new CocoIndex(std::move(file)));
  SHARDKIT_RETURN_IF_ERROR(Reader(*index).Read());
  return index;
}

std::string_view CocoIndex::file_name(size_t image) const {
  return std::string_view(names_).substr(images_[image].name, images_[image].name_length);
}

std::string_view CocoIndex::png_name(size_t image) const {
  return panoptic() ? std::string_view(names_).substr(pngs_[image].offset, pngs_[image].length) : std::string_view();
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
