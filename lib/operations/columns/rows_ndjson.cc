#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "codec/content_type.h"
#include "dataset/write/schema_mapper.h"
#include "operations/columns/open_rows.h"

namespace shardkit::operations {
namespace {

// What values of one member look like.
struct JsonKinds {
  bool boolean = false, negative = false, integer = false, large = false, fraction = false, text = false,
       nested = false;

  void Note(const JsonElement& value);

  // The type that takes all of them. InvalidArgument when there is none.
  absl::StatusOr<Type> TypeOfAll() const;
};

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

// Whether AppendJsonValue can make values of the type.
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

// Appends the value, as a column of this type stores it. InvalidArgument when the type cannot hold it; a number with a
// fraction is rounded to the nearest of the type.
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

constexpr size_t kLinePieceBytes = size_t{1} << 20;
constexpr size_t kMostLineBytes = size_t{1} << 30;

// One thread at a time. Holds one line, and a piece of 1 MiB.
class LineReader {
 public:
  explicit LineReader(std::unique_ptr<RandomAccessFile> file) : file_(std::move(file)) {}

  // The next line without its line feed, and the first one without the byte order mark of UTF-8, valid until the next
  // call; false at the end. ResourceExhausted for a line of more than 1 GiB.
  absl::StatusOr<bool> Next(std::string_view* line);

  uint64_t number() const { return number_; }  // of the line that was returned last, from 1
  const std::string& path() const { return file_->path(); }

  void Rewind();

 private:
  const std::unique_ptr<RandomAccessFile> file_;
  std::string buffer_;
  size_t begin_ = 0;     // of what was not returned yet
  size_t end_ = 0;       // of what was read
  uint64_t offset_ = 0;  // in the file, of end_
  uint64_t number_ = 0;
};

void LineReader::Rewind() {
  begin_ = end_ = 0;
  offset_ = number_ = 0;
}

absl::StatusOr<bool> LineReader::Next(std::string_view* line) {
  size_t searched = begin_;
  while (true) {
    const void* const feed = end_ == searched ? nullptr : std::memchr(buffer_.data() + searched, '\n', end_ - searched);
    if (feed != nullptr || (offset_ == file_->size() && end_ > begin_)) {
      const size_t end = feed != nullptr ? static_cast<size_t>(static_cast<const char*>(feed) - buffer_.data()) : end_;
      *line = std::string_view(buffer_).substr(begin_, end - begin_);
      begin_ = feed != nullptr ? end + 1 : end;
      ++number_;
      return true;
    }
    if (offset_ == file_->size()) return false;
    searched = end_ - begin_;
    if (searched > kMostLineBytes) return ResourceExhausted(path(), ": line ", number_ + 1, ": has more than 1 GiB");
    if (begin_ > 0) std::memmove(buffer_.data(), buffer_.data() + begin_, searched);
    begin_ = 0;
    end_ = searched;
    const auto more = static_cast<size_t>(std::min<uint64_t>(std::max(kLinePieceBytes, end_), file_->size() - offset_));
    if (buffer_.size() < end_ + more) buffer_.resize(end_ + more);
    SHARDKIT_RETURN_IF_ERROR(file_->ReadAt(offset_, {buffer_.data() + end_, more}));
    if (offset_ == 0 && std::string_view(buffer_).starts_with("\xEF\xBB\xBF")) begin_ = 3;
    end_ += more;
    offset_ += more;
    searched = std::max(searched, begin_);
  }
}

class NdjsonRows final : public ColumnRows {
 public:
  NdjsonRows(std::unique_ptr<RandomAccessFile> file, const ColumnRowsOptions& options)
      : lines_(std::move(file)), options_(options) {}

