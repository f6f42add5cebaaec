// What a job notes of each shard that it has finished.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shardkit/dataset_writer.h"
#include "shardkit/manifest.h"

namespace shardkit::dataset {

// A finished shard, and where to continue after it.
struct JournalEntry {
  ManifestShard shard;
  uint64_t next_position = 0;
  uint64_t listing = 0;  // InputPosition::listing there
  // Where the input says that a shard ends. Of others a run that is resumed makes those at the end again.
  bool may_continue = true;
  std::vector<SkippedSample> skipped;
  std::string details;  // what the writer of another container needs to know when it resumes; UTF-8
};

// A line of JSON, with its end.
std::string FormatJournalEntry(const JournalEntry& entry);

// False for an incomplete line: the program crashed while it wrote the line. The content hash is given as text: only
// who looks at the shard knows that it is the shard's.
bool ParseJournalEntry(std::string_view line, JournalEntry* entry, std::string* content_hash);

}  // namespace shardkit::dataset
