#include "dataset/validate/repeated_keys.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "base/endian.h"
#include "base/errors.h"
#include "base/status_macros.h"

namespace shardkit {
namespace {

constexpr uint64_t kMemory = uint64_t{16} << 20;
constexpr uint64_t kLeastPiece = 4096;  // bytes of hashes read at once
constexpr uint64_t kMostPiece = uint64_t{256} << 10;
constexpr uint64_t kMostCompared = 1000;  // keys
constexpr size_t kMostPlaces = 16;        // of one hash
constexpr size_t kMostExamples = 5;
constexpr size_t kMostKeyBytes = 100;  // of an example

class Search {
 public:
  Search(FileSystem& file_system, const DatasetReader& dataset, std::span<const KeyIndexPlace> places,
         const Cancellation* cancellation)
      : file_system_(file_system),
        dataset_(dataset),
        places_(places),
        cancellation_(cancellation),
        piece_(std::clamp(kMemory / std::max<uint64_t>(places.size(), 1), kLeastPiece, kMostPiece)),
        cursors_(places.size()) {}

  absl::StatusOr<RepeatedKeys> Run() {
    for (size_t i = 0; i < places_.size(); ++i) {
      if (places_[i].samples > 0) SHARDKIT_RETURN_IF_ERROR(Push(i));
    }
    while (!next_.empty()) SHARDKIT_RETURN_IF_ERROR(TakeOne());
    std::ranges::sort(examples_);
    for (auto& [sample, text] : examples_) found_.examples.push_back(std::move(text));
    return std::move(found_);
  }

 private:
  // The merge's position in a shard's list, and the part of the list that is in memory.
  struct Cursor {
    uint64_t position = 0;
    std::string hashes;
    uint64_t first = 0;  // position of the first of `hashes`
  };
  // Hash and list. Sorted by hash, and for equal hashes in the order of the samples.
  using Head = std::pair<uint64_t, size_t>;

  // A shard is opened again for each piece: there may be more shards than a process can have open files.
  absl::Status Push(size_t list) {
    Cursor& cursor = cursors_[list];
    const KeyIndexPlace& place = places_[list];
    if (cursor.position >= cursor.first + cursor.hashes.size() / 8) {
      if (cancellation_) SHARDKIT_RETURN_IF_ERROR(cancellation_->Check("looking for repeated keys"));
      cursor.first = cursor.position;
      cursor.hashes.resize(8 * std::min(piece_ / 8, place.samples - cursor.position));
      SHARDKIT_ASSIGN_OR_RETURN(const auto file, file_system_.OpenForReading(place.path));
      SHARDKIT_RETURN_IF_ERROR(
          file->ReadAt(place.offset + 8 * cursor.position, {cursor.hashes.data(), cursor.hashes.size()}));
    }
    next_.emplace_back(LoadLittle<uint64_t>(cursor.hashes.data() + 8 * (cursor.position - cursor.first)), list);
    std::ranges::push_heap(next_, std::greater<>());
    return absl::OkStatus();
  }

  // Takes all samples with the smallest hash that is left.
  absl::Status TakeOne() {
    const uint64_t hash = next_.front().first;
    uint64_t count = 0;
    equal_.clear();
    while (!next_.empty() && next_.front().first == hash) {
      const size_t list = next_.front().second;
      std::ranges::pop_heap(next_, std::greater<>());
      next_.pop_back();
      if (equal_.size() < kMostPlaces) equal_.emplace_back(list, cursors_[list].position);
      ++count;
      if (++cursors_[list].position < places_[list].samples) SHARDKIT_RETURN_IF_ERROR(Push(list));
    }
    if (count == 1) return absl::OkStatus();
    if (compared_ < kMostCompared) return Compare(count);
    found_.count += count - 1;
    return absl::OkStatus();
  }

  // `count` samples have the same hash; the first of them are in equal_.
  absl::Status Compare(uint64_t count) {
    ++compared_;
    std::map<std::string, std::vector<uint64_t>> samples;
    for (const auto& [list, position] : equal_) {
      const KeyIndexPlace& place = places_[list];
      SHARDKIT_ASSIGN_OR_RETURN(const auto file, file_system_.OpenForReading(place.path));
      char bytes[4];
      SHARDKIT_RETURN_IF_ERROR(file->ReadAt(place.offset + 8 * place.samples + 4 * position, bytes));
      const uint64_t ordinal = LoadLittle<uint32_t>(bytes);
      SHARDKIT_ASSIGN_OR_RETURN(const auto shard, dataset_.OpenShard(place.shard));
      SHARDKIT_ASSIGN_OR_RETURN(const auto key, shard->ReadValue(ordinal, *shard->schema().key_column(), &buffer_));
      samples[std::string(key.value_or(""))].push_back(place.first_sample + ordinal);
    }
    // Samples that were not compared count as samples of the first repeated key.
    uint64_t others = count - equal_.size();
    for (const auto& [key, ordinals] : samples) {
      if (ordinals.size() < 2) continue;
      const uint64_t all = ordinals.size() + std::exchange(others, 0);
      found_.count += all - 1;
      if (examples_.size() == kMostExamples) continue;
      const bool cut = key.size() > kMostKeyBytes;
      examples_.emplace_back(ordinals[0],
                             StrCat("key \"", key.substr(0, kMostKeyBytes), cut ? "..." : "", "\" stands in ", all,
                                    " samples, first in ", ordinals[0], " and ", ordinals[1]));
    }
    return absl::OkStatus();
  }

  FileSystem& file_system_;
  const DatasetReader& dataset_;
  const std::span<const KeyIndexPlace> places_;
  const Cancellation* const cancellation_;
  const uint64_t piece_;
  std::vector<Cursor> cursors_;
  std::vector<Head> next_;                          // a heap: the next hash of each list that is not at its end
  std::vector<std::pair<size_t, uint64_t>> equal_;  // list and position
  BlockBuffer buffer_;
  uint64_t compared_ = 0;
  std::vector<std::pair<uint64_t, std::string>> examples_;  // by their first sample
  RepeatedKeys found_;
};

}  // namespace

absl::StatusOr<RepeatedKeys> FindRepeatedKeys(FileSystem& file_system, const DatasetReader& dataset,
                                              std::span<const KeyIndexPlace> places, const Cancellation* cancellation) {
  return Search(file_system, dataset, places, cancellation).Run();
}

}  // namespace shardkit
