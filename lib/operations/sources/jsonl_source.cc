#include "operations/sources/jsonl_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "operations/sources/source_names.h"

namespace shardkit::operations {
namespace {

constexpr uint64_t kInferredRows = 256;
constexpr std::string_view kDefaultKey = "key";

// Lines of a file, without empty ones.
class LinesUnit : public TarredUnit {
 public:
  // Resuming compares what stands in the lines.
  std::string Names(size_t sample) const override { return StrCat(absl::Hex(Hash64(line(sample)), absl::kZeroPad16)); }

  std::string_view line(size_t sample) const { return std::string_view(text).substr(begins[sample], bytes[sample]); }

  std::string text;
  std::vector<size_t> begins;     // of each sample's line, in text
  std::vector<uint64_t> numbers;  // of each sample's line, in the file
};

bool IsBlank(std::string_view line) { return line.find_first_not_of(" \t\r") == line.npos; }

}  // namespace

JsonlSource::JsonlSource(std::vector<SourceInput> inputs, const SourceOptions& options)
    : FileSource(std::move(inputs), options), key_(KeyColumn()) {
  key_.name = options_.key.empty() ? std::string(kDefaultKey) : options_.key;
  for (const auto& [name, type] : options_.types) AddColumn(name, type);
}

const Column& JsonlSource::AddColumn(const std::string& name, Type type) {
  return columns_.insert_or_assign(name, Column{.name = name, .type = type, .codec = Codec::kZstd, .nullable = true})
      .first->second;
}

absl::StatusOr<std::unique_ptr<LineReader>> JsonlSource::OpenLines(const SourceInput& input) const {
  SHARDKIT_ASSIGN_OR_RETURN(auto file, options_.file_system->OpenForReading(input.path));
  return LineReader::Open(std::move(file));
}

absl::StatusOr<std::vector<Column>> JsonlSource::InitialColumns() {
  std::vector<std::string> order;
  std::map<std::string, JsonKinds, std::less<>> kinds;
  JsonTree tree;
  uint64_t rows = 0;
  for (size_t i = 0; i < inputs_.size() && rows < kInferredRows; ++i) {
    SHARDKIT_ASSIGN_OR_RETURN(const auto lines, OpenLines(inputs_[i]));
    std::string_view line;
    while (rows < kInferredRows) {
      const absl::StatusOr<bool> more = lines->Next(&line);
      if (!more.ok() && !options_.skip_errors) return more.status();
      if (!more.ok() || !*more) break;
      if (IsBlank(line)) continue;
      const auto object = ParseJsonObject(tree, line, StrCat(lines->path(), ": line ", lines->number()));
      if (!object.ok()) {
        if (options_.skip_errors) continue;  // Load reports it
        return object.status();
      }
      ++rows;
      JsonElement row = *object;
      row.ForEachMember([&](std::string_view name, JsonElement value) {
        auto found = kinds.find(name);
        if (found == kinds.end()) {
          found = kinds.emplace(std::string(name), JsonKinds()).first;
          order.emplace_back(name);
        }
        found->second.Note(value);
        return true;
      });
    }
  }
  if (!options_.key.empty() && !kinds.contains(key_.name)) {
    return NotFound(inputs_.empty() ? "" : inputs_[0].path, ": no row has the key, \"", key_.name, "\"");
  }
  for (const auto& [name, type] : options_.types) {
    if (name == key_.name) return InvalidArgument("--type ", name, ": is the key, whose type is utf8");
    if (!IsJsonTarget(type)) {
      return InvalidArgument("--type ", name, "=", TypeName(type), ": values of JSON cannot be made that");
    }
    if (!kinds.contains(name)) order.push_back(name);
  }
  std::vector<Column> columns{key_};
  for (const std::string& name : order) {
    if (name == key_.name) continue;
    if (const auto asked = columns_.find(name); asked != columns_.end()) {
      columns.push_back(asked->second);
      continue;
    }
    const absl::StatusOr<Type> type = kinds.find(name)->second.TypeOfAll();
    if (!type.ok()) {
      return Annotate(type.status(), StrCat(inputs_[0].path, ": column \"", name, "\" of the first ", rows,
                                            " rows (--type ", name, "=TYPE)"));
    }
    columns.push_back(AddColumn(name, *type));
  }
  return columns;
}

absl::StatusOr<std::unique_ptr<TreeUnit>> JsonlSource::NextFromTree(size_t /*max_samples*/) {
  return Internal(input().path, ": this source reads files");
}

absl::StatusOr<std::unique_ptr<WorkUnit>> JsonlSource::NextFromTar(size_t max_samples) {
  if (!lines_) {
    SHARDKIT_ASSIGN_OR_RETURN(lines_, OpenLines(input()));
  }
  auto unit = std::make_unique<LinesUnit>();
  unit->path = input().path;
  std::string_view line;
  while (unit->bytes.size() < max_samples && unit->text.size() < kTarUnitBytes) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, lines_->Next(&line));
    if (!more) break;
    if (IsBlank(line)) continue;
    unit->begins.push_back(unit->text.size());
    unit->bytes.push_back(line.size());
    unit->numbers.push_back(lines_->number());
    unit->text += line;
  }
  unit->sample_count = unit->bytes.size();
  return unit;
}

