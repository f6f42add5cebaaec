// What libarchive reads from, for all that read tars.
#pragma once

#include <archive.h>
#include <archive_entry.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "shardkit/filesystem.h"

namespace shardkit {

struct ArchiveDeleter {
  void operator()(archive* reader) const { archive_read_free(reader); }
};
using Archive = std::unique_ptr<archive, ArchiveDeleter>;

// A file on its way into libarchive. Stays where it is while an archive reads from it.
class ArchiveInput {
 public:
  // The first read, and the one behind what was passed over, has `least_read` bytes (or what is left); each further one
  // twice as many as the one before, up to `most_read`. `file` outlives the input.
  ArchiveInput(const RandomAccessFile& file, size_t least_read, size_t most_read, uint64_t begin = 0);
  ArchiveInput(const ArchiveInput&) = delete;
  ArchiveInput& operator=(const ArchiveInput&) = delete;

  // Makes `reader` read from here, from the next archive_read_open1 on.
  void Attach(archive* reader);

  // Of the first read that failed.
  const absl::Status& error() const { return error_; }
  const std::string& path() const { return file_.path(); }

  // "PATH: where: what libarchive says", or what the file said. ResourceExhausted when there was no memory, else
  // DataLoss.
  absl::Status Describe(archive* reader, std::string_view where) const;

 private:
  static la_ssize_t Read(archive* reader, void* data, const void** out);
  static la_int64_t Skip(archive* reader, void* data, la_int64_t request);

  const RandomAccessFile& file_;
  const size_t least_read_;
  std::vector<char> buffer_;
  uint64_t position_;
  size_t next_;
  absl::Status error_;
};

// The bytes of the name as they stand in the tar. In the "C" locale libarchive gives the UTF-8 names of pax headers
// only through the second of its calls.
const char* ArchiveName(archive_entry* entry);

}  // namespace shardkit
