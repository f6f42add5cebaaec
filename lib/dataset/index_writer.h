// Writes dataset.idx, shard by shard, in memory proportional to the number of blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/hash.h"
#include "container/shard_index_part.h"
#include "format/index_layout.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"
#include "shardkit/schema.h"

namespace shardkit {

// One thread at a time. The blob columns of the dataset are known only after every shard has been added. So the ends
// are first collected in dataset.ends.tmp, in the order of the shards' columns, and Finish puts them in order.
class IndexWriter {
 public:
  static absl::StatusOr<std::unique_ptr<IndexWriter>> Create(FileSystem& file_system, const std::string& directory);
  ~IndexWriter();

  // `schema` is the shard's.
  absl::Status Add(const Schema& schema, ShardIndexPart part);

  // Completes and flushes the file, and renames it to dataset.idx. `manifest` has the shards in the order of Add.
  absl::Status Finish(const Manifest& manifest);

  absl::Status Abort();

 private:
  struct Block {
    BlockInfo info;
    uint32_t shard = 0;
  };

  IndexWriter() = default;
  absl::Status AppendBody(std::string_view bytes);
  absl::Status EndPage();
  absl::Status WriteEnds(const Schema& schema);
  absl::Status WriteTables(const Manifest& manifest, std::string* names);

  FileSystem* file_system_ = nullptr;
  std::string directory_;
  std::unique_ptr<WritableFile> ends_file_;
  std::unique_ptr<WritableFile> file_;  // dataset.idx.tmp
  std::vector<Block> blocks_;
  std::vector<std::vector<std::string>> blob_names_;  // every distinct list of a shard's blob columns
  std::vector<uint32_t> blob_names_of_shard_;
  std::string page_;
  std::string page_hashes_;
};

}  // namespace shardkit
