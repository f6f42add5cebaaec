// Writes one segment file, shard by shard, in memory proportional to the number of its pages.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "container/read/shard_index_part.h"
#include "dataset/write/duplicate_key_finder.h"
#include "dataset/write/key_table_builder.h"
#include "format/index_layout.h"
#include "format/paged_table.h"
#include "shardkit/filesystem.h"
#include "shardkit/job.h"
#include "shardkit/manifest.h"
#include "shardkit/schema.h"

namespace shardkit::dataset {

// What a manifest says of a table that was written to a file.
TableReference ReferenceTo(const std::string& name, const format::TableTail& tail);

// What the last part of a segment is made of.
struct KeySources {
  std::optional<std::vector<KeyTableInput>> tables;  // of all samples, in their order; empty: the segment has no keys
  DuplicateKeyFinder* repeated = nullptr;            // takes the keys; may be null
  // Called before the segment is published; its error is returned. May be empty.
  std::function<absl::Status()> check;
  const Cancellation* cancellation = nullptr;  // may be null
};

// One thread at a time. Writes to dataset.segment.tmp.
class SegmentWriter {
 public:
  static absl::StatusOr<std::unique_ptr<SegmentWriter>> Create(FileSystem& file_system, const std::string& directory);
  ~SegmentWriter();

  // `schema` is the shard's.
  absl::Status Add(const Schema& schema, const container::ShardIndexPart& part);

  // The same in pieces: EndShard after the shard's blocks. `columns` are the shard's blob columns. Of `block`, offset,
  // length, front_length, sample_count and header_checksum are used. `places` are as in ShardIndexPart.
  absl::Status AddBlock(const std::vector<std::string>& columns, format::IndexBlock block,
                        std::span<const uint64_t> places);
  void EndShard() { ++root_.shard_count; }

  // The key tables of `shards`, which were added whole and are some of the dataset's. Empty when they have none.
  std::optional<std::vector<KeyTableInput>> KeysOf(const ManifestSummary& dataset,
                                                   std::span<const ManifestShard> shards) const;

  // Completes and flushes the file, and renames it to `name` in the directory. `shards` are those that were added, as
  // the list names them. InvalidArgument when a name is too long for a list.
  absl::StatusOr<Segment> Finish(const std::string& name, std::span<const ManifestShard> shards,
                                 const KeySources& keys);

  absl::Status Abort();

 private:
  SegmentWriter() = default;
  absl::Status EndPage();
  absl::Status AddList(std::span<const ManifestShard> shards);

  FileSystem* file_system_ = nullptr;
  std::string directory_;
  std::unique_ptr<WritableFile> file_;
  std::unique_ptr<format::PagedTableWriter> table_;
  format::IndexPageBuilder page_;
  format::IndexRoot root_;
  std::map<std::vector<std::string>, uint32_t> layouts_;
  std::vector<std::optional<format::TablePlace>> keys_;  // of each shard that was added whole
};

}  // namespace shardkit::dataset
