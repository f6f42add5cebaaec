// Changing a complete dataset: its columns, removed samples, and the space of what was removed.
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

// Changing the columns of a complete dataset, whose shards stay as they are: values are added in files beside them,
// and columns are dropped, renamed and described in the manifest (format-spec/dataset.md, section 9.4).
//
// Each change is published in one step as the next generation: who has the dataset open goes on with what was opened,
// and after any error the dataset is as it was. All functions return NotFound when there is no dataset, InvalidArgument
// for a dataset of another container, Unavailable when another writer uses it, FailedPrecondition when a job has not
// finished it, Aborted as DatasetWriter::Finish, and Cancelled when asked for it.

// Values for columns, row by row. One thread at a time.
class ColumnRows {
 public:
  virtual ~ColumnRows() = default;

  // The columns of a row. With a key column, which may stand anywhere, a row belongs to the samples with its key;
  // without one the rows are those of the samples in their order.
  virtual const Schema& schema() const = 0;

  // How many rows there are, where that is known before they are read.
  virtual std::optional<uint64_t> count() const { return std::nullopt; }

  // The next row: one value for each column of schema(), encoded as its type says, valid until the next call. False at
  // the end.
  virtual absl::StatusOr<bool> Next(std::span<std::optional<std::string_view>> row) = 0;
};

struct ColumnRowsOptions {
  // The column with the keys: text, or integers, which stand for their digits. Empty: the rows have the samples' order.
  std::string key;

  // The columns to take, by name; all by default. Of NPY, whose one column has no name, the name; by default that of
  // the file without its extension.
  std::vector<std::string> columns;

  // Types of columns of NDJSON by name: integers and floats of 8 to 64 bits (but f16), bool, utf8, json. By default
  // integers are i64, numbers with a fraction f64, true and false bool, texts utf8, arrays and objects json.
  std::map<std::string, Type> types;

  // Borrowed, for the first reading of NDJSON. Cancelling it makes OpenColumnRows return Cancelled.
  const Cancellation* cancellation = nullptr;
};

// The rows of a file: NDJSON, one object in each line, of which null and missing members are absent values; NPY, one
// array of which each row is a value; or a dataset of any container, whose own key is no value. NDJSON is read once
// before this returns, for types and number of rows. InvalidArgument, naming line and column, for rows that cannot be
// values, for columns that do not exist, and for Parquet, which only the Python package reads. The file system must
// outlive the rows.
absl::StatusOr<std::unique_ptr<ColumnRows>> OpenColumnRows(ReadableFileSystem& file_system, const std::string& path,
                                                           const ColumnRowsOptions& options = {});

// Progress counts samples whose values are written. When cancelled, the dataset is as it was.
struct AddColumnsOptions : JobOptions {
  // Bytes for rows that are matched by key; what does not fit is sorted in temporary files in the dataset's directory.
  // At most three times as much is used at once, 16 MiB, and for each thread the values of a few blocks, which have as
  // many samples as blocks of the shards.
  uint64_t memory = uint64_t{128} << 20;
};

struct AddColumnsReport {
  uint64_t generation = 0;
  std::vector<std::string> columns;         // that were added
  std::vector<std::string> replaced;        // those of them that there were before
  uint64_t samples = 0;                     // of the dataset
  uint64_t matched = 0;                     // samples that have a row
  uint64_t rows = 0;                        // of the input
  uint64_t unmatched = 0;                   // rows whose key no sample has
  std::vector<std::string> unmatched_keys;  // of the first of these, in the order of the rows; at most kMostUnmatched
  uint64_t bytes = 0;                       // of the column files that were written
  uint64_t files = 0;
};
inline constexpr size_t kMostUnmatched = 20;

// Adds the columns of `rows` to the dataset in `directory`, in files of their own. A column that the dataset
// has already is replaced, and keeps its metadata unless the rows bring some. By key, samples without a row have absent
// values, and samples that share a key all have its values.
//
// - InvalidArgument: two rows have one key. No row has the key of a sample, but a column would be replaced. Rows
// without
//   keys are more or fewer than the samples. A column has the name of the dataset's key.
// - FailedPrecondition: rows have keys and the dataset has none.
absl::StatusOr<AddColumnsReport> AddColumns(FileSystem& file_system, const std::string& directory, ColumnRows& rows,
                                            const AddColumnsOptions& options = {});

