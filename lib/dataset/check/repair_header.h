// The header of a damaged shard: its own, or one made from another shard or from the manifest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "format/file_header.h"
#include "format/footer.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"

namespace shardkit::dataset {

// What a dataset.json says about a shard.
struct ListedShard {
  std::string directory;  // of the manifest
  Manifest manifest;
  std::optional<ManifestShard> entry;  // of the shard, when it is listed
};

// The manifest beside `path`, when it lists the file. Empty when there is none or it is damaged.
absl::StatusOr<std::optional<ListedShard>> FindListing(ReadableFileSystem& file_system, const std::string& path);

// The end of a damaged shard.
struct EndOfShard {
  format::Trailer trailer;
  uint64_t begin = 0;  // of the trailer, bytes from the start of the file
  // Must be added, modulo 2^64, to the offsets in footer and directory. 0 unless bytes were inserted or removed.
  uint64_t shift = 0;
};

// Reads the last bytes of the file. DataLoss when they are not a trailer.
absl::StatusOr<EndOfShard> ReadEndOfShard(const RandomAccessFile& file);

struct HeaderFinding {
  format::FileHeader header;  // with the id of the shard, also where the rest was taken from elsewhere
  uint64_t base = 0;          // where the shard begins in the file
  bool certain = false;       // the header is the shard's own, byte for byte
  std::vector<std::string> problems;
  std::vector<std::string> notes;
};

// `end` is null when the trailer is lost, `listing` when no manifest lists the shard. DataLoss when the columns cannot
// be found out.
absl::StatusOr<HeaderFinding> FindHeader(ReadableFileSystem& file_system, const RandomAccessFile& file,
                                         const EndOfShard* end, const std::string& schema_from,
                                         const ListedShard* listing);

}  // namespace shardkit::dataset
