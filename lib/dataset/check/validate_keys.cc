#include "dataset/check/validate_keys.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "dataset/write/k_way_merge.h"

namespace shardkit::dataset {
namespace {

using format::KeyEntry;
using format::kKeyEntryBytes;

constexpr uint64_t kMemory = uint64_t{16} << 20;
constexpr uint64_t kLeastPiece = 4096;  // bytes of entries read at once
constexpr uint64_t kMostPiece = uint64_t{256} << 10;
constexpr uint64_t kMostCompared = 1000;  // keys
constexpr size_t kMostPlaces = 16;        // of one hash
constexpr size_t kMostExamples = 5;
constexpr size_t kMostExampleBytes = 100;  // of an example

class KeyCheck {
 public:
  KeyCheck(ReadableFileSystem& file_system, const DatasetReader& dataset, const RemovedList& removed,
           std::span<const KeyIndexPlace> places, std::span<SegmentKeys> segments, const Cancellation* cancellation)
      : file_system_(file_system),
        dataset_(dataset),
        removed_(removed),
        places_(places),
        segments_(segments),
        cancellation_(cancellation),
        piece_(std::clamp(kMemory / std::max<uint64_t>(places.size(), 1), kLeastPiece, kMostPiece)),
        cursors_(places.size()),
        comparisons_(segments.size()) {}

  absl::StatusOr<DuplicateKeyReport> Run() {
    for (size_t i = 0; i < segments_.size(); ++i) {
      if (segments_[i].table) comparisons_[i].emplace(*segments_[i].table);
    }
    KWayMerge merge(places_.size(), [this](size_t list, KeyEntry* entry) { return Advance(list, entry); });
    for (KeyEntry entry;;) {
      SHARDKIT_ASSIGN_OR_RETURN(const bool more, merge.Next(&entry));
      if (!more) break;
      SHARDKIT_RETURN_IF_ERROR(Compare(entry));
      if (removed_.Has(entry.ordinal)) continue;
      if (count_ > 0 && entry.hash != hash_) SHARDKIT_RETURN_IF_ERROR(EndHash());
      hash_ = entry.hash;
      if (equal_.size() < kMostPlaces) equal_.push_back(entry.ordinal);
      ++count_;
    }
    SHARDKIT_RETURN_IF_ERROR(EndHash());
    for (size_t i = 0; i < segments_.size(); ++i) {
      if (comparisons_[i]) SHARDKIT_RETURN_IF_ERROR(Take(i, comparisons_[i]->Finish()));
    }
    std::ranges::sort(examples_);
    for (auto& [sample, text] : examples_) found_.examples.push_back(std::move(text));
    return std::move(found_);
  }

 private:
  // The merge's position in a shard's table, and the part of its entries that is in memory.
  struct Cursor {
    uint64_t position = 0;
    std::string entries;
    uint64_t first = 0;  // position of the first of `entries`
  };

  // The entries lie one after another, however they are divided into pages. A shard is opened again for each piece:
  // there may be more shards than a process can have open files.
  absl::StatusOr<bool> Advance(size_t list, KeyEntry* entry) {
    Cursor& cursor = cursors_[list];
    const KeyIndexPlace& place = places_[list];
    if (cursor.position == place.samples) return false;
    if (cursor.position >= cursor.first + cursor.entries.size() / kKeyEntryBytes) {
      if (cancellation_) SHARDKIT_RETURN_IF_ERROR(cancellation_->Check("comparing keys"));
      cursor.first = cursor.position;
      cursor.entries.resize(kKeyEntryBytes * std::min(piece_ / kKeyEntryBytes, place.samples - cursor.position));
      SHARDKIT_ASSIGN_OR_RETURN(const auto file, file_system_.OpenForReading(place.path));
      SHARDKIT_RETURN_IF_ERROR(file->ReadAt(place.offset + format::kTableMagicBytes + kKeyEntryBytes * cursor.position,
                                            {cursor.entries.data(), cursor.entries.size()}));
    }
    *entry = format::LoadKeyEntry(cursor.entries.data() + kKeyEntryBytes * (cursor.position - cursor.first));
    entry->ordinal += place.first_sample;
    ++cursor.position;
    return true;
  }

