// Sorting more records than memory holds.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/buffer.h"
#include "base/hash.h"
#include "shardkit/filesystem.h"

namespace shardkit::convert {

// Orders records by a number, and those of one number as they came. What does not fit into memory is sorted in runs in
// one temporary file, which is checked when it is read again. One thread at a time.
class RecordSorter {
 public:
  // `path` is that of the temporary file, which must not exist. `memory`, in bytes, is for records and what is needed
  // to sort them; a larger record is a run by itself.
  RecordSorter(FileSystem& file_system, std::string path, uint64_t memory);
  ~RecordSorter();  // removes the file

  absl::Status Add(uint64_t number, std::string_view record);

  // Call once, after the last Add.
  absl::Status Sort();

  uint64_t count() const { return count_; }

  // The next record in order, valid until the next call. False at the end.
  absl::StatusOr<bool> Next(uint64_t* number, std::string_view* record);

 private:
  // A record in memory: at `place` of records_ its length, 8 bytes, and its bytes.
  struct Entry {
    uint64_t number = 0;
    uint64_t place = 0;
  };
  struct Run {
    uint64_t begin = 0;  // in the file
    uint64_t end = 0;
    uint64_t hash = 0;
    StreamingHash64 read;
    std::string buffer;  // of what was read and not yet taken
    size_t taken = 0;    // bytes of the buffer
    uint64_t number = 0;
    uint64_t length = 0;  // of the current record
  };

  void SortEntries();
  absl::Status Spill();
  absl::Status Fill(Run& run, size_t bytes) const;
  absl::StatusOr<bool> Advance(Run& run) const;
  bool Later(size_t a, size_t b) const;

  FileSystem& file_system_;
  const std::string path_;
  const uint64_t memory_;
  uint64_t count_ = 0;
  Buffer records_;  // keeps its memory from run to run: the system would clear new memory each time
  std::vector<Entry> entries_;
  std::vector<Entry> scattered_;  // entries_ on their way to be sorted
  size_t next_ = 0;               // of entries_
  std::unique_ptr<WritableFile> written_;
  std::unique_ptr<RandomAccessFile> file_;
  bool created_ = false;
  std::vector<Run> runs_;
  std::vector<size_t> heap_;    // runs by their current record; the first has the least
  bool current_taken_ = false;  // the record of heap_[0] was returned
  size_t read_bytes_ = 0;       // of one run at once
};

}  // namespace shardkit::convert
