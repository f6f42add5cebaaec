// Writing datasets of Shardkit, MDS and WebDataset.
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

// What to do with samples whose key already exists in the dataset that is appended to.
enum class ExistingKeys : uint8_t {
  kRefuse,  // the append fails with AlreadyExists; the message has some of the keys and their number
  kSkip,    // they are skipped and counted
  kAdd,     // they are stored; FindKey finds the first sample
};

// Options of the writers of all containers.
struct WriterOptions {
  // A shard is closed before a block, or in other containers a sample, that would make it larger than this many bytes.
  // Counts stored bytes of blocks; with shard_samples or dictionaries, bytes before compression.
  uint64_t shard_size = uint64_t{256} << 20;

  // Exactly this many samples per shard (the last may have fewer); in other containers at most this many. 0 is no
  // limit.
  uint64_t shard_samples = 0;

  // Threads that checksum and compress. The output does not depend on their number.
  int threads = 1;

  // Continue an interrupted run in the same directory. FailedPrecondition when that run had other options or another
  // `job`, also if it has completed the dataset. FailedPrecondition too when a complete dataset does not record how it
  // was made, as after merging.
  bool resume = false;

  // Waits until all files are on the device. False leaves this to the system, as `cp` does. The bytes are the same, and
  // so is what is left if the process ends in any way. But a power cut, or a crash of the system, may then damage a
  // dataset that was finished or appended to shortly before (Validate finds the damage), and shards that a resumed run
  // would keep: do not resume after one. A run that resumes another flushes its own shards alone. Not for work in
  // tasks.
  bool sync = true;

  // Describes the input. Compared when a run is resumed.
  std::string job;

  // Borrowed: must outlive the writer. Cancelling it, from any thread, makes Append and Finish return Cancelled.
  const Cancellation* cancellation = nullptr;
};

struct DatasetWriterOptions : WriterOptions {
  ShardOptions shard;

  // Lists the SHA-256 of each shard in the manifest. Unlike the other hashes, it detects forged shards. Takes time on
  // the calling thread. Unimplemented in builds without OpenSSL.
  bool sha256 = false;

  // Codec by column name, for columns that should not have the codec of the schema.
  std::map<std::string, Codec> codecs;

  // Appends to the complete dataset in the directory, with its columns and codecs. Its metadata and `shard.metadata`
  // are combined; the dataset keeps the metadata that all shards then share. Not together with `resume`.
  bool append = false;

  // With `append`. Looking up a key reads a page of the keys of each segment; the pages stay mapped or in memory.
  ExistingKeys existing_keys = ExistingKeys::kRefuse;
};

// A skipped sample. The record survives an interruption and resumption of the run.
struct SkippedSample {
  uint64_t position = 0;
  std::string key;
  std::string reason;
  // "damaged" (DataLoss), "missing" (NotFound), "forbidden" (PermissionDenied), "too large" (ResourceExhausted), or
  // "refused": the source or the dataset does not take it.
  std::string kind = "refused";

  static SkippedSample Of(uint64_t position, std::string key, const absl::Status& why);
};

struct DatasetSummary {
  Manifest manifest;
  std::vector<SkippedSample> skipped;
  uint64_t existing = 0;  // skipped by ExistingKeys::kSkip
};

// One thread at a time. Destroying the writer without Finish aborts, unless Suspend was called. The file system must
// outlive the writer. Schema and options are copied, except the borrowed cancellation.
class DatasetWriter {
 public:
  virtual ~DatasetWriter() = default;

  // Creates `directory` if it is missing, and locks it. Leftovers of an interrupted run are removed, or continued with
  // options.resume. With options.append the dataset must exist. `schema` widens its schema as in a merge of datasets.
  // Leftovers of an interrupted append are removed.
  //
  // - AlreadyExists: the directory holds a complete dataset.
  // - Unavailable: another writer uses it.
  // - FailedPrecondition: it holds other files, or, to append to, a dataset that a job has not finished.
  // - NotFound: there is no dataset to append to.
  // - InvalidArgument, naming the column: the schemas do not fit, or options.codecs differs from the codec of a column
  //   of the dataset.
  static absl::StatusOr<std::unique_ptr<DatasetWriter>> Create(FileSystem& file_system, const std::string& directory,
                                                               const Schema& schema,
                                                               const DatasetWriterOptions& options = {});

  // Where to continue: the `next_position` of the last safely stored sample; 0 in a new run. UINT64_MAX if an earlier
  // run has completed the dataset: then only Finish may be called, which changes nothing and returns the existing
  // summary.
  virtual uint64_t resume_position() const = 0;

  // The current schema: the schema passed to Create, or when resumed the interrupted run's, widened by appended
  // samples. The reference is valid until the next call.
  virtual const Schema& schema() const = 0;

