// Writing datasets that other programs read: MDS and WebDataset (format-spec/interop.md).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/cancellation.h"
#include "shardkit/dataset_writer.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"
#include "shardkit/schema.h"

namespace shardkit {

// A file beside the shards that describes the original samples: the types, key and metadata that the container cannot
// store. Other programs ignore it. It has the form of dataset.json, without shards.
inline constexpr std::string_view kOriginName = "shardkit.json";

// The options that both containers have.
struct ForeignWriterOptions {
  // A shard is closed before a sample that would make it larger than this many bytes.
  uint64_t shard_size = uint64_t{256} << 20;

  // At most this many samples per shard; 0 is no limit.
  uint64_t shard_samples = 0;

  // As in DatasetWriterOptions.
  int threads = 1;
  bool resume = false;
  std::string job;
  const Cancellation* cancellation = nullptr;

  // Written as kOriginName. Its shards are ignored. If it has no columns, those of the writer are used.
  Manifest origin;
};

struct MdsWriterOptions : ForeignWriterOptions {
  // Like MDSWriter's size_limit, with the same default.
  MdsWriterOptions() { shard_size = uint64_t{1} << 26; }

  // "zstd", "zstd:LEVEL" or empty for none.
  std::string compression;

  // Names of the hash algorithms for the shards, both uncompressed and compressed, as in NamedHash: "xxh64", "xxh3_64",
  // "xxh128", "sha1", "sha256", "md5", ….
  std::vector<std::string> hashes;

  // Encodings by column, for columns that should not have the default of their type. The stored bytes must be the same:
  // "int" for i64, "str_int" for utf8, any for bytes.
  std::map<std::string, std::string> encodings;
};

struct WebDatasetWriterOptions : ForeignWriterOptions {
  // Write the index of each tar beside it (shardkit/tar_index.h); it has a checksum for every value.
  bool index = true;
};

// Writes shard.00000.mds, … and index.json like MDSWriter of mosaicml-streaming: the same bytes for the same samples
// and settings, except that zstd's output depends on the library's version. InvalidArgument, naming the column, for a
// type that MDS does not have and for an encoding, compression or hash that is not supported. Holds up to `threads` + 2
// whole shards in memory. The schema cannot be widened: a field that is not in it is InvalidArgument. A key column is
// stored like any other. Otherwise as DatasetWriter::Create.
absl::StatusOr<std::unique_ptr<DatasetWriter>> CreateMdsWriter(FileSystem& file_system, const std::string& directory,
                                                               const Schema& schema,
                                                               const MdsWriterOptions& options = {});

// Writes 000000.tar, …. Fields are byte strings. They are the tar's members, in order, named KEY.COLUMN (as columns are
// named when tars are read). Absent fields have no member. InvalidArgument for a field of another type, and for a
// sample that would not be read back unchanged: see Append's errors. Columns that the schema lacks are allowed.
// Otherwise as DatasetWriter::Create.
absl::StatusOr<std::unique_ptr<DatasetWriter>> CreateWebDatasetWriter(FileSystem& file_system,
                                                                      const std::string& directory,
                                                                      const Schema& schema,
                                                                      const WebDatasetWriterOptions& options = {});

}  // namespace shardkit
