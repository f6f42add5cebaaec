// Sources of samples for packing.
//
// A source lists samples one after another (Next, on one thread, cheap) and loads them (Load, on any number of threads
// at once). Every listed sample has a position, counted from 0 in listing order, even if it cannot be loaded. The
// positions are the same on every run over the same input, because resuming counts positions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/job.h"
#include "shardkit/sample.h"
#include "shardkit/schema.h"
#include "shardkit/shard.h"

namespace shardkit {

// A sample that could not be loaded.
struct SampleFailure {
  size_t index = 0;  // among the samples of the work unit
  std::string key;   // or the file's name if the key is unknown
  absl::Status status;
};

// Loaded samples of one work unit, in listing order, without failed ones. Owns all the memory that they point to.
struct SampleBatch {
  ByteArena arena;
  std::unique_ptr<BlockBuffer> block;  // for sources that read shards: reused for later units
  std::vector<Sample> samples;
  std::vector<size_t> indexes;          // index of each sample in the work unit, ascending
  std::vector<SampleFailure> failures;  // ascending by index
  std::vector<uint64_t> input_bytes;    // of each listed sample, failed ones included: see Source

  void Clear() {
    arena.Clear();
    samples.clear();
    indexes.clear();
    failures.clear();
    input_bytes.clear();
  }
};

// Consecutive samples, listed but not loaded. Each source derives its own class.
class WorkUnit {
 public:
  virtual ~WorkUnit() = default;

  // The parts of a listed sample: the name of its first file relative to the input, or its key, followed by the names
  // of other files or members of a tar, separated by zero bytes. A resumed run compares them, and the bytes, with the
  // interrupted run's list. Empty: nothing is compared. Called before Load. Thread-safe for different units.
  virtual std::string Names(size_t /*sample*/) const { return {}; }

  size_t sample_count = 0;

  // A tar is packed as a whole, into separate shards, because its contents are unknown before it is read.
  bool of_tar = false;
  bool begins_tar = false;  // with the first of its samples
  uint64_t empty_tars = 0;  // tars without samples since the previous unit
};

// The ends of shards depend on the bytes of samples in the input: of a sample's files, or of its members in a tar; for
// datasets the stored bytes of a block, counted with its last sample.
class Source {
 public:
  virtual ~Source() = default;

  // "files", "imagefolder", "sa1b", "coco", "jsonl", "table", "webdataset", "mds", "shard".
  virtual std::string_view name() const = 0;

  // Columns that are known before any sample is loaded, the key column first. Samples may have other columns: the
  // packer then widens the schema.
  virtual absl::StatusOr<std::vector<Column>> InitialColumns() = 0;

  // InvalidArgument, with a list of the columns, if SourceOptions::types names a column that no sample had. Called
  // after the last Load, for sources that cannot know this earlier; other sources return it from InitialColumns.
  virtual absl::Status CheckTypes() const { return absl::OkStatus(); }

  // True if samples have no columns besides the initial ones, though the types may change.
  virtual bool knows_all_columns() const { return true; }

  // True if keys are in strictly ascending order; equal keys would then be neighbours.
  virtual bool keys_ascend() const = 0;

  // True if a repeated key is an error of the input.
  virtual bool keys_are_unique() const { return true; }

  // The files of the samples with this key, for error messages about a repeated key: at most one for each input. Reads
  // the inputs again. Not thread-safe.
  virtual absl::StatusOr<std::vector<std::string>> FindKey(std::string_view /*key*/) {
    return std::vector<std::string>();
  }

  // True if the samples of a unit are read together. Next may then return any number of samples.
  virtual bool has_own_units() const { return false; }

  // At most `max_samples` samples (at least 1), or null at the end. Fewer if they are large and must be read to be
  // listed (tar files), so unit sizes say nothing about positions. Not thread-safe. An error means that listing cannot
  // continue. Load reports errors of single samples.
  virtual absl::StatusOr<std::unique_ptr<WorkUnit>> Next(size_t max_samples) = 0;

  // Clears *batch and loads a unit's samples into it. Called once for a unit, which may give its memory to the batch.
  // Thread-safe for different units: the packer calls it on all its threads. Fields point into the batch and to columns
  // that live as long as the source. An exception is not a bad sample: like an error of Next it ends the packing, with
  // Internal and its text, or ResourceExhausted for std::bad_alloc.
  virtual void Load(WorkUnit& unit, SampleBatch* batch) = 0;

