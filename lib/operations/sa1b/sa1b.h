// SA-1B annotation files <-> columns (Segment Anything, Kirillov et al. 2023). The JSON form is that of the published
// dataset: one object {"image": {...}, "annotations": [...]} per photograph.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/rle.h"
#include "shardkit/sample.h"
#include "shardkit/schema.h"

namespace shardkit::operations {

// The columns of an SA-1B dataset, `key` first: key, image, image_id, width, height, file_name, masks,
// annotation_id, area, bbox, predicted_iou, stability_score, crop_box, point_coords, source_json. Never deleted.
const std::vector<Column>& Sa1bColumns();

// Converts annotation files. One thread at a time; keeps its memory between calls.
class Sa1bConverter {
 public:
  Sa1bConverter();
  ~Sa1bConverter();
  Sa1bConverter(const Sa1bConverter&) = delete;
  Sa1bConverter& operator=(const Sa1bConverter&) = delete;

  // Parses `json` and appends the values of every annotation column to *fields. Adds source_json when the text
  // regenerated from the columns is not byte for byte `json`. Values live in *arena. A column is absent as a whole when
  // some annotation does not fit it (a member is missing or of another form, point_coords of differing lengths);
  // source_json still has everything. DataLoss for invalid JSON, for JSON without the two objects, and, naming the
  // annotation (counted from 0), for counts that are malformed or do not sum to height x width; the contents of *fields
  // are then unspecified. Accepts both compressed strings and lists of counts.
  absl::Status Convert(std::string_view json, ByteArena* arena, std::vector<Field>* fields);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The values of one sample's annotation columns, as stored; an absent one has a null data().
struct Sa1bValues {
  std::string_view image_id, width, height, file_name, masks, annotation_id, area, bbox, predicted_iou, stability_score,
      crop_box, point_coords, source_json;
};

// The text of the annotation file: source_json when present, else regenerated. Replaces *json. DataLoss when the
// columns contradict each other.
absl::Status RegenerateSa1bJson(const Sa1bValues& values, std::string* json);

}  // namespace shardkit::operations
