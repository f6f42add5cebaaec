#include "support/samples.h"

#include <array>

#include "shardkit/rle.h"
#include "shardkit/schema.h"
#include "support/require.h"

namespace shardkit::fuzz {
namespace {

constexpr std::array kByteStrings = {Type::kBytes, Type::kUtf8, Type::kJson, Type::kJpeg, Type::kPng, Type::kImage};
constexpr std::array kOthers = {Type::kI8,          Type::kI16,     Type::kI32,  Type::kI64,    Type::kU8,
                                Type::kU16,         Type::kU32,     Type::kU64,  Type::kF16,    Type::kBf16,
                                Type::kF32,         Type::kF64,     Type::kBool, Type::kF8E4M3, Type::kComplex64,
                                Type::kTimestampNs, Type::kNdarray, Type::kRle};
constexpr uint32_t kDtypes = 16;

std::string Letters(Input& input, uint64_t length) {
  std::string text(input.Bytes(length));
  for (char& c : text) c = static_cast<char>('a' + static_cast<uint8_t>(c) % 26);
  return text;
}

// Repeats bytes of the input, so that long values need few input bytes.
std::string TakeBytes(Input& input) {
  const uint64_t length = input.Byte();
  const std::string_view piece = input.Bytes(length % 32);
  std::string bytes;
  for (uint64_t i = 0; i <= length / 32; ++i) bytes += piece;
  return bytes;
}

std::string TakeArray(Input& input, const Column& column) {
  std::vector<uint64_t> shape(input.Below(4));
  uint64_t bytes = ScalarSize(column.dtype);
  for (uint64_t& dimension : shape) bytes *= dimension = input.Below(5);
  std::string data(input.Bytes(bytes));
  data.resize(bytes);
  std::string value;
  RequireOk(AppendNdarray(column.dtype, shape, data, &value), "an array of a sound shape");
  return value;
}

std::string TakeMasks(Input& input) {
  RleList masks;
  for (uint32_t left = input.Below(4); left > 0; --left) {
    const uint32_t height = input.Below(20), width = input.Below(20);
    std::string pixels(input.Bytes(uint64_t{height} * width));
    pixels.resize(size_t{height} * width);
    for (char& pixel : pixels) pixel &= 1;
    const auto mask = EncodeDense({reinterpret_cast<const uint8_t*>(pixels.data()), pixels.size()}, height, width);
    RequireOk(mask.status(), "a small mask");
    masks.Append(*mask);
  }
  std::string value;
  RequireOk(AppendRleValue(masks, &value), "a list of sound masks");
  return value;
}

std::string TakeValue(Input& input, const Column& column) {
  if (const auto size = column.fixed_size()) {
    std::string value(input.Bytes(*size));
    value.resize(*size);
    if (column.type == Type::kBool) value[0] &= 1;
    return value;
  }
  switch (column.type) {
    case Type::kNdarray:
      return TakeArray(input, column);
    case Type::kRle:
      return TakeMasks(input);
    case Type::kUtf8:
      return Letters(input, input.Byte());
    case Type::kJson:
      return "\"" + Letters(input, input.Byte()) + "\"";
    default:
      return TakeBytes(input);
  }
}

std::string TakeKey(Input& input, size_t ordinal) {
  std::string digits = std::to_string(ordinal);
  return std::string(8 - digits.size(), '0') + digits + Letters(input, input.Below(6));
}

}  // namespace

Schema TakeSchema(Input& input, Columns which) {
  std::vector<Column> columns;
  if (which == Columns::kByteStrings || input.Below(4) != 0) {
    Column& key = columns.emplace_back();
    key.name = "key";
    key.type = Type::kUtf8;
    key.codec = Codec::kZstd;
    key.is_key = true;
  }
  const uint32_t count = 1 + input.Below(5);
  for (uint32_t i = 0; i < count; ++i) {
    Column& column = columns.emplace_back();
    column.name = std::string(1, static_cast<char>('b' + i)) + Letters(input, input.Below(4));
    const uint32_t type = input.Below(which == Columns::kAny ? 23 : 5);
    column.type = type < 5 ? kByteStrings[type] : kOthers[type - 5];
    const uint8_t flags = input.Byte();
    column.codec = (flags & 1) != 0 ? Codec::kZstd : Codec::kNone;
    column.nullable = (flags & 2) != 0;
    if (column.type == Type::kNdarray) {
      column.dtype = kOthers[input.Below(kDtypes)];
      if (column.dtype == Type::kBool) column.dtype = Type::kU8;
      if ((flags & 4) != 0) column.shape = {1 + input.Below(3), 1 + input.Below(3)};
    }
    if ((flags & 8) != 0) column.metadata[Letters(input, 3)] = Letters(input, 5);
  }
  const auto schema = Schema::Create(std::move(columns));
  RequireOk(schema.status(), "a schema within the rules");
  return *schema;
}

std::vector<Row> TakeRows(Input& input, const Schema& schema) {
  std::vector<Row> rows(input.Below(40));
  for (size_t i = 0; i < rows.size(); ++i) {
    for (const Column& column : schema.columns()) {
      if (column.is_key) {
        rows[i].emplace_back(TakeKey(input, i));
      } else if (column.nullable && input.Below(3) == 0) {
        rows[i].emplace_back(std::nullopt);
      } else {
        rows[i].emplace_back(TakeValue(input, column));
      }
    }
  }
  return rows;
}

absl::Status AppendRows(const Schema& schema, const std::vector<Row>& rows, DatasetWriter& writer) {
  for (size_t i = 0; i < rows.size(); ++i) {
    Sample sample;
    for (size_t column = 0; column < schema.size(); ++column) {
      if (!rows[i][column]) continue;
      if (schema[column].is_key) {
        sample.key = *rows[i][column];
      } else {
        sample.fields.push_back({&schema[column], Value(*rows[i][column])});
      }
    }
    if (absl::Status status = writer.Append(sample, i + 1); !status.ok()) return status;
  }
  return absl::OkStatus();
}

void RequireRows(FileSystem& files, const std::string& path, const Schema& schema, const std::vector<Row>& rows) {
  const auto dataset = DatasetReader::Open(files, path, BoundedOptions());
  RequireOk(dataset.status(), "opening a dataset that was written");
  const auto read = ReadRows(**dataset);
  Require(read.has_value(), "a dataset that was written can be read");
  Require(read->size() == rows.size() && (*dataset)->sample_count() == rows.size(),
          "there are the samples that were written");
  for (size_t column = 0; column < schema.size(); ++column) {
    const auto place = (*dataset)->FindColumn(schema[column].name);
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::optional<std::string>& written = rows[i][column];
      if (!place.ok()) {
        Require(!written, "a column without its own place has no values");
      } else {
        Require((*read)[i][*place] == written, "a value is what was written");
      }
    }
  }
}

}  // namespace shardkit::fuzz