  // Looks at all rows.
  absl::Status Start() {
    while (true) {
      SHARDKIT_ASSIGN_OR_RETURN(const bool more, NextObject());
      if (!more) break;
      if (options_.cancellation && count_ % 4096 == 0) {
        SHARDKIT_RETURN_IF_ERROR(options_.cancellation->Check("reading rows"));
      }
      ++count_;
      SHARDKIT_RETURN_IF_ERROR(ForEachMember([](Member& member, JsonElement value) {
        member.kinds.Note(value);
        if (value.kind() != JsonKind::kNull) ++member.present;
        return absl::OkStatus();
      }));
    }
    SHARDKIT_RETURN_IF_ERROR(MakeSchema());
    lines_.Rewind();
    for (Member& member : members_) member.row = 0;
    row_ = 0;
    return absl::OkStatus();
  }

  const Schema& schema() const override { return schema_; }
  std::optional<uint64_t> count() const override { return count_; }

  absl::StatusOr<bool> Next(std::span<std::optional<std::string_view>> row) override {
    std::ranges::fill(row, std::nullopt);
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, NextObject());
    if (!more) return false;
    SHARDKIT_RETURN_IF_ERROR(ForEachMember([&](Member& member, JsonElement value) {
      if (value.kind() == JsonKind::kNull) return absl::OkStatus();
      member.bytes.clear();
      const absl::Status status = member.column == key_ && value.kind() != JsonKind::kText
                                      ? AppendJsonValue(value, Type::kJson, &member.bytes)
                                      : AppendJsonValue(value, schema_[member.column].type, &member.bytes);
      row[member.column] = member.bytes;
      return status.ok() ? status : Annotate(status, StrCat(Place(), ": column \"", member.name, "\""));
    }));
    if (key_ && !row[*key_]) return InvalidArgument(Place(), ": has no key, ", InQuotes(options_.key));
    return true;
  }

 private:
  struct Member {
    std::string name;
    JsonKinds kinds;
    uint64_t present = 0;
    size_t column = 0;
    uint64_t row = 0;   // that it was seen in last
    std::string bytes;  // of its value
  };

  static std::string InQuotes(std::string_view name) { return StrCat("\"", name, "\""); }
  std::string Place() const { return StrCat(lines_.path(), ": line ", lines_.number()); }

  // Reads the next line that is not empty into object_.
  absl::StatusOr<bool> NextObject() {
    std::string_view line;
    do {
      SHARDKIT_ASSIGN_OR_RETURN(const bool more, lines_.Next(&line));
      if (!more) return false;
    } while (line.find_first_not_of(" \t\r") == line.npos);
    ++row_;
    absl::StatusOr<JsonElement> parsed = tree_.Parse(line);
    if (absl::IsResourceExhausted(parsed.status())) return Annotate(parsed.status(), Place());
    if (!parsed.ok()) {
      const std::string why = codec::DescribeInvalidJson(line);
      if (!why.empty()) {
        return InvalidArgument(Place(), ": ", why, "; each line is one object, as {\"key\": \"a\", \"score\": 0.5}");
      }
      return InvalidArgument(Place(), ": ", ToStd(parsed.status().message()),
                             ", which is JSON, but no value of a column: write it as a text");
    }
    if (parsed->kind() != JsonKind::kObject) {
      return InvalidArgument(Place(), ": is not an object: each line is one, as {\"key\": \"a\", \"score\": 0.5}");
    }
    object_ = *parsed;
    return true;
  }

  // Calls `take` for each member of object_ that is wanted.
  absl::Status ForEachMember(absl::FunctionRef<absl::Status(Member&, JsonElement)> take) {
    absl::Status status;
    object_.ForEachMember([&](std::string_view name, JsonElement value) {
      const absl::StatusOr<Member*> member = Find(name);
      status = !member.ok() ? member.status() : *member != nullptr ? take(**member, value) : absl::OkStatus();
      return status.ok();
    });
    return status;
  }

