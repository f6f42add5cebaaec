// The files that a sample was packed from.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/sample.h"
#include "shardkit/schema.h"
#include "shardkit/shard.h"

namespace shardkit::convert {

// A file to write below the output directory. When `column` is set, its contents are the sample's value of that column,
// which may be too large to hold in memory. Otherwise they are `bytes`.
struct SampleFile {
  std::string name;
  size_t column = SIZE_MAX;
  std::string bytes;
};

// Knows, for one shard's schema, which files a sample becomes. One thread at a time.
class SampleFiles {
 public:
  // Chooses by "shardkit.source" of the metadata, if present. InvalidArgument when the schema does not fit that source.
  static absl::StatusOr<std::unique_ptr<SampleFiles>> Create(const Schema& schema, const Metadata& metadata);
  virtual ~SampleFiles() = default;

  // Columns whose values List needs in memory. SampleFile::column never names one of them.
  virtual const std::vector<size_t>& needed_columns() const = 0;

  // Files of sample `i` of the block. `ordinal` names the sample when there is no key.
  virtual absl::Status List(const BlockView& block, uint32_t i, uint64_t ordinal, std::vector<SampleFile>* files) = 0;
};

}  // namespace shardkit::convert
