// Making a dataset of existing shards.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataset/write/segment_writer.h"
#include "shardkit/filesystem.h"
#include "shardkit/job.h"
#include "shardkit/manifest.h"

namespace shardkit::dataset {

// Removes from `whole` every entry that `part` does not have with the same value.
void IntersectMetadata(const Metadata& part, Metadata* whole);

// Collects the shards of a directory into a manifest and an index. One thread at a time.
class ShardCollector {
 public:
  ShardCollector(FileSystem& file_system, std::string directory)
      : file_system_(file_system), directory_(std::move(directory)) {}

  // `bases`: of the shards to come.
  absl::Status Start(std::vector<Base> bases = {});

  // `sha256` is listed with the shard; the collector does not compute it. InvalidArgument when the shard's columns do
  // not fit those before it.
  absl::Status Add(const std::string& name, const std::optional<Sha256>& sha256 = std::nullopt);

  // Publishes indexes and manifest. `cancellation` may be null. `before` is the manifest that this one replaces, or
  // null. Where nothing has changed since, its segment is made again and it stays; else this is the next generation.
  absl::StatusOr<Manifest> Publish(const Manifest* before, const Cancellation* cancellation);

  // Makes the next generation of `before`, a manifest of the same shards that cannot be kept: takes over what it says
  // of changed columns and removed samples. Publish does so, too, with the manifest that it replaces. DataLoss when the
  // shards have not as many samples.
  absl::Status Follow(const ManifestSummary& before);

  // Takes over what a manifest of these shards says of removed samples, and of columns where these are not just
  // those of the shards.
  void TakeColumns(const ManifestSummary& before);

  const Manifest& manifest() const { return manifest_; }

  // For a dataset without shards: sets columns and metadata, which otherwise come from the shards.
  void Describe(const Schema& schema, const Metadata& metadata) {
    manifest_.schema = schema;
    manifest_.metadata = metadata;
  }

 private:
  bool SaysTheSame(const Manifest& before) const;

  FileSystem& file_system_;
  const std::string directory_;
  std::unique_ptr<SegmentWriter> index_;
  Manifest manifest_;
};

// Creates `to` with the content of `from`: as a hard link or, if linking fails, as a copy that appears atomically.
absl::Status LinkOrCopy(FileSystem& file_system, const std::string& from, const std::string& to,
                        const Cancellation* cancellation);

}  // namespace shardkit::dataset
