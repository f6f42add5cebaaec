// Files of rows, which are lines of JSON or CSV, and how the values of a row become values of columns.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/json.h"
#include "operations/json_lines.h"
#include "shardkit/filesystem.h"
#include "shardkit/schema.h"

namespace shardkit::operations {

// Whether a name ends in .csv or .tsv, perhaps with the ending of a compression behind it.
bool IsCsvName(std::string_view name);

// What is needed to read a row.
struct TableFormat {
  char separator = 0;              // between the values of CSV; 0: lines of JSON
  std::vector<std::string> names;  // of the columns of CSV, from the first line
};

// The rows of a file, which may be compressed, from its beginning. One thread at a time. Holds one row, and a piece of
// 1 MiB.
class TableReader {
 public:
  // As CSV, by RFC 4180, when the name says so. InvalidArgument when its first line cannot name columns.
  static absl::StatusOr<std::unique_ptr<TableReader>> Open(std::unique_ptr<RandomAccessFile> file);

  // The text of the next row, without lines that are empty, valid until the next call; false at the end.
  // ResourceExhausted for a row of more than 1 GiB.
  absl::StatusOr<bool> Next(std::string_view* row);

  uint64_t number() const { return number_; }  // of the line in which the row begins, from 1
  const std::string& path() const { return lines_->path(); }
  const std::shared_ptr<const TableFormat>& format() const { return format_; }

 private:
  explicit TableReader(std::unique_ptr<LineReader> lines) : lines_(std::move(lines)) {}
  absl::StatusOr<bool> NextOfCsv(std::string_view* row);
  absl::Status ReadHeader(char separator);

  const std::unique_ptr<LineReader> lines_;
  std::shared_ptr<const TableFormat> format_ = std::make_shared<TableFormat>();
  std::string joined_;  // a row of several lines
  uint64_t number_ = 0;
};

// A value in a row: of JSON, or the text of a value of CSV, which is what its column makes of it.
class TableValue {
 public:
  explicit TableValue(JsonElement json) : json_(json) {}
  TableValue(std::string_view text, JsonTree& tree) : text_(text), tree_(&tree) {}

  // null, or nothing between two separators.
  bool IsNull() const { return tree_ == nullptr ? json_.kind() == JsonKind::kNull : text_.empty(); }
  bool IsJson() const { return tree_ == nullptr; }

  // Adds what it looks like. In CSV numbers are written as in JSON, or nan or inf; 007 and +1 are texts.
  void NoteIn(JsonKinds* kinds) const;

  // Appends the value, as a column of this type stores it. InvalidArgument when the type cannot hold it.
  absl::Status AppendAs(Type type, std::string* out) const;

  // The same for the name of a file, a text, and for a key, a text or an integer.
  absl::Status AppendName(std::string* out) const;
  absl::Status AppendKey(std::string* out) const;

 private:
  JsonElement json_;
  std::string_view text_;
  JsonTree* tree_ = nullptr;  // of CSV, to read numbers with
};

// A row that was read. One thread at a time.
class TableRow {
 public:
  // `text` is from a TableReader of this format; `place` is named in errors. InvalidArgument when it is no row.
  absl::Status Read(const TableFormat& format, std::string_view text, std::string_view place);

  // Calls `take` for each value, null ones included, until it returns false.
  void ForEach(absl::FunctionRef<bool(std::string_view name, const TableValue& value)> take);

 private:
  JsonTree tree_;
  JsonElement object_;
  const TableFormat* format_ = nullptr;
  std::vector<std::string> values_;  // of CSV
};

}  // namespace shardkit::operations
