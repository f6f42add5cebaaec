// Writing a layer (format-spec/spec.md, section 9.6).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataset/dataset_job.h"
#include "shardkit/filesystem.h"
#include "shardkit/job.h"
#include "shardkit/manifest.h"
#include "shardkit/sample.h"
#include "shardkit/schema.h"

namespace shardkit::dataset {

// One thread at a time. Destroying the writer without Finish removes what it has written.
class LayerWriter {
 public:
  // `directory` is the dataset's, and `name` the layer's in it. `threads` compress; `cancellation` may be null.
  static absl::StatusOr<std::unique_ptr<LayerWriter>> Create(FileSystem& file_system, const std::string& directory,
                                                             const std::string& name, const Schema& schema,
                                                             const Metadata& metadata, int threads,
                                                             const Cancellation* cancellation);

  // Call before the samples of each block of the shards, of which `samples` come.
  absl::Status BeginBlock(uint32_t samples);

  // The values of the next sample, in the order of the schema.
  absl::Status Append(std::span<const std::optional<Value>> row);

  // The manifest that was written, for its counts; *layer gets what the dataset's manifest says of it.
  absl::StatusOr<Manifest> Finish(Layer* layer);

 private:
  LayerWriter(FileSystem& file_system, std::string path, std::string name, const Schema& schema)
      : file_system_(file_system), path_(std::move(path)), name_(std::move(name)), schema_(schema) {}

  FileSystem& file_system_;
  const std::string path_;
  const std::string name_;
  const Schema schema_;
  std::unique_ptr<DatasetJob> job_;
  uint64_t bytes_ = 0;  // of the block
  uint64_t samples_ = 0;
};

}  // namespace shardkit::dataset
