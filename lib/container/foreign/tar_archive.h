// Reads, with libarchive, the headers of a tar or the bytes of a compressed file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "container/foreign/archive_input.h"
#include "shardkit/filesystem.h"

namespace shardkit::container {

// Detected from the first bytes of the file, not from its name.
enum class TarCompression { kNone, kGzip, kBzip2, kXz, kZstd };
absl::StatusOr<TarCompression> DetectCompression(const RandomAccessFile& file);

// A member of a tar, without its data.
struct TarHeader {
  std::string name;             // as in the tar
  bool regular = false;         // a file, or a link to a file before it: no folder, device, other link
  bool link = false;            // hard or symbolic; if regular, its bytes are those of the member that it leads to
  bool special = false;         // neither a file with bytes of its own nor a folder
  bool after_end_mark = false;  // an end mark lies between it and the member before
  uint64_t header_offset = 0;   // where its first header begins, in the decompressed tar
  uint64_t offset = 0;          // where its data begins; of a link, that of an earlier member
  uint64_t length = 0;          // bytes of data
  bool sparse = false;          // its data is not stored in the tar as one piece
};

// Reads the headers of a tar one by one. Of a tar that is not compressed only what is cheap is read besides. One thread
// at a time.
class TarHeaders {
 public:
  // `file` must outlive the object. DataLoss when there is no header.
  static absl::StatusOr<std::unique_ptr<TarHeaders>> Open(const RandomAccessFile& file, TarCompression compression);
  ~TarHeaders();

  // False at the end: behind the last end mark, or where what is behind an end mark is no tar. DataLoss, with the
  // place, when a header is damaged, or the tar ends within a member or without an end mark. Links are followed to
  // members that this object has given.
  absl::StatusOr<bool> Next(TarHeader* header);

  // At the end: where bytes lie behind the end mark that are no tar, if there are.
  std::optional<uint64_t> left_behind() const;
  // What is remembered of members, in bytes.
  uint64_t memory() const;

 private:
  struct State;
  uint64_t position() const;
  explicit TarHeaders(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The decompressed bytes of a file, once. `file` must outlive the result. DataLoss for a damaged beginning.
absl::StatusOr<std::unique_ptr<ForwardBytes>> OpenForward(const RandomAccessFile& file, TarCompression compression);

// The decompressed bytes of a file, which are read from front to back. Reading at an offset before the end of the last
// read decompresses everything again from the beginning. size() returns `length`. Thread-safe; one read at a time.
absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenDecompressed(std::unique_ptr<RandomAccessFile> file,
                                                                   TarCompression compression, uint64_t length);

}  // namespace shardkit::container
