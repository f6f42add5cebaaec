// Datasets of other containers, read as they are.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"
#include "shardkit/shard_reader.h"

namespace shardkit {

// Immutable, thread-safe. A shard's reader shows its samples in blocks as a native one does
// (container/foreign/foreign_shard_reader.h).
class ForeignDataset {
 public:
  virtual ~ForeignDataset() = default;

  // "mds" or "webdataset".
  virtual std::string_view container() const = 0;

  // Made from what the container says of itself. Content hashes are zeros: these containers have none.
  virtual const Manifest& manifest() const = 0;

  // Below manifest().shards.size(). NotFound when the file is missing, DataLoss when it is not what the dataset says of
  // it.
  virtual absl::StatusOr<std::unique_ptr<ShardReader>> OpenShard(size_t shard, const ReadOptions& options) const = 0;

  // As DatasetReader's.
  virtual const std::vector<CutTar>& cut_tars() const = 0;

  // What is wrong with a shard that can be opened and that reading all of it does not show: hashes of whole files,
  // samples whose parts do not stand together. An error is what kept the check from being done. Reads the whole shard.
  virtual absl::Status FindProblems(size_t shard, const ReadOptions& options,
                                    const std::function<void(std::string message)>& report) const = 0;
};

// MDS (mosaicml-streaming), version 2: `path` is a directory with index.json, or that file; a directory whose folders
// are such datasets; or a shard by itself. NotFound when there is none, Unimplemented for another version or an
// encoding that is not read (pickle), saying why; such columns are left out when `options` names others.
absl::StatusOr<std::unique_ptr<ForeignDataset>> OpenMds(FileSystem& file_system, const std::string& path,
                                                        const DatasetOptions& options);

// WebDataset: `path` is a tar file, plain or compressed, or a directory that holds tar files.
absl::StatusOr<std::unique_ptr<ForeignDataset>> OpenWebDataset(FileSystem& file_system, const std::string& path,
                                                               const DatasetOptions& options);

// The tars that the wids index at `path` lists, or null when that file is none. DataLoss when a tar is not what the
// index says of it, NotFound when it is missing, Unimplemented when it is on another machine.
absl::StatusOr<std::unique_ptr<ForeignDataset>> OpenWids(FileSystem& file_system, const std::string& path,
                                                         const DatasetOptions& options);

// The dataset at `path`, of which `info` is known, or null when it is none of the above (or one of our own).
absl::StatusOr<std::unique_ptr<ForeignDataset>> OpenForeign(FileSystem& file_system, const std::string& path,
                                                            const FileInfo& info, const DatasetOptions& options);

// The container of what lies at `path`, by names alone: "mds", "webdataset", or "" for none of these.
absl::StatusOr<std::string_view> ForeignContainerAt(FileSystem& file_system, const std::string& path,
                                                    const FileInfo& info);

// What the samples of the dataset in a directory were before they were converted, when kOriginName says so.
absl::StatusOr<std::optional<Manifest>> ReadOrigin(FileSystem& file_system, const std::string& directory);

// Metadata of a WebDataset that says how its keys are written; kEscapedKeys: by format::EscapeWebDatasetKey.
inline constexpr std::string_view kKeysName = "webdataset.keys";
inline constexpr std::string_view kEscapedKeys = "escaped";

// Why the directory is no dataset of shards, and what to do, by what lies in it: files to pack, shards that lost their
// manifest, a job that did not end. NotFound; InvalidArgument when it is a file.
absl::Status DescribeNoDataset(FileSystem& file_system, const std::string& directory);

}  // namespace shardkit
