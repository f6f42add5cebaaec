// The schema of a shard: what columns a sample has (format-spec/spec.md, "Schema").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardkit {

// The numbers are those stored in files (format-spec/registry.md).
enum class Type : uint8_t {
  kBytes = 1,
  kUtf8 = 2,
  kJson = 3,   // UTF-8 JSON text, kept byte for byte
  kJpeg = 4,   // a JPEG file's bytes
  kPng = 5,    // a PNG file's bytes
  kImage = 6,  // an image file's bytes, whose format its first bytes tell (ImageFormat in image.h)
  kI8 = 16,
  kI16 = 17,
  kI32 = 18,
  kI64 = 19,
  kU8 = 20,
  kU16 = 21,
  kU32 = 22,
  kU64 = 23,
  kF16 = 24,
  kBf16 = 25,
  kF32 = 26,
  kF64 = 27,
  kBool = 28,  // one byte, 0 or 1
  kNdarray = 32,
  kRle = 33,  // a list of masks, see rle.h
};

enum class Codec : uint8_t {
  kNone = 0,
  kZstd = 1,
};

// "jpeg", "f32", …; "?" for a value outside the enumeration.
std::string_view TypeName(Type type);
std::string_view CodecName(Codec codec);
std::optional<Type> TypeFromName(std::string_view name);

// Bytes of one scalar of `type`, or 0 when `type` is not a scalar.
uint32_t ScalarSize(Type type);

// True for bytes, utf8, json, jpeg, png and image: the value is a plain byte string.
bool IsByteString(Type type);

// True for jpeg, png and image.
bool IsImage(Type type);

// Format limits (format-spec/spec.md, "Limits"); readers refuse more.
inline constexpr size_t kMaxColumns = 4096;
inline constexpr size_t kMaxColumnNameBytes = 255;
inline constexpr size_t kMaxRank = 8;

struct Column {
  std::string name;  // 1 to kMaxColumnNameBytes bytes of UTF-8, unique in the schema
  Type type = Type::kBytes;
  Codec codec = Codec::kNone;
  bool nullable = false;  // samples may lack the value
  bool is_key = false;    // the sample's key: utf8, not nullable; at most one column

  // Only for kNdarray: the element type (a scalar), and the shape when all values have the same one (slowest dimension
  // first, at most kMaxRank dimensions). Without a shape, each value stores its own.
  Type dtype = Type::kU8;
  std::optional<std::vector<uint64_t>> shape;

  bool operator==(const Column&) const = default;

  // Bytes of each value when the type gives all the same size (scalars; ndarray with a shape); else empty.
  std::optional<uint64_t> fixed_size() const;

  // Values of variable size, stored uncompressed, each with its own checksum and an entry in the offset index. So each
  // can be read and checked without its neighbours.
  bool is_blob() const { return codec == Codec::kNone && !fixed_size().has_value(); }
};

// Immutable once made. Thread-safe.
class Schema {
 public:
  Schema() = default;

  // InvalidArgument, naming the column, when a rule above or a limit is broken.
  static absl::StatusOr<Schema> Create(std::vector<Column> columns);

  const std::vector<Column>& columns() const { return columns_; }
  size_t size() const { return columns_.size(); }
  const Column& operator[](size_t i) const { return columns_[i]; }

  // Position of a column, or empty.
  std::optional<size_t> Find(std::string_view name) const;

  std::optional<size_t> key_column() const { return key_column_; }

  // Positions of the blob columns, ascending.
  const std::vector<size_t>& blob_columns() const { return blob_columns_; }

  bool operator==(const Schema& other) const { return columns_ == other.columns_; }

 private:
  std::vector<Column> columns_;
  std::optional<size_t> key_column_;
  std::vector<size_t> blob_columns_;
};

// The narrowest type that holds values of both, or empty when there is none. Equal types give that type; json and utf8
// give utf8; jpeg, png and image give image; any other two byte strings give bytes.
std::optional<Type> CommonType(Type a, Type b);

// The schema that holds the samples of both: the columns of `a` in its order, then those that only `b` has. A column
// that one of them lacks, or that is nullable in one, becomes nullable; types as CommonType. InvalidArgument, naming
// the column, when there is no common type or when codecs, dtypes or shapes differ.
absl::StatusOr<Schema> MergeSchemas(const Schema& a, const Schema& b);

}  // namespace shardkit
