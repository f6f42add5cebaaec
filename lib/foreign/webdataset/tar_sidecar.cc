#include "foreign/webdataset/tar_sidecar.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "foreign/webdataset/webdataset_names.h"
#include "io/read_again.h"
#include "shardkit/filesystem.h"
#include "shardkit/tar_index.h"

namespace shardkit::foreign {
namespace {

// The samples of a tar that are kept in memory, and the most that is read at once unless one block has more.
constexpr uint64_t kRecentBytes = uint64_t{256} << 10;

std::string IndexPath(const std::string& tar) { return StrCat(tar, kTarIndexSuffix); }

std::string TarIndexAdvice(const std::string& tar) { return StrCat("; run shardctl index ", tar); }

// Adds path and advice to an error of the index that lacks them. An error of the tar itself begins with the tar's path
// and stays as it is, and so does one of the device.
absl::Status OfIndex(const absl::Status& status, const std::string& tar) {
  const bool named = absl::StartsWith(status.message(), ToAbsl(tar));
  const bool of_index = !named || absl::StartsWith(status.message(), ToAbsl(IndexPath(tar)));
  const bool bad = absl::IsDataLoss(status) || absl::IsUnimplemented(status);
  if (!bad || !of_index || absl::EndsWith(status.message(), ToAbsl(TarIndexAdvice(tar)))) return status;
  return WithMessage(
      status, StrCat(named ? "" : IndexPath(tar), named ? "" : ": ", ToStd(status.message()), TarIndexAdvice(tar)));
}

absl::Status CheckBelongs(const TarIndex& index, const RandomAccessFile& tar) {
  if (index.tar_length != tar.size()) {
    return DataLoss("is of a tar of ", index.tar_length, " bytes, but ", tar.path(), " has ", tar.size());
  }
  SHARDKIT_ASSIGN_OR_RETURN(const uint64_t identity, ReadTarIdentity(tar));
  if (index.identity != identity) return DataLoss("is of another tar than ", tar.path(), ", or the tar was changed");
  return absl::OkStatus();
}

// Reads along what is cheaper read than asked for by itself.
class ReadAhead final : public ForwardingFile {
 public:
  using ForwardingFile::ForwardingFile;

  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    if (!io::BypassCaches::on()) {
      const std::lock_guard lock(mutex_);
      if (offset >= begin_ && offset - begin_ <= bytes_.size() && buffer.size() <= bytes_.size() - (offset - begin_)) {
        std::memcpy(buffer.data(), bytes_.data() + (offset - begin_), buffer.size());
        return absl::OkStatus();
      }
    }
    const uint64_t together = std::min(hints().bridge_gap_bytes, kRecentBytes);
    const uint64_t length = std::min(std::max<uint64_t>(buffer.size(), together), size() - std::min(offset, size()));
    if (length < buffer.size()) return ForwardingFile::ReadAt(offset, buffer);
    std::string bytes(length, '\0');
    SHARDKIT_RETURN_IF_ERROR(ForwardingFile::ReadAt(offset, bytes));
    std::memcpy(buffer.data(), bytes.data(), buffer.size());
    const std::lock_guard lock(mutex_);
    bytes_ = std::move(bytes);
    begin_ = offset;
    return absl::OkStatus();
  }

  absl::Status ReadBatch(std::span<const ReadRequest> requests) const override {
    return RandomAccessFile::ReadBatch(requests);
  }
  void StartRead(std::span<const ReadRequest> requests, std::function<void(absl::Status)> done) const override {
    RandomAccessFile::StartRead(requests, std::move(done));
  }

 private:
  mutable std::mutex mutex_;  // of what follows
  mutable std::string bytes_;
  mutable uint64_t begin_ = 0;
};

}  // namespace

absl::StatusOr<bool> LoadTarIndex(ReadableFileSystem& file_system, const RandomAccessFile& file,
                                  TarContents* contents) {
  const auto load = [&]() -> absl::Status {
    SHARDKIT_ASSIGN_OR_RETURN(const auto shard, container::NativeShardReader::Open(file_system, IndexPath(file.path()),
                                                                                   {.mode = ReadMode::kBuffered}));
    SHARDKIT_ASSIGN_OR_RETURN(const Metadata metadata, shard->ReadMetadata());
    SHARDKIT_ASSIGN_OR_RETURN(contents->index, DecodeTarIndex(shard->schema(), metadata, shard->blocks()));
    SHARDKIT_RETURN_IF_ERROR(CheckBelongs(contents->index, file));
    contents->stored = TarContents::Stored{.length = shard->file_length(),
                                           .header = shard->header(),
                                           .blocks = {shard->blocks().begin(), shard->blocks().end()},
                                           .keys = shard->key_table_place().value()};
    return absl::OkStatus();
  };
  const absl::Status status = load();
  if (absl::IsNotFound(status)) return false;
  if (!status.ok()) return OfIndex(status, file.path());
  return true;
}

