// Encodings of MDS columns (format-spec/interop.md) and the columns they are read as.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/schema.h"

namespace shardkit::format {

struct MdsEncoding {
  std::optional<uint64_t> size;  // bytes of every value, when they are equal by encoding

  // What values are read as.
  Type type = Type::kBytes;
  Type dtype = Type::kU8;                      // of kNdarray
  std::optional<std::vector<uint64_t>> shape;  // of kNdarray, when every value has the same

  // Values carry their shape in MDS's form, which AppendMdsArray turns into ours; all others are read as they are
  // stored.
  bool is_array = false;

  bool known = true;    // false: an encoding somebody has added to their own copy of the package
  std::string refusal;  // why values are not read ("is pickled; …"), or empty
};

// Never fails: one that cannot be read has a refusal.
MdsEncoding DescribeMdsEncoding(std::string_view encoding);

struct MdsColumn {
  std::string name;
  std::string encoding;
  std::optional<uint64_t> size;  // bytes of every value; without it each value's length stands in its sample
  MdsEncoding how;

  bool operator==(const MdsColumn& other) const {
    return name == other.name && encoding == other.encoding && size == other.size;
  }
};

// From the three lists of an index or of a shard's header. DataLoss when they contradict each other.
absl::StatusOr<std::vector<MdsColumn>> MakeMdsColumns(std::vector<std::string> names,
                                                      std::vector<std::string> encodings,
                                                      std::vector<std::optional<uint64_t>> sizes);

// The column that a readable one (without a refusal) is read as.
Column ColumnOf(const MdsColumn& column);

// Appends an array of which `payload` holds a byte of rank and width, the shape and the elements, in the form of
// ndarray values. DataLoss when the payload is nothing of the kind, Unimplemented above kMaxRank dimensions.
absl::Status AppendMdsArray(Type dtype, std::string_view payload, std::string* out);

}  // namespace shardkit::format