// The following return the generation that was published. OutOfRange, with a list of the columns, when there is no such
// column. None of them touches values: those of a dropped column stay where they are.

// InvalidArgument for the key, and for all columns.
absl::StatusOr<uint64_t> DropColumns(FileSystem& file_system, const std::string& directory,
                                     const std::vector<std::string>& columns);

// From and to; all at once, so that names can be exchanged. InvalidArgument when two columns would have one name,
// and for a column that has its new name already.
absl::StatusOr<uint64_t> RenameColumns(FileSystem& file_system, const std::string& directory,
                                       const std::vector<std::pair<std::string, std::string>>& names);

// Metadata of a column: values replace those of the same name, and an empty value removes it. Where that
// changes nothing, no generation is published. InvalidArgument for class_names that are not a JSON array of strings.
absl::StatusOr<uint64_t> SetColumnMetadata(FileSystem& file_system, const std::string& directory,
                                           const std::string& column, const Metadata& changes);

// Removing samples from a dataset (format-spec/dataset.md, section 9.5).

struct RemoveReport {
  SelectionReport selection;  // `selected` are the samples that were removed now
  uint64_t removed = 0;       // samples that the shards hold and readers do not see, with those removed before
  uint64_t samples = 0;       // that readers see now
  uint64_t generation = 1;    // of the dataset afterwards
};

// Makes the selected samples of the dataset at `directory` invisible to all readers, in its next generation: the
// manifest then names a list of them. No shard changes: the bytes are there, and earlier generations show the samples,
// until CompactDataset with `purge`. Where no sample is selected nothing is published.
//
// Errors are those of CountSamples, and, before anything is read, of DatasetWriter::Create with `append`.
// InvalidArgument when the selection has none of where, keys and ranges. Aborted as of DatasetWriter::Finish. After any
// error the dataset
// is as it was.
absl::StatusOr<RemoveReport> RemoveSamples(FileSystem& file_system, const std::string& directory,
                                           const SampleSelection& selection, const SelectionOptions& options = {});

// Rewriting what a dataset has lost, and deleting what nobody may read any more.

// Progress counts samples of the shards that are rewritten, on any thread, one call at a time.
struct CompactOptions : JobOptions {
  // Shards are rewritten that lost at least this share of the bytes of their blocks to removed samples, above 0 and at
  // most 1. With `purge`, all that hold a removed sample.
  double least_lost = 0.2;

  // Where columns were changed, or shards lie in bases, rewrites all shards with the columns that readers see, so that
  // there are no column files and no bases.
  bool fold = false;

  // Afterwards deletes the files of earlier generations. Then no byte of a removed sample is in the directory: of a
  // column file that has some, the values of all its samples are written into the shards. Values of a column that was
  // dropped may be there, except with `fold`. Hard links to deleted files, as a merged dataset may have, keep them.
  bool purge = false;

  // With `purge`: waits so long before it deletes, for readers that have the dataset open as it was. Cancelling ends
  // the wait: the files stay until the next purge.
  std::chrono::seconds grace{0};
};

struct CompactReport {
  Manifest manifest;  // afterwards
  uint64_t shards_rewritten = 0;
  uint64_t samples_dropped = 0;  // removed ones that are no longer stored
  uint64_t bytes_before = 0;     // of all shards
  uint64_t files_deleted = 0;    // with `purge`
};

// Makes the next generation of the dataset in `directory`, of the same samples: rewrites shards as the options say,
// block by block, with the same columns, codecs, storages and alignment, and makes the segments of the offset index
// one. Blocks of which no sample was removed are copied as they are stored, except with `fold` and from shards with
// dictionaries: these are trained anew, of at most 64 KiB. In blocks that are encoded, columns of codec zstd take the
// default levels. A rewritten shard has what column files had of its samples. Where nothing is to be done, nothing is
// published. Holds a block for each thread and the list of shards, and no more.
//
// - NotFound: there is no dataset.
// - Unavailable: another writer uses it.
// - FailedPrecondition: a job has not finished it.
// - InvalidArgument: a share out of its bounds.
// - DataLoss: what has to be rewritten cannot be read.
// - Aborted: as in DatasetWriter::Finish.
// After any error, but of the deletion, the dataset is as it was.
absl::StatusOr<CompactReport> CompactDataset(FileSystem& file_system, const std::string& directory,
                                             const CompactOptions& options = {});

}  // namespace shardkit
