// The annotation file again, of a dataset that was packed from COCO.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "operations/coco/coco_columns.h"
#include "shardkit/filesystem.h"
#include "shardkit/schema.h"

namespace shardkit::operations {

// The stored values of one sample by column; an absent one has a null data(). kCocoKey, kCocoImage, kCocoPanoptic,
// kCocoLabel and kCocoMasks are not looked at.
using CocoValues = std::array<std::string_view, kCocoColumnCount>;

// The name of the annotation file: kCocoFile, if it is the name of a file *.json. Names of PNGs are relative to the
// folder of this name without the ending, as for panopticapi.
std::string CocoFileName(const Metadata& metadata);

// Appends the sample's element of "images", and its elements of "annotations", each behind a comma if *image or
// *annotations is not empty. DataLoss when the columns contradict each other.
absl::Status RegenerateCocoJson(const CocoValues& values, std::string* image, std::string* annotations);

// Writes it while samples are read: annotations go to a second file at first, because a JSON file has one list after
// the other. One thread at a time.
class CocoWriter {
 public:
  // The file has kCocoMembers around the lists.
  static absl::StatusOr<std::unique_ptr<CocoWriter>> Create(FileSystem& file_system, const std::string& directory,
                                                            const Metadata& metadata);

  // Elements with commas between them, none before the first and behind the last; perhaps none at all.
  absl::Status Append(std::string_view images, std::string_view annotations);

  // Returns the bytes of the file. Removes the second one.
  absl::StatusOr<uint64_t> Finish();

 private:
  CocoWriter(FileSystem& file_system, std::string path) : file_system_(file_system), path_(std::move(path)) {}

  FileSystem& file_system_;
  const std::string path_;
  bool has_annotations_ = false;  // the file has a list of them
  bool any_images_ = false, any_annotations_ = false;
  std::unique_ptr<WritableFile> file_, annotations_;
};

}  // namespace shardkit::operations
