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

// The metadata item of a column whose values are lists of image files.
inline constexpr char kMediaType[] = "media_type", kImageListMediaType[] = "application/vnd.shardkit.image-list";

// How values are stored (mds_values.h).
enum class MdsForm : uint8_t {
  kPlain,       // as they are read
  kArray,       // ndarray:DTYPE
  kTypedArray,  // ndarray: the dtype of each value is its own
  kInteger,     // str_int
  kReal,        // str_float
  kPixels,      // pil
  kPixelsList,  // list[pil]
};

struct MdsEncoding {
  std::optional<uint64_t> size;  // bytes of every value, when the encoding fixes them

  // What values are read as.
  Type type = Type::kBytes;
  Type dtype = Type::kU8;                      // of kNdarray
  std::optional<std::vector<uint64_t>> shape;  // of kNdarray, when every value has the same
  bool is_list = false;                        // of image files

  MdsForm form = MdsForm::kPlain;
  Type stored_type = Type::kBytes;  // what values are read as where they are to stay as they are stored

  bool known = true;    // false: not an encoding of MDS itself, for example one that a user added
  std::string refusal;  // why values are not read ("is pickled; …"), or empty
};

// Never fails: an encoding that cannot be read gets a refusal. Of kTypedArray the type is that of the stored values
// until the caller knows a dtype.
MdsEncoding DescribeMdsEncoding(std::string_view encoding);

// The type of the elements that "float32" names in an encoding; empty for types that MDS arrays cannot have.
std::optional<Type> MdsElementType(std::string_view name);

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

}  // namespace shardkit::foreign
