// Reader of a WebDataset's tar, compressed or not.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "container/read/verified_chunks.h"
#include "foreign/foreign_shard_reader.h"
#include "foreign/webdataset/tar_index.h"
#include "foreign/webdataset/tar_sidecar.h"

namespace shardkit::foreign {

class TarShardReader : public ForeignShardReader {
 public:
  // `contents` are the contents of this tar if they are known already, else null.
  static absl::StatusOr<std::unique_ptr<TarShardReader>> Open(ReadableFileSystem& file_system, const std::string& path,
                                                              const ReadOptions& options,
                                                              std::shared_ptr<const TarContents> contents = nullptr);

  // Without the values: of a tar with an index of its own, that is read.
  absl::StatusOr<std::vector<ColumnStatistics>> ReadStatistics() const override;

  // One read, and one of the index where the sample's block of it is not in memory. In kMapped mode there is no copy.
  absl::StatusOr<std::optional<std::string_view>> ReadValue(uint64_t ordinal, size_t column,
                                                            BlockBuffer* buffer) const override;
  absl::StatusOr<bool> CopyValue(uint64_t ordinal, size_t column, const ByteSink& sink) const override;
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenValue(uint64_t ordinal, size_t column) const override;
  absl::StatusOr<std::optional<uint64_t>> FindKey(std::string_view key, BlockBuffer* buffer) const override;
  bool forward_only() const override { return contents_->compression != TarCompression::kNone; }

  const std::shared_ptr<const TarContents>& contents() const { return contents_; }

 protected:
  absl::Status Read(size_t index, std::span<const size_t> columns, BlockBuffer* buffer, BlockView* view,
                    BlockDamage* damage) const override;

 private:
  // Bytes [begin, end) of the tar, at `position` of a buffer.
  struct Stretch {
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t position = 0;
    uint64_t bridged = 0;  // bytes of it that are not wanted
  };
  using Wanted = std::vector<uint8_t>;  // per column

  // The samples of a block, counted within it.
  struct Samples {
    std::shared_ptr<const TarSamples> all;  // the block's are those from `first` on
    uint64_t first = 0;
    uint64_t count = 0;

    std::string_view key(uint64_t i) const { return all->key(first + i); }
    std::span<const TarValue> values(uint64_t i, uint64_t samples = 1) const {
      const uint64_t begin = all->value_ends[first + i];
      return std::span(all->values).subspan(begin, all->value_ends[first + i + samples] - begin);
    }
    const TarValue* Find(uint64_t i, size_t column) const;
    // Null where checksums are not known.
    const uint64_t* checksum(const TarValue& value) const {
      return all->checksums.empty() ? nullptr : &all->checksums[static_cast<size_t>(&value - all->values.data())];
    }
  };

  TarShardReader() = default;
  absl::StatusOr<Samples> SamplesOf(size_t block) const;
  std::vector<Stretch> FindStretches(std::span<const TarValue> values, const Wanted& wanted) const;
  absl::Status CheckMemory(uint64_t bytes, std::string_view what) const;
  absl::Status ReadStretches(std::vector<Stretch>& stretches, Buffer* memory) const;
  absl::Status FillView(const BlockInfo& block, const Samples& samples, std::span<const Stretch> stretches,
                        const char* base, BlockBuffer::State& state, BlockView* view, BlockDamage* damage) const;
  absl::Status WrongChecksum(const TarValue& value, uint64_t sample, std::string_view key) const;

  ReadOptions options_;
  std::shared_ptr<const TarContents> contents_;
  std::unique_ptr<TarBlocks> stored_;             // null where the contents have all samples
  std::shared_ptr<const RandomAccessFile> file_;  // of a compressed tar: its decompressed bytes
  std::shared_ptr<container::VerifiedChunks>
      verified_;  // columns of blocks; with Verify::kFirst, of a file with an identity
};

}  // namespace shardkit::foreign
