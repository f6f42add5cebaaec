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
#include "shardkit/shard.h"

namespace shardkit::dataset {

// Immutable, thread-safe. A shard's reader shows its samples in blocks as a native one does
// (foreign/foreign_shard_reader.h).
class ForeignDataset {
 public:
  virtual ~ForeignDataset() = default;

  // "mds" or "webdataset".
  virtual std::string_view container() const = 0;

  // Made from what the container says about itself. Content hashes are zeros: these containers have none.
  virtual const Manifest& manifest() const = 0;

  // `shard` is below manifest().shards.size(). NotFound when the file is missing, DataLoss when it does not match what
  // the dataset says about it.
  virtual absl::StatusOr<std::unique_ptr<ShardReader>> OpenShard(size_t shard, const ReadOptions& options) const = 0;

  // As DatasetReader::lost_samples.
  virtual std::span<const LostSample> lost_samples() const = 0;

  // As DatasetReader::notes.
  virtual std::vector<std::string> notes() const { return {}; }

  // Reports problems that opening and reading the shard does not show: wrong hashes of whole files, samples whose parts
  // are not next to each other. Reads the whole shard. Returns an error only when the check could not be done.
  virtual absl::Status FindProblems(size_t shard, const ReadOptions& options,
                                    const std::function<void(const absl::Status& problem)>& report) const = 0;
};

// MDS (mosaicml-streaming), version 2: `path` is a directory with index.json, or that file; a directory whose folders
// are such datasets; or a single shard. NotFound when there is none. Unimplemented, saying why, for another version. A
// column whose encoding is not read (pickle) is left out, which notes() says; Unimplemented when `options` names it,
// and when there is no other. Reads the first sample if a column is wanted whose dtype only the values tell.
absl::StatusOr<std::unique_ptr<ForeignDataset>> OpenMds(ReadableFileSystem& file_system, const std::string& path,
                                                        const DatasetOptions& options);

// WebDataset: `path` is a tar file, plain or compressed, or a directory that holds tar files.
absl::StatusOr<std::unique_ptr<ForeignDataset>> OpenWebDataset(ReadableFileSystem& file_system, const std::string& path,
                                                               const DatasetOptions& options);

// Several of them as one, in this order; the shards are named by their paths.
absl::StatusOr<std::unique_ptr<ForeignDataset>> OpenMdsMembers(ReadableFileSystem& file_system,
                                                               const std::vector<std::string>& members,
                                                               const DatasetOptions& options);
absl::StatusOr<std::unique_ptr<ForeignDataset>> OpenWebDatasetMembers(ReadableFileSystem& file_system,
                                                                      const std::vector<std::string>& members,
                                                                      const DatasetOptions& options);

// The members of a pattern (ExpandPattern) as one dataset; null when they are our own. InvalidArgument, naming two of
// them, when they are of several containers.
absl::StatusOr<std::unique_ptr<ForeignDataset>> OpenForeignMembers(ReadableFileSystem& file_system,
                                                                   const std::string& pattern,
                                                                   const std::vector<std::string>& members,
                                                                   const DatasetOptions& options);

// Opens the dataset at `path`; null when it is none of the above, or one of our own. `info` is the result of Stat;
// `has_manifest` says whether there is a manifest of ours, where the caller knows.
absl::StatusOr<std::unique_ptr<ForeignDataset>> OpenForeign(ReadableFileSystem& file_system, const std::string& path,
                                                            const FileInfo& info, const DatasetOptions& options,
                                                            std::optional<bool> has_manifest = std::nullopt);

// The container of the file or directory at `path`, by names alone: "mds", "webdataset", or "" for none of these.
absl::StatusOr<std::string_view> ForeignContainerAt(ReadableFileSystem& file_system, const std::string& path,
                                                    const FileInfo& info,
                                                    std::optional<bool> has_manifest = std::nullopt);

// `name` without the ending of a compressed file: .gz, .zst, .bz2 or .xz.
std::string_view WithoutCompression(std::string_view name);

// How to have the samples of a file or folder of another program that holds many, by its base name, such as
// "train.parquet" or "rows.jsonl.gz". Empty for other names.
std::string_view WayIntoShards(std::string_view name);
// What the way begins with where it is an option of pack.
inline constexpr std::string_view kWayByOption = "pack with --from ";

// Reads from kOriginName what the samples of the dataset in a directory were before they were converted. Empty when
// there is no such file.
absl::StatusOr<std::optional<Manifest>> ReadOrigin(ReadableFileSystem& file_system, const std::string& directory);

// The metadata entry of a WebDataset that says how its keys are written. kEscapedKeys: by foreign::EscapeWebDatasetKey.
inline constexpr std::string_view kKeysName = "webdataset.keys";
inline constexpr std::string_view kEscapedKeys = "escaped";

// The error for a directory that is not a dataset of shards. Says why and what to do, depending on what is in the
// directory: files to pack, shards without a manifest, an unfinished job. NotFound; InvalidArgument when it is a file.
absl::Status DescribeNoDataset(ReadableFileSystem& file_system, const std::string& directory);

}  // namespace shardkit::dataset
