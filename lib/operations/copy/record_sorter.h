// Sorting more records than memory holds.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/buffer.h"
#include "base/hash.h"
#include "shardkit/filesystem.h"
#include "shardkit/job.h"

namespace shardkit::operations {

// Orders records by a number, and those of one number as they came. What does not fit into memory is sorted in runs in
// temporary files, which are checked when they are read again. Each file has the numbers with the same upper bits, and
// is removed once its records were returned: numbers that are hashes leave less and less on disk. One thread at a time.
class RecordSorter {
 public:
  static constexpr size_t kFiles = 16;

  // `path_of` gives the paths of at most kFiles temporary files, which must not exist. `memory`, in bytes, is for
  // records and what is needed to sort them; a larger record is a run by itself. Cancelling ends writing the files.
  RecordSorter(FileSystem& file_system, std::function<std::string(size_t file)> path_of, uint64_t memory,
               const Cancellation* cancellation);
  ~RecordSorter();  // removes the files

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
    uint64_t begin = 0;  // in its file
    uint64_t end = 0;
    uint64_t hash = 0;
    StreamingHash read;
    std::string buffer;  // of what was read and not yet taken
    size_t taken = 0;    // bytes of the buffer
    uint64_t number = 0;
    uint64_t length = 0;  // of the current record
  };

  struct File {
    std::string path;  // empty: there is none
    std::unique_ptr<WritableFile> written;
    std::vector<Run> runs;
  };

  void SortEntries();
  absl::Status Spill();
  absl::Status Spill(std::span<const Entry> entries, File& file);
  absl::Status OpenNextFile();
  absl::Status RemoveFile(File& file);
  absl::Status Fill(Run& run, size_t bytes) const;
  absl::StatusOr<bool> Advance(Run& run) const;
  bool Later(size_t a, size_t b) const;

  FileSystem& file_system_;
  const std::function<std::string(size_t)> path_of_;
  const uint64_t memory_;
  const Cancellation* const cancellation_;  // may be null
  uint64_t count_ = 0;
  Buffer records_;  // keeps its memory from run to run: the system would clear new memory each time
  std::vector<Entry> entries_;
  std::vector<Entry> scattered_;  // entries_ on their way to be sorted
  size_t next_ = 0;               // of entries_
  bool spilled_ = false;
  std::array<File, kFiles> files_;
  size_t file_ = 0;  // of files_, to be opened next
  std::unique_ptr<RandomAccessFile> opened_;
  std::vector<Run> runs_;     // of the file that is open
  std::vector<size_t> heap_;  // runs by their current record; the first has the least, which was returned
  size_t read_bytes_ = 0;     // of one run at once
};

}  // namespace shardkit::operations
