// The file of a shard while it is being written: header, encoded blocks in order, footer and trailer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/hash.h"
#include "base/named_hash.h"
#include "container/read/shard_index_part.h"
#include "container/write/block_encoder.h"
#include "format/file_header.h"
#include "shardkit/job.h"
#include "shardkit/shard.h"

namespace shardkit::container {

inline constexpr std::string_view kTemporarySuffix = ".tmp";

// One thread at a time. Writes to PATH.tmp, or to `temporary`, which becomes PATH.
class ShardFileWriter {
 public:
  // `sha256`, which may be null, hashes all bytes of the file while they are written.
  static absl::StatusOr<std::unique_ptr<ShardFileWriter>> Create(FileSystem& file_system, const std::string& path,
                                                                 const BlockEncoding& plan, const ShardOptions& options,
                                                                 std::unique_ptr<NamedHash> sha256 = nullptr,
                                                                 const std::string& temporary = {});

  // Like Create, with a header that exists already. The header's alignment is used, not that of the options.
  static absl::StatusOr<std::unique_ptr<ShardFileWriter>> CreateWithHeader(
      FileSystem& file_system, const std::string& path, format::FileHeader header, ShardOptions options,
      std::unique_ptr<NamedHash> sha256 = nullptr, const std::string& temporary = {});
  ~ShardFileWriter();

  // Sets the block's place in its header. `cancellation` may be null. It is checked between the pieces of a value that
  // is too large for memory.
  absl::Status Write(EncodedBlock& block, const Cancellation* cancellation);

  // Copies the chunks as they are. Those that are not in memory are copied in pieces, and their checksums compared
  // again: DataLoss when one differs from the header's. After an error only Abort may be called.
  absl::Status Copy(StoredBlock block, const Cancellation* cancellation);

  uint64_t sample_count() const { return sample_count_; }
  uint64_t block_count() const { return index_.blocks.size(); }
  // Where the next block would begin.
  uint64_t position() const { return position_; }

  absl::StatusOr<ShardSummary> Finish();
  absl::Status Abort();

  // Of the finished file, if it was asked for.
  const std::optional<Sha256>& sha256() const { return digest_; }

  // What has been written, for the offset index. Without the ends of blocks that were copied without theirs.
  ShardIndexPart TakeIndexPart() { return std::move(index_); }

 private:
  ShardFileWriter() = default;
  absl::Status Append(std::string_view bytes);
  // Writes the shard's header before its first block. `first` is null in a shard without blocks.
  absl::Status Begin(const format::BlockHeader* first);
  // Sets the block's place in its header and encodes it to header_bytes_, behind the shard's header if it is the first.
  absl::Status BeginBlock(format::BlockHeader& block);
  // Appends the pieces, which end the block, and its padding.
  absl::Status WritePieces(const EncodedBlock& block, std::vector<std::string_view> pieces);
  absl::Status WriteStored(const EncodedBlock& block, const StoredBlock& stored);
  absl::Status WriteWithFiles(EncodedBlock& block, const Cancellation* cancellation);
  absl::Status CopyPieces(const EncodedBlock& block, const StoredBlock& stored, const Cancellation* cancellation);
  void StartWritebackNowAndThen();
  void Remember(const EncodedBlock& block);

  FileSystem* file_system_ = nullptr;
  std::string path_;
  std::string temporary_path_;
  ShardOptions options_;
  format::FileHeader header_;
  std::string encoded_header_;  // empty until it is written, with the first block, which is a part of the shard's id
  std::unique_ptr<WritableFile> file_;
  uint64_t position_ = 0;
  uint64_t sample_count_ = 0;
  uint64_t since_writeback_ = 0;
  bool may_share_ = true;  // the file system has not refused yet to share chunks with other shards
  StreamingHash content_hash_;
  std::unique_ptr<NamedHash> sha256_;
  std::optional<Sha256> digest_;
  ShardIndexPart index_;
  std::vector<ColumnStatistics> statistics_;
  std::vector<uint64_t> key_hashes_;
  std::string header_bytes_;   // of the last block
  std::string block_headers_;  // of all blocks
  std::string block_ranges_;
};

}  // namespace shardkit::container
