// Any text as an annotation file of SA-1B. An accepted text comes back byte for byte, either from the columns or from
// the source text stored beside them.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/operations/sa1b/sa1b.h"
#include "support/memory_bound.h"
#include "support/require.h"

namespace {

using namespace shardkit;
using namespace shardkit::fuzz;

// The values of the fields by the names of their columns.
operations::Sa1bValues ValuesOf(const std::vector<Field>& fields) {
  operations::Sa1bValues values;
  const std::array<std::pair<std::string_view, std::string_view*>, 13> places = {{
      {"image_id", &values.image_id},
      {"width", &values.width},
      {"height", &values.height},
      {"file_name", &values.file_name},
      {"masks", &values.masks},
      {"annotation_id", &values.annotation_id},
      {"area", &values.area},
      {"bbox", &values.bbox},
      {"predicted_iou", &values.predicted_iou},
      {"stability_score", &values.stability_score},
      {"crop_box", &values.crop_box},
      {"point_coords", &values.point_coords},
      {"source_json", &values.source_json},
  }};
  for (const Field& field : fields) {
    bool known = false;
    for (const auto& [name, place] : places) {
      if (name != field.column->name) continue;
      Require(place->data() == nullptr, "a column comes once");
      // A null pointer stands for an absent value, but an empty value may have a null pointer, too.
      *place = field.value.bytes.data() == nullptr ? std::string_view("") : field.value.bytes;
      known = true;
    }
    Require(known, "a field is of a column of annotations");
  }
  return values;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryBound bound(size);
  static operations::Sa1bConverter reused;
  ByteArena arena;
  std::vector<Field> fields;
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const absl::Status status = reused.Convert(json, &arena, &fields);
  operations::Sa1bConverter fresh;
  ByteArena other;
  std::vector<Field> again;
  Require(fresh.Convert(json, &other, &again).code() == status.code(),
          "a converter that was used before says the same");
  if (!status.ok()) return 0;
  const operations::Sa1bValues values = ValuesOf(fields);
  std::string text;
  RequireOk(operations::RegenerateSa1bJson(values, &text), "regenerating what was converted");
  Require(text == json, "the text comes back byte for byte");
  if (values.source_json.data() != nullptr) {
    operations::Sa1bValues bare = values;
    bare.source_json = {};
    const bool regenerated = operations::RegenerateSa1bJson(bare, &text).ok();
    Require(!regenerated || text != json, "the source is kept only where the columns do not give it");
  }
  return 0;
}
