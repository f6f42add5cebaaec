// Random damage, compared with a model that knows which blocks are still whole. SHARDKIT_REPAIR_ROUNDS is the number of
// rounds.
#include <algorithm>
#include <cstdlib>

#include "base/checked.h"
#include "base/strings.h"
#include "support/effort.h"
#include "unit/dataset/check/repair_support.h"

namespace shardkit::test {
namespace {

uint64_t Rounds() {
  const char* const text = std::getenv("SHARDKIT_REPAIR_ROUNDS");
  return text == nullptr ? Thinned(4000) : std::strtoull(text, nullptr, 10);
}

// Damages a shard, and records what the model needs.
class Damage {
 public:
  Damage(const Original& original, Random& random) : original_(original), random_(random), bytes_(original.bytes) {}

  void Apply() {
    switch (random_.Below(11)) {
      case 0:
        return FlipBits();
      case 1:
        return Overwrite('\0');
      case 2:
        return Overwrite(static_cast<char>(random_.Next()));
      case 3:
        return OverwriteWithNoise();
      case 4:
        return Truncate();
      case 5:
        return Swap();
      case 6:
        return CopyBlockOver();
      case 7:
        return AppendNoise();
      case 8:
        return Insert();
      case 9:
        return DamageHeader();
      default:
        return Remove();
    }
  }

  const std::string& bytes() const { return bytes_; }
  // True when blocks may lie inside damaged ones, where they are found only with a directory.
  bool may_nest() const { return may_nest_; }
  const std::string& description() const { return description_; }

 private:
  uint64_t Place() { return random_.Below(std::max<uint64_t>(bytes_.size(), 1)); }
  uint64_t AlignedPlace() { return Place() / original_.options.alignment * original_.options.alignment; }
  uint64_t Length() { return 1 + random_.Below(random_.Chance(3) ? 2000 : 100); }
  void Say(std::string_view what, uint64_t a, uint64_t b) { description_ += StrCat(what, " ", a, " ", b, "; "); }

  void FlipBits() {
    for (uint64_t n = 1 + random_.Below(4); n > 0 && !bytes_.empty(); --n) {
      const uint64_t place = Place();
      Say("flip", place, 0);
      bytes_[place] = static_cast<char>(bytes_[place] ^ (1 << random_.Below(8)));
    }
  }

  // The header of a block, where the original has it.
  void DamageHeader() {
    const size_t block = random_.Below(original_.blocks.size());
    const uint64_t place = original_.blocks[block].offset + random_.Below(64);
    if (place >= bytes_.size()) return;
    Say("header of block", block, place);
    bytes_[place] = static_cast<char>(bytes_[place] ^ 1);
  }

  void Overwrite(char with) {
    const uint64_t place = Place(), length = std::min<uint64_t>(Length(), bytes_.size() - place);
    Say("fill", place, length);
    bytes_.replace(place, length, length, with);
  }

  void OverwriteWithNoise() {
    const uint64_t place = Place(), length = std::min<uint64_t>(Length(), bytes_.size() - place);
    Say("noise", place, length);
    bytes_.replace(place, length, random_.Bytes(length));
  }

  void Truncate() {
    const uint64_t length =
        random_.Chance(2) ? Place() : bytes_.size() - std::min<uint64_t>(bytes_.size(), random_.Below(300));
    Say("truncate", length, 0);
    bytes_.resize(length);
  }

  // Includes the padding, so that the bytes between the two blocks move.
  void Swap() {
    size_t a = random_.Below(original_.blocks.size()), b = random_.Below(original_.blocks.size());
    if (a > b) std::swap(a, b);
    const uint64_t begin = original_.blocks[a].offset, end = End(b);
    if (a == b || end > bytes_.size()) return;
    Say("swap", a, b);
    may_nest_ = may_nest_ || moved_;
    moved_ = true;
    const std::string first = bytes_.substr(begin, End(a) - begin);
    const std::string between = bytes_.substr(End(a), original_.blocks[b].offset - End(a));
    const std::string last = bytes_.substr(original_.blocks[b].offset, end - original_.blocks[b].offset);
    bytes_.replace(begin, end - begin, last + between + first);
  }

