// Reads, with libarchive, a tar or the bytes of a compressed file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"

namespace shardkit::foreign {

// Detected from the first bytes of the file, not from its name.
enum class TarCompression { kNone, kGzip, kBzip2, kXz, kZstd, kLz4, kLzma, kCompress };
absl::StatusOr<TarCompression> DetectCompression(const RandomAccessFile& file);

// The bytes of a file that may be compressed, from its beginning. One thread at a time.
class ByteStream {
 public:
  // `file` must outlive the object.
  static absl::StatusOr<std::unique_ptr<ByteStream>> Open(const RandomAccessFile& file);
  ~ByteStream();

  // Fewer bytes than the buffer has only at the end. DataLoss, with the place, when the file is damaged or cut off.
  absl::StatusOr<size_t> ReadNext(std::span<char> buffer);

 private:
  struct State;
  explicit ByteStream(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

// A member of a tar, without its data.
struct TarMember {
  enum class Kind { kFile, kDirectory, kOther };

  std::string name;             // as in the tar
  bool pax = false;             // it has an extended header, in which names are UTF-8
  Kind kind = Kind::kOther;     // a link to a file before it is a file
  bool link = false;            // hard or symbolic; if a file, its data is that of the member that it leads to
  bool after_end_mark = false;  // an end mark lies between it and the member before
  uint64_t ordinal = 0;         // counted from 1, directories included
  uint64_t header_offset = 0;   // where its first header begins, in the decompressed tar
  uint64_t length = 0;          // bytes of data
  std::string_view what;        // "a symbolic link to no file before it", ... of kOther
};

// What is said of bytes behind an end mark that are no tar.
inline constexpr std::string_view kLeftBehind = "behind the end mark there is more, which is no tar and is not read";

// `damage` of a tar, and how many samples before it are whole.
absl::Status CutAfter(const absl::Status& damage, uint64_t whole_samples);

// Reads a tar with libarchive, from front to back. Of a tar that is not compressed only what is cheap is read besides
// headers and the data that is asked for. One thread at a time.
class TarReader {
 public:
  // `file` must outlive the object. DataLoss when there is no header.
  static absl::StatusOr<std::unique_ptr<TarReader>> Open(const RandomAccessFile& file, TarCompression compression);
  ~TarReader();

  // False at the end: behind the last end mark, or where what is behind an end mark is no tar. DataLoss, with the
  // place, when a header is damaged, or the tar ends without an end mark. Links are followed to the first 1,048,576
  // members before them.
  absl::StatusOr<bool> Next(TarMember* member);

  // Where the data of the file that Next gave lies, in the decompressed tar; nothing when it is sparse, and so not
  // stored as one piece. DataLoss when the tar ends before the data does.
  absl::StatusOr<std::optional<uint64_t>> Locate();

  // The data of the file that Next gave, holes filled with zeros. `memory` must have the member's length. Not after
  // Locate, and once.
  absl::Status Read(std::span<char> memory);

  // At the end: where bytes lie behind the end mark that are no tar, if there are.
  std::optional<uint64_t> left_behind() const;
  // What is remembered of members, in bytes.
  uint64_t memory() const;

 private:
  struct State;
  explicit TarReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The decompressed bytes of a file, which are read from front to back. Reading at an offset before the end of the last
// read decompresses everything again from the beginning. size() returns `length`. Thread-safe; one read at a time.
absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenDecompressed(std::unique_ptr<RandomAccessFile> file,
                                                                   TarCompression compression, uint64_t length);

}  // namespace shardkit::foreign
