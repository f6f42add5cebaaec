#include "operations/table_rows.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/utf8.h"

namespace shardkit::operations {
namespace {

// Whether a value in quotes goes on in the next line. `within`: one goes on in this line.
bool GoesOn(std::string_view line, char separator, bool within) {
  bool begins = !within;
  for (size_t i = 0; i < line.size(); ++i) {
    if (within) {
      i = line.find('"', i);
      if (i == line.npos) return true;
      if (i + 1 < line.size() && line[i + 1] == '"') {
        ++i;
      } else {
        within = false;
      }
      continue;
    }
    if (begins && line[i] == '"') within = true;
    begins = line[i] == separator;
  }
  return within;
}

// Divides a row of CSV, and returns how many values it has. More than `most` are not kept. The error does not say where
// the row is.
absl::StatusOr<size_t> Divide(std::string_view row, char separator, size_t most, std::vector<std::string>* values) {
  values->clear();
  std::string further;
  size_t count = 0;
  for (size_t i = 0;; ++i) {
    ++count;
    std::string& value = values->size() < most ? values->emplace_back() : further;
    value.clear();
    if (i < row.size() && row[i] == '"') {
      while (true) {
        const size_t quote = row.find('"', ++i);
        if (quote == row.npos) {
          return InvalidArgument("a quote opens value ", count, ", and none closes it");
        }
        value += row.substr(i, quote - i);
        i = quote + 1;
        if (i == row.size() || row[i] != '"') break;
        value += '"';
      }
      if (i < row.size() && row[i] != separator) {
        return InvalidArgument("value ", count,
                               " goes on behind its closing quote: a quote within quotes is written twice");
      }
    } else {
      const size_t end = std::min(row.find(separator, i), row.size());
      value = row.substr(i, end - i);
      i = end;
      if (value.find('\r') != value.npos) {
        return InvalidArgument("value ", count, " has a carriage return: lines end in LF or CR LF");
      }
    }
    if (i >= row.size()) return count;
  }
}

absl::Status CheckText(std::string_view row, std::string_view place) {
  if (ValidUtf8(row)) return absl::OkStatus();
  return InvalidArgument(place, ": is not UTF-8: convert the file, as with iconv -f latin1 -t utf-8");
}

bool IsAnyCase(std::string_view text, std::string_view word) {
  return absl::EqualsIgnoreCase(ToAbsl(text), ToAbsl(word));
}

std::optional<bool> ReadTruth(std::string_view text) {
  if (IsAnyCase(text, "true")) return true;
  if (IsAnyCase(text, "false")) return false;
  return std::nullopt;
}

// What JSON has no number for.
std::optional<double> ReadNoNumber(std::string_view text) {
  if (IsAnyCase(text, "nan")) return std::numeric_limits<double>::quiet_NaN();
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (!IsAnyCase(text, "inf") && !IsAnyCase(text, "infinity")) return std::nullopt;
  return negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
}

// A number of JSON without spaces around it.
std::optional<JsonElement> ReadNumber(std::string_view text, JsonTree& tree) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (text.empty() || !digit(text.back()) || (!digit(text[0]) && text[0] != '-')) return std::nullopt;
  const absl::StatusOr<JsonElement> number = tree.Parse(text);
  return number.ok() ? std::optional(*number) : std::nullopt;
}

}  // namespace

bool IsCsvName(std::string_view name) {
  name = WithoutCompressionEnding(name);
  return name.ends_with(".csv") || name.ends_with(".tsv");
}

absl::StatusOr<std::unique_ptr<TableReader>> TableReader::Open(std::unique_ptr<RandomAccessFile> file) {
  SHARDKIT_ASSIGN_OR_RETURN(auto lines, LineReader::Open(std::move(file)));
  std::unique_ptr<TableReader> rows(new TableReader(std::move(lines)));
  if (IsCsvName(rows->path())) {
    const bool tabs = WithoutCompressionEnding(rows->path()).ends_with(".tsv");
    SHARDKIT_RETURN_IF_ERROR(rows->ReadHeader(tabs ? '\t' : ','));
  }
  return rows;
}

