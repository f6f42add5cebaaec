#include "convert/sample_files.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "convert/reform.h"
#include "convert/sources/sa1b.h"
#include "convert/sources/sa1b_columns.h"
#include "convert/sources/source_names.h"

namespace shardkit::convert {
namespace {

std::string KeyOf(const Schema& schema, const BlockView& block, uint32_t i, uint64_t ordinal) {
  if (const auto key = schema.key_column()) return std::string(block.column(*key).bytes(i));
  char text[24];
  std::snprintf(text, sizeof(text), "%012llu", static_cast<unsigned long long>(ordinal));
  return text;
}

// Each byte string becomes a file unchanged. Other values (numbers, arrays, masks) become .npy and .json files.
class GenericFiles : public SampleFiles {
 public:
  GenericFiles(const Schema& schema, bool is_files) : schema_(schema), is_files_(is_files) {
    for (size_t i = 0; i < schema.size(); ++i) {
      (schema[i].is_key || !IsByteString(schema[i]) ? needed_ : as_they_are_).push_back(i);
    }
  }

  const std::vector<size_t>& needed_columns() const override { return needed_; }

  absl::Status List(const BlockView& block, uint32_t i, uint64_t ordinal, std::vector<SampleFile>* files) override {
    const std::string key = KeyOf(schema_, block, i, ordinal);
    for (const size_t column : as_they_are_) {
      const std::string& name = schema_[column].name;
      files->push_back({StrCat(key, is_files_ ? SuffixOfColumn(name) : StrCat(".", name)), column, {}});
    }
    for (const size_t column : needed_) {
      const std::optional<std::string_view> value = block.column(column).value(i);
      if (!value || schema_[column].is_key) continue;
      SampleFile file;
      SHARDKIT_ASSIGN_OR_RETURN(const std::string_view extension, Format(schema_[column], *value, &file.bytes));
      file.name = StrCat(key, ".", schema_[column].name, extension);
      files->push_back(std::move(file));
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<std::string_view> Format(const Column& column, std::string_view value, std::string* out) {
    const bool masks = column.type == Type::kRle;
    arena_.Clear();
    SHARDKIT_ASSIGN_OR_RETURN(*out, ReformValue(column, masks ? Reform::kToCocoJson : Reform::kToNpy, value, &arena_));
    return masks ? ".json" : ".npy";
  }

  const Schema schema_;
  const bool is_files_;
  std::vector<size_t> needed_, as_they_are_;
  ByteArena arena_;
};

// The key is the file's name.
class WholeFiles : public SampleFiles {
 public:
  WholeFiles(const Schema& schema, size_t column) : schema_(schema), column_(column) {
    needed_ = {*schema.key_column()};
  }
  const std::vector<size_t>& needed_columns() const override { return needed_; }
  absl::Status List(const BlockView& block, uint32_t i, uint64_t ordinal, std::vector<SampleFile>* files) override {
    files->push_back({KeyOf(schema_, block, i, ordinal), column_, {}});
    return absl::OkStatus();
  }

 private:
  const Schema schema_;
  const size_t column_;
  std::vector<size_t> needed_;
};

class Sa1bFiles : public SampleFiles {
 public:
  Sa1bFiles(const Schema& schema, const Sa1bPositions& positions) : schema_(schema), positions_(positions) {
    for (size_t i = 0; i < kSa1bColumnCount; ++i) {
      if (i != kSa1bImage) needed_.push_back(positions_[i]);
    }
  }
  const std::vector<size_t>& needed_columns() const override { return needed_; }

  absl::Status List(const BlockView& block, uint32_t i, uint64_t ordinal, std::vector<SampleFile>* files) override {
    const std::string key = KeyOf(schema_, block, i, ordinal);
    files->push_back({StrCat(key, ".jpg"), positions_[kSa1bImage], {}});
    const Sa1bValues values = Sa1bValuesOf(block, positions_, i);
    SampleFile json{StrCat(key, ".json"), SIZE_MAX, {}};
    if (absl::Status status = RegenerateSa1bJson(values, &json.bytes); !status.ok()) return Annotate(status, key);
    files->push_back(std::move(json));
    return absl::OkStatus();
  }

 private:
  const Schema schema_;
  const Sa1bPositions positions_;
  std::vector<size_t> needed_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SampleFiles>> SampleFiles::Create(const Schema& schema, const Metadata& metadata) {
  const auto entry = [&](std::string_view name) -> std::string_view {
    const auto found = metadata.find(std::string(name));
    return found == metadata.end() ? std::string_view() : found->second;
  };
  const std::string_view source = entry("shardkit.source");
  const auto lacks = [&](std::string_view name) {
    return InvalidArgument("says it was packed from ", source, " but has no column \"", name, "\"");
  };
  const bool whole_files = source == "files" && entry(kGroupByName) == GroupByName(GroupBy::kNone);
  if (whole_files || source == "imagefolder") {
    const std::string_view name = whole_files ? kFileColumn : std::string_view("image");
    if (!schema.key_column()) return InvalidArgument("says it was packed from ", source, " but has no key column");
    // In a tar the column's name has an extension.
    for (size_t i = 0; i < schema.size(); ++i) {
      const std::string& column = schema[i].name;
      if (!IsByteString(schema[i].type) || schema[i].is_key) continue;
      if (column == name || column.starts_with(StrCat(name, "."))) return std::make_unique<WholeFiles>(schema, i);
    }
    return lacks(name);
  }
  // In other containers SA-1B's samples are files already.
  const bool has_files = schema.Find("jpg") && schema.Find("json");
  if (source == "sa1b" && !has_files) {
    Sa1bPositions positions;
    for (size_t i = 0; i < kSa1bColumnCount; ++i) {
      const std::string& name = Sa1bColumns()[i].name;
      const std::optional<size_t> position = schema.Find(name);
      if (!position) return lacks(name);
      positions[i] = *position;
    }
    return std::make_unique<Sa1bFiles>(schema, positions);
  }
  return std::make_unique<GenericFiles>(schema, source == "files" || source == "webdataset" || source == "sa1b");
}

}  // namespace shardkit::convert
