// The schema of a shard: the columns of a sample (format-spec/spec.md, "Schema").
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardkit {

// The numbers are stored in files (format-spec/registry.md). A shard of a later version may have others: columns of
// unknown types are handled as bytes.
enum class Type : uint16_t {
  kBytes = 1,
  kUtf8 = 2,
  kJson = 3,   // UTF-8 JSON text, kept byte for byte
  kJpeg = 4,   // a JPEG file's bytes
  kPng = 5,    // a PNG file's bytes
  kImage = 6,  // an image file's bytes; the first bytes tell the format (ImageFormat in image.h)
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
  kBool = 28,       // one byte, 0 or 1
  kF8E4M3 = 29,     // OCP FP8 E4M3: no infinities, NaN only with all bits of exponent and mantissa
  kF8E5M2 = 30,     // OCP FP8 E5M2
  kComplex64 = 31,  // two f32: real part, imaginary part
  kNdarray = 32,
  kRle = 33,          // a list of masks, see rle.h
  kComplex128 = 64,   // two f64: real part, imaginary part
  kTimestampS = 65,   // i64: seconds since 1970-01-01T00:00:00Z, without leap seconds
  kTimestampMs = 66,  // the same in milliseconds, and so on
  kTimestampUs = 67,
  kTimestampNs = 68,
};

// A shard of a later version may have others. The values of such a column cannot be read; everything else can.
enum class Codec : uint8_t {
  kNone = 0,
  kZstd = 1,
};

// The storage of a column's values in a block (format-spec/spec.md, section 3). The numbers are stored in files.
enum class Storage : uint8_t {
  kDerived = 0,  // never stored: Schema::Create derives the storage from type, shape and codec
  kFixed = 1,    // all values have value_size bytes
  kInline = 2,   // of variable size and codec zstd, in the head chunk
  kBlob = 3,     // of variable size and codec none, in a values chunk, each with its own checksum
  kPaged = 4,    // of variable size and codec none, in a values chunk in pages of many values with one checksum
};

// Whether the number is in the enumeration above.
bool IsKnownType(Type type);
bool IsKnownCodec(Codec codec);

// "jpeg", "f32", …; "type 77" and "codec 9" for unknown numbers.
std::string TypeName(Type type);
std::string CodecName(Codec codec);
std::optional<Type> TypeFromName(std::string_view name);

// Names to values, both UTF-8; names without NUL and line feed. Names beginning "shardkit." are Shardkit's own.
using Metadata = std::map<std::string, std::string>;

// Bytes of one scalar of `type`, or 0 when `type` is not a scalar.
uint32_t ScalarSize(Type type);

// True for bytes, utf8, json, jpeg, png and image: the value is a plain byte string.
bool IsByteString(Type type);

// Well-known names of column metadata (format-spec/registry.md, "Metadata of columns").
inline constexpr char kClassNames[] = "class_names";  // JSON array of strings: value i of the column means class i
inline constexpr char kItems[] = "items";             // of a json column: "utf8" if each value is an array of strings

// True for jpeg, png and image.
bool IsImage(Type type);

// Format limits (format-spec/spec.md, "Limits"); readers refuse more.
inline constexpr size_t kMaxColumns = 4096;
inline constexpr size_t kMaxColumnNameBytes = 255;
inline constexpr size_t kMaxRank = 8;

struct Column {
  std::string name;  // 1 to kMaxColumnNameBytes bytes of UTF-8 without NUL and line feed, unique in the schema
  Type type = Type::kBytes;
  Codec codec = Codec::kNone;
  bool nullable = false;  // samples may lack the value
  bool is_key = false;    // the sample's key: utf8, not nullable; at most one column

  // Only for kNdarray: the element type (a scalar), and the shape if all values have the same one (slowest dimension
  // first, at most kMaxRank dimensions). Without a shape, each value stores its own. For an unknown type both are kept
  // as in the file.
  Type dtype = Type::kU8;
  std::optional<std::vector<uint64_t>> shape;

  // Schema::Create sets these in a column of a known type, and checks them if they are set. A column of another type
  // has a storage, and for kFixed a value_size (at most 2^40 bytes).
  Storage storage = Storage::kDerived;
  uint64_t value_size = 0;

  // The meaning of the values, for their users (format-spec/registry.md, "Metadata of columns").
  Metadata metadata;

  // Sets the codec, and for values of variable size its storage: kBlob or kInline.
  void SetCodec(Codec to);

  // Whether all fields are equal. A derived storage equals the same storage set explicitly.
  bool operator==(const Column& other) const;

  // Whether the values are more than bytes: false if the type, or the dtype of an ndarray, is unknown.
  bool has_known_type() const;

  // Bytes of each value if all have the same size; else empty.
  std::optional<uint64_t> fixed_size() const;

  // Values of variable size, stored uncompressed, each with a checksum and an entry in the offset index. Each can be
  // read and checked without its neighbours.
  bool is_blob() const;

  // Small values of variable size, stored uncompressed in pages of at most 64 KiB with one checksum each. Reading a
  // value takes reading its page.
  bool is_paged() const { return storage == Storage::kPaged; }

  // Whether the column's values are behind the heads of all columns: blobs and pages.
  bool has_values_chunk() const { return is_blob() || is_paged(); }
};

// Whether each value of the column is a list of texts: json, with the metadata items of utf8.
bool IsTextList(const Column& column);

// The names of the column's classes: value i of the column means class i. Empty without class_names in its metadata.
// InvalidArgument if they are not a JSON array of strings.
absl::StatusOr<std::vector<std::string>> ClassNames(const Column& column);

// Immutable once made. Thread-safe.
class Schema {
 public:
  Schema() = default;

  // InvalidArgument, naming the column, if a rule above or a limit is broken.
  static absl::StatusOr<Schema> Create(std::vector<Column> columns);

  const std::vector<Column>& columns() const { return columns_; }
  size_t size() const { return columns_.size(); }
  const Column& operator[](size_t i) const { return columns_[i]; }

  // Position of a column, or empty.
  std::optional<size_t> Find(std::string_view name) const;

  std::optional<size_t> key_column() const { return key_column_; }

  // Positions of the blob columns, ascending.
  const std::vector<size_t>& blob_columns() const { return blob_columns_; }

  // Positions of the columns with a values chunk, in the order of these chunks: blob columns, ascending, then paged
  // columns, ascending.
  const std::vector<size_t>& values_columns() const { return values_columns_; }

  bool operator==(const Schema& other) const { return columns_ == other.columns_; }

 private:
  std::vector<Column> columns_;
  std::optional<size_t> key_column_;
  std::vector<size_t> blob_columns_;
  std::vector<size_t> values_columns_;
};

// True if the values are handled as bytes: a byte string, or an unknown type.
bool IsByteString(const Column& column);

// The narrowest type that holds values of both, or empty if there is none. Equal types give that type; json and utf8
// give utf8; jpeg, png and image give image; any other two byte strings give bytes.
std::optional<Type> CommonType(Type a, Type b);

// The schema that holds the samples of both: the columns of `a` in its order, then the columns that only `b` has. A
// column that one of them lacks, or that is nullable in one, becomes nullable; types as CommonType. A common column
// keeps the metadata that are equal in both. InvalidArgument, naming the column, if there is no common type or if
// codecs, dtypes, shapes or sizes differ.
absl::StatusOr<Schema> MergeSchemas(const Schema& a, const Schema& b);

// The bytes of `ndarray` values (format-spec/spec.md, "Values").

// A borrowed array. `data` points into the parsed value.
struct NdarrayView {
  Type dtype = Type::kU8;
  std::vector<uint64_t> shape;  // slowest dimension first; empty for a single element
  std::string_view data;        // product of shape x ScalarSize(dtype) bytes

  uint64_t element_count() const;
};

// Appends a value with its shape, as stored in a column without Column::shape. InvalidArgument if the size of `data`
// does not match the shape, or if a limit is exceeded.
absl::Status AppendNdarray(Type dtype, std::span<const uint64_t> shape, std::string_view data, std::string* out);

// Parses a value of `column`, whose type is kNdarray, with or without a shape in the schema. DataLoss if the bytes do
// not match the column; Unimplemented if its dtype is unknown.
absl::StatusOr<NdarrayView> ParseNdarray(const Column& column, std::string_view value);

}  // namespace shardkit
