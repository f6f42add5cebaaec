// Lines of the journal: what was written comes back, and an incomplete line is noticed.
#include "dataset/journal_entry.h"

#include "base/named_hash.h"
#include "dataset/dataset_support.h"
#include "shardkit/manifest.h"

namespace shardkit::test {
namespace {

using dataset::JournalEntry;

JournalEntry Example() {
  JournalEntry entry;
  entry.shard = {"part-\u00e9.shard", 1000, 10, 2, {}};
  entry.shard.content_hash.fill(0x5a);
  entry.shard.sha256.emplace().fill(0xab);
  entry.next_position = 12;
  entry.listing = UINT64_MAX;
  entry.may_continue = false;
  entry.skipped = {{3, "k\"ey", "why"}, {7, "", "line\nbreak"}};
  entry.details = "{}";
  return entry;
}

bool Parses(std::string_view line, JournalEntry* entry = nullptr, std::string* hash = nullptr) {
  JournalEntry unused;
  std::string digits;
  return dataset::ParseJournalEntry(line, entry != nullptr ? entry : &unused, hash != nullptr ? hash : &digits);
}

TEST(JournalEntry, ComesBack) {
  const JournalEntry entry = Example();
  JournalEntry parsed;
  std::string hash;
  ASSERT_TRUE(Parses(FormatJournalEntry(entry), &parsed, &hash));
  EXPECT_EQ(hash, ToHex(entry.shard.content_hash));
  parsed.shard.content_hash = entry.shard.content_hash;
  EXPECT_EQ(parsed.shard, entry.shard);
  EXPECT_EQ(parsed.next_position, 12u);
  EXPECT_EQ(parsed.listing, UINT64_MAX);
  EXPECT_FALSE(parsed.may_continue);
  EXPECT_EQ(parsed.details, "{}");
  ASSERT_EQ(parsed.skipped.size(), 2u);
  EXPECT_EQ(parsed.skipped[0].position, 3u);
  EXPECT_EQ(parsed.skipped[0].key, "k\"ey");
  EXPECT_EQ(parsed.skipped[1].reason, "line\nbreak");
  JournalEntry without = entry;
  without.shard.sha256.reset();
  without.skipped.clear();
  JournalEntry again;
  ASSERT_TRUE(Parses(FormatJournalEntry(without), &again));
  EXPECT_FALSE(again.shard.sha256.has_value());
  EXPECT_TRUE(again.skipped.empty());
}

TEST(JournalEntry, IncompleteOrChangedOnesAreNoticed) {
  const std::string line = dataset::FormatJournalEntry(Example());
  for (size_t length = 0; length + 1 < line.size(); ++length) {  // the line feed alone is not needed
    EXPECT_FALSE(Parses(std::string_view(line).substr(0, length))) << length;
  }
  EXPECT_FALSE(Parses(line + line));
  for (const std::string_view key : {"name", "bytes", "samples", "blocks", "content_hash", "next_position", "listing",
                                     "may_continue", "skipped", "details", "position", "key", "reason"}) {
    std::string renamed = line;
    const size_t at = renamed.find("\"" + std::string(key) + "\":");
    ASSERT_NE(at, renamed.npos) << key;
    EXPECT_FALSE(Parses(renamed.replace(at + 1, 1, "_"))) << key;
  }
  const std::pair<std::string_view, std::string_view> edits[] = {
      {"\"bytes\":1000", "\"bytes\":-1000"},
      {"\"bytes\":1000", "\"bytes\":\"1000\""},
      {"false", "0"},
      {"\"sha256\":\"ab", "\"sha256\":\"aB"},
      {"\"sha256\":\"ab", "\"sha256\":\""},
      {"\"details\":\"{}\"", "\"details\":{}"},
      {"\"position\":3", "\"position\":3.5"},
  };
  for (const auto& [from, to] : edits) {
    std::string edited = line;
    const size_t at = edited.find(from);
    ASSERT_NE(at, edited.npos) << from;
    EXPECT_FALSE(Parses(edited.replace(at, from.size(), to))) << from << " -> " << to;
  }
}

}  // namespace
}  // namespace shardkit::test
