// Changes to a complete dataset: changing columns, removing samples, and reclaiming the space of removed samples.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/job.h"
#include "shardkit/manifest.h"
#include "shardkit/schema.h"
#include "shardkit/select.h"

namespace shardkit {

// Changes to the columns of a complete dataset. The shards stay as they are. Added values go into files beside the
// shards. The manifest records dropped, renamed and described columns (format-spec/dataset.md, section 9.4).
//
// Each change is published in one step as the next generation. Open readers keep the generation that they opened. After
// any error the dataset is unchanged. All functions return:
// - NotFound: there is no dataset.
// - InvalidArgument: the dataset is of another container.
// - Unavailable: another writer uses the dataset.
// - FailedPrecondition: a job has not finished the dataset.
// - Aborted: as DatasetWriter::Finish.
// - Cancelled: the caller asked for it.

// Values for columns, row by row. One thread at a time.
class ColumnRows {
 public:
  virtual ~ColumnRows() = default;

  // The columns of a row. With a key column, at any position, a row belongs to the samples with its key. Without one,
  // row i belongs to sample i.
  virtual const Schema& schema() const = 0;

  // The number of rows, if it is known before they are read.
  virtual std::optional<uint64_t> count() const { return std::nullopt; }

  // The next row: one value for each column of schema(), encoded as its type says, valid until the next call. False at
  // the end.
  virtual absl::StatusOr<bool> Next(std::span<std::optional<std::string_view>> row) = 0;
};

struct ColumnRowsOptions {
  // The key column: text, or integers, which stand for their digits. Empty: the rows are in the order of the samples.
  std::string key;

  // The columns to take, by name; all by default. For NPY, the name of its single, unnamed column; by default the name
  // of the file without its extension.
  std::vector<std::string> columns;

  // Types of NDJSON columns by name: integers and floats of 8 to 64 bits (but not f16), bool, utf8, json. By default
  // integers are i64, numbers with a fraction f64, true and false bool, texts utf8, arrays and objects json.
  std::map<std::string, Type> types;