  // Copies one block over the beginning of another one.
  void CopyBlockOver() {
    const size_t from = random_.Below(original_.blocks.size()), to = random_.Below(original_.blocks.size());
    const uint64_t begin = original_.blocks[from].offset, length = original_.blocks[from].length;
    const uint64_t place = original_.blocks[to].offset;
    if (begin + length > bytes_.size() || place + length > bytes_.size()) return;
    Say("copy", from, to);
    may_nest_ = may_nest_ || moved_;
    bytes_.replace(place, length, bytes_.substr(begin, length));
  }

  void AppendNoise() {
    const uint64_t length = random_.Chance(2) ? 8 * Length() : Length();
    Say("append", length, 0);
    bytes_ += random_.Bytes(length);
  }

  void Insert() {
    const uint64_t place = AlignedPlace(), length = original_.options.alignment * (1 + random_.Below(4));
    Say("insert", place, length);
    moved_ = true;
    bytes_.insert(place, random_.Chance(2) ? random_.Bytes(length) : std::string(length, '\0'));
  }

  void Remove() {
    const uint64_t place = AlignedPlace(), length = original_.options.alignment * (1 + random_.Below(4));
    Say("remove", place, length);
    bytes_.erase(place, length);
    moved_ = may_nest_ = true;
  }

  uint64_t End(size_t block) const {
    return RoundUp(original_.blocks[block].offset + original_.blocks[block].length, original_.options.alignment);
  }

  const Original& original_;
  Random& random_;
  std::string bytes_;
  std::string description_;
  bool moved_ = false;  // blocks are no longer at the original's places
  bool may_nest_ = false;
};

// True when the header is left, or the data that proves a new header right.
bool HeaderCertain(const Original& original, std::string_view damaged) {
  const std::string_view bytes = original.bytes;
  if (damaged.substr(0, original.header_length) == bytes.substr(0, original.header_length)) return true;
  if (damaged.ends_with(bytes.substr(original.header_copy_begin))) return true;
  if (original.has_dictionary) return false;
  if (damaged.ends_with(bytes.substr(original.table_end))) return true;
  const BlockInfo& first = original.blocks[0];
  return damaged.size() >= first.offset + first.length &&
         damaged.substr(first.offset, first.length) == bytes.substr(first.offset, first.length);
}

TEST(RepairModel, EveryWholeBlockComesBack) {
  Random random(20260101);
  uint64_t exact_rounds = 0, recovered = 0, lost = 0;
  const uint64_t rounds = Rounds();
  for (uint64_t round = 0; round < rounds; ++round) {
    const Original& original = Kinds()[random.Below(Kinds().size())];
    Damage damage(original, random);
    for (uint64_t n = 1 + random.Below(3); n > 0; --n) damage.Apply();
    SCOPED_TRACE(StrCat("round ", round, ", ", original.name, ": ", damage.description()));
    const std::vector<bool> whole = BlocksIn(original, damage.bytes());
    const bool exact = DirectoryIn(original, damage.bytes());
    // Data compressed with a dictionary needs the header.
    if (!HeaderCertain(original, damage.bytes()) && original.has_dictionary) continue;
    if (damage.may_nest() && !exact) continue;
    // A section table may be damaged where it does not matter, or lie elsewhere, and lead to the copies of headers.
    if (!exact && MayBeRestored(original, damage.bytes(), whole)) continue;
    const RepairReport report = ExpectRepair(original, damage.bytes(), whole, exact);
    exact_rounds += exact ? 1 : 0;
    recovered += report.blocks_recovered;
    lost += report.blocks_lost;
    if (::testing::Test::HasFailure()) return;
  }
  RecordProperty("rounds", static_cast<int>(rounds));
  RecordProperty("exact_rounds", static_cast<int>(exact_rounds));
  RecordProperty("blocks_recovered", static_cast<int>(recovered));
  RecordProperty("blocks_lost", static_cast<int>(lost));
  EXPECT_GT(exact_rounds, rounds / 4);
  EXPECT_LT(exact_rounds, rounds);
}

}  // namespace
}  // namespace shardkit::test
