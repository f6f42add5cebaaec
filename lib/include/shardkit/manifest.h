// dataset.json: the contents of a dataset (format-spec/dataset.md, section 9.1).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/schema.h"
#include "shardkit/shard.h"

namespace shardkit {

inline constexpr std::string_view kManifestName = "dataset.json";
inline constexpr std::string_view kSegmentName = "dataset.segment";
inline constexpr std::string_view kRemovedName = "dataset.removed";

struct ManifestShard {
  std::string name;  // path relative to the dataset's directory, or within a base (see Base)
  uint64_t bytes = 0;
  uint64_t samples = 0;
  uint64_t blocks = 0;
  ContentHash content_hash{};
  std::optional<Sha256> sha256;  // of the whole file; absent when none is listed

  bool operator==(const ManifestShard&) const = default;
};

// A file beside the manifest with a table of checksummed pages (format-spec/spec.md, section 5.1).
struct TableReference {
  std::string name;       // path relative to the dataset's directory
  uint64_t bytes = 0;     // of the file
  uint64_t root = 0;      // bytes of root and tail, which end the file
  uint64_t checksum = 0;  // of the tail; unique to this table

  bool operator==(const TableReference&) const = default;
};

// A run of shards with a common offset index, list and key table, in one file (format-spec/dataset.md, section 9.2).
struct Segment {
  uint64_t shards = 0;  // how many; at least 1
  uint64_t samples = 0;
  uint64_t blocks = 0;
  TableReference table;

  bool operator==(const Segment&) const = default;
};

// A run of samples whose values are in a column file.
struct ColumnRun {
  uint64_t sample = 0;   // the first sample, counted in stored samples
  uint64_t samples = 0;  // how many; at least 1
  uint64_t begin = 0;    // the sample of the file with the values of the first sample

  bool operator==(const ColumnRun&) const = default;
};

// A shard without a key, with columns for samples of the dataset's shards. Its blocks match the blocks of those shards,
// sample by sample (format-spec/dataset.md, section 9.4).
struct ColumnFile : ManifestShard {
  std::vector<std::string> columns;  // stored names, in the order of its schema; not empty
  std::vector<ColumnRun> runs;       // ascending, without overlap; not empty

  bool operator==(const ColumnFile&) const = default;
};

// Stored samples that readers do not see (format-spec/dataset.md, section 9.5).
struct RemovedSamples {
  uint64_t samples = 0;  // how many; at least 1
  TableReference table;

  bool operator==(const RemovedSamples&) const = default;
};

// Another dataset that holds shards or column files of this one. Their names begin with the base's name and '/'
// (format-spec/dataset.md, section 9.6).
struct Base {
  std::string name;
  std::string location;     // its directory: a URL, an absolute path, or a path from the dataset's directory
  uint64_t generation = 1;  // of its manifest, at the first reference to it
  uint64_t checksum = 0;    // of its manifest, at the first reference to it
  std::string path;         // resolved `location`; empty in a manifest that was not read from a directory

  bool operator==(const Base&) const = default;
};

// The operation that made a generation, as its writer knows it (format-spec/dataset.md, section 9.1). Other writers and
// later versions may have other names and arguments.
struct DatasetOperation {
  std::string name = "create";
  std::map<std::string, std::vector<std::string>> arguments;

  bool operator==(const DatasetOperation&) const = default;
};

// The contents of dataset.json without the shards.
struct ManifestSummary {
  Schema schema;  // as readers see it

