// Which annotations of a COCO file belong to which image, and where they stand in the file.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "operations/coco/coco_columns.h"
#include "shardkit/filesystem.h"

namespace shardkit::operations {

// A value of the file's object: of a member, or an element of a member's list.
struct JsonPiece {
  std::string_view member;
  bool element = false;  // else the value of the member; of a list that is given by its elements, "[]" before them
  uint64_t offset = 0;   // in the file
  std::string_view text;
};

// Thread-safe once made. Memory: 16 bytes for each annotation, while it is made up to 80; about 60 for each image. The
// entries of an image are read again when it is packed; a file of a store of up to 1 GiB is therefore held in memory.
class CocoIndex {
 public:
  // Reads and parses the whole file. DataLoss, naming the place, for a file that is no JSON, or no list "images" of
  // objects with an integer "id" of their own and a text "file_name".
  static absl::StatusOr<std::unique_ptr<CocoIndex>> Read(std::unique_ptr<RandomAccessFile> file);

  const std::string& path() const { return file_->path(); }
  size_t size() const { return images_.size(); }  // images, in the order of the file
  std::string_view file_name(size_t image) const;
  // Whether annotations are lists of segments, which PNGs show. Of each image that has one, the name of its PNG.
  bool panoptic() const { return !pngs_.empty(); }
  std::string_view png_name(size_t image) const;
  // Of the image's entry and its annotations, which changes when these do.
  uint64_t fingerprint(size_t image) const { return images_[image].fingerprint; }
  // Of the whole file.
  uint64_t hash() const { return hash_; }

  // The columns that the file's members need.
  const CocoColumnSet& columns() const { return columns_; }
  // kCocoMembers.
  const std::string& members() const { return members_; }
  // kClassNames, if the file has categories, all with names.
  const std::optional<std::string>& classes() const { return classes_; }
  bool has_categories() const { return has_categories_; }
  // The place of a category among the categories.
  std::optional<int64_t> LabelOf(int64_t category_id) const;
  // Of the first category that has some.
  uint64_t keypoints() const { return keypoints_; }

  // About annotations of images that the file does not have; empty if there are none.
  std::string unknown_images() const;

  // The image's entry and then its annotations, in the order of the file. Texts are in *bytes.
  absl::Status ReadImage(size_t image, std::string* bytes, std::vector<JsonPiece>* pieces) const;

 private:
  struct Image {
    uint64_t offset = 0;  // in the file
    uint64_t fingerprint = 0;
    uint64_t name = 0;  // where it begins in names_
    uint32_t length = 0;
    uint32_t name_length = 0;
    uint64_t first_annotation = 0;
  };
  struct Place {
    uint64_t offset = 0;  // in the file, or in names_
    uint32_t length = 0;
  };
  class Reader;

  explicit CocoIndex(std::unique_ptr<RandomAccessFile> file) : file_(std::move(file)) {}

  const std::unique_ptr<RandomAccessFile> file_;
  std::string names_;
  std::vector<Image> images_;
  std::vector<Place> annotations_;  // by image
  std::vector<Place> pngs_;         // names of each image's PNG
  std::map<int64_t, int64_t> labels_;
  std::optional<std::string> classes_;
  bool has_categories_ = false;
  uint64_t keypoints_ = 0;
  CocoColumnSet columns_;
  std::string members_;
  uint64_t hash_ = 0;
  uint64_t unknown_ = 0;       // annotations of unknown images
  std::string first_unknown_;  // some of them
};

}  // namespace shardkit::operations
