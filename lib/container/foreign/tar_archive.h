// Reads, with libarchive, the headers of a tar or the bytes of a compressed file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"

namespace shardkit::container {

// Detected from the first bytes of the file, not from its name.
enum class TarCompression { kNone, kGzip, kBzip2, kXz, kZstd };
absl::StatusOr<TarCompression> DetectCompression(const RandomAccessFile& file);

// A member of a tar, without its data.
struct TarHeader {
  std::string name;            // as in the tar
  bool regular = false;        // a file with bytes of its own: no link, folder, device
  uint64_t header_offset = 0;  // where its first header begins, in the decompressed tar
  uint64_t offset = 0;         // where its data begins
  uint64_t length = 0;         // bytes of data
  bool sparse = false;         // its data is not stored in the tar as one piece
};

// Reads the headers of a tar one by one. Of a tar that is not compressed only what is cheap is read besides. One thread
// at a time.
class TarHeaders {
 public:
  // `file` must outlive the object. `begin` is where the first header is; it must be 0 for a compressed tar. DataLoss
  // when there is no header.
  static absl::StatusOr<std::unique_ptr<TarHeaders>> Open(const RandomAccessFile& file, TarCompression compression,
                                                          uint64_t begin = 0);
  ~TarHeaders();

  // False at the end mark. DataLoss, with the place, when a header is damaged, or the tar ends within a member or
  // without an end mark.
  absl::StatusOr<bool> Next(TarHeader* header);

  // Where the next header begins; after the end mark, where the bytes after it begin.
  uint64_t position() const;

 private:
  struct State;
  explicit TarHeaders(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The decompressed bytes of a file, which are read from front to back. Reading at an offset before the end of the last
// read decompresses everything again from the beginning. size() returns `length`. Thread-safe; one read at a time.
absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenDecompressed(std::unique_ptr<RandomAccessFile> file,
                                                                   TarCompression compression, uint64_t length);

}  // namespace shardkit::container