  // SampleBatch::input_bytes of an unloaded unit, for samples that have names. Thread-safe.
  virtual absl::StatusOr<std::vector<uint64_t>> InputBytes(const WorkUnit& unit) const {
    return std::vector<uint64_t>(unit.sample_count);
  }

  // Skips `count` samples without loading them; returns fewer only at the end. The default lists them and drops the
  // units.
  virtual absl::StatusOr<uint64_t> Skip(uint64_t count);

  // User metadata for the dataset: "imagefolder.classes" has the class names, a JSON list in the order of their labels;
  // "coco.members" what a COCO file has beside images and annotations, "coco.file" its name, "coco.columns" a JSON list
  // of the columns that hold the rest. Empty for other sources.
  virtual std::map<std::string, std::string> metadata() const { return {}; }

  // Possibly unintended findings before samples are listed, one line each: about a kind of input that was found by
  // "auto". Call it after InitialColumns. Not thread-safe.
  virtual std::vector<std::string> notes() const { return {}; }

  // Warnings about the samples listed so far, one line each. Not thread-safe.
  virtual std::vector<std::string> warnings() const { return {}; }

  // What tells the inputs from others, and from what they were before they changed: a run that resumes refuses those.
  // Empty where WorkUnit::Names do that.
  virtual absl::StatusOr<std::string> Identity() const { return std::string(); }

  // True if Count is quick, so that progress can tell how much is left.
  virtual bool counts_quickly() const { return keys_ascend() || has_own_units(); }

