// Writing datasets, of Shardkit, of MDS and of WebDataset.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/job.h"
#include "shardkit/manifest.h"
#include "shardkit/sample.h"
#include "shardkit/schema.h"
#include "shardkit/shard.h"

namespace shardkit {

// Writing a dataset: shards of limited size, then the segment, and the manifest last.

// What becomes of samples whose key a dataset that is appended to has already.
enum class ExistingKeys : uint8_t {
  kRefuse,  // the append fails with AlreadyExists, naming some of the keys and saying how many there are
  kSkip,    // they are left out, and counted
  kAdd,     // they are stored; by its key the first sample is found
};

// The options of writers of all containers.
struct WriterOptions {
  // A shard is closed before a block, or a sample of another container, that would make it larger than this many bytes.
  // They are those of the stored blocks; with shard_samples, or with dictionaries, bytes before compression.
  uint64_t shard_size = uint64_t{256} << 20;

  // Exactly this many samples per shard (the last may have fewer), and at most in other containers; 0 is no limit.
  uint64_t shard_samples = 0;

  // Threads that checksum and compress. The output does not depend on their number.
  int threads = 1;

  // Continue an interrupted run in the same directory. FailedPrecondition when that run had other options or another
  // `job`, also if it has completed the dataset. FailedPrecondition too when a complete dataset does not record how it
  // was made, as after merging.
  bool resume = false;

  // Describes the input. Compared when a run is resumed.
  std::string job;

  // Borrowed: must outlive the writer. Cancelling it, from any thread, makes Append and Finish return Cancelled.
  const Cancellation* cancellation = nullptr;
};

struct DatasetWriterOptions : WriterOptions {
  ShardOptions shard;

  // List the SHA-256 of each shard in the manifest: unlike the other hashes, it tells a shard from forged ones. Takes
  // time on the calling thread. Unimplemented in builds without OpenSSL.
  bool sha256 = false;

  // Codec of columns by name, for those that should not have their own codec.
  std::map<std::string, Codec> codecs;

  // Append to the complete dataset in the directory, with its columns and codecs; metadata are those of the dataset and
  // `shard.metadata`, and the dataset keeps those that all shards then have. Not together with `resume`.
  bool append = false;

  // With `append`. Looking for a key reads a page of the keys of each segment, which stay mapped or in memory.
  ExistingKeys existing_keys = ExistingKeys::kRefuse;
};

// A sample that was skipped; stays recorded when the run is interrupted and resumed.
struct SkippedSample {
  uint64_t position = 0;
  std::string key;
  std::string reason;
};

struct DatasetSummary {
  Manifest manifest;
  std::vector<SkippedSample> skipped;
  uint64_t existing = 0;  // left out by ExistingKeys::kSkip
};

// One thread at a time. Destroying the writer without Finish aborts, unless Suspend was called. The file system must
// outlive the writer. Schema and options are copied, except the cancellation, which is only pointed to.
class DatasetWriter {
 public:
  virtual ~DatasetWriter() = default;

  // Creates `directory` when it is missing, and locks it. Leftovers of an interrupted run are removed, or with
  // options.resume continued. With options.append the dataset must be there, and `schema` widens its schema as that of
  // a dataset is widened when another is merged with it; leftovers of an interrupted append are removed.
  //
  // - AlreadyExists: it holds a complete dataset.
  // - Unavailable: another writer uses it.
  // - FailedPrecondition: it holds other files, or to append to, a dataset that a job has not finished.
  // - NotFound: there is no dataset to append to.
  // - InvalidArgument, naming the column: the schemas do not fit, or options.codecs has another codec than the dataset
  //   has for a column of its.
  static absl::StatusOr<std::unique_ptr<DatasetWriter>> Create(FileSystem& file_system, const std::string& directory,
                                                               const Schema& schema,
                                                               const DatasetWriterOptions& options = {});

  // Where to continue: the `next_position` of the last sample that is safely stored; 0 in a new run. UINT64_MAX when an
  // earlier run has completed the dataset: then only Finish may be called; it changes nothing and returns the existing
  // summary.
  virtual uint64_t resume_position() const = 0;

  // The current schema: the one passed to Create, or when resumed that of the interrupted run, widened by appended
  // samples. The reference is valid until the next call.
  virtual const Schema& schema() const = 0;

  // Copies the sample. resume_position() returns `next_position` later. By default it is one more than that of the
  // sample before, or than resume_position(): without skipped samples, it counts samples. A field whose column is new,
  // or whose type does not match its column, widens the schema and starts a new shard. InvalidArgument for a sample
  // that breaks the rules: nothing was written, and the caller may continue without it. FailedPrecondition for a
  // dataset that is complete. After any other error only Abort may be called. A sample that options.existing_keys
  // leaves out is no error here; where such samples are refused, nothing is stored from the first of them on. Values
  // are stored as given, and but for their sizes not compared with the column's type: that a jpeg is one is the
  // caller's business, and what ValidateOptions::deep checks.
  virtual absl::Status Append(const Sample& sample, std::optional<uint64_t> next_position = std::nullopt) = 0;

  // The same with one value per column of schema(), in its order, including the key; absent values are empty.
  virtual absl::Status Append(std::span<const std::optional<Value>> row,
                              std::optional<uint64_t> next_position = std::nullopt) = 0;

  // Records a skipped sample.
  virtual void RecordSkip(SkippedSample skipped) = 0;

  // Publishes the dataset. With options.append its next generation, in one step: who opened the dataset before goes on
  // with what was opened, and until then, and after any error, the dataset is as it was. Aborted when another writer
  // has published since Create, which is possible only where locks do not work; AlreadyExists by ExistingKeys::kRefuse.
  // Without samples nothing is published.
  virtual absl::StatusOr<DatasetSummary> Finish() = 0;

  // Removes everything this run (and the run it resumed) has written. Idempotent.
  virtual absl::Status Abort() = 0;

  // Stops, but keeps the finished shards for a later run with options.resume. An append cannot be resumed: the same as
  // Abort.
  virtual absl::Status Suspend() = 0;
};

// Rebuilds segment and manifest of a directory from its shards, in the order of the manifest if it is
// readable, otherwise by name. DataLoss when a shard is damaged, or is not the one whose SHA-256 the manifest lists,
// and when only lost segments say in which order the shards stand. The listed hashes are kept; to compare them, those
// shards are read as a whole. Gives one segment. Where the readable manifest names the same one, its file is made again
// and the manifest stays; else this is the next generation. Unavailable when another writer uses the directory;
// Cancelled when `cancellation`, which may be null, asks for it. After an error the dataset reads as it did; a table
// that no manifest names may be left, which the next call removes.
absl::StatusOr<Manifest> RebuildIndex(FileSystem& file_system, const std::string& directory,
                                      const Cancellation* cancellation = nullptr);

// Writing datasets that other programs read: MDS and WebDataset (format-spec/interop.md).

// A file beside the shards that describes the original samples: the types, key and metadata that the container cannot
// store. Other programs ignore it. It has the form of dataset.json, without shards.
inline constexpr std::string_view kOriginName = "shardkit.json";

// The options that both containers have.
struct ForeignWriterOptions : WriterOptions {
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
