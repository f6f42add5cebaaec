#include "convert/columns/layer_write.h"

#include <optional>
#include <vector>

#include "base/errors.h"
#include "base/status_macros.h"
#include "dataset/dataset_job.h"
#include "dataset/manifest_text.h"
#include "format/constants.h"

namespace shardkit {
namespace {

// A reader has the block of a layer in memory as a whole, and reads it for any of its samples. So it is large enough to
// be worth a request, and not larger; but the samples of a block of the shards are never in two.
constexpr uint64_t kLayerBlockBytes = uint64_t{256} << 10;

DatasetWriterOptions LayerOptions(const AddColumnsOptions& options) {
  DatasetWriterOptions writer;
  writer.threads = options.threads;
  writer.cancellation = options.cancellation;
  // Blocks end where EndBlock says.
  writer.shard.block_size = format::kMaxLength;
  writer.shard.max_block_samples = format::kMaxBlockSamples;
  return writer;
}

}  // namespace

absl::StatusOr<Layer> WriteLayer(const MatchInput& input, const std::string& name, const Schema& schema,
                                 PlacedRows& rows, AddColumnsReport* report) {
  const std::string directory = JoinPath(input.directory, name);
  SHARDKIT_ASSIGN_OR_RETURN(const auto writer, CreateUnitJob(input.file_system, directory, schema,
                                                             LayerOptions(input.options), JobKind::kWriter));
  std::vector<RowValue> ahead(schema.size());  // the values of sample `next`
  std::vector<std::optional<Value>> row(schema.size());
  uint64_t next = 0;
  SHARDKIT_ASSIGN_OR_RETURN(bool more, rows.Next(&next, ahead));
  uint64_t bytes = 0, samples = 0;  // of the block
  const auto write = [&](const DatasetBlock& base) -> absl::Status {
    if (bytes >= kLayerBlockBytes || samples + base.sample_count > format::kMaxBlockSamples) {
      SHARDKIT_RETURN_IF_ERROR(writer->EndBlock());
      bytes = samples = 0;
    }
    samples += base.sample_count;
    for (uint64_t sample = base.first_sample; sample < base.first_sample + base.sample_count; ++sample) {
      const bool present = more && next == sample;
      for (size_t i = 0; i < row.size(); ++i) {
        row[i].reset();
        if (present && ahead[i]) row[i].emplace(*ahead[i]);
        bytes += row[i] ? row[i]->length() : schema[i].fixed_size().value_or(0);
      }
      if (absl::Status status = writer->Append(row, std::nullopt); !status.ok()) {
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
  SHARDKIT_ASSIGN_OR_RETURN(const DatasetSummary written, writer->Finish());
  report->shards = written.manifest.shards.size();
  report->bytes = written.manifest.bytes();
  SHARDKIT_ASSIGN_OR_RETURN(const ManifestText text, ReadManifestText(input.file_system, directory));
  return Layer{.name = name, .checksum = text.checksum, .samples = written.manifest.samples()};
}

}  // namespace shardkit