void JsonlSource::CloseInput() {
  FileSource::CloseInput();
  lines_.reset();
}

absl::Status JsonlSource::LoadRow(JsonTree& tree, std::string_view line, const std::string& place, ByteArena* arena,
                                  Sample* sample) const {
  SHARDKIT_ASSIGN_OR_RETURN(JsonElement row, ParseJsonObject(tree, line, place));
  absl::Status status;
  std::string bytes;
  row.ForEachMember([&](std::string_view name, JsonElement value) {
    if (value.kind() == JsonKind::kNull) return true;
    bytes.clear();
    if (name == key_.name) {
      const bool text = value.kind() == JsonKind::kText;
      if (!text && value.kind() != JsonKind::kInteger && value.kind() != JsonKind::kLargeInteger) {
        status = InvalidArgument("keys are texts or integers");
      } else if (!sample->key.empty()) {
        status = InvalidArgument("occurs twice");
      } else {
        status = AppendJsonValue(value, text ? Type::kUtf8 : Type::kJson, &bytes);
        sample->key = arena->Copy(bytes);
      }
    } else if (const auto column = columns_.find(name); column == columns_.end()) {
      status = InvalidArgument("no row before it had this column: --type ", name, "=TYPE names it");
    } else if (std::ranges::find(sample->fields, &column->second, &Field::column) != sample->fields.end()) {
      status = InvalidArgument("occurs twice");
    } else {
      status = AppendJsonValue(value, column->second.type, &bytes);
      sample->fields.push_back({&column->second, arena->Copy(bytes)});
    }
    if (!status.ok()) status = Annotate(status, StrCat(place, ": column \"", name, "\""));
    return status.ok();
  });
  SHARDKIT_RETURN_IF_ERROR(status);
  if (!sample->key.empty()) return absl::OkStatus();
  if (!options_.key.empty()) return InvalidArgument(place, ": has no key, \"", key_.name, "\"");
  sample->key = arena->Copy(BasePart(place));  // "part.jsonl: line 7"
  return absl::OkStatus();
}

void JsonlSource::Load(WorkUnit& unit, SampleBatch* batch) {
  batch->Clear();
  const auto& lines = static_cast<const LinesUnit&>(unit);
  JsonTree tree;
  const auto place = [&](size_t i) { return StrCat(lines.path, ": line ", lines.numbers[i]); };
  LoadEach(
      lines, batch,
      [&](size_t i, Sample* sample) { return LoadRow(tree, lines.line(i), place(i), &batch->arena, sample); },
      [&](size_t i, const Sample& sample) { return sample.key.empty() ? place(i) : std::string(sample.key); },
      [&](size_t i, const Sample*) { return lines.bytes[i]; });
}

absl::StatusOr<uint64_t> JsonlSource::Count() {
  uint64_t count = 0;
  for (const SourceInput& input : inputs_) {
    SHARDKIT_ASSIGN_OR_RETURN(const auto lines, OpenLines(input));
    std::string_view line;
    while (true) {
      SHARDKIT_ASSIGN_OR_RETURN(const bool more, lines->Next(&line));
      if (!more) break;
      if (!IsBlank(line)) ++count;
    }
  }
  return count;
}

}  // namespace shardkit::operations