  absl::Status Compare(KeyEntry entry) {
    const auto after = std::ranges::upper_bound(segments_, entry.ordinal, {}, &SegmentKeys::first_sample);
    if (after == segments_.begin()) return absl::OkStatus();
    const size_t segment = static_cast<size_t>(after - segments_.begin()) - 1;
    if (!comparisons_[segment]) return absl::OkStatus();
    entry.ordinal -= segments_[segment].first_sample;
    return Take(segment, comparisons_[segment]->Add(entry));
  }

  // Keeps a difference, and returns an error that is none.
  absl::Status Take(size_t segment, const absl::Status& status) {
    if (status.ok()) return status;
    if (!absl::IsDataLoss(status)) return status;
    segments_[segment].difference = status;
    comparisons_[segment].reset();
    return absl::OkStatus();
  }

  // All samples with the hash are known; the first of them are in equal_.
  absl::Status EndHash() {
    const uint64_t count = std::exchange(count_, 0);
    const std::vector<uint64_t> equal = std::exchange(equal_, {});
    if (count < 2) return absl::OkStatus();
    if (compared_ == kMostCompared) {
      found_.count += count - 1;
      return absl::OkStatus();
    }
    ++compared_;
    std::map<std::string, std::vector<uint64_t>> samples;
    for (const uint64_t sample : equal) {
      SHARDKIT_ASSIGN_OR_RETURN(const DatasetReader::Location location, dataset_.Locate(sample));
      SHARDKIT_ASSIGN_OR_RETURN(const auto shard, dataset_.OpenShard(location.shard));
      SHARDKIT_ASSIGN_OR_RETURN(const auto key,
                                shard->ReadValue(location.local, *shard->schema().key_column(), &buffer_));
      samples[std::string(key.value_or(""))].push_back(sample);
    }
    // Samples that were not compared count as samples of the first repeated key.
    uint64_t others = count - equal.size();
    for (const auto& [key, ordinals] : samples) {
      if (ordinals.size() < 2) continue;
      const uint64_t all = ordinals.size() + std::exchange(others, 0);
      found_.count += all - 1;
      if (examples_.size() == kMostExamples) continue;
      const bool cut = key.size() > kMostExampleBytes;
      examples_.emplace_back(ordinals[0],
                             StrCat("key \"", key.substr(0, kMostExampleBytes), cut ? "..." : "", "\" stands in ", all,
                                    " samples, first in ", Seen(ordinals[0]), " and ", Seen(ordinals[1])));
    }
    return absl::OkStatus();
  }

  uint64_t Seen(uint64_t stored) const { return stored - removed_.Before(stored); }

  ReadableFileSystem& file_system_;
  const DatasetReader& dataset_;
  const RemovedList& removed_;
  const std::span<const KeyIndexPlace> places_;
  const std::span<SegmentKeys> segments_;
  const Cancellation* const cancellation_;
  const uint64_t piece_;
  std::vector<Cursor> cursors_;
  std::vector<std::optional<container::KeyTableComparison>> comparisons_;  // of segments that have not differed
  uint64_t hash_ = 0;                                                      // of the entries taken last
  uint64_t count_ = 0;                                                     // of these entries
  std::vector<uint64_t> equal_;                                            // the first of their samples
  BlockBuffer buffer_;
  uint64_t compared_ = 0;
  std::vector<std::pair<uint64_t, std::string>> examples_;  // by their first sample
  DuplicateKeyReport found_;
};

}  // namespace

absl::StatusOr<DuplicateKeyReport> CheckKeys(ReadableFileSystem& file_system, const DatasetReader& dataset,
                                             const RemovedList& removed, std::span<const KeyIndexPlace> places,
                                             std::span<SegmentKeys> segments, const Cancellation* cancellation) {
  return KeyCheck(file_system, dataset, removed, places, segments, cancellation).Run();
}

}  // namespace shardkit::dataset
