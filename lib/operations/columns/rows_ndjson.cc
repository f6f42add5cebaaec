#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "dataset/write/schema_mapper.h"
#include "operations/columns/open_rows.h"
#include "operations/json_lines.h"

namespace shardkit::operations {
namespace {

class NdjsonRows final : public ColumnRows {
 public:
  NdjsonRows(std::unique_ptr<LineReader> lines, const ColumnRowsOptions& options)
      : lines_(std::move(lines)), options_(options) {}

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
    SHARDKIT_RETURN_IF_ERROR(lines_->Rewind());
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
  std::string Place() const { return StrCat(lines_->path(), ": line ", lines_->number()); }

  // Reads the next line that is not empty into object_.
  absl::StatusOr<bool> NextObject() {
    std::string_view line;
    do {
      SHARDKIT_ASSIGN_OR_RETURN(const bool more, lines_->Next(&line));
      if (!more) return false;
    } while (line.find_first_not_of(" \t\r") == line.npos);
    ++row_;
    SHARDKIT_ASSIGN_OR_RETURN(object_, ParseJsonObject(tree_, line, Place()));
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
    if (count_ == 0) return InvalidArgument(lines_->path(), ": has no rows");
    std::vector<Column> known;
    for (const Member& member : members_) known.push_back({.name = member.name});
    std::vector<std::string> named = options_.columns;
    if (!options_.key.empty()) named.push_back(options_.key);
    for (const auto& [name, type] : options_.types) {
      named.push_back(name);
      if (name == options_.key) {
        return InvalidArgument(lines_->path(), ": column ", InQuotes(name), ": is the key, whose type is utf8");
      }
      const auto place = places_.find(ToAbsl(name));
      if (place != places_.end() && place->second == kNotWanted) {
        return InvalidArgument(lines_->path(), ": column ", InQuotes(name), ": has a type, but is not taken");
      }
      if (IsJsonTarget(type)) continue;
      return InvalidArgument(lines_->path(), ": column ", InQuotes(name), ": values of JSON cannot be made ",
                             TypeName(type));
    }
    for (const std::string& name : named) {
      if (!places_.contains(ToAbsl(name)))
        return InvalidArgument(lines_->path(), ": ", ToStd(dataset::NoSuchColumn(name, known).message()));
    }
    std::vector<Column> columns;
    for (Member& member : members_) {
      member.column = columns.size();
      Column column{.name = member.name, .codec = Codec::kZstd, .nullable = member.present < count_};
      if (!options_.key.empty() && member.name == options_.key) {
        const JsonKinds& kinds = member.kinds;
        if (kinds.boolean || kinds.fraction || kinds.nested) {
          return InvalidArgument(lines_->path(), ": column ", InQuotes(member.name), ": keys are texts or integers");
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
          return Annotate(guessed.status(), StrCat(lines_->path(), ": column ", InQuotes(member.name)));
        }
        column.type = *guessed;
      }
      columns.push_back(std::move(column));
    }
    absl::StatusOr<Schema> schema = Schema::Create(std::move(columns));
    if (!schema.ok()) return Annotate(schema.status(), lines_->path());
    schema_ = *std::move(schema);
    return absl::OkStatus();
  }

  static constexpr size_t kNotWanted = SIZE_MAX;
  static constexpr size_t kMostNames = 65536;

  const std::unique_ptr<LineReader> lines_;
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
  SHARDKIT_ASSIGN_OR_RETURN(auto lines, LineReader::Open(std::move(file)));
  auto rows = std::make_unique<NdjsonRows>(std::move(lines), options);
  SHARDKIT_RETURN_IF_ERROR(rows->Start());
  return rows;
}

}  // namespace shardkit::operations
