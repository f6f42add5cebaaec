#include "dataset/view/layer_writer.h"

#include <utility>

#include "base/status_macros.h"
#include "base/strings.h"
#include "dataset/manifest_text.h"
#include "format/constants.h"

namespace shardkit::dataset {
namespace {

// A reader has the block of a layer in memory as a whole, and reads it for any of its samples. So it is large enough to
// be worth a request, and not larger; but the samples of a block of the shards are never in two.
constexpr uint64_t kLayerBlockBytes = uint64_t{256} << 10;

}  // namespace

absl::StatusOr<std::unique_ptr<LayerWriter>> LayerWriter::Create(FileSystem& file_system, const std::string& directory,
                                                                 const std::string& name, const Schema& schema,
                                                                 const Metadata& metadata, int threads,
                                                                 const Cancellation* cancellation) {
  DatasetWriterOptions options;
  options.threads = threads;
  options.cancellation = cancellation;
  options.shard.metadata = metadata;
  // Blocks end where EndBlock says.
  options.shard.block_size = format::kMaxLength;
  options.shard.max_block_samples = format::kMaxBlockSamples;
  std::unique_ptr<LayerWriter> writer(new LayerWriter(file_system, JoinPath(directory, name), name, schema));
  SHARDKIT_ASSIGN_OR_RETURN(writer->job_, CreateUnitJob(file_system, writer->path_, schema, options, JobKind::kWriter));
  return writer;
}

absl::Status LayerWriter::BeginBlock(uint32_t samples) {
  if (bytes_ >= kLayerBlockBytes || samples_ + samples > format::kMaxBlockSamples) {
    SHARDKIT_RETURN_IF_ERROR(job_->EndBlock());
    bytes_ = samples_ = 0;
  }
  return absl::OkStatus();
}

absl::Status LayerWriter::Append(std::span<const std::optional<Value>> row) {
  ++samples_;
  for (size_t i = 0; i < row.size(); ++i) {
    bytes_ += row[i] ? row[i]->length() : schema_[i].fixed_size().value_or(0);
  }
  return job_->Append(row, std::nullopt);
}

absl::StatusOr<Manifest> LayerWriter::Finish(Layer* layer) {
  SHARDKIT_ASSIGN_OR_RETURN(DatasetSummary written, job_->Finish());
  SHARDKIT_ASSIGN_OR_RETURN(const Manifest published, ReadManifestText(file_system_, path_));
  *layer = {name_, published.checksum, written.manifest.sample_count};
  return std::move(written.manifest);
}

}  // namespace shardkit::dataset
