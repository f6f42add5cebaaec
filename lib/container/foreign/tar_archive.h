// libarchive, fed from a file: the headers of a tar, or the bytes of a compressed file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"

namespace shardkit {

// By their first bytes, whatever the name says.
enum class TarCompression { kNone, kGzip, kBzip2, kXz, kZstd };
absl::StatusOr<TarCompression> DetectCompression(const RandomAccessFile& file);

// A member, of which the data is not read.
struct TarHeader {
  std::string name;            // as it stands in the tar
  bool regular = false;        // a file with bytes of its own: no link, folder, device
  uint64_t header_offset = 0;  // where its first header begins, in the decompressed tar
  uint64_t offset = 0;         // where its data begins
  uint64_t length = 0;         // bytes of data
  bool sparse = false;         // its data does not lie in the tar as it is
};

// Goes over the headers; of a tar that is not compressed nothing else is read. One thread at a time.
class TarHeaders {
 public:
  // `file` must outlive it. `begin` is where the first header is, in a tar that is not compressed. DataLoss when there
  // is none.
  static absl::StatusOr<std::unique_ptr<TarHeaders>> Open(const RandomAccessFile& file, TarCompression compression,
                                                          uint64_t begin = 0);
  ~TarHeaders();

  // False at the end mark. DataLoss, with the place, where a header is damaged, the tar ends within a member
  // or it has no end mark.
  absl::StatusOr<bool> Next(TarHeader* header);

  // Where the next header, or what follows the end mark, begins.
  uint64_t position() const;

 private:
  struct State;
  explicit TarHeaders(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The bytes of a compressed file, which come from front to back: who asks for what lies before the bytes read
// last has everything decompressed again from the beginning. `length` is what size() says. Thread-safe, one
// read at a time.
absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenDecompressed(std::unique_ptr<RandomAccessFile> file,
                                                                   TarCompression compression, uint64_t length);

}  // namespace shardkit
