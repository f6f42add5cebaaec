// Makes the keys of a dataset's segment from those of its shards, or of the segments that it replaces.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "format/key_table.h"
#include "format/paged_table.h"
#include "shardkit/filesystem.h"
#include "shardkit/job.h"

namespace shardkit::dataset {

// Samples of a table that count: `count` from `begin` on, and what the first of them is among all that count.
struct KeptSamples {
  uint64_t begin = 0;
  uint64_t count = 0;  // at least 1
  uint64_t first = 0;
};

// A key table that others are made of.
struct KeyTableInput {
  std::string path;                       // of the file that it lies in
  format::TablePlace place;               // of the table that has it as a section
  uint64_t samples = 0;                   // its entries
  uint64_t first_sample = 0;              // what its ordinals count from
  std::optional<uint64_t> checksum = {};  // of the table's tail, where something names it: another table is refused
  std::optional<std::vector<KeptSamples>> kept = {};  // ascending; without a value all samples count

  // Samples that count.
  uint64_t count() const { return !kept ? samples : kept->empty() ? 0 : kept->back().first + kept->back().count; }
};

// Merges the tables into one, whose ordinals count from the first sample of the first. Each table begins where the
// samples of the one before end. The pages go to `add_page`, as PagedTableWriter::AddPage takes them; returns the
// payload of the section. Where more than 256 tables are merged, there are PATH.N.tmp of as many bytes together
// meanwhile. No temporary file is left, whatever the result. The result depends on the entries alone.
//
// At most 256 tables are open at once, with a page of 64 KiB each: 16 MiB, beside 24 bytes for each 4096 keys of those,
// and the list itself. `cancellation` may be null.
//
// DataLoss names the input that is damaged.
// `take`, which may be empty, is called with each entry of the result, in its order.
absl::StatusOr<std::string> MergeKeys(FileSystem& file_system, const std::string& path,
                                      std::vector<KeyTableInput> inputs, const Cancellation* cancellation,
                                      const std::function<absl::Status(const format::KeyEntry&)>& take,
                                      const std::function<absl::Status(uint64_t, std::string_view)>& add_page);

}  // namespace shardkit::dataset
