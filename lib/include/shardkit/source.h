// Where samples come from when a dataset is packed.
//
// A source lists samples one after another (Next, on one thread, cheap) and loads them (Load, on any
// number of threads at once). Every listed sample has a position, counted from 0 in listing order, that
// is the same on every run over the same input, whether or not the sample can be loaded: partitions and
// resuming count positions.
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
#include "shardkit/cancellation.h"
#include "shardkit/sample.h"
#include "shardkit/schema.h"
#include "shardkit/shard_reader.h"

namespace shardkit {

// A sample that could not be loaded.
struct SampleFailure {
  size_t index = 0;  // among the samples of the work unit
  std::string key;   // or the file's name when no key could be told
  absl::Status status;
};

// Loaded samples of one work unit, in listing order without those that failed. Owns all they point to.
struct SampleBatch {
  ByteArena arena;
  std::unique_ptr<BlockBuffer> block;  // of a source that reads shards: kept from unit to unit
  std::vector<Sample> samples;
  std::vector<size_t> indexes;          // of each sample among those of the work unit, ascending
  std::vector<SampleFailure> failures;  // ascending by index

  void Clear() {
    arena.Clear();
    samples.clear();
    indexes.clear();
    failures.clear();
  }
};

// Some consecutive samples, listed but not loaded. What it holds is the source's business.
class WorkUnit {
 public:
  virtual ~WorkUnit() = default;
  size_t sample_count = 0;
};

class Source {
 public:
  virtual ~Source() = default;

  // "files", "imagefolder", "sa1b", "webdataset", "mds", "shard".
  virtual std::string_view name() const = 0;

  // Columns that are known before any sample is loaded, the key column first. Others may turn up in
  // samples: the packer then widens the schema.
  virtual absl::StatusOr<std::vector<Column>> InitialColumns() = 0;

  // InvalidArgument, naming the columns there are, when SourceOptions::types has one that no sample had. After the last
  // Load, for sources that cannot know it earlier: InitialColumns says it otherwise.
  virtual absl::Status CheckTypes() const { return absl::OkStatus(); }

  // True when no others than those can turn up, though their types may change.
  virtual bool knows_all_columns() const { return true; }

  // True when keys ascend strictly, so that equal keys would be neighbours.
  virtual bool keys_ascend() const = 0;

  // True when a key that comes twice is an error of the input.
  virtual bool keys_are_unique() const { return true; }

  // The files, one for each input that has some, that samples of this key come from: what to name when a key comes
  // twice. Looks through the inputs anew; not thread-safe.
  virtual absl::StatusOr<std::vector<std::string>> FindKey(std::string_view /*key*/) {
    return std::vector<std::string>();
  }

  // True when the samples of a unit are read together, so that Next is asked for as many as it likes to give.
  virtual bool has_own_units() const { return false; }

  // The next at most `max_samples` samples (at least 1), or null at the end; fewer when they are large and had to
  // be read to be listed (tar files), so the units say nothing about positions. Not thread-safe. An error
  // means that listing cannot go on; what is wrong with one sample is reported by Load.
  virtual absl::StatusOr<std::unique_ptr<WorkUnit>> Next(size_t max_samples) = 0;

  // Loads a unit's samples into *batch, which is cleared first. Once for a unit: it may give its memory to the
  // batch. Thread-safe for different units: called on as many threads as the packer has. Fields point into the batch
  // and to columns that live as long as the source. An exception is no bad sample: like an error of Next it ends the
  // packing, with Internal and its text, or ResourceExhausted for std::bad_alloc.
  virtual void Load(WorkUnit& unit, SampleBatch* batch) = 0;

  // Passes over `count` samples without loading them; fewer only at the end. The default lists and drops.
  virtual absl::StatusOr<uint64_t> Skip(uint64_t count);

  // User metadata that belongs with the dataset: "imagefolder.classes" is the class names, a JSON list in the order
  // of their labels. Empty otherwise.
  virtual std::map<std::string, std::string> metadata() const { return {}; }

  // What the user should know of the samples listed so far, a line each. Not thread-safe.
  virtual std::vector<std::string> warnings() const { return {}; }

  // Number of samples, found without loading them (it may list everything once). Not thread-safe; does
  // not move the position.
  virtual absl::StatusOr<uint64_t> Count() = 0;
};

// Where a file's base name is divided: what stands before belongs to the key, what follows is the column.
enum class GroupBy : uint8_t {
  kFirstDot,  // "a.seg.png": key "a", column "seg.png"
  kLastDot,   // key "a.seg", column "png"
  kNone,      // key "a.seg.png", column "file": every file is a sample
};

// "first-dot", "last-dot", "none".
std::string_view GroupByName(GroupBy group_by);

struct SourceOptions {
  FileSystem* file_system = PosixFileSystem();
  // Of files only; InvalidArgument for other kinds. Without a value kFirstDot.
  std::optional<GroupBy> group_by;
  // As PackOptions::skip_errors, for what is found out before packing begins: tars that are empty or were cut off are
  // inputs like others, whose missing samples fail.
  bool skip_errors = false;
  // Values of at least this many bytes are handed on as files instead of being loaded.
  uint64_t stream_above = uint64_t{16} << 20;
  // Of a compressed tar, and of datasets of other containers, as ReadOptions says: here it bounds the values of one
  // sample.
  uint64_t max_decompression = kDefaultMaxDecompression;
  // Types of columns whatever their values look like: bytes takes them all, image all images. What a value cannot be
  // (text that is not UTF-8, a PNG in a column of type jpeg) makes its sample a failure. Of "files", of column "image"
  // of "imagefolder", and of "webdataset" where nothing else says the types. Without one, values are of the type that
  // they look like, and what has the extension of an image and is none makes its sample a failure.
  std::map<std::string, Type> types;
  // Of "mds" and "webdataset", as ReadOptions says.
  bool verify_listed_hashes = true;
  // A tar's half pairs wait for their other half in at most this many bytes.
  uint64_t pending_pair_bytes = uint64_t{256} << 20;
  // An input directory without files, hidden ones aside, is InvalidArgument: most often a file system is not mounted.
  bool allow_empty = false;
};

// `kind` is "auto", "files", "imagefolder", "sa1b", "webdataset" or "mds"; inputs are directories or tar files (plain
// or compressed), taken in the order given; of the last two kinds, datasets, which are read as shardkit/convert.h says.
// "auto" looks at the inputs: shards of MDS, or folders of them -> mds; directories of nothing but tars and their
// indexes -> webdataset, or sa1b; pairs sa_*.jpg + sa_*.json -> sa1b; class directories that hold nothing but images ->
// imagefolder; else files. NotFound for a missing input, InvalidArgument for an unknown kind, an input that does not
// suit it, types that are not of byte strings or not of this source, and with "auto" a dataset of shards, which Convert
// reads.
absl::StatusOr<std::unique_ptr<Source>> OpenSource(std::string_view kind, const std::vector<std::string>& inputs,
                                                   const SourceOptions& options = {});

}  // namespace shardkit
