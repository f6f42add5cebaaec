// shardctl inspect PATH --sample N: every value of one sample.
#include <string>
#include <vector>

#include "dataset_access.h"
#include "describe.h"
#include "inspect.h"
#include "json.h"
#include "output.h"
#include "report.h"
#include "table.h"

namespace shardctl {

int InspectSample(const shardkit::DatasetReader& dataset, uint64_t sample, bool json) {
  const absl::StatusOr<shardkit::DatasetReader::Location> location = dataset.Locate(sample);
  if (!location.ok()) return Fail(location.status());
  Json document;
  document["path"] = dataset.path();
  document["sample"] = sample;
  document["shard"] = location->shard;
  document["sample_in_shard"] = location->local;
  document["columns"] = Json::array();
  Table table("lll");
  shardkit::BlockBuffer buffer;
  for (size_t i = 0; i < dataset.columns().size(); ++i) {
    const shardkit::Column& column = dataset.columns()[i];
    const absl::StatusOr<std::optional<std::string_view>> value = dataset.ReadValue(sample, i, &buffer);
    if (!value.ok()) return Fail(value.status());
    Json entry{
        {"name", column.name}, {"type", shardkit::TypeName(column.type)}, {"present", value->has_value()}};
    if (value->has_value()) {
      const Description description = DescribeValue(column, **value);
      entry["length"] = (*value)->size();
      entry.update(description.json);
      table.AddRow({Printable(column.name), TypeText(column), description.text});
    } else {
      table.AddRow({Printable(column.name), TypeText(column), "absent"});
    }
    document["columns"].push_back(std::move(entry));
  }
  if (json) {
    PrintJson(document);
  } else {
    Stdout().Write(Printable(dataset.path()) + ": sample " + std::to_string(sample) + ", shard " +
                   std::to_string(location->shard) + ", its sample " + std::to_string(location->local) +
                   "\n\n" + table.Format());
  }
  return kExitSuccess;
}

}  // namespace shardctl