absl::Status TableReader::ReadHeader(char separator) {
  auto format = std::make_shared<TableFormat>();
  format->separator = separator;
  format_ = format;
  std::string_view row;
  SHARDKIT_ASSIGN_OR_RETURN(const bool any, NextOfCsv(&row));
  if (!any) return InvalidArgument(path(), ": is empty: the first line of CSV names the columns");
  const std::string place = StrCat(path(), ": line ", number_);
  SHARDKIT_RETURN_IF_ERROR(CheckText(row, place));
  const absl::StatusOr<size_t> count = Divide(row, separator, kMaxColumns, &format->names);
  if (!count.ok()) return Annotate(count.status(), place);
  if (*count > kMaxColumns) return InvalidArgument(place, ": names ", *count, " columns, more than ", kMaxColumns);
  // As spreadsheets write CSV where the comma is part of numbers.
  if (*count == 1 && format->names[0].find_first_of(separator == ',' ? ";\t" : ";,") != std::string::npos) {
    return InvalidArgument(place, ": names one column, \"", format->names[0],
                           "\": values are separated by commas in .csv and by tabs in .tsv; convert the file");
  }
  std::set<std::string_view> seen;
  for (const std::string& name : format->names) {
    if (name.empty()) {
      return InvalidArgument(place, ": column ", seen.size() + 1,
                             " has no name: the first line names the columns (pandas writes its index without one; "
                             "index=False leaves it out)");
    }
    SHARDKIT_RETURN_IF_ERROR(Annotate(CheckColumnName(name), place));
    if (!seen.insert(name).second) {
      return InvalidArgument(place, ": column \"", name, "\" occurs twice: rename one in the first line");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> TableReader::Next(std::string_view* row) {
  if (format_->separator != 0) return NextOfCsv(row);
  do {
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, lines_->Next(row));
    if (!more) return false;
  } while (row->find_first_not_of(" \t\r") == row->npos);
  number_ = lines_->number();
  return true;
}

absl::StatusOr<bool> TableReader::NextOfCsv(std::string_view* row) {
  do {
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, lines_->Next(row));
    if (!more) return false;
  } while (row->empty() || *row == "\r");
  number_ = lines_->number();
  bool goes_on = GoesOn(*row, format_->separator, /*within=*/false);
  if (goes_on) joined_ = *row;
  const bool joins = goes_on;
  while (goes_on) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, lines_->Next(row));
    if (!more) break;  // Divide says that a quote is open
    if (joined_.size() + row->size() >= kMostLineBytes) {
      return ResourceExhausted(path(), ": line ", number_, ": has more than 1 GiB: is a quote not closed?");
    }
    goes_on = GoesOn(*row, format_->separator, /*within=*/true);
    joined_.append(1, '\n').append(*row);
  }
  if (joins) *row = joined_;
  if (row->ends_with('\r')) row->remove_suffix(1);
  return true;
}

void TableValue::NoteIn(JsonKinds* kinds) const {
  if (IsJson()) return kinds->Note(json_);
  if (text_.empty()) return;
  if (ReadTruth(text_)) {
    kinds->boolean = true;
  } else if (ReadNoNumber(text_)) {
    kinds->fraction = true;
  } else if (const auto number = ReadNumber(text_, *tree_)) {
    kinds->Note(*number);
  } else {
    kinds->text = true;
  }
}

absl::Status TableValue::AppendAs(Type type, std::string* out) const {
  if (IsJson()) return AppendJsonValue(json_, type, out);
  if (type == Type::kUtf8) {
    out->append(text_);
    return absl::OkStatus();
  }
  if (type == Type::kJson) {
    const absl::StatusOr<JsonElement> json = tree_->Parse(text_);
    return json.ok() ? AppendJsonValue(*json, type, out) : json.status();
  }
  if (type == Type::kBool) {
    const std::optional<bool> truth = text_ == "1"   ? std::optional(true)
                                      : text_ == "0" ? std::optional(false)
                                                     : ReadTruth(text_);
    if (!truth) return InvalidArgument("is neither true nor false");
    out->push_back(*truth ? '\1' : '\0');
    return absl::OkStatus();
  }
  if (const auto number = ReadNumber(text_, *tree_)) return AppendJsonValue(*number, type, out);
  const auto no_number = ReadNoNumber(text_);
  if (no_number && type == Type::kF64) {
    AppendLittle(*out, *no_number);
  } else if (no_number && type == Type::kF32) {
    AppendLittle(*out, static_cast<float>(*no_number));
  } else {
    return InvalidArgument("is a text, which is no ", TypeName(type));
  }
  return absl::OkStatus();
}

absl::Status TableValue::AppendName(std::string* out) const {
  if (!IsJson() || json_.kind() == JsonKind::kText) return AppendAs(Type::kUtf8, out);
  return InvalidArgument("is not the name of a file, which is a text");
}

absl::Status TableValue::AppendKey(std::string* out) const {
  if (!IsJson() || json_.kind() == JsonKind::kText) return AppendAs(Type::kUtf8, out);
  if (json_.kind() == JsonKind::kInteger || json_.kind() == JsonKind::kLargeInteger) return AppendAs(Type::kJson, out);
  return InvalidArgument("keys are texts or integers");
}

absl::Status TableRow::Read(const TableFormat& format, std::string_view text, std::string_view place) {
  format_ = &format;
  if (format.separator == 0) {
    SHARDKIT_ASSIGN_OR_RETURN(object_, ParseJsonObject(tree_, text, place));
    return absl::OkStatus();
  }
  SHARDKIT_RETURN_IF_ERROR(CheckText(text, place));
  const absl::StatusOr<size_t> count = Divide(text, format.separator, format.names.size(), &values_);
  if (!count.ok()) return Annotate(count.status(), place);
  if (*count == format.names.size()) return absl::OkStatus();
  return InvalidArgument(place, ": has ", *count, *count == 1 ? " value" : " values", ", and the first line names ",
                         format.names.size(), format.names.size() == 1 ? " column" : " columns",
                         ": a value with a separator or a line feed stands in quotes");
}

void TableRow::ForEach(absl::FunctionRef<bool(std::string_view name, const TableValue& value)> take) {
  if (format_->separator == 0) {
    object_.ForEachMember([&](std::string_view name, JsonElement json) { return take(name, TableValue(json)); });
    return;
  }
  for (size_t i = 0; i < values_.size(); ++i) {
    if (!take(format_->names[i], TableValue(values_[i], tree_))) return;
  }
}

}  // namespace shardkit::operations