  // Copies the sample. resume_position() returns `next_position` later. The default is one more than that of the
  // previous sample, or than resume_position(): without skipped samples, it counts samples. A field with a new column,
  // or a type that does not match its column, widens the schema and starts a new shard. Samples skipped by
  // options.existing_keys are no error here; kRefuse stores nothing from the first existing key on. Values are stored
  // as given; only their sizes are compared with the column's type. The caller ensures that a jpeg is one;
  // ValidateOptions::deep checks it.
  // - InvalidArgument: the sample breaks a rule. Nothing was written, and the caller may continue without it.
  // - FailedPrecondition: the dataset is complete.
  // - Other errors: only Abort may be called.
  virtual absl::Status Append(const Sample& sample, std::optional<uint64_t> next_position = std::nullopt) = 0;

  // As above, with one value per column of schema(), in its order, including the key; absent values are empty.
  virtual absl::Status Append(std::span<const std::optional<Value>> row,
                              std::optional<uint64_t> next_position = std::nullopt) = 0;

  // Records a skipped sample.
  virtual void RecordSkip(SkippedSample skipped) = 0;

  // Publishes the dataset; with options.append, its next generation, in one step. Readers that are open keep the old
  // generation. Until then, and after any error, the dataset is unchanged. Without samples nothing is published.
  // Aborted if another writer has published since Create, which is possible only if locks do not work; AlreadyExists by
  // ExistingKeys::kRefuse.
  virtual absl::StatusOr<DatasetSummary> Finish() = 0;

  // Removes everything that this run, and the run it resumed, has written. Idempotent.
  virtual absl::Status Abort() = 0;

  // Stops, but keeps the finished shards for a later run with options.resume. An append cannot be resumed: as Abort.
  virtual absl::Status Suspend() = 0;
};

// Rebuilds segment and manifest of a directory from its shards, in the order of the manifest, or by name if the
// manifest is unreadable. The result has one segment. If the readable manifest names the same segment, its file is
// written again and the manifest stays; otherwise the result is the next generation. Keeps the listed SHA-256, and
// reads those shards whole to compare them. After an error the dataset reads as before; a table that no manifest names
// may remain, which the next call removes. `cancellation` may be null.
// - DataLoss: a shard is damaged or has another SHA-256 than listed, or only lost segments have the order of the
//   shards.
// - Unavailable: another writer uses the directory.
// - Cancelled: `cancellation` asks for it.
absl::StatusOr<Manifest> RebuildIndex(FileSystem& file_system, const std::string& directory,
                                      const Cancellation* cancellation = nullptr);

// Writing datasets for other programs: MDS and WebDataset (format-spec/interop.md).

// A file beside the shards that describes the original samples: types, key and metadata that the container cannot
// store. Other programs ignore it. It has the form of dataset.json, without shards.
inline constexpr std::string_view kOriginName = "shardkit.json";

// Options of both containers.
struct ForeignWriterOptions : WriterOptions {
  // Written as kOriginName. Its shards are ignored. Without columns, it gets the writer's columns.
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
  // "int" for i64, "str_int" for utf8, any encoding for bytes.
  std::map<std::string, std::string> encodings;
};

struct WebDatasetWriterOptions : ForeignWriterOptions {
  // Writes the index of each tar beside it (shardkit/tar_index.h), with a checksum for every value.
  bool index = true;
};

// Writes shard.00000.mds, … and index.json like MDSWriter of mosaicml-streaming: the same bytes for the same samples
// and settings, except that zstd's output depends on the library's version. The schema cannot be widened: a field
// outside it is InvalidArgument. A key column is stored like any other. Holds up to `threads` + 2 whole shards in
// memory. Errors as DatasetWriter::Create, and InvalidArgument, naming the column, for a type that MDS does not have
// and for an unsupported encoding, compression or hash.
absl::StatusOr<std::unique_ptr<DatasetWriter>> CreateMdsWriter(FileSystem& file_system, const std::string& directory,
                                                               const Schema& schema,
                                                               const MdsWriterOptions& options = {});

// Writes 000000.tar, …. Fields must be byte strings and become the tar's members, in order, named KEY.COLUMN (like
// columns when tars are read). Absent fields have no member. Columns that the schema lacks are allowed. Append returns
// InvalidArgument for a field of another type, and for a sample that would not be read back unchanged. Otherwise as
// DatasetWriter::Create.
absl::StatusOr<std::unique_ptr<DatasetWriter>> CreateWebDatasetWriter(FileSystem& file_system,
                                                                      const std::string& directory,
                                                                      const Schema& schema,
                                                                      const WebDatasetWriterOptions& options = {});

}  // namespace shardkit
