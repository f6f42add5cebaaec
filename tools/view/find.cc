#include "view/find.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace shardctl {
namespace {

constexpr auto kTime = std::chrono::milliseconds(300);
constexpr size_t kMostMatches = 200;

}  // namespace

struct Finder::Search {
  std::string where;
  std::shared_ptr<const Snapshot> whole;    // what the condition was parsed for
  std::shared_ptr<const Snapshot> columns;  // only what the condition needs
  shardkit::Predicate predicate;
};

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
  const auto end = std::chrono::steady_clock::now() + kTime;
  std::vector<uint64_t> matches;
  uint64_t next = std::min(from, snapshot.samples);
  if (next < snapshot.samples) {
    const auto scanner = snapshot.reader->Scan({.threads = 1, .first_sample = next});
    if (!scanner.ok()) return scanner.status();
    std::vector<uint32_t> selected;
    while (next < snapshot.samples && matches.size() < kMostMatches && std::chrono::steady_clock::now() < end) {
      const auto block = (*scanner)->Next();
      if (block.ok() && *block == nullptr) break;
      const absl::Status status =
          block.ok() ? (*search)->predicate.Select((*block)->view(), &selected) : block.status();
      if (!status.ok() && next > from) break;  // what was found before is shown first
      if (!status.ok()) return status;
      const shardkit::BlockView& view = (*block)->view();
      const uint64_t first = (*block)->first_sample();
      uint64_t seen = first + view.sample_count();
      for (const uint32_t sample : selected) {
        if (first + sample < next || first + sample >= snapshot.samples) continue;
        if (matches.size() == kMostMatches) {
          seen = first + sample;
          break;
        }
        matches.push_back(first + sample);
      }
      next = seen;
    }
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
