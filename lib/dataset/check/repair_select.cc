#include "dataset/check/repair_select.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace shardkit::dataset {
namespace {

uint64_t EndOf(const FoundBlock& block) { return block.info.first_sample + block.info.sample_count; }

}  // namespace

Selection SelectByDirectory(const std::vector<FoundBlock>& found, const std::vector<BlockInfo>& directory) {
  Selection selection;
  std::map<uint64_t, size_t> entry_of;
  for (size_t i = 0; i < directory.size(); ++i) entry_of.emplace(directory[i].header_checksum, i);
  std::vector<std::optional<size_t>> block_of(directory.size());
  for (size_t i = 0; i < found.size(); ++i) {
    BlockInfo info = found[i].info;
    const auto entry = entry_of.find(info.header_checksum);
    if (entry != entry_of.end()) info.offset = directory[entry->second].offset;
    if (entry == entry_of.end() || !(info == directory[entry->second])) {
      selection.strangers += found[i].whole ? 1 : 0;
      continue;
    }
    std::optional<size_t>& block = block_of[entry->second];
    if (block) ++selection.copies;
    if (!block || (found[i].whole && !found[*block].whole)) block = i;
  }
  for (size_t i = 0; i < directory.size(); ++i) {
    selection.pieces.push_back({block_of[i], directory[i].first_sample, directory[i].sample_count, i, 1});
  }
  return selection;
}

Selection SelectBySample(const std::vector<FoundBlock>& found, const ShardBounds& bounds) {
  std::vector<size_t> order(found.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](size_t i) {
    return std::tuple(!found[i].whole, found[i].info.first_sample, found[i].info.offset);
  });
  Selection selection;
  std::map<uint64_t, size_t> taken;  // by first sample
  std::set<uint64_t> headers;
  for (const size_t i : order) {
    const uint64_t begin = found[i].info.first_sample, end = EndOf(found[i]);
    const auto next = taken.lower_bound(begin);
    const bool fits = (next == taken.end() || end <= next->first) &&
                      (next == taken.begin() || EndOf(found[std::prev(next)->second]) <= begin) &&
                      end <= bounds.sample_count.value_or(end);
    if (fits && headers.insert(found[i].info.header_checksum).second) {
      taken.emplace(begin, i);
    } else if (found[i].whole) {
      ++(headers.contains(found[i].info.header_checksum) ? selection.copies : selection.strangers);
    }
  }

  uint64_t sample = 0;
  std::optional<uint64_t> block = 0;
  for (const auto& [begin, i] : taken) {
    if (begin > sample) {
      selection.pieces.push_back({std::nullopt, sample, begin - sample, block, 0});
      block.reset();
    }
    selection.pieces.push_back({i, begin, found[i].info.sample_count, block, 1});
    if (block) ++*block;
    sample = EndOf(found[i]);
  }
  if (bounds.sample_count.value_or(0) > sample) {
    const bool counted = block && bounds.block_count.value_or(0) > *block;
    selection.pieces.push_back(
        {std::nullopt, sample, *bounds.sample_count - sample, block, counted ? *bounds.block_count - *block : 0});
  }
  return selection;
}

}  // namespace shardkit::dataset
