// Lines of JSON, and how their values become values of columns.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/json.h"
#include "foreign/webdataset/tar_archive.h"
#include "shardkit/filesystem.h"
#include "shardkit/schema.h"

namespace shardkit::operations {

// What values of one member look like.
struct JsonKinds {
  bool boolean = false, negative = false, integer = false, large = false, fraction = false, text = false,
       nested = false;

  void Note(const JsonElement& value);

  // The type that takes all of them. InvalidArgument when there is none.
  absl::StatusOr<Type> TypeOfAll() const;
};

// Whether AppendJsonValue can make values of the type.
bool IsJsonTarget(Type type);

// Appends the value, as a column of this type stores it. InvalidArgument when the type cannot hold it; a number with a
// fraction is rounded to the nearest of the type.
absl::Status AppendJsonValue(const JsonElement& value, Type type, std::string* out);

// The name without the ending of a compression that ByteStream reads.
std::string_view WithoutCompressionEnding(std::string_view name);

// Whether a name ends in .jsonl or .ndjson, perhaps with the ending of a compression behind it.
bool IsJsonLinesName(std::string_view name);

// Reads a line that is one object. InvalidArgument, naming the place, for other lines.
absl::StatusOr<JsonElement> ParseJsonObject(JsonTree& tree, std::string_view line, std::string_view place);

inline constexpr size_t kMostLineBytes = size_t{1} << 30;

// The lines of a file, which may be compressed, from its beginning. One thread at a time. Holds one line, and a piece
// of 1 MiB.
class LineReader {
 public:
  static absl::StatusOr<std::unique_ptr<LineReader>> Open(std::unique_ptr<RandomAccessFile> file);

  // The next line without its line feed, and the first one without the byte order mark of UTF-8, valid until the next
  // call; false at the end. ResourceExhausted for a line of more than 1 GiB.
  absl::StatusOr<bool> Next(std::string_view* line);

  uint64_t number() const { return number_; }  // of the line that was returned last, from 1
  const std::string& path() const { return file_->path(); }

  absl::Status Rewind();

 private:
  explicit LineReader(std::unique_ptr<RandomAccessFile> file) : file_(std::move(file)) {}

  const std::unique_ptr<RandomAccessFile> file_;
  std::unique_ptr<foreign::ByteStream> bytes_;
  std::string buffer_;
  size_t begin_ = 0;      // of what was not returned yet
  size_t end_ = 0;        // of what was read
  bool at_end_ = false;   // of the file
  bool started_ = false;  // the first bytes were looked at
  uint64_t number_ = 0;
};

}  // namespace shardkit::operations
