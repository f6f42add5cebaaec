#include "view/find.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>
#include <vector>

namespace shardctl {
namespace {

constexpr auto kFindTime = std::chrono::milliseconds(300);
constexpr size_t kMostMatches = 200;
constexpr uint64_t kShardsAtOnce = 8;

// Where to look at the clock again, however many blocks are left out: about some shards further.
absl::StatusOr<uint64_t> PieceEnd(const shardkit::DatasetReader& reader, uint64_t sample, uint64_t samples) {
  const auto place = reader.Locate(sample);
  if (!place.ok()) return place.status();
  const auto shard = reader.Shard(place->shard);
  if (!shard.ok()) return shard.status();
  const uint64_t left = samples - sample;
  return sample +
         (shard->samples < left / kShardsAtOnce ? std::max(shard->samples, uint64_t{1}) * kShardsAtOnce : left);
}

}  // namespace

struct Finder::Search {
  std::string where;
  std::shared_ptr<const Snapshot> whole;    // what the condition was parsed for
  std::shared_ptr<const Snapshot> columns;  // only what the condition needs
  shardkit::Predicate predicate;

  // Looks at samples from *next on, at some shards or at a block and then until stop(), and moves *next behind them. At
  // an error *next is behind those before it.
  absl::Status LookOn(const std::function<bool()>& stop, std::vector<uint64_t>* matches, uint64_t* next) const;
};

absl::Status Finder::Search::LookOn(const std::function<bool()>& stop, std::vector<uint64_t>* matches,
                                    uint64_t* next) const {
  const auto end = PieceEnd(*columns->reader, *next, columns->samples);
  if (!end.ok()) return end.status();
  const auto scanner =
      columns->reader->Scan({.threads = 1, .first_sample = *next, .end_sample = *end, .where = predicate});
  if (!scanner.ok()) return scanner.status();
  std::vector<uint32_t> selected;
  do {
    const auto block = (*scanner)->Next();
    if (!block.ok()) return block.status();
    if (*block == nullptr) {
      *next = std::max(*next, *end);
      break;
    }
    const shardkit::BlockView& view = (*block)->view();
    const absl::Status status = predicate.Select(view, &selected);
    if (!status.ok()) return status;
    const uint64_t first = (*block)->first_sample();
    uint64_t seen = first + view.sample_count();
    for (const uint32_t sample : selected) {
      if (first + sample < *next || first + sample >= columns->samples) continue;
      if (matches->size() == kMostMatches) {
        seen = first + sample;
        break;
      }
      matches->push_back(first + sample);
    }
    *next = seen;
  } while (!stop());
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Finder::Search>> Finder::Begin(const ViewedDataset& dataset,
                                                                    const std::string& where) {
  auto whole = dataset.current();
  {
    const std::lock_guard lock(mutex_);
    if (last_ != nullptr && last_->where == where && last_->whole == whole) return last_;
  }
  auto predicate = shardkit::Predicate::Parse(where, whole->reader->columns());
  if (!predicate.ok()) return predicate.status();
  auto columns = dataset.Reopen(predicate->columns());
  if (!columns.ok()) return columns.status();
  std::shared_ptr<const Search> search(new Search{where, std::move(whole), *std::move(columns), *std::move(predicate)});
  const std::lock_guard lock(mutex_);
  return last_ = std::move(search);
}

absl::StatusOr<Json> Finder::Find(const ViewedDataset& dataset, const std::string& where, uint64_t from,
                                  const RowOptions& options, WorkspacePool& pool) {
  const auto search = Begin(dataset, where);
  if (!search.ok()) return search.status();
  const Snapshot& snapshot = *(*search)->columns;
  const auto end = std::chrono::steady_clock::now() + kFindTime;
  std::vector<uint64_t> matches;
  uint64_t next = std::min(from, snapshot.samples);
  const auto stop = [&] { return matches.size() == kMostMatches || std::chrono::steady_clock::now() >= end; };
  while (next < snapshot.samples && !stop()) {
    const absl::Status status = (*search)->LookOn(stop, &matches, &next);
    if (!status.ok() && next > from) break;  // what was found before is shown first
    if (!status.ok()) return status;
  }
  auto rows = ReadRows(*(*search)->whole, matches, options, pool);
  if (!rows.ok()) return rows.status();
  const bool all = next >= snapshot.samples;
  return Json{{"matches", *std::move(rows)},
              {"next", all ? Json() : Json(next)},
              {"scanned", std::min(next, snapshot.samples) - std::min(from, next)},
              {"samples", snapshot.samples}};
}

absl::StatusOr<Json> Finder::FindKey(const Snapshot& snapshot, std::string_view key, WorkspacePool& pool) {
  WorkspacePool::Lease workspace(pool);
  const auto found = snapshot.reader->FindKey(key, &workspace->buffer);
  if (!found.ok()) return found.status();
  return Json{{"ordinal", found->has_value() ? Json(**found) : Json()}};
}

}  // namespace shardctl
