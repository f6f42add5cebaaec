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

namespace shardkit::foreign {

struct MdsEncoding {
  std::optional<uint64_t> size;  // bytes of every value, when the encoding fixes them

  // What values are read as.
  Type type = Type::kBytes;
  Type dtype = Type::kU8;                      // of kNdarray
  std::optional<std::vector<uint64_t>> shape;  // of kNdarray, when every value has the same

  // Values carry their shape in the form of MDS, and AppendMdsArray converts them to our form. All other values are
  // read as they are stored.
  bool is_array = false;

  bool known = true;    // false: not an encoding of MDS itself, for example one that a user added
  std::string refusal;  // why values are not read ("is pickled; …"), or empty
};

// Never fails: an encoding that cannot be read gets a refusal.
MdsEncoding DescribeMdsEncoding(std::string_view encoding);

struct MdsColumn {
  std::string name;
  std::string encoding;
  std::optional<uint64_t> size;  // bytes of every value; if absent, each sample stores the length of its value
  MdsEncoding how;

  bool operator==(const MdsColumn& other) const {
    return name == other.name && encoding == other.encoding && size == other.size;
  }
};

// From the three lists of an index or of a shard's header. DataLoss when they contradict each other.
absl::StatusOr<std::vector<MdsColumn>> MakeMdsColumns(std::vector<std::string> names,
                                                      std::vector<std::string> encodings,
                                                      std::vector<std::optional<uint64_t>> sizes);

// The column that an MDS column without a refusal is read as.
Column ColumnOf(const MdsColumn& column);

// Converts an array to the form of ndarray values and appends it. `payload` is the array in the form of MDS: a byte
// with rank and width, the shape, the elements. DataLoss when the payload has another form, Unimplemented for more than
// kMaxRank dimensions.
absl::Status AppendMdsArray(Type dtype, std::string_view payload, std::string* out);

}  // namespace shardkit::foreign
