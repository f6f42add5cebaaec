// Reads records of a shard by their places alone: neither header nor footer of the shard is read. Whoever calls knows
// from elsewhere that the shard's incompatible flags are known.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/started_read.h"
#include "shardkit/filesystem.h"
#include "shardkit/shard.h"

namespace shardkit::container {

// The error of reading a part of a shard that its header, its footer or its dataset lists: a file that ends before that
// was cut after it was opened, which is DataLoss.
absl::Status ReadOfListed(const absl::Status& status);

// The value of the record at [begin, end) of the file. One read. Borrows *buffer until its next use.
absl::StatusOr<std::string_view> ReadRecordAt(const RandomAccessFile& file, const ReadOptions& options, uint64_t begin,
                                              uint64_t end, BlockBuffer* buffer);

// The same value as a file, of which parts are read, without their checksum. See ShardReader::OpenValue.
absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenRecordAt(std::shared_ptr<const RandomAccessFile> file,
                                                               uint64_t begin, uint64_t end);

// Several records of one file, which are read in the background.
class RecordsRead {
 public:
  // Begins to read the records at `places`, [begin, end) of the file. The file and *buffer, which is not used otherwise
  // until then, must outlive this.
  static absl::StatusOr<std::unique_ptr<RecordsRead>> Start(const RandomAccessFile& file, const ReadOptions& options,
                                                            std::vector<std::pair<uint64_t, uint64_t>> places,
                                                            BlockBuffer* buffer);

  // Waits for all of them and checks them. `values`, one for each place, borrow *buffer until its next use.
  absl::Status Finish(std::span<std::string_view> values);

 private:
  RecordsRead(const RandomAccessFile& file, const ReadOptions& options,
              std::vector<std::pair<uint64_t, uint64_t>> places, BlockBuffer* buffer)
      : file_(file), options_(options), places_(std::move(places)), buffer_(buffer) {}

  const RandomAccessFile& file_;
  const ReadOptions& options_;
  const std::vector<std::pair<uint64_t, uint64_t>> places_;
  BlockBuffer* const buffer_;
  std::vector<ReadRequest> requests_;
  std::vector<const char*> records_;     // where each will be
  std::optional<io::StartedRead> read_;  // not of a map
};

}  // namespace shardkit::container
