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
namespace {

struct Front {
  std::string bytes;
  uint64_t length = 0;  // of the whole value
};

// A value. Of a byte string only the front is read, to limit the memory for values of many gigabytes.
absl::StatusOr<std::optional<Front>> ReadFront(const shardkit::DatasetReader& dataset, uint64_t sample, size_t column,
                                               shardkit::BlockBuffer* buffer) {
  Front front;
  if (!shardkit::IsByteString(dataset.columns()[column])) {
    const absl::StatusOr<std::optional<std::string_view>> value = dataset.ReadValue(sample, column, buffer);
    if (!value.ok()) return value.status();
    if (!value->has_value()) return std::nullopt;
    front.bytes = **value;
    front.length = front.bytes.size();
    return front;
  }
  const absl::StatusOr<bool> present = dataset.CopyValue(sample, column, [&](std::string_view piece) {
    front.bytes.append(piece.substr(0, kFrontBytes - front.bytes.size()));
    front.length += piece.size();
    return absl::OkStatus();
  });
  if (!present.ok()) return present.status();
  if (!*present) return std::nullopt;
  return front;
}

}  // namespace

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
    if (!shardkit::IsKnownCodec(column.codec)) {
      document["columns"].push_back(ColumnJson(column));
      table.AddRow({Printable(column.name), TypeText(column),
                    shardkit::CodecName(column.codec) + ", which this version does not know"});
      continue;
    }
    const absl::StatusOr<std::optional<Front>> value = ReadFront(dataset, sample, i, &buffer);
    if (!value.ok()) return Fail(value.status());
    Json entry{{"name", column.name}, {"type", shardkit::TypeName(column.type)}, {"present", value->has_value()}};
    if (value->has_value()) {
      const Description description = DescribeValue(column, (*value)->bytes, (*value)->length);
      entry["length"] = (*value)->length;
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
                   std::to_string(location->shard) + ", its sample " + std::to_string(location->local) + "\n\n" +
                   table.Format());
  }
  return kExitSuccess;
}

}  // namespace shardctl