  // The number of samples, found without loading them (may list everything once). Does not move the position. Not
  // thread-safe.
  virtual absl::StatusOr<uint64_t> Count() = 0;
};

// The division of a file's base name: the part before belongs to the key, the part after is the column.
enum class GroupBy : uint8_t {
  kFirstDot,  // "a.seg.png": key "a", column "seg.png"
  kLastDot,   // key "a.seg", column "png"
  kNone,      // key "a.seg.png", column "file": every file is a sample
};

// "first-dot", "last-dot", "none".
std::string_view GroupByName(GroupBy group_by);

// The listing order of the samples of an image folder.
enum class FolderOrder : uint8_t {
  kRandom,  // by hashes of their keys: the classes are mixed; an added or removed file moves no other
  kPath,    // by their keys: one class after another
};

// Here max_decompression limits the values of one sample, of compressed tars and of datasets of other containers.
struct SourceOptions : InputOptions {
  ReadableFileSystem* file_system = PosixFileSystem();
  // For "files" only; InvalidArgument for other kinds. The default is kFirstDot.
  std::optional<GroupBy> group_by;
  // For "imagefolder" only; InvalidArgument for other kinds. The default is kRandom, within each input, which takes
  // about 50 bytes of memory for each image: a loader mixes neighbouring blocks, and a class would be many blocks.
  std::optional<FolderOrder> order;
  // As PackOptions::skip_errors, for errors found before packing begins. True: an empty or truncated tar is accepted as
  // an input, and its missing samples fail.
  bool skip_errors = false;
  // Values of at least this many bytes are passed on as files instead of being loaded.
  uint64_t stream_above = uint64_t{16} << 20;
  // Types of columns by name, regardless of their values: bytes takes all values, image all images. A value that cannot
  // have its column's type (text that is not UTF-8, a PNG in a column of type jpeg) makes its sample a failure. Allowed
  // for "files", for column "image" of "imagefolder", and for "webdataset" if nothing else gives the types. In other
  // columns each value has the type that it looks like; a value with an image's extension that is no image makes its
  // sample a failure. For "jsonl" and "table" also numbers and bool, for any column but the key and those of files.
  std::map<std::string, Type> types;
  // For "jsonl" and "table" only; InvalidArgument for other kinds: the member or column that is the key, a text or an
  // integer. Empty: "key", and a row without it has as key the path of the first file that it names, without its
  // ending, or if there is none FILE: line NUMBER.
  std::string key;
  // For "table" only; InvalidArgument for other kinds: columns that name files, as COLUMN=NAME, where NAME is the
  // column that gets the files' bytes, or as COLUMN, where these take the place of the names. "auto" is then "table".
  // Paths are relative to `root`, a directory, zip (*.zip) or tar (*.tar), or a directory in one; empty: the directory
  // of the table. A path that leads out of it makes its sample a failure, as a missing file does.
  std::vector<std::string> file;
  std::string root;
  // The most bytes of a tar's half pairs that wait for their other half.
  uint64_t pending_pair_bytes = uint64_t{256} << 20;
  // False: an input directory without files, except hidden ones (see keep_hidden), is InvalidArgument. The usual cause
  // is a file system that is not mounted.
  bool allow_empty = false;
  // False: leftovers of macOS, Windows, a NAS and notebooks are ignored and counted (Source::warnings): .DS_Store,
  // "._*" in the form AppleDouble, __MACOSX/, .ipynb_checkpoints/, Thumbs.db, desktop.ini, @eaDir/. For "imagefolder",
  // so is every file and directory whose name begins with a dot. No effect for "webdataset" and "mds".
  bool keep_hidden = false;
  // Which files and members of tars are packed, by patterns as in gitignore(5), for "files", "imagefolder" and "sa1b".
  // Paths are relative to the input. A pattern with a slash, other than at its end, matches a whole path; one without
  // matches the last name of a path; one that ends in a slash matches directories only. '*', '?' and "[a-z]" match
  // within a name, "**" any number of directories. A directory that matches stands for all that is in it. With
  // `include`, only files that match one of these are packed; files that match one of `exclude` never are.
  // InvalidArgument for a pattern that begins with '!'.
  std::vector<std::string> include, exclude;
  // The files to pack, in this order, instead of all that are found: paths relative to the one input, which must be a
  // directory or a zip, or for "imagefolder" a tar. Neighbours of one key are a sample. A file that is missing makes
  // its sample a failure. "auto" is then "files". Not with include or exclude.
  std::optional<std::vector<std::string>> files;
  // The encoding of names of files that are not UTF-8, one that iconv(1) knows, such as GBK, EUC-JP, KOI8-R or LATIN1;
  // keys, columns, `include`, `exclude` and `files` are then text, and Unpack gives the bytes back. "escape" keeps
  // names as they are, with %XX for each byte that is no UTF-8 and for '%'. Empty: a name that is not UTF-8 makes its
  // sample a failure; in zips it is taken for CP437. For "files", "imagefolder" and "sa1b"
  // only; InvalidArgument for other kinds.
  std::string names;
  // True: symbolic links in input directories are followed, wherever they lead, and counted (Source::warnings). False:
  // each makes its sample a failure. In tars only links to members are followed, in either case.
  bool follow_links = true;
};

// `kind` is "auto", "files", "imagefolder", "sa1b", "coco", "jsonl", "table", "webdataset" or "mds". Inputs are
// directories, tars (plain or compressed) or zips, taken in the given order. A zip (*.zip) is read in place, as the
// directory of its members; a member's checksum is compared when it is read. For "imagefolder", "coco", "jsonl" and
// "table" so is a tar (*.tar), and a compressed one is InvalidArgument. For "imagefolder" an archive of one folder is
// that folder, if it holds two or more folders and no images. For "jsonl" and "table" they are files, or
// directories of such files; for "webdataset" and "mds" they are datasets, read as by Convert; for "coco" an annotation
// file (*.json) and the directory, zip or tar of its images, in either order; of panoptic segmentation also
// that of its PNGs, which comes behind the images if both have files of the same names. "auto" looks at the inputs:
//
// - shards of MDS, or folders of them: "mds"
// - directories of only tars and their indexes: "webdataset", or "sa1b"
// - a file *.json and one or two more inputs: "coco"
// - files *.jsonl and *.ndjson, perhaps compressed, or directories of them alone: "jsonl"
// - files *.csv and *.tsv, perhaps compressed, and perhaps some of these: "table"
// - directories with a metadata.csv or metadata.jsonl that has columns file_name or *_file_name, as Hugging Face has
//   them, at the top or in each directory below: "table", with these columns as `file`
// - pairs sa_*.jpg and sa_*.json: "sa1b"
// - class directories that hold only images: "imagefolder"
// - all else: "files"
//
// NotFound for a missing input. InvalidArgument for an unknown kind, an input that does not match it, types that are
// not of byte strings or not allowed for this source, and with "auto" a dataset of shards, which is for Convert, and a
// metadata.parquet that names files.
absl::StatusOr<std::unique_ptr<Source>> OpenSource(std::string_view kind, const std::vector<std::string>& inputs,
                                                   const SourceOptions& options = {});

}  // namespace shardkit