absl::StatusOr<std::unique_ptr<TarBlocks>> TarBlocks::Open(ReadableFileSystem& file_system, const std::string& tar,
                                                           std::shared_ptr<const TarContents> contents) {
  std::unique_ptr<TarBlocks> blocks(new TarBlocks());
  const TarContents::Stored& stored = *contents->stored;
  SHARDKIT_ASSIGN_OR_RETURN(auto file, file_system.OpenForReading(IndexPath(tar), ReadMode::kBuffered, stored.length));
  if (file->size() != stored.length) {
    return DataLoss(file->path(), ": has ", file->size(), " bytes, but had ", stored.length,
                    " when it was opened: it was changed; open the tar again");
  }
  SHARDKIT_ASSIGN_OR_RETURN(blocks->shard_,
                            container::NativeShardReader::OpenBlocks(std::make_unique<ReadAhead>(std::move(file)),
                                                                     stored.header, stored.blocks, {}));
  blocks->tar_ = tar;
  blocks->contents_ = std::move(contents);
  return blocks;
}

absl::Status TarBlocks::Describe(const absl::Status& status) const { return OfIndex(status, tar_); }

absl::StatusOr<std::shared_ptr<const TarSamples>> TarBlocks::Block(size_t block) const {
  std::unique_ptr<BlockBuffer> buffer;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [number, samples] : recent_) {
      if (number == block) return samples;
    }
    if (!buffers_.empty()) {
      buffer = std::move(buffers_.back());
      buffers_.pop_back();
    }
  }
  if (!buffer) buffer = std::make_unique<BlockBuffer>();
  BlockView view;
  if (absl::Status status = shard_->ReadBlock(block, {}, buffer.get(), &view); !status.ok()) return Describe(status);
  auto decoded = DecodeTarBlock(contents_->index, block, view);
  if (!decoded.ok()) return Describe(decoded.status());
  if (contents_->escaped_keys) UnescapeKeys(&*decoded);
  auto samples = std::make_shared<const TarSamples>(*std::move(decoded));
  std::lock_guard lock(mutex_);
  buffers_.push_back(std::move(buffer));
  recent_bytes_ += samples->memory();
  recent_.emplace_back(block, samples);
  for (; recent_bytes_ > kRecentBytes && recent_.size() > 1; recent_.pop_front()) {
    recent_bytes_ -= recent_.front().second->memory();
  }
  return samples;
}

absl::StatusOr<std::shared_ptr<const container::KeyTable>> TarBlocks::OpenKeys() const {
  std::lock_guard lock(keys_mutex_);
  if (!keys_) {
    const std::shared_ptr<const RandomAccessFile> file(shard_, &shard_->file());
    SHARDKIT_ASSIGN_OR_RETURN(keys_, container::KeyTable::Open(file, contents_->stored->keys, shard_->sample_count()));
  }
  return keys_;
}

absl::StatusOr<std::optional<uint64_t>> TarBlocks::FindKey(std::string_view key) const {
  const auto table = OpenKeys();
  if (!table.ok()) return Describe(table.status());
  const std::string stored = contents_->escaped_keys ? EscapeWebDatasetKey(key) : std::string(key);
  std::optional<uint64_t> found;
  const absl::Status status = (*table)->Find(Hash64(stored), [&](uint64_t ordinal) -> absl::StatusOr<bool> {
    const size_t block = shard_->BlockOfSample(ordinal);
    SHARDKIT_ASSIGN_OR_RETURN(const auto samples, Block(block));
    if (samples->key(ordinal - shard_->blocks()[block].first_sample) == key) found = ordinal;
    return found.has_value();
  });
  if (!status.ok()) return Describe(status);
  return found;
}

absl::StatusOr<bool> CheckTarIndex(ReadableFileSystem& file_system, const RandomAccessFile& tar,
                                   const TarIndex& scanned, const std::function<void(const absl::Status&)>& report) {
  auto contents = std::make_shared<TarContents>();
  const absl::StatusOr<bool> loaded = LoadTarIndex(file_system, tar, contents.get());
  if (!loaded.ok() || !*loaded) return false;
  SHARDKIT_ASSIGN_OR_RETURN(const auto blocks, TarBlocks::Open(file_system, tar.path(), contents));
  const TarIndex& index = contents->index;
  TarSamples all;
  for (size_t i = 0; i + 1 < index.blocks.size(); ++i) {
    const auto samples = blocks->Block(i);
    if (!samples.ok()) return false;
    const uint64_t keys = all.keys.size(), values = all.values.size();
    all.keys += (*samples)->keys;
    all.values.insert(all.values.end(), (*samples)->values.begin(), (*samples)->values.end());
    for (uint64_t k = 1; k <= (*samples)->sample_count(); ++k) {
      all.key_ends.push_back(keys + (*samples)->key_ends[k]);
      all.value_ends.push_back(values + (*samples)->value_ends[k]);
    }
  }
  const TarSamples& wanted = scanned;
  if (all == wanted && index.columns == scanned.columns && index.blocks == FormTarBlocks(scanned)) return true;
  const std::string path = IndexPath(tar.path());
  if (all.sample_count() != wanted.sample_count() || all.values.size() != wanted.values.size()) {
    report(DataLoss(path, ": has ", all.sample_count(), " samples of ", all.values.size(), " values, but ", tar.path(),
                    " has ", wanted.sample_count(), " of ", wanted.values.size(), TarIndexAdvice(tar.path())));
  } else {
    report(DataLoss(path, ": does not say what the index of this tar says", TarIndexAdvice(tar.path())));
  }
  return true;
}

}  // namespace shardkit::foreign
