// Entries of COCO's annotation files -> columns.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "operations/coco/coco_index.h"
#include "shardkit/sample.h"
#include "shardkit/schema.h"

namespace shardkit::operations {

// The PNG of an image's segments.
struct CocoPng {
  std::string path;  // for messages
  std::string_view bytes;
};

// Converts an image's entry and its annotations. One thread at a time; keeps its memory between calls.
class CocoConverter {
 public:
  // `columns` are CocoColumns(index.classes()). Both must outlive the converter.
  CocoConverter(const CocoIndex& index, const std::vector<Column>& columns);
  ~CocoConverter();
  CocoConverter(const CocoConverter&) = delete;
  CocoConverter& operator=(const CocoConverter&) = delete;

  // Appends the values of all columns that the index has, but key, image and panoptic. Values live in *arena. `png` is
  // ignored without annotations of segments. A column is absent as a whole when some annotation does not fit it (a
  // member is missing or of another form); source_json then has its members. Masks are those of pycocotools' annToRLE;
  // an annotation without segmentation among others with it has an empty one, and without any the column is absent.
  // Those of segments are the pixels of their ids in the PNG, id = R
  // + 256 G + 65536 B. DataLoss, naming file, byte and annotation, for polygons and counts that make no mask, for a
  // category that is none of the file's, and for a PNG that does not have the segments' ids, all of them, and only them
  // and 0; the contents of *fields are then unspecified.
  absl::Status Convert(size_t image, const CocoPng& png, ByteArena* arena, std::vector<Field>* fields);

  // Whether the last image had a segmentation that is neither polygons nor RLE, so that it has no masks.
  bool lacks_masks() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shardkit::operations