  // Stored names of columns of `schema`, in shards and column files, by visible name, if they differ. The stored name
  // of a column never changes, and no other column gets it (format-spec/dataset.md, section 9.1).
  std::map<std::string, std::string, std::less<>> stored_names;
  std::vector<std::string> dropped;  // stored names of dropped columns; ascending
  Metadata metadata;
  std::vector<Base> bases;        // ascending by name, without duplicates
  std::vector<Segment> segments;  // covering the shards in order
  std::vector<ColumnFile> column_files;
  std::optional<RemovedSamples> removed;
  uint64_t generation = 1;            // grows by 1 each time the dataset is published
  DatasetOperation operation;         // which made this generation
  uint64_t next_shard = 0;            // above all shard numbers of earlier generations (see dataset.md, section 9.3)
  std::vector<std::string> replaced;  // shards of earlier generations with names not as in section 9.3
  uint64_t shard_count = 0;
  uint64_t sample_count = 0;  // stored in the shards
  uint64_t block_count = 0;
  uint64_t bytes = 0;     // of all shards
  uint64_t checksum = 0;  // at the end of the text that was read; 0 if there is none

  // Whether the columns are as in the shards.
  bool shards_have_columns() const { return stored_names.empty() && dropped.empty() && column_files.empty(); }

  // The stored name of the column of `schema` with this name.
  std::string_view StoredName(std::string_view name) const {
    const auto found = stored_names.find(name);
    return found == stored_names.end() ? name : std::string_view(found->second);
  }

  // The base that holds the shard or column file of this name; null for the dataset's own directory.
  const Base* BaseOf(std::string_view name) const;

  // The path of a shard or column file of the dataset in `directory`.
  std::string PathOf(std::string_view directory, std::string_view name) const;

  // The columns of `schema` with their stored names: the schema of a shard that has all of them.
  Schema StoredSchema() const;
};

// XXH3-64 of the concatenated content hashes of `shards`; an offset index stores it.
uint64_t HashShards(std::span<const ManifestShard> shards);

// A dataset with more shards lists them in its segments only.
inline constexpr size_t kMostShardsInManifest = 1024;

struct Manifest : ManifestSummary {
  std::vector<ManifestShard> shards;

  // Whether `shards` must be read from the lists in the segments.
  bool shards_in_segments() const { return shards.empty() && shard_count > 0; }

  // Makes this the next generation. Leaves out arguments without values.
  void BeginGeneration(DatasetOperation made_by);

  // These update the counts, which are sums over the shards.
  void AddShard(ManifestShard shard);
  void SetShards(std::vector<ManifestShard> all);

  // Leaves out bases that hold no file of this dataset.
  void DropUnusedBases();

  // The number of samples that readers see.
  uint64_t seen_samples() const { return sample_count - (removed ? removed->samples : 0); }

  // XXH3-64 of the concatenated content hashes; .shardkit/job.json stores it.
  uint64_t dataset_hash() const { return HashShards(shards); }
};

// The name of a file first written for this generation: FILE.EXT for 1, FILE-G.EXT for G.
std::string NameInGeneration(std::string_view name, uint64_t generation);

// The text of dataset.json. Deterministic.
std::string FormatManifest(const Manifest& manifest);

// - DataLoss, with the reason: a malformed manifest, or names that would lead out of the directory.
// - Unimplemented: a later version, or a required feature that this version does not know.
// - FailedPrecondition: only the segments list the shards. ReadManifest reads these, too.
absl::StatusOr<Manifest> ParseManifest(std::string_view text);

// Allows bases anywhere below these paths and URLs ("s3://" is all buckets), for datasets opened from now on in this
// process and in processes forked from it. Without a call, SHARDKIT_ALLOW_BASES in the environment lists them,
// separated by commas. Bases in the folder, bucket, repository or host of the dataset itself are always allowed
// (format-spec/security.md, "Bases"). A later call replaces the prefixes. Thread-safe.
void AllowBases(std::vector<std::string> prefixes);

// Reads dataset.json of a directory, and the lists of shards if only the segments have them. NotFound if the directory
// is not a dataset, or a required segment is missing; PermissionDenied if a base is out of reach and not allowed. Takes
// time and memory proportional to the number of shards; DatasetReader does not need them all.
absl::StatusOr<Manifest> ReadManifest(ReadableFileSystem& file_system, const std::string& directory);

}  // namespace shardkit
