#include "container/foreign/tar_sidecar.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "format/foreign/webdataset_names.h"
#include "shardkit/tar_index.h"

namespace shardkit::container {
namespace {

using format::TarBlock;
using format::TarIndex;
using format::TarSamples;

// The front of an index of up to 6 GB of tar fits in this.
constexpr uint64_t kFrontRead = 65536;

// The pages of a tar that are kept in memory, and the most that is read at once unless one page has more.
constexpr uint64_t kRecentBytes = uint64_t{256} << 10;

constexpr uint64_t kMaxTarIndexBytes = uint64_t{8} << 30;

std::string IndexPath(const std::string& tar) { return StrCat(tar, kTarIndexSuffix); }

std::string TarIndexAdvice(const std::string& tar) { return StrCat("; run shardctl index ", tar); }

// Adds path and advice to an error of the index that lacks them. An error of the tar itself begins with the tar's path
// and stays as it is, and so does one of the device.
absl::Status OfIndex(const absl::Status& status, const std::string& tar) {
  const bool named = absl::StartsWith(status.message(), ToAbsl(tar));
  const bool of_index = !named || absl::StartsWith(status.message(), ToAbsl(IndexPath(tar)));
  const bool bad = absl::IsDataLoss(status) || absl::IsUnimplemented(status);
  if (!bad || !of_index || absl::EndsWith(status.message(), ToAbsl(TarIndexAdvice(tar)))) return status;
  return Reworded(status,
                  StrCat(named ? "" : IndexPath(tar), named ? "" : ": ", ToStd(status.message()), TarIndexAdvice(tar)));
}

absl::StatusOr<TarIndex> ReadFront(const RandomAccessFile& file) {
  std::string bytes(std::min(file.size(), kFrontRead), '\0');
  SHARDKIT_RETURN_IF_ERROR(file.ReadAt(0, bytes));
  SHARDKIT_ASSIGN_OR_RETURN(const uint64_t length, format::TarIndexFrontLength(bytes, file.size()));
  if (const uint64_t have = bytes.size(); length > have) {
    bytes.resize(length);
    SHARDKIT_RETURN_IF_ERROR(file.ReadAt(have, {bytes.data() + have, length - have}));
  }
  return format::DecodeTarIndexFront(bytes, file.size());
}

absl::Status CheckBelongs(const TarIndex& index, const RandomAccessFile& tar) {
  if (index.tar_length != tar.size()) {
    return DataLoss("is of a tar of ", index.tar_length, " bytes, but ", tar.path(), " has ", tar.size());
  }
  SHARDKIT_ASSIGN_OR_RETURN(const uint64_t identity, ReadTarIdentity(tar));
  if (index.identity != identity) return DataLoss("is of another tar than ", tar.path(), ", or the tar was changed");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> LoadTarIndex(ReadableFileSystem& file_system, const RandomAccessFile& file,
                                  TarContents* contents) {
  const auto opened = file_system.OpenForReading(IndexPath(file.path()));
  if (absl::IsNotFound(opened.status())) return false;
  if (!opened.ok()) return opened.status();
  absl::StatusOr<TarIndex> index = ReadFront(**opened);
  const absl::Status status = index.ok() ? CheckBelongs(*index, file) : index.status();
  if (!status.ok()) return OfIndex(status, file.path());
  contents->index = *std::move(index);
  contents->index_length = (*opened)->size();
  return true;
}

absl::StatusOr<std::unique_ptr<TarPages>> TarPages::Open(ReadableFileSystem& file_system, const std::string& tar,
                                                         std::shared_ptr<const TarContents> contents) {
  std::unique_ptr<TarPages> pages(new TarPages());
  const uint64_t length = contents->index_length;
  SHARDKIT_ASSIGN_OR_RETURN(pages->file_, file_system.OpenForReading(IndexPath(tar), ReadMode::kBuffered, length));
  if (pages->file_->size() != length) {
    return DataLoss(pages->file_->path(), ": has ", pages->file_->size(), " bytes, but had ", length,
                    " when it was opened: it was changed; open the tar again");
  }
  pages->tar_ = tar;
  pages->contents_ = std::move(contents);
  return pages;
}

absl::Status TarPages::Describe(const absl::Status& status) const { return OfIndex(status, tar_); }

absl::StatusOr<std::shared_ptr<const TarSamples>> TarPages::Page(size_t block) const {
  {
    std::lock_guard lock(mutex_);
    for (const auto& [number, samples] : recent_) {
      if (number == block) return samples;
    }
  }
  const std::vector<TarBlock>& blocks = contents_->index.blocks;
  const uint64_t begin = blocks[block].page_offset;
  const uint64_t together = std::min(file_->hints().bridge_gap_bytes, kRecentBytes);
  size_t end = block + 1;
  while (end + 1 < blocks.size() && blocks[end + 1].page_offset - begin <= together) ++end;
  std::string bytes(blocks[end].page_offset - begin, '\0');
  SHARDKIT_RETURN_IF_ERROR(file_->ReadAt(begin, bytes));

  std::shared_ptr<const TarSamples> wanted;
  for (size_t i = block; i < end; ++i) {
    const TarBlock& next = blocks[i + 1];
    auto decoded = format::DecodeTarPage(
        contents_->index, i,
        std::string_view(bytes).substr(blocks[i].page_offset - begin, next.page_offset - blocks[i].page_offset));
    if (!decoded.ok()) {
      if (i > block) break;  // whoever asks for that page is told
      return Describe(Annotate(decoded.status(), StrCat("page ", i, " (samples ", blocks[i].first_sample, " to ",
                                                        next.first_sample - 1, ") at byte ", begin)));
    }
    if (contents_->escaped_keys) UnescapeKeys(&*decoded);
    auto samples = std::make_shared<const TarSamples>(*std::move(decoded));
    if (i == block) wanted = samples;
    std::lock_guard lock(mutex_);
    recent_bytes_ += samples->memory();
    recent_.emplace_back(i, std::move(samples));
    for (; recent_bytes_ > kRecentBytes && recent_.size() > 1; recent_.pop_front()) {
      recent_bytes_ -= recent_.front().second->memory();
    }
  }
  return wanted;
}

absl::StatusOr<std::shared_ptr<const KeyTable>> TarPages::OpenKeys() const {
  std::lock_guard lock(keys_mutex_);
  if (!keys_) {
    const TarBlock& end = contents_->index.blocks.back();
    const TablePlace place{.offset = end.page_offset, .length = contents_->index_length - end.page_offset};
    SHARDKIT_ASSIGN_OR_RETURN(keys_, KeyTable::Open(file_, place, end.first_sample));
  }
  return keys_;
}

absl::StatusOr<std::optional<uint64_t>> TarPages::FindKey(std::string_view key) const {
  const auto table = OpenKeys();
  if (!table.ok()) return Describe(table.status());
  const std::vector<TarBlock>& blocks = contents_->index.blocks;
  const std::string stored = contents_->escaped_keys ? format::EscapeWebDatasetKey(key) : std::string(key);
  std::optional<uint64_t> found;
  const absl::Status status = (*table)->Find(Hash64(stored), [&](uint64_t ordinal) -> absl::StatusOr<bool> {
    const auto after = std::ranges::upper_bound(blocks, ordinal, {}, &TarBlock::first_sample);
    const auto block = static_cast<size_t>(after - blocks.begin()) - 1;
    SHARDKIT_ASSIGN_OR_RETURN(const auto samples, Page(block));
    if (samples->key(ordinal - blocks[block].first_sample) == key) found = ordinal;
    return found.has_value();
  });
  if (!status.ok()) return Describe(status);
  return found;
}

absl::Status CheckTarIndex(ReadableFileSystem& file_system, const std::string& tar, TarIndex scanned,
                           const std::function<void(std::string)>& report) {
  const std::string path = IndexPath(tar);
  const auto bytes = file_system.ReadFile(path, kMaxTarIndexBytes);
  if (absl::IsNotFound(bytes.status())) return absl::OkStatus();
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<TarIndex> index = format::DecodeTarIndex(*bytes);
  if (!index.ok()) return absl::OkStatus();
  scanned.identity = index->identity;
  scanned.checksums = std::move(index->checksums);
  scanned.checksums.resize(scanned.values.size());
  const std::string wanted = format::EncodeTarIndex(scanned);
  const auto differs = std::ranges::mismatch(*bytes, wanted);
  if (differs.in1 == bytes->end() && differs.in2 == wanted.end()) return absl::OkStatus();
  const TarBlock& end = index->blocks.back();
  const bool same_counts = end.first_sample == scanned.sample_count() && end.first_value == scanned.values.size();
  report(StrCat(path, ": ",
                same_counts
                    ? StrCat("byte ", differs.in1 - bytes->begin(), " is not what the index of this tar has there")
                    : StrCat("has ", end.first_sample, " samples of ", end.first_value, " values, but ", tar, " has ",
                             scanned.sample_count(), " of ", scanned.values.size()),
                TarIndexAdvice(tar)));
  return absl::OkStatus();
}

}  // namespace shardkit::container