  // Borrowed, for the first pass over NDJSON. Cancelling it makes OpenColumnRows return Cancelled.
  const Cancellation* cancellation = nullptr;
};

// Opens the rows of a file: NDJSON (one object per line; null and missing members are absent values), NPY (one array;
// each row is a value), or a dataset of any container (its key is not a value). NDJSON is read once before this
// returns, for types and number of rows. The file system must outlive the rows. InvalidArgument, naming line and
// column, for rows that cannot be values, for columns that do not exist, and for Parquet, which only the Python package
// reads.
absl::StatusOr<std::unique_ptr<ColumnRows>> OpenColumnRows(ReadableFileSystem& file_system, const std::string& path,
                                                           const ColumnRowsOptions& options = {});

// Progress counts samples whose values are written. After cancellation the dataset is unchanged.
struct AddColumnsOptions : JobOptions {
  // Bytes for rows that are matched by key. Rows that do not fit are sorted in temporary files in the dataset's
  // directory. Peak memory is at most three times this, 16 MiB, and for each thread the values of a few blocks, which
  // have as many samples as the shards' blocks.
  uint64_t memory = uint64_t{128} << 20;
};

struct AddColumnsReport {
  uint64_t generation = 0;
  std::vector<std::string> columns;         // added
  std::vector<std::string> replaced;        // added columns that existed before
  uint64_t samples = 0;                     // of the dataset
  uint64_t matched = 0;                     // samples that have a row
  uint64_t rows = 0;                        // of the input
  uint64_t unmatched = 0;                   // rows whose key no sample has
  std::vector<std::string> unmatched_keys;  // keys of the first of them, in row order; at most kMostUnmatched
  uint64_t bytes = 0;                       // of the written column files
  uint64_t files = 0;
};
inline constexpr size_t kMostUnmatched = 20;

// Adds the columns of `rows` to the dataset in `directory`, in separate files. An existing column is replaced. It keeps
// its metadata unless the rows bring some. By key, samples without a row have absent values, and samples with the same
// key get the same values.
// - InvalidArgument: two rows have the same key; no row has the key of a sample, but a column would be replaced; rows
//   without keys are more or fewer than the samples; a column has the name of the dataset's key.
// - FailedPrecondition: rows have keys and the dataset has none.
absl::StatusOr<AddColumnsReport> AddColumns(FileSystem& file_system, const std::string& directory, ColumnRows& rows,
                                            const AddColumnsOptions& options = {});

// The functions below return the published generation. OutOfRange, with a list of the columns, if there is no such
// column. They do not touch values: the values of a dropped column stay on disk.

// InvalidArgument for the key column, and for dropping all columns.
absl::StatusOr<uint64_t> DropColumns(FileSystem& file_system, const std::string& directory,
                                     const std::vector<std::string>& columns);

// `names` are pairs of old and new name, applied at once, so that two columns can exchange names. InvalidArgument if
// two columns would have one name, or if a column already has its new name.
absl::StatusOr<uint64_t> RenameColumns(FileSystem& file_system, const std::string& directory,
                                       const std::vector<std::pair<std::string, std::string>>& names);

// Sets metadata of a column. A value replaces the value of the same name; an empty value removes it. Without a change,
// no generation is published. InvalidArgument for class_names that are not a JSON array of strings.
absl::StatusOr<uint64_t> SetColumnMetadata(FileSystem& file_system, const std::string& directory,
                                           const std::string& column, const Metadata& changes);

// Removal of samples (format-spec/dataset.md, section 9.5).

struct RemoveReport {
  SelectionReport selection;  // `selected` are the samples removed now
  uint64_t removed = 0;       // all removed samples that the shards still hold
  uint64_t samples = 0;       // visible to readers now
  uint64_t generation = 1;    // of the dataset after the call
};

// Hides the selected samples of the dataset at `directory` from all readers, in its next generation. The manifest then
// names a list of them. The shards do not change: the bytes stay, and earlier generations show the samples, until
// CompactDataset with `purge`. If no sample is selected, nothing is published.
//
// After any error the dataset is unchanged. Errors are those of CountSamples, and, before anything is read, of
// DatasetWriter::Create with `append`. InvalidArgument if the selection has none of where, keys and ranges. Aborted as
// DatasetWriter::Finish.
absl::StatusOr<RemoveReport> RemoveSamples(FileSystem& file_system, const std::string& directory,
                                           const SampleSelection& selection, const SelectionOptions& options = {});

// Reclaiming the space of removed samples, and purging old generations.

// Progress counts samples of the rewritten shards, on any thread, one call at a time.
struct CompactOptions : JobOptions {
  // A shard is rewritten if removed samples hold at least this share of the bytes of its blocks, above 0 and at most 1.
  // With `purge`, every shard with a removed sample is rewritten.
  double least_lost = 0.2;

  // If columns were changed or shards lie in bases, rewrites all shards with the columns that readers see. The result
  // has no column files and no bases.
  bool fold = false;

  // Afterwards deletes the files of earlier generations. Then the directory holds no byte of a removed sample: if a
  // column file has some, the values of all its samples are written into the shards. Values of a dropped column may
  // stay, except with `fold`. Hard links to deleted files, as a merged dataset may have, keep them.
  bool purge = false;

  // With `purge`: the wait before files are deleted, for readers that have the old dataset open. Cancelling ends the
  // wait: the files stay until the next purge.
  std::chrono::seconds grace{0};
};

struct CompactReport {
  Manifest manifest;  // after the call
  uint64_t shards_rewritten = 0;
  uint64_t samples_dropped = 0;  // removed samples that are no longer stored
  uint64_t bytes_before = 0;     // of all shards
  uint64_t files_deleted = 0;    // with `purge`
};

// Makes the next generation of the dataset in `directory`, with the same samples. Rewrites shards as the options say,
// block by block, with the same columns, codecs, storages and alignment. Joins the segments of the offset index into
// one. If there is nothing to do, nothing is published. Blocks without a removed sample are copied as stored, except
// with `fold` and from shards with dictionaries. Dictionaries are trained again, with at most 64 KiB. In encoded
// blocks, columns of codec zstd take the default levels. A rewritten shard has the values that column files had for its
// samples. Memory: one block per thread, and the list of shards.
// - NotFound: there is no dataset.
// - Unavailable: another writer uses it.
// - FailedPrecondition: a job has not finished it.
// - InvalidArgument: `least_lost` is out of range.
// - DataLoss: data to rewrite cannot be read.
// - Aborted: as DatasetWriter::Finish.
// After any error, except one of the deletion, the dataset is unchanged.
absl::StatusOr<CompactReport> CompactDataset(FileSystem& file_system, const std::string& directory,
                                             const CompactOptions& options = {});

}  // namespace shardkit
