// Opening the segments of a dataset (format-spec/dataset.md, section 9.2).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "container/read/key_table_reader.h"
#include "container/read/paged_table_reader.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"

namespace shardkit::dataset {

// What a segment file holds.
struct SegmentTables {
  std::unique_ptr<container::PagedTable> index;
  std::unique_ptr<container::PagedTable> list;
  std::shared_ptr<const container::KeyTable> keys;  // null where its shards have no key
};

// Opens the file of each segment, all of them at once. Of a file: NotFound when it is missing, DataLoss when it is
// damaged or is not the one that the manifest names.
std::vector<absl::StatusOr<SegmentTables>> OpenSegments(ReadableFileSystem& file_system, const std::string& directory,
                                                        std::span<const Segment> segments);

// Whether readers do without a segment file with this error (section 9.2): it is missing, damaged, cut short, another
// one, or of another major version.
bool CannotBeUsed(const absl::Status& status);

// Calls `visit` as KeyTable::Find does, with ordinals of the segment. False when the table cannot be used: what was
// visited may then not be all. Errors of `visit` are returned, and of files that cannot be read now. `keys` may be
// null.
absl::StatusOr<bool> FindInKeys(const container::KeyTable* keys, uint64_t hash,
                                const std::function<absl::StatusOr<bool>(uint64_t ordinal)>& visit);

}  // namespace shardkit::dataset
