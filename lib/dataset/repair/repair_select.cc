#include "dataset/repair/repair_select.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace shardkit::dataset {
namespace {

uint64_t EndOf(const FoundBlock& block) { return block.info.first_sample + block.info.sample_count; }

// A whole copy is better than a damaged one. Of two equal ones, the copy outside of damaged blocks is better.
bool IsBetter(const FoundBlock& a, const FoundBlock& b) {
  return std::tuple(a.whole, !a.nested) > std::tuple(b.whole, !b.nested);
}

// Of two blocks that name the same predecessor, the one outside of damaged blocks is better, else the whole one.
bool IsBetterSuccessor(const FoundBlock& a, const FoundBlock& b) {
  return std::tuple(!a.nested, a.whole) > std::tuple(!b.nested, b.whole);
}

struct PathNode {
  size_t best = 0;  // the best of the copies
  bool outside = false;
  bool foreign = true;  // every copy is the first block of another shard
};

struct Chain {
  std::vector<size_t> blocks;  // positions in found_
  bool at_front = false;
  uint64_t begin = 0;
  uint64_t end = 0;
};

class ChainSelection {
 public:
  ChainSelection(const std::vector<FoundBlock>& found, const ShardBounds& bounds) : found_(found), bounds_(bounds) {}

  Selection Run() {
    MergeCopies();
    std::vector<Chain> chains = BuildChains();
    std::ranges::stable_sort(chains, [](const Chain& a, const Chain& b) {
      return std::tuple(a.at_front, a.blocks.size()) > std::tuple(b.at_front, b.blocks.size());
    });
    for (const Chain& chain : chains) {
      if (Fits(chain)) {
        taken_.emplace(chain.begin, &chain);
      } else {
        for (const size_t block : chain.blocks) selection_.strangers += found_[block].whole ? 1 : 0;
      }
    }
    AddPieces();
    return std::move(selection_);
  }

 private:
  // Where a block is whole, its damaged copies say nothing about where it belongs: the footer of a shard has copies of
  // all headers, also the footer of a shard in a value.
  void MergeCopies() {
    std::set<uint64_t> whole;
    for (const FoundBlock& block : found_) {
      if (block.whole) whole.insert(block.info.header_checksum);
    }
    for (size_t i = 0; i < found_.size(); ++i) {
      if (!found_[i].whole && whole.contains(found_[i].info.header_checksum)) continue;
      const auto [place, is_new] = node_of_.try_emplace(found_[i].info.header_checksum, nodes_.size());
      if (is_new) nodes_.push_back({.best = i});
      PathNode& node = nodes_[place->second];
      if (!is_new) ++selection_.copies;
      if (IsBetter(found_[i], found_[node.best])) node.best = i;
      node.outside = node.outside || !found_[i].nested;
      node.foreign = node.foreign && found_[i].foreign;
    }
  }

  const FoundBlock& Block(size_t node) const { return found_[nodes_[node].best]; }

  std::vector<Chain> BuildChains() {
    constexpr size_t kNone = SIZE_MAX;
    std::vector<size_t> before(nodes_.size(), kNone), after(nodes_.size(), kNone);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const auto place = node_of_.find(Block(i).previous);
      if (place == node_of_.end() || EndOf(Block(place->second)) != Block(i).info.first_sample) continue;
      size_t& successor = after[place->second];
      if (successor != kNone && !IsBetterSuccessor(Block(i), Block(successor))) continue;
      if (successor != kNone) before[successor] = kNone;
      successor = i;
      before[i] = place->second;
    }
    std::vector<Chain> chains;
    for (size_t root = 0; root < nodes_.size(); ++root) {
      if (before[root] != kNone) continue;  // first samples ascend along a chain, so there are no rings
      Chain chain;
      bool outside = false;
      chain.begin = Block(root).info.first_sample;
      for (size_t i = root; i != kNone; i = after[i]) {
        chain.blocks.push_back(nodes_[i].best);
        chain.end = EndOf(Block(i));
        outside = outside || nodes_[i].outside;
      }
      chain.at_front = chain.begin == 0 && Block(root).info.offset == bounds_.first_block_offset;
      if (outside && !nodes_[root].foreign && RootFits(Block(root))) {
        chains.push_back(std::move(chain));
      } else {
        for (const size_t block : chain.blocks) selection_.strangers += found_[block].whole ? 1 : 0;
      }
    }
    return chains;
  }

  bool RootFits(const FoundBlock& root) const {
    if (!bounds_.header_checksum) return true;
    return (root.info.first_sample == 0) == (root.previous == *bounds_.header_checksum);
  }

  bool Fits(const Chain& chain) const {
    if (bounds_.sample_count && chain.end > *bounds_.sample_count) return false;
    const auto next = taken_.lower_bound(chain.begin);
    if (next != taken_.end() && next->first <= chain.end) return false;
    return next == taken_.begin() || std::prev(next)->second->end < chain.begin;
  }

  void AddPieces() {
    uint64_t sample = 0;
    std::optional<uint64_t> block = 0;
    for (const auto& [begin, chain] : taken_) {
      if (begin > sample) {
        selection_.pieces.push_back({std::nullopt, sample, begin - sample, block, 0});
        block.reset();
      }
      for (const size_t i : chain->blocks) {
        selection_.pieces.push_back({i, found_[i].info.first_sample, found_[i].info.sample_count, block, 1});
        if (block) ++*block;
      }
      sample = chain->end;
    }
    if (bounds_.sample_count && *bounds_.sample_count > sample) {
      const bool counted = block && bounds_.block_count && *bounds_.block_count > *block;
      selection_.pieces.push_back(
          {std::nullopt, sample, *bounds_.sample_count - sample, block, counted ? *bounds_.block_count - *block : 0});
    }
  }

  const std::vector<FoundBlock>& found_;
  const ShardBounds& bounds_;
  std::vector<PathNode> nodes_;
  std::map<uint64_t, size_t> node_of_;      // by header checksum; a forger could slow down a hash table
  std::map<uint64_t, const Chain*> taken_;  // by first sample
  Selection selection_;
};

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
    if (!block || IsBetter(found[i], found[*block])) block = i;
  }
  for (size_t i = 0; i < directory.size(); ++i) {
    selection.pieces.push_back({block_of[i], directory[i].first_sample, directory[i].sample_count, i, 1});
  }
  return selection;
}

Selection SelectByChain(const std::vector<FoundBlock>& found, const ShardBounds& bounds) {
  return ChainSelection(found, bounds).Run();
}

}  // namespace shardkit::dataset
