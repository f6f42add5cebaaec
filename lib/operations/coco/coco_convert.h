// Entries of COCO's annotation files -> columns.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "operations/coco/coco_index.h"
#include "shardkit/sample.h"
#include "shardkit/schema.h"

namespace shardkit::operations {

// Converts an image's entry and its annotations. One thread at a time; keeps its memory between calls.
class CocoConverter {
 public:
  // `columns` are CocoColumns(index.classes()). Both must outlive the converter.
  CocoConverter(const CocoIndex& index, const std::vector<Column>& columns);
  ~CocoConverter();
  CocoConverter(const CocoConverter&) = delete;
  CocoConverter& operator=(const CocoConverter&) = delete;

  // Appends the values of all columns that the index has, but key and image. Values live in *arena. A column is absent
  // as a whole when some annotation does not fit it (a member is missing or of another form); source_json then has its
  // members. Masks are those of pycocotools' annToRLE; an annotation without segmentation among others with it has an
  // empty one, and without any the column is absent. DataLoss, naming file, byte and annotation, for polygons and
  // counts that make no mask, and for a category that is none of the file's; the contents of *fields are then
  // unspecified.
  absl::Status Convert(size_t image, ByteArena* arena, std::vector<Field>* fields);

  // Whether the last image had a segmentation that is neither polygons nor RLE, so that it has no masks.
  bool lacks_masks() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shardkit::operations