  // Null for a member that is not wanted.
  absl::StatusOr<Member*> Find(std::string_view name) {
    auto found = places_.find(ToAbsl(name));
    if (found == places_.end()) {
      if (places_.size() == kMostNames) return InvalidArgument(Place(), ": more than ", kMostNames, " different names");
      const bool wanted = options_.columns.empty() || name == options_.key ||
                          std::ranges::find(options_.columns, name) != options_.columns.end();
      found = places_.emplace(std::string(name), wanted ? members_.size() : kNotWanted).first;
      if (wanted) members_.push_back({.name = std::string(name)});
    }
    if (found->second == kNotWanted) return nullptr;
    Member& member = members_[found->second];
    if (std::exchange(member.row, row_) == row_) {
      return InvalidArgument(Place(), ": has ", InQuotes(name), " twice");
    }
    return &member;
  }

  absl::Status MakeSchema() {
    if (count_ == 0) return InvalidArgument(lines_.path(), ": has no rows");
    std::vector<Column> known;
    for (const Member& member : members_) known.push_back({.name = member.name});
    std::vector<std::string> named = options_.columns;
    if (!options_.key.empty()) named.push_back(options_.key);
    for (const auto& [name, type] : options_.types) {
      named.push_back(name);
      if (name == options_.key) {
        return InvalidArgument(lines_.path(), ": column ", InQuotes(name), ": is the key, whose type is utf8");
      }
      const auto place = places_.find(ToAbsl(name));
      if (place != places_.end() && place->second == kNotWanted) {
        return InvalidArgument(lines_.path(), ": column ", InQuotes(name), ": has a type, but is not taken");
      }
      if (IsJsonTarget(type)) continue;
      return InvalidArgument(lines_.path(), ": column ", InQuotes(name), ": values of JSON cannot be made ",
                             TypeName(type));
    }
    for (const std::string& name : named) {
      if (!places_.contains(ToAbsl(name)))
        return InvalidArgument(lines_.path(), ": ", ToStd(dataset::NoSuchColumn(name, known).message()));
    }
    std::vector<Column> columns;
    for (Member& member : members_) {
      member.column = columns.size();
      Column column{.name = member.name, .codec = Codec::kZstd, .nullable = member.present < count_};
      if (!options_.key.empty() && member.name == options_.key) {
        const JsonKinds& kinds = member.kinds;
        if (kinds.boolean || kinds.fraction || kinds.nested) {
          return InvalidArgument(lines_.path(), ": column ", InQuotes(member.name), ": keys are texts or integers");
        }
        key_ = member.column;
        column.type = Type::kUtf8;
        column.nullable = false;
        column.is_key = true;
      } else if (const auto type = options_.types.find(member.name); type != options_.types.end()) {
        column.type = type->second;
      } else {
        const absl::StatusOr<Type> guessed = member.kinds.TypeOfAll();
        if (!guessed.ok()) {
          return Annotate(guessed.status(), StrCat(lines_.path(), ": column ", InQuotes(member.name)));
        }
        column.type = *guessed;
      }
      columns.push_back(std::move(column));
    }
    absl::StatusOr<Schema> schema = Schema::Create(std::move(columns));
    if (!schema.ok()) return Annotate(schema.status(), lines_.path());
    schema_ = *std::move(schema);
    return absl::OkStatus();
  }

  static constexpr size_t kNotWanted = SIZE_MAX;
  static constexpr size_t kMostNames = 65536;

  LineReader lines_;
  const ColumnRowsOptions options_;
  JsonTree tree_;
  JsonElement object_;
  std::vector<Member> members_;  // in the order in which they came
  absl::flat_hash_map<std::string, size_t> places_;
  uint64_t row_ = 0;  // from 1
  uint64_t count_ = 0;
  Schema schema_;
  std::optional<size_t> key_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ColumnRows>> OpenNdjsonRows(std::unique_ptr<RandomAccessFile> file,
                                                           const ColumnRowsOptions& options) {
  auto rows = std::make_unique<NdjsonRows>(std::move(file), options);
  SHARDKIT_RETURN_IF_ERROR(rows->Start());
  return rows;
}

}  // namespace shardkit::operations
