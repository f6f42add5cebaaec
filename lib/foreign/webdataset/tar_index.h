// Finding out where the samples of a tar lie: from its own index, or from its headers.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "foreign/webdataset/tar_archive.h"
#include "foreign/webdataset/tar_samples.h"
#include "format/file_header.h"
#include "format/paged_table.h"
#include "shardkit/filesystem.h"
#include "shardkit/schema.h"
#include "shardkit/tar_index.h"

namespace shardkit::foreign {

// A sample of a tar that cannot be taken, and why.
struct LostTarSample {
  std::string key;  // as it stands in the tar, perhaps not UTF-8
  absl::Status status;
};

// Immutable once made.
struct TarContents {
  // Offsets are in the decompressed tar; tar_length is the file's. Without samples where they are left in
  // the index.
  TarIndex index;
  // What was read of the tar's own index, in whose blocks the samples are left: see TarBlocks.
  struct Stored {
    uint64_t length = 0;  // of the file
    format::FileHeader header;
    std::vector<BlockInfo> blocks;
    format::TablePlace keys;
  };
  std::optional<Stored> stored;
  // The keys of the samples were escaped in the tar (EscapeWebDatasetKey). Those in `index` are not.
  bool escaped_keys = false;
  TarCompression compression = TarCompression::kNone;
  // Members that are read though readers of WebDataset do not see them, or that are passed over and might not be meant
  // to be. Not known of contents that come from an index.
  std::optional<TarProblem> after_end_mark;  // the first member behind an end mark
  std::optional<TarProblem> passed_over;     // the first link or device whose name is that of a sample's member
  uint64_t passed_over_count = 0;
  std::optional<uint64_t> left_behind;  // where bytes lie behind the end mark that are no tar
  uint64_t links = 0;                   // followed
  // Samples that could not be taken. When the tar ends too early, the last of them is the sample at its end, or has the
  // tar's name for a key.
  std::vector<LostTarSample> lost;
  bool cut = false;

  uint64_t memory() const {  // approximate number of bytes
    return index.memory() + (stored ? sizeof(BlockInfo) * stored->blocks.capacity() + stored->header.length : 0);
  }
};

// Reads all headers. DataLoss for a damaged tar and the samples that TarSampleGrouper refuses, Unimplemented for too
// large a tar. Other problems, also those in the result, are added to *problems, which may be null. ResourceExhausted
// for a compressed tar whose index needs more memory than the file's size plus a quarter of `max_decompression`. With
// `skip_lost`, DataLoss is no error: refused samples are left out, and damage ends the tar. Of a damaged one the
// samples before the damage are taken, without the last one unless it is known to be whole.
absl::StatusOr<TarContents> ScanTar(const RandomAccessFile& file, uint64_t max_decompression,
                                    std::vector<TarProblem>* problems, bool skip_lost = false);

// Samples that have the key of an earlier sample with other samples between the two.
std::vector<TarProblem> FindRepeatedKeys(const TarIndex& index);

// Removes the escapes from the keys.
void UnescapeKeys(TarSamples* samples);

// Uses the tar's own index when there is one, else the headers. DataLoss when the index is damaged or belongs to
// another tar, or when the tar is damaged. With `skip_lost`, a damaged tar is no error: the result is what ScanTar
// takes of it. The blocks of the index are formed.
absl::StatusOr<std::shared_ptr<const TarContents>> LoadTarContents(ReadableFileSystem& file_system,
                                                                   const std::string& path, uint64_t max_decompression,
                                                                   bool skip_lost = false, bool escaped_keys = false);

// The key column, and the columns of the index, which are nullable. The extension decides the type: jpeg, png, image,
// or else bytes.
absl::StatusOr<Schema> TarSchema(const TarIndex& index);

// The bytes of the index, a shard (format-spec/interop.md). `index` has all samples and checksums; its blocks are
// formed.
absl::StatusOr<std::string> EncodeTarIndex(TarIndex index);

// Of the file's first and last bytes; see TarIdentity.
absl::StatusOr<uint64_t> ReadTarIdentity(const RandomAccessFile& file);

}  // namespace shardkit::foreign
