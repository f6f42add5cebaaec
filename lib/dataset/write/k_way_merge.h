// One ascending sequence of many: the entries of key tables.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "format/key_table.h"

namespace shardkit::dataset {

// One thread at a time.
class KWayMerge {
 public:
  // Sets *entry to the next one of list `list`; false at its end. The entries of a list ascend, and no two lists have
  // an entry in common.
  using Advance = std::function<absl::StatusOr<bool>(size_t list, format::KeyEntry* entry)>;

  KWayMerge(size_t lists, Advance advance) : lists_(lists), advance_(std::move(advance)) {}

  // False behind the last entry of all. After an error the merge is of no use.
  absl::StatusOr<bool> Next(format::KeyEntry* entry) {
    for (; started_ < lists_; ++started_) SHARDKIT_RETURN_IF_ERROR(Push(started_));
    if (heads_.empty()) return false;
    std::ranges::pop_heap(heads_, std::greater<>());
    const auto [smallest, list] = heads_.back();
    heads_.pop_back();
    *entry = smallest;
    SHARDKIT_RETURN_IF_ERROR(Push(list));
    return true;
  }

 private:
  absl::Status Push(size_t list) {
    format::KeyEntry entry;
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, advance_(list, &entry));
    if (!more) return absl::OkStatus();
    heads_.emplace_back(entry, list);
    std::ranges::push_heap(heads_, std::greater<>());
    return absl::OkStatus();
  }

  const size_t lists_;
  const Advance advance_;
  size_t started_ = 0;
  std::vector<std::pair<format::KeyEntry, size_t>> heads_;  // a heap: the next entry of each list not at its end
};

}  // namespace shardkit::dataset
