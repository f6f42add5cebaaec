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

// A file beside the manifest that holds a table of checked pages (format-spec/spec.md, section 5.1).
struct TableReference {
  std::string name;       // path relative to the dataset's directory
  uint64_t bytes = 0;     // of the file
  uint64_t root = 0;      // bytes of root and tail, which end the file
  uint64_t checksum = 0;  // the tail's: no other table has it

  bool operator==(const TableReference&) const = default;
};

// A run of shards that share a file of their offset index, their list and their keys (format-spec/dataset.md,
// section 9.2).
struct Segment {
  uint64_t shards = 0;  // how many; at least 1
  uint64_t samples = 0;
  uint64_t blocks = 0;
  TableReference table;

  bool operator==(const Segment&) const = default;
};

// Samples of the dataset of which a column file has values.
struct ColumnRun {
  uint64_t sample = 0;   // the first one: a stored sample
  uint64_t samples = 0;  // how many; at least 1
  uint64_t begin = 0;    // the sample of the file with the values of the first one

  bool operator==(const ColumnRun&) const = default;
};

// A shard without a key, whose columns belong to samples of the dataset's shards. Its blocks have the same samples as
// theirs, one for one (format-spec/dataset.md, section 9.4).
struct ColumnFile : ManifestShard {
  std::vector<std::string> columns;  // their stored names, in the order of its schema; not empty
  std::vector<ColumnRun> runs;       // ascend, and do not overlap; not empty

  bool operator==(const ColumnFile&) const = default;
};

// Samples that are stored, and that readers do not see (format-spec/dataset.md, section 9.5).
struct RemovedSamples {
  uint64_t samples = 0;  // how many; at least 1
  TableReference table;

  bool operator==(const RemovedSamples&) const = default;
};

// Another dataset, in which shards or column files of this one lie: those whose names begin with its name and '/'
// (format-spec/dataset.md, section 9.6).
struct Base {
  std::string name;
  std::string location;     // of its directory: a URL, an absolute path, or a path from the dataset's directory
  uint64_t generation = 1;  // of its manifest, when the dataset first referred to it
  uint64_t checksum = 0;    // the same
  std::string path;         // what `location` leads to; empty in a manifest that was not read from a directory

  bool operator==(const Base&) const = default;
};

// What a generation did to the one before it, as its writer knows it (format-spec/dataset.md, section 9.1). Other
// writers and later versions may have other names and arguments.
struct DatasetOperation {
  std::string name = "create";
  std::map<std::string, std::vector<std::string>> arguments;

  bool operator==(const DatasetOperation&) const = default;
};

// What dataset.json says besides the shards one by one.
struct ManifestSummary {
  Schema schema;  // that readers see

  // The names that columns of `schema` have in shards and column files, by their own names, where these are others. The
  // stored name of a column never changes, and no other column gets it (format-spec/dataset.md, section 9.1).
  std::map<std::string, std::string, std::less<>> stored_names;
  std::vector<std::string> dropped;  // stored names of columns that readers no longer see; ascending
  Metadata metadata;
  std::vector<Base> bases;        // their names ascend, each once
  std::vector<Segment> segments;  // cover the shards in order
  std::vector<ColumnFile> column_files;
  std::optional<RemovedSamples> removed;
  uint64_t generation = 1;     // grows by 1 each time that the dataset is published anew
  DatasetOperation operation;  // what made this generation
  uint64_t next_shard = 0;     // shards of earlier generations have numbers below this (see dataset.md, section 9.3)
  std::vector<std::string> replaced;  // shards of earlier generations whose names are not those of section 9.3
  uint64_t shard_count = 0;
  uint64_t sample_count = 0;  // that the shards hold
  uint64_t block_count = 0;
  uint64_t bytes = 0;     // of all shards
  uint64_t checksum = 0;  // that ends the text which was read; 0 where there is none

  // Whether the columns are just those of the shards.
  bool shards_have_columns() const { return stored_names.empty() && dropped.empty() && column_files.empty(); }

  // The stored name of the column of `schema` with this name.
  std::string_view StoredName(std::string_view name) const {
    const auto found = stored_names.find(name);
    return found == stored_names.end() ? name : std::string_view(found->second);
  }

  // The base in which the shard or column file of this name lies; null where that is the dataset's own directory.
  const Base* BaseOf(std::string_view name) const;

  // The path of a shard or column file of the dataset in `directory`.
  std::string PathOf(std::string_view directory, std::string_view name) const;

  // The columns of `schema` with their stored names: those of a shard that has all of them.
  Schema StoredSchema() const;
};

// XXH3-64 of the concatenated content hashes of `shards`; an offset index stores it.
uint64_t HashShards(std::span<const ManifestShard> shards);

// A dataset of more shards has the list of them in its segments alone.
inline constexpr size_t kMostShardsInManifest = 1024;

struct Manifest : ManifestSummary {
  std::vector<ManifestShard> shards;

  // Whether `shards` are to be read from the lists in the segments.
  bool shards_in_segments() const { return shards.empty() && shard_count > 0; }

  // Makes it the next generation. Arguments without values are left out.
  void BeginGeneration(DatasetOperation made_by);

  // Keep the counts the sums over the shards.
  void AddShard(ManifestShard shard);
  void SetShards(std::vector<ManifestShard> all);

  // Leaves out the bases in which none of its files lies.
  void DropUnusedBases();

  // That readers see.
  uint64_t seen_samples() const { return sample_count - (removed ? removed->samples : 0); }

  // XXH3-64 of the concatenated content hashes; .shardkit/job.json stores it.
  uint64_t dataset_hash() const { return HashShards(shards); }
};

// The name of a file that is first written for this generation: FILE.EXT for 1, FILE-G.EXT for G.
std::string NameInGeneration(std::string_view name, uint64_t generation);

// The text of dataset.json. Deterministic.
std::string FormatManifest(const Manifest& manifest);

// DataLoss, saying what is wrong, for a malformed manifest and for names that would lead out of the directory.
// Unimplemented for a later version, and for a required feature that this version does not know. FailedPrecondition
// when only the segments list the shards: ReadManifest reads these, too.
absl::StatusOr<Manifest> ParseManifest(std::string_view text);

// Lets datasets that are opened from now on, in this process and those that are forked from it, have bases anywhere
// below these paths and URLs ("s3://" is all buckets). Without a call, SHARDKIT_ALLOW_BASES in the environment says it,
// with commas. Bases in the folder, bucket, repository or host where the dataset itself lies need it not
// (format-spec/security.md, "Bases"). A later call replaces the prefixes. Thread-safe.
void AllowBases(std::vector<std::string> prefixes);

// Reads dataset.json of a directory, and where only the segments list the shards their lists. NotFound when the
// directory is not a dataset, or when a segment is missing that is needed; PermissionDenied when a base is out of reach
// and not allowed. Takes time and memory proportional to the
// number of shards; DatasetReader does not need them all.
absl::StatusOr<Manifest> ReadManifest(ReadableFileSystem& file_system, const std::string& directory);

}  // namespace shardkit
