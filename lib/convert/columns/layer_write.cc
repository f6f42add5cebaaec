#include "convert/columns/layer_write.h"

#include <optional>
#include <vector>

#include "base/errors.h"
#include "base/status_macros.h"
#include "dataset/view/layer_writer.h"

namespace shardkit::convert {

absl::StatusOr<Layer> WriteLayer(const MatchInput& input, const std::string& name, const Schema& schema,
                                 PlacedRows& rows, AddColumnsReport* report) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto writer,
                            dataset::LayerWriter::Create(input.file_system, input.directory, name, schema, {},
                                                         input.options.threads, input.options.cancellation));
  std::vector<RowValue> ahead(schema.size());  // the values of sample `next`
  std::vector<std::optional<Value>> row(schema.size());
  uint64_t next = 0;
  SHARDKIT_ASSIGN_OR_RETURN(bool more, rows.Next(&next, ahead));
  const auto write = [&](const DatasetBlock& base) -> absl::Status {
    SHARDKIT_RETURN_IF_ERROR(writer->BeginBlock(base.sample_count));
    for (uint64_t sample = base.first_sample; sample < base.first_sample + base.sample_count; ++sample) {
      const bool present = more && next == sample;
      for (size_t i = 0; i < row.size(); ++i) {
        row[i].reset();
        if (present && ahead[i]) row[i].emplace(*ahead[i]);
      }
      if (absl::Status status = writer->Append(row); !status.ok()) {
        return Annotate(status, StrCat("the value of sample ", sample));
      }
      if (!present) continue;
      SHARDKIT_ASSIGN_OR_RETURN(more, rows.Next(&next, ahead));
    }
    if (input.options.progress) {
      input.options.progress(base.first_sample + base.sample_count, input.stored.sample_count());
    }
    return absl::OkStatus();
  };
  SHARDKIT_RETURN_IF_ERROR(input.stored.ForEachBlock(write));
  if (more) return Internal(input.directory, ": a row belongs to sample ", next, ", which is in no block");
  Layer layer;
  SHARDKIT_ASSIGN_OR_RETURN(const Manifest written, writer->Finish(&layer));
  report->shards = written.shards.size();
  report->bytes = written.bytes();
  return layer;
}

}  // namespace shardkit::convert
