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

// Lies beside the shards and says what the samples were before: the types, key and metadata that the container has no
// place for. Other programs pass it over. The form is that of dataset.json, without shards.
inline constexpr std::string_view kOriginName = "shardkit.json";

// The wids index that a written WebDataset has.
inline constexpr std::string_view kWidsName = "wids.json";

// What both containers have in common.
struct ForeignWriterOptions {
  // A shard is closed before the sample that would bring it past this many bytes.
  uint64_t shard_size = uint64_t{256} << 20;

  // At most this many samples per shard; 0 for no such limit.
  uint64_t shard_samples = 0;

  // As DatasetWriterOptions.
  int threads = 1;
  bool resume = false;
  std::string job;
  uint64_t partition = 0;
  uint64_t partition_count = 1;
  const Cancellation* cancellation = nullptr;

  // Written as kOriginName. Its shards are ignored; without columns it has those of the writer.
  Manifest origin;
};

struct MdsWriterOptions : ForeignWriterOptions {
  // As MDSWriter's size_limit, and with its default.
  MdsWriterOptions() { shard_size = uint64_t{1} << 26; }

  // "zstd", "zstd:LEVEL" or empty for none.
  std::string compression;

  // Names of hash algorithms, of the shards as they are and compressed: as NamedHash, "xxh64", "xxh3_64", "xxh128",
  // "sha1", "sha256", "md5", ….
  std::vector<std::string> hashes;

  // Encodings by column, where another than that of the column's type is wanted and is stored as the same bytes: "int"
  // for i64, "str_int" for utf8, any for bytes.
  std::map<std::string, std::string> encodings;
};

struct WebDatasetWriterOptions : ForeignWriterOptions {
  // Writes the index of each tar beside it (shardkit/tar_index.h), which has a checksum for every value.
  bool index = true;
};

// Writes shard.00000.mds, … and index.json as MDSWriter of mosaicml-streaming does: the same bytes for the same samples
// and settings, but that zstd's depend on the library's version. InvalidArgument, naming the column, for a type that
// MDS does not have or an encoding, compression or hash that is not written. Holds up to `threads` + 2 whole shards in
// memory. The schema cannot be widened: a field that is not in it is InvalidArgument. A key column is stored as any
// other. Otherwise as DatasetWriter::Create.
absl::StatusOr<std::unique_ptr<DatasetWriter>> CreateMdsWriter(FileSystem& file_system, const std::string& directory,
                                                               const Schema& schema,
                                                               const MdsWriterOptions& options = {});

// Writes 000000.tar, …, and wids.json, an index of them in the form of wids (without MD5; none where wids would read
// other samples, as those of names over 100 bytes). Fields are byte strings, members of the tar in their order, named
// KEY.COLUMN (as columns are named when tars are read); absent ones have no member. InvalidArgument for a field of
// another type, and for a sample that would not come back as it is: see Append's errors. Columns that the schema lacks
// may come. Otherwise as DatasetWriter::Create.
absl::StatusOr<std::unique_ptr<DatasetWriter>> CreateWebDatasetWriter(FileSystem& file_system,
                                                                      const std::string& directory,
                                                                      const Schema& schema,
                                                                      const WebDatasetWriterOptions& options = {});

}  // namespace shardkit
