#include "convert/pack_plan.h"

#include <map>
#include <utility>

#include "base/endian.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "dataset/job_directory.h"
#include "io/publish_file.h"
#include "shardkit/manifest.h"

namespace shardkit::convert {
namespace {

constexpr std::string_view kPlanName = "plan.json";
constexpr std::string_view kUnitsName = "units.shard";
constexpr std::string_view kFormat = "shardkit-plan 1";
constexpr uint64_t kMaxPlanBytes = uint64_t{64} << 20;
constexpr size_t kBytesColumn = 0, kUnitColumn = 1;

Schema UnitSchema() {
  Column bytes;
  bytes.name = "bytes";
  bytes.type = Type::kU64;
  Column unit;
  unit.name = "unit";
  unit.type = Type::kBytes;
  unit.codec = Codec::kZstd;
  return *Schema::Create({bytes, unit});
}

void AppendNumber(uint64_t number, std::string* text) {
  char bytes[8];
  StoreLittle(bytes, number);
  text->append(bytes, sizeof(bytes));
}

std::string EncodeUnit(const PlannedUnit& unit) {
  std::string text;
  AppendNumber(unit.samples, &text);
  AppendNumber(unit.skip, &text);
  AppendNumber(unit.inputs.size(), &text);
  for (const SourceInput& input : unit.inputs) {
    AppendNumber(input.path.size(), &text);
    AppendNumber(input.tar ? 0 : input.listed->size(), &text);
    text.push_back(input.tar ? 't' : 'd');
    text += input.path;
    if (!input.tar) text += *input.listed;
  }
  return text;
}

// The bytes are a value of a shard, which compares checksums; a wrong length is refused all the same.
bool DecodeUnit(std::string_view text, PlannedUnit* unit) {
  const auto number = [&](uint64_t* value) {
    if (text.size() < 8) return false;
    *value = LoadLittle<uint64_t>(text.data());
    text.remove_prefix(8);
    return true;
  };
  const auto bytes = [&](uint64_t length, std::string* value) {
    if (text.size() < length) return false;
    value->assign(text.substr(0, length));
    text.remove_prefix(length);
    return true;
  };
  uint64_t count = 0;
  if (!number(&unit->samples) || !number(&unit->skip) || !number(&count)) return false;
  for (; count > 0; --count) {
    SourceInput input;
    uint64_t path = 0, list = 0;
    std::string kind, listed;
    if (!number(&path) || !number(&list) || !bytes(1, &kind) || !bytes(path, &input.path) || !bytes(list, &listed)) {
      return false;
    }
    input.tar = kind == "t";
    if (!input.tar) input.listed = std::make_shared<const std::string>(std::move(listed));
    unit->inputs.push_back(std::move(input));
  }
  return text.empty();
}

template <typename Map, typename Format>
JsonValue FormatMap(const Map& map, Format format) {
  JsonValue object = JsonValue::Object();
  for (const auto& [name, value] : map) object.Set(name, format(value));
  return object;
}

JsonValue FormatTexts(const std::vector<std::string>& texts) {
  JsonValue array = JsonValue::Array();
  for (const std::string& text : texts) array.Add(text);
  return array;
}

const auto kAsNumber = [](const auto& value) { return JsonValue(static_cast<int64_t>(value)); };
const auto kAsText = [](const std::string& value) { return JsonValue(value); };

std::string FormatHead(const PlanHead& head, const ContentHash& listing) {
  const DatasetWriterOptions& dataset = head.pack.dataset;
  const ShardOptions& shard = dataset.shard;
  JsonValue source = JsonValue::Object();
  if (head.source.group_by) source.Set("group_by", static_cast<int64_t>(*head.source.group_by));
  source.Set("stream_above", head.source.stream_above).Set("max_decompression", head.source.max_decompression);
  source.Set("types", FormatMap(head.source.types, kAsNumber));
  source.Set("verify_listed_hashes", head.source.verify_listed_hashes);
  source.Set("pending_pair_bytes", head.source.pending_pair_bytes).Set("allow_empty", head.source.allow_empty);
  source.Set("keep_hidden", head.source.keep_hidden).Set("follow_links", head.source.follow_links);
  JsonValue options = JsonValue::Object();
  options.Set("block_size", shard.block_size).Set("max_block_samples", shard.max_block_samples);
  options.Set("alignment", shard.alignment).Set("zstd_levels", FormatMap(shard.zstd_levels, kAsNumber));
  options.Set("dictionaries", FormatMap(shard.dictionaries, kAsNumber));
  options.Set("storage", FormatMap(shard.storage, kAsNumber)).Set("metadata", FormatMap(shard.metadata, kAsText));
  options.Set("shard_size", dataset.shard_size).Set("shard_samples", dataset.shard_samples);
  options.Set("sha256", dataset.sha256).Set("codecs", FormatMap(dataset.codecs, kAsNumber));
  options.Set("job", dataset.job).Set("skip_errors", head.pack.skip_errors);
  Manifest columns;
  columns.schema = *Schema::Create(head.columns);
  const PackPlan& totals = head.totals;
  JsonValue plan = JsonValue::Object();
  plan.Set("format", kFormat).Set("kind", head.kind).Set("inputs", FormatTexts(head.inputs));
  plan.Set("listing", ToHex(listing)).Set("units", totals.units).Set("input_bytes", totals.input_bytes);
  if (totals.samples) plan.Set("samples", *totals.samples);
  plan.Set("source", std::move(source)).Set("options", std::move(options));
  plan.Set("datasets", head.datasets).Set("classes", FormatTexts(head.classes)).Set("columns", FormatManifest(columns));
  return plan.FormatIndented() + "\n";
}

template <typename Value>
auto NumbersInto(std::map<std::string, Value>* map) {
  return [map](JsonReader& json) {
    return json.Members([map](std::string_view name, JsonReader& value) -> absl::Status {
      int64_t number = 0;
      SHARDKIT_RETURN_IF_ERROR(value.Read(&number));
      map->emplace(std::string(name), static_cast<Value>(number));
      return absl::OkStatus();
    });
  };
}

absl::Status ReadSource(JsonReader& json, SourceOptions* source) {
  const auto read_group_by = [&](JsonReader& value) -> absl::Status {
    uint64_t number = 0;
    SHARDKIT_RETURN_IF_ERROR(value.Read(&number));
    source->group_by = static_cast<GroupBy>(number);
    return absl::OkStatus();
  };
  return json.Object({{"group_by", read_group_by, JsonField::kOptional},
                      {"stream_above", &source->stream_above},
                      {"max_decompression", &source->max_decompression},
                      {"types", NumbersInto(&source->types)},
                      {"verify_listed_hashes", &source->verify_listed_hashes},
                      {"pending_pair_bytes", &source->pending_pair_bytes},
                      {"allow_empty", &source->allow_empty},
                      {"keep_hidden", &source->keep_hidden},
                      {"follow_links", &source->follow_links}});
}

absl::Status ReadOptions(JsonReader& json, PackOptions* pack) {
  DatasetWriterOptions& dataset = pack->dataset;
  const auto read_metadata = [&](JsonReader& metadata) {
    return metadata.Members([&](std::string_view name, JsonReader& value) {
      return value.Read(&dataset.shard.metadata[std::string(name)]);
    });
  };
  return json.Object({{"block_size", &dataset.shard.block_size},
                      {"max_block_samples", &dataset.shard.max_block_samples},
                      {"alignment", &dataset.shard.alignment},
                      {"zstd_levels", NumbersInto(&dataset.shard.zstd_levels)},
                      {"dictionaries", NumbersInto(&dataset.shard.dictionaries)},
                      {"storage", NumbersInto(&dataset.shard.storage)},
                      {"metadata", read_metadata},
                      {"shard_size", &dataset.shard_size},
                      {"shard_samples", &dataset.shard_samples},
                      {"sha256", &dataset.sha256},
                      {"codecs", NumbersInto(&dataset.codecs)},
                      {"job", &dataset.job},
                      {"skip_errors", &pack->skip_errors}});
}

absl::Status ReadHead(JsonReader& json, PlanHead* head) {
  std::string format, listing, manifest;
  SHARDKIT_RETURN_IF_ERROR(json.Object({{"format", &format}}));
  if (format != kFormat) {
    return Unimplemented("another version of this program made it: use that one, or plan anew elsewhere");
  }
  SHARDKIT_RETURN_IF_ERROR(json.Object({{"format", &format},
                                        {"kind", &head->kind},
                                        {"inputs", &head->inputs},
                                        {"listing", &listing},
                                        {"units", &head->totals.units},
                                        {"input_bytes", &head->totals.input_bytes},
                                        {"samples", &head->totals.samples, JsonField::kOptional},
                                        {"source", JsonInto(&head->source, &ReadSource)},
                                        {"options", JsonInto(&head->pack, &ReadOptions)},
                                        {"datasets", &head->datasets},
                                        {"classes", &head->classes},
                                        {"columns", &manifest}}));
  head->source.skip_errors = head->pack.skip_errors;
  SHARDKIT_ASSIGN_OR_RETURN(const Manifest columns, ParseManifest(manifest));
  head->columns = columns.schema.columns();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> HasPlan(ReadableFileSystem& file_system, const std::string& directory) {
  return dataset::Exists(file_system, JoinPath(PlanFolder(directory), kPlanName));
}

absl::StatusOr<std::unique_ptr<PlanWriter>> PlanWriter::Create(FileSystem& file_system, const std::string& directory) {
  std::unique_ptr<PlanWriter> writer(new PlanWriter(file_system, directory));
  SHARDKIT_RETURN_IF_ERROR(file_system.CreateDirectory(PlanFolder(directory)));
  ShardOptions options;
  options.max_block_samples = 4096;
  SHARDKIT_ASSIGN_OR_RETURN(
      writer->units_,
      ShardWriter::Create(file_system, JoinPath(PlanFolder(directory), kUnitsName), UnitSchema(), options));
  return writer;
}

absl::Status PlanWriter::Add(const PlannedUnit& unit) {
  char bytes[8];
  StoreLittle(bytes, unit.bytes);
  const std::string encoded = EncodeUnit(unit);
  const std::optional<Value> row[] = {Value({bytes, sizeof(bytes)}), Value(encoded)};
  return units_->Append(row);
}

absl::Status PlanWriter::Finish(const PlanHead& head) {
  SHARDKIT_ASSIGN_OR_RETURN(const ShardSummary units, units_->Finish());
  const std::string text = FormatHead(head, units.content_hash);
  for (const auto* const texts : {&head.inputs, &head.classes}) {
    for (const std::string& path : *texts) {
      if (!ValidUtf8(path)) return InvalidArgument(path, ": is not UTF-8, which a plan needs: rename it");
    }
  }
  SHARDKIT_RETURN_IF_ERROR(file_system_.SyncDirectory(directory_));
  return io::PublishFile(file_system_, JoinPath(PlanFolder(directory_), kPlanName), text, /*must_be_new=*/true);
}

absl::StatusOr<std::unique_ptr<PlanReader>> PlanReader::Open(FileSystem& file_system, const std::string& directory) {
  std::unique_ptr<PlanReader> reader(new PlanReader(file_system, directory));
  SHARDKIT_RETURN_IF_ERROR(reader->Read());
  return reader;
}

absl::Status PlanReader::Read() {
  const std::string path = JoinPath(PlanFolder(directory_), kPlanName);
  const auto text = file_system_.ReadFile(path, kMaxPlanBytes);
  if (absl::IsNotFound(text.status())) {
    return NotFound(directory_, ": there is no plan in it: shardctl plan-pack makes one");
  }
  SHARDKIT_RETURN_IF_ERROR(text.status());
  fingerprint_ = StrCat(absl::Hex(Hash64(*text), absl::kZeroPad16));
  const absl::Status read = ReadJson(*text, /*all=*/true, [&](JsonReader& json) { return ReadHead(json, &head_); });
  if (absl::IsDataLoss(read)) {
    return DataLoss(path, ": ", ToStd(read.message()), ": remove ", directory_, " and plan anew");
  }
  if (!read.ok()) return Annotate(read, path);
  head_.source.file_system = &file_system_;
  SHARDKIT_ASSIGN_OR_RETURN(units_, ShardReader::Open(file_system_, JoinPath(PlanFolder(directory_), kUnitsName)));
  BlockBuffer buffer;
  BlockView view;
  for (size_t block = 0; block < units_->blocks().size(); ++block) {
    SHARDKIT_RETURN_IF_ERROR(units_->ReadBlock(block, {&kBytesColumn, 1}, &buffer, &view));
    for (uint32_t i = 0; i < view.sample_count(); ++i) {
      bytes_.push_back(LoadLittle<uint64_t>(view.column(kBytesColumn).bytes(i).data()));
    }
  }
  if (bytes_.size() == head_.totals.units) return absl::OkStatus();
  return DataLoss(path, ": counts ", head_.totals.units, " units, but ", kUnitsName, " has ", bytes_.size());
}

absl::StatusOr<PlannedUnit> PlanReader::Unit(uint64_t number) const {
  BlockBuffer buffer;
  SHARDKIT_ASSIGN_OR_RETURN(const auto value, units_->ReadValue(number, kUnitColumn, &buffer));
  PlannedUnit unit;
  unit.bytes = bytes_[number];
  if (!value || !DecodeUnit(*value, &unit)) {
    return DataLoss(units_->path(), ": unit ", number, " is damaged: remove ", directory_, " and plan anew");
  }
  return unit;
}

}  // namespace shardkit::convert
