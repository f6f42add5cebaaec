// The lines of a file, read in pieces.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"

namespace shardkit::convert {

// One thread at a time. Holds one line, and a piece of 1 MiB.
class LineReader {
 public:
  explicit LineReader(std::unique_ptr<RandomAccessFile> file) : file_(std::move(file)) {}

  // The next line without its line feed, and the first one without the byte order mark of UTF-8, valid until the next
  // call; false at the end. ResourceExhausted for a line of more than 1 GiB.
  absl::StatusOr<bool> Next(std::string_view* line);

  uint64_t number() const { return number_; }  // of the line that was returned last, from 1
  const std::string& path() const { return file_->path(); }

  void Rewind();

 private:
  const std::unique_ptr<RandomAccessFile> file_;
  std::string buffer_;
  size_t begin_ = 0;     // of what was not returned yet
  size_t end_ = 0;       // of what was read
  uint64_t offset_ = 0;  // in the file, of end_
  uint64_t number_ = 0;
};

}  // namespace shardkit::convert
