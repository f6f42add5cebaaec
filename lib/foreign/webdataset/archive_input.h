// The input of libarchive, for everything that reads tars.
#pragma once

#include <archive.h>
#include <archive_entry.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"

namespace shardkit::foreign {

struct ArchiveDeleter {
  void operator()(archive* reader) const { archive_read_free(reader); }
};
using Archive = std::unique_ptr<archive, ArchiveDeleter>;

// Gives the next of bytes that can only be had from front to back: fewer than asked for only at the end.
using ReadNext = std::function<absl::StatusOr<size_t>(std::span<char> buffer)>;

// Feeds a file to libarchive. Must not move while an archive reads from it.
class ArchiveInput {
 public:
  // The first read, and the first read after skipped bytes, has `least_read` bytes, or fewer at the end of the file.
  // Each further read has twice as many bytes as the one before, up to `most_read`. Gaps that are cheaper to read than
  // to skip (ReadHints::bridge_gap_bytes) are read. With `forward` the bytes come from there, nothing is skipped, and
  // `file` is for messages. `file` must outlive the input.
  ArchiveInput(const RandomAccessFile& file, size_t least_read, size_t most_read, ReadNext forward = nullptr);
  ArchiveInput(const ArchiveInput&) = delete;
  ArchiveInput& operator=(const ArchiveInput&) = delete;

  // Makes `reader` read from this input. Call it before archive_read_open1.
  void Attach(archive* reader);

  // Whether a tar's block is zeros: the one at `begin`, or, where that is no longer held, the first one behind it that
  // is. Held are the last two reads.
  bool BlockIsZero(uint64_t begin) const;
  // Whether all bytes from `begin` on that are held are zeros.
  bool RestIsZero(uint64_t begin) const;

  // The error of the first read that failed.
  const absl::Status& error() const { return error_; }
  const std::string& path() const { return file_.path(); }

  // The file's read error, if there is one. Otherwise "PATH: WHERE: libarchive's message", ResourceExhausted when there
  // was no memory, else DataLoss.
  absl::Status Describe(archive* reader, std::string_view where) const;

 private:
  static la_ssize_t Read(archive* reader, void* data, const void** out);
  static la_int64_t Skip(archive* reader, void* data, la_int64_t request);

  struct Piece {
    uint64_t begin = 0;
    size_t length = 0;
    std::vector<char> bytes;
  };

  absl::StatusOr<size_t> ReadInto(std::span<char> buffer);
  uint64_t held() const;
  bool HeldAreZero(uint64_t begin, uint64_t end) const;

  const RandomAccessFile& file_;
  const ReadNext forward_;  // may be null
  const size_t least_read_;
  const size_t most_read_;
  bool at_end_ = false;  // of `forward_`
  Piece last_, before_;  // the last two reads
  uint64_t position_ = 0;
  size_t next_;
  absl::Status error_;
};

// The bytes of the name as in the tar. In the "C" locale, libarchive returns the UTF-8 names of pax headers only from
// archive_entry_pathname_utf8.
const char* ArchiveName(archive_entry* entry);

// Of a hard or symbolic link the name of the member that it leads to, as MemberName gives it: that of a
// symbolic link is found from the folder of `name`. Empty for other members, and where the link leads out of the
// archive.
std::string LinkTarget(archive_entry* entry, std::string_view name);

}  // namespace shardkit::foreign
