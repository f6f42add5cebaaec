#include "operations/json_lines.h"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>
#include <utility>

#include "base/endian.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "codec/content_type.h"

namespace shardkit::operations {
namespace {

constexpr size_t kLinePieceBytes = size_t{1} << 20;

std::string_view KindOf(const JsonElement& value) {
  switch (value.kind()) {
    case JsonKind::kText:
      return "a text";
    case JsonKind::kBool:
      return "true or false";
    case JsonKind::kList:
      return "an array";
    case JsonKind::kObject:
      return "an object";
    case JsonKind::kFraction:
      return "a number with a fraction";
    case JsonKind::kNull:
      return "null";
    default:
      return "an integer";
  }
}

absl::Status Refuse(const JsonElement& value, Type type) {
  return InvalidArgument("is ", KindOf(value), ", which is no ", TypeName(type));
}

template <typename T>
absl::Status AppendInteger(const JsonElement& value, Type type, std::string* out) {
  int64_t number = 0;
  uint64_t large = 0;
  if (value.Get(&number) && std::in_range<T>(number)) {
    AppendLittle(*out, static_cast<T>(number));
  } else if (value.Get(&large) && std::in_range<T>(large)) {
    AppendLittle(*out, static_cast<T>(large));
  } else if (value.kind() == JsonKind::kInteger || value.kind() == JsonKind::kLargeInteger) {
    return InvalidArgument("is an integer that ", TypeName(type), " cannot hold");
  } else {
    return Refuse(value, type);
  }
  return absl::OkStatus();
}

// Whether T, a floating-point type, holds this integer.
template <typename T, std::integral Integer>
bool IsExactly(Integer number) {
  const T rounded = static_cast<T>(number);
  // The next power of two, which T holds and the integer's type does not: a number that was rounded up to it.
  if (rounded >= std::ldexp(T{1}, std::numeric_limits<Integer>::digits)) return false;
  return static_cast<Integer>(rounded) == number;
}

template <typename T>
absl::Status AppendFloat(const JsonElement& value, Type type, std::string* out) {
  double number = 0;
  int64_t integer = 0;
  uint64_t large = 0;
  if (!value.Get(&number)) return Refuse(value, type);
  const bool exact = value.Get(&integer) ? IsExactly<T>(integer) : !value.Get(&large) || IsExactly<T>(large);
  if (!exact) {
    return InvalidArgument("is an integer that ", TypeName(type), " cannot hold exactly; name a type, as i64 or json");
  }
  if (std::isfinite(number) && !std::isfinite(static_cast<T>(number))) {
    return InvalidArgument("is a number that ", TypeName(type), " cannot hold");
  }
  AppendLittle(*out, static_cast<T>(number));
  return absl::OkStatus();
}

}  // namespace

void JsonKinds::Note(const JsonElement& value) {
  switch (value.kind()) {
    case JsonKind::kNull:
      break;
    case JsonKind::kBool:
      boolean = true;
      break;
    case JsonKind::kInteger:
      integer = true;
      if (int64_t number = 0; value.Get(&number)) negative = negative || number < 0;
      break;
    case JsonKind::kLargeInteger:  // above the largest i64
      large = true;
      break;
    case JsonKind::kFraction:
      fraction = true;
      break;
    case JsonKind::kText:
      text = true;
      break;
    default:
      nested = true;
      break;
  }
}

absl::StatusOr<Type> JsonKinds::TypeOfAll() const {
  const bool number = integer || large || fraction;
  if (boolean + number + text + nested > 1) {
    return InvalidArgument("has values of several kinds; type json takes all of them");
  }
  if (boolean) return Type::kBool;
  if (text) return Type::kUtf8;
  if (nested) return Type::kJson;
  if (fraction) return Type::kF64;
  if (large && negative) return InvalidArgument("has integers that no type takes together; name one, as f64");
  if (large) return Type::kU64;
  if (integer) return Type::kI64;
  return InvalidArgument("has no value in any row; name its type, or leave it out");
}

bool IsJsonTarget(Type type) {
  switch (type) {
    case Type::kI8:
    case Type::kI16:
    case Type::kI32:
    case Type::kI64:
    case Type::kU8:
    case Type::kU16:
    case Type::kU32:
    case Type::kU64:
    case Type::kF32:
    case Type::kF64:
    case Type::kBool:
    case Type::kUtf8:
    case Type::kJson:
      return true;
    default:
      return false;
  }
}

absl::Status AppendJsonValue(const JsonElement& value, Type type, std::string* out) {
  switch (type) {
    case Type::kI8:
      return AppendInteger<int8_t>(value, type, out);
    case Type::kI16:
      return AppendInteger<int16_t>(value, type, out);
    case Type::kI32:
      return AppendInteger<int32_t>(value, type, out);
    case Type::kI64:
      return AppendInteger<int64_t>(value, type, out);
    case Type::kU8:
      return AppendInteger<uint8_t>(value, type, out);
    case Type::kU16:
      return AppendInteger<uint16_t>(value, type, out);
    case Type::kU32:
      return AppendInteger<uint32_t>(value, type, out);
    case Type::kU64:
      return AppendInteger<uint64_t>(value, type, out);
    case Type::kF32:
      return AppendFloat<float>(value, type, out);
    case Type::kF64:
      return AppendFloat<double>(value, type, out);
    case Type::kBool: {
      bool truth = false;
      if (!value.Get(&truth)) return Refuse(value, type);
      out->push_back(truth ? '\1' : '\0');
      return absl::OkStatus();
    }
    case Type::kUtf8: {
      std::string_view text;
      if (!value.Get(&text)) return Refuse(value, type);
      out->append(text);
      return absl::OkStatus();
    }
    case Type::kJson:
      out->append(value.Format());
      return absl::OkStatus();
    default:
      return InvalidArgument("cannot be made a value of ", TypeName(type));
  }
}

std::string_view WithoutCompressionEnding(std::string_view name) {
  for (const std::string_view ending : {".gz", ".zst", ".bz2", ".xz", ".lz4"}) {
    if (name.ends_with(ending)) name.remove_suffix(ending.size());
  }
  return name;
}

bool IsJsonLinesName(std::string_view name) {
  name = WithoutCompressionEnding(name);
  return name.ends_with(".jsonl") || name.ends_with(".ndjson");
}

absl::StatusOr<JsonElement> ParseJsonObject(JsonTree& tree, std::string_view line, std::string_view place) {
  absl::StatusOr<JsonElement> parsed = tree.Parse(line);
  if (absl::IsResourceExhausted(parsed.status())) return Annotate(parsed.status(), place);
  if (!parsed.ok()) {
    const std::string why = codec::DescribeInvalidJson(line);
    if (!why.empty()) {
      return InvalidArgument(place, ": ", why, "; each line is one object, as {\"key\": \"a\", \"score\": 0.5}");
    }
    return InvalidArgument(place, ": ", ToStd(parsed.status().message()),
                           ", which is JSON, but no value of a column: write it as a text");
  }
  if (parsed->kind() != JsonKind::kObject) {
    return InvalidArgument(place, ": is not an object: each line is one, as {\"key\": \"a\", \"score\": 0.5}");
  }
  return parsed;
}

absl::StatusOr<std::unique_ptr<LineReader>> LineReader::Open(std::unique_ptr<RandomAccessFile> file) {
  std::unique_ptr<LineReader> lines(new LineReader(std::move(file)));
  SHARDKIT_RETURN_IF_ERROR(lines->Rewind());
  return lines;
}

absl::Status LineReader::Rewind() {
  SHARDKIT_ASSIGN_OR_RETURN(bytes_, foreign::ByteStream::Open(*file_));
  begin_ = end_ = 0;
  number_ = 0;
  at_end_ = started_ = false;
  return absl::OkStatus();
}

absl::StatusOr<bool> LineReader::Next(std::string_view* line) {
  size_t searched = begin_;
  while (true) {
    const void* const feed = end_ == searched ? nullptr : std::memchr(buffer_.data() + searched, '\n', end_ - searched);
    if (feed != nullptr || (at_end_ && end_ > begin_)) {
      const size_t end = feed != nullptr ? static_cast<size_t>(static_cast<const char*>(feed) - buffer_.data()) : end_;
      *line = std::string_view(buffer_).substr(begin_, end - begin_);
      begin_ = feed != nullptr ? end + 1 : end;
      ++number_;
      return true;
    }
    if (at_end_) return false;
    searched = end_ - begin_;
    if (searched > kMostLineBytes) return ResourceExhausted(path(), ": line ", number_ + 1, ": has more than 1 GiB");
    if (begin_ > 0) std::memmove(buffer_.data(), buffer_.data() + begin_, searched);
    begin_ = 0;
    end_ = searched;
    const size_t more = std::max(kLinePieceBytes, end_);
    if (buffer_.size() < end_ + more) buffer_.resize(end_ + more);
    SHARDKIT_ASSIGN_OR_RETURN(const size_t read, bytes_->ReadNext({buffer_.data() + end_, more}));
    at_end_ = read < more;
    end_ += read;
    if (!std::exchange(started_, true) && std::string_view(buffer_.data(), end_).starts_with("\xEF\xBB\xBF"))
      begin_ = 3;
    searched = std::max(searched, begin_);
  }
}

}  // namespace shardkit::operations
