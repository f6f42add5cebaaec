// What writers of MDS and WebDataset have in common: their options, and the record of what the samples were before.
#pragma once

#include <string>
#include <utility>

#include "base/errors.h"
#include "base/strings.h"
#include "dataset/write/dataset_job.h"
#include "io/publish_file.h"
#include "shardkit/dataset_writer.h"

namespace shardkit::dataset {

class ForeignJobFiles : public JobFiles {
 public:
  // A shard is flushed before its record is written, so a later loss shows in its length.
  absl::StatusOr<bool> IsWhole(ReadableFileSystem& file_system, const std::string& path,
                               const ManifestShard& listed) const override {
    return HasLength(file_system, path, listed.bytes);
  }
};

class ForeignJob : public DatasetJob {
 protected:
  ForeignJob(FileSystem& file_system, std::string directory, const ForeignWriterOptions& options)
      : DatasetJob(file_system, std::move(directory), options), common_(options) {}

  // `settings` describe what the output depends on, except the schema and the common options.
  absl::Status StartForeign(const Schema& schema, const JobFiles& files, const std::string& settings) {
    if (common_.shard_size == 0) return InvalidArgument(directory_, ": shard size 0 is not allowed");
    manifest_.schema = schema;
    manifest_.metadata = common_.origin.metadata;
    Manifest described;
    described.schema = schema;
    return StartJob(StrCat(common_.job, "\n", settings, "\n", common_.shard_size, " ", common_.shard_samples, "\n",
                           FormatManifest(described), FormatManifest(common_.origin)),
                    {.resume = common_.resume, .files = files, .cancellation = common_.cancellation});
  }

  absl::Status PublishOrigin(bool must_be_new) const {
    Manifest origin = common_.origin;
    origin.SetShards({});
    if (origin.schema.size() == 0) origin.schema = manifest_.schema;
    return io::PublishFile(file_system_, Path(kOriginName), FormatManifest(origin), must_be_new);
  }

 private:
  const ForeignWriterOptions common_;
};

// As CreateMdsWriter and CreateWebDatasetWriter.
absl::StatusOr<std::unique_ptr<DatasetJob>> CreateMdsJob(FileSystem& file_system, const std::string& directory,
                                                         const Schema& schema, const MdsWriterOptions& options);
absl::StatusOr<std::unique_ptr<DatasetJob>> CreateWebDatasetJob(FileSystem& file_system, const std::string& directory,
                                                                const Schema& schema,
                                                                const WebDatasetWriterOptions& options);

}  // namespace shardkit::dataset
