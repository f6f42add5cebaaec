#include "operations/tasks/pack_plan.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "base/endian.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "base/utf8.h"
#include "dataset/dataset_files.h"
#include "io/publish_file.h"
#include "operations/pack/packer.h"
#include "shardkit/manifest.h"

namespace shardkit::operations {
namespace {

constexpr std::string_view kHeadName = "shardkit.plan";  // among the metadata
constexpr std::string_view kFormat = "shardkit-plan 2";
constexpr size_t kBytesColumn = 0, kSamplesColumn = 1, kUnitColumn = 2;

Schema UnitSchema() {
  Column bytes, samples, unit;
  bytes.name = "bytes";
  samples.name = "samples";
  bytes.type = samples.type = Type::kU64;
  unit.name = "unit";
  unit.type = Type::kBytes;
  unit.codec = Codec::kZstd;
  return *Schema::Create({bytes, samples, unit});
}

void AppendNumber(uint64_t number, std::string* text) {
  char bytes[8];
  StoreLittle(bytes, number);
  text->append(bytes, sizeof(bytes));
}

std::string EncodeUnit(const PlannedUnit& unit) {
  std::string text;
  AppendNumber(unit.skip, &text);
  AppendNumber(unit.inputs.size(), &text);
  for (const SourceInput& input : unit.inputs) {
    AppendNumber(input.path.size(), &text);
    const std::string& listed = input.tar ? input.key_prefix : *input.listed;
    AppendNumber(listed.size(), &text);
    text.push_back(input.tar ? 't' : 'd');
    text += input.path;
    text += listed;
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
  if (!number(&unit->skip) || !number(&count)) return false;
  for (; count > 0; --count) {
    SourceInput input;
    uint64_t path = 0, list = 0;
    std::string kind, listed;
    if (!number(&path) || !number(&list) || !bytes(1, &kind) || !bytes(path, &input.path) || !bytes(list, &listed)) {
      return false;
    }
    input.tar = kind == "t";
    if (input.tar) {
      input.key_prefix = std::move(listed);
    } else {
      input.listed = std::make_shared<const std::string>(std::move(listed));
    }
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

std::string FormatHead(const PlanHead& head) {
  const DatasetWriterOptions& dataset = head.pack.dataset;
  const ShardOptions& shard = dataset.shard;
  JsonValue source = JsonValue::Object();
  if (head.source.group_by) source.Set("group_by", static_cast<int64_t>(*head.source.group_by));
  source.Set("stream_above", head.source.stream_above).Set("max_decompression", head.source.max_decompression);
  source.Set("types", FormatMap(head.source.types, kAsNumber));
  source.Set("verify_listed_hashes", head.source.verify_listed_hashes);
  source.Set("pending_pair_bytes", head.source.pending_pair_bytes).Set("allow_empty", head.source.allow_empty);
  source.Set("keep_hidden", head.source.keep_hidden).Set("follow_links", head.source.follow_links);
  source.Set("key", head.source.key).Set("file", FormatTexts(head.source.file)).Set("root", head.source.root);
  source.Set("names", head.source.names)
      .Set("include", FormatTexts(head.source.include))
      .Set("exclude", FormatTexts(head.source.exclude));
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
  JsonValue plan = JsonValue::Object();
  plan.Set("format", kFormat).Set("kind", head.kind).Set("inputs", FormatTexts(head.inputs));
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
                      {"follow_links", &source->follow_links},
                      {"key", &source->key},
                      {"names", &source->names},
                      {"file", &source->file},
                      {"root", &source->root},
                      {"include", &source->include},
                      {"exclude", &source->exclude}});
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
  std::string format, manifest;
  SHARDKIT_RETURN_IF_ERROR(json.Object({{"format", &format}}));
  if (format != kFormat) {
    return Unimplemented("another version of this program made it: use that one, or plan again elsewhere");
  }
  SHARDKIT_RETURN_IF_ERROR(json.Object({{"format", &format},
                                        {"kind", &head->kind},
                                        {"inputs", &head->inputs},
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

constexpr size_t kListedAtOnce = 512;

class UnitLister {
 public:
  UnitLister(const PackOptions& options, const std::function<absl::Status(const PlannedUnit& unit)>& take)
      : options_(options), limit_(options.dataset), take_(take) {}

  PackPlan totals() const {
    PackPlan totals = totals_;
    if (!has_tars_) totals.samples = listed_;
    return totals;
  }

  // Units are places among the samples.
  absl::Status ListPlaces(Source& source) {
    using Sizes = absl::StatusOr<std::vector<uint64_t>>;
    ThreadPool pool(std::max(options_.dataset.threads, 1));
    OrderedTasks<Sizes> tasks(pool, "listing samples", options_.dataset.cancellation,
                              static_cast<size_t>(pool.thread_count()) + 1);
    for (bool more = true; more || !tasks.empty();) {
      while (more && !tasks.full()) {
        SHARDKIT_ASSIGN_OR_RETURN(std::shared_ptr<const WorkUnit> unit, source.Next(kListedAtOnce));
        more = unit != nullptr;
        if (more) tasks.Add([&source, unit]() -> Sizes { return source.InputBytes(*unit); });
      }
      if (tasks.empty()) break;
      SHARDKIT_ASSIGN_OR_RETURN(const std::vector<uint64_t> sizes, tasks.Take().result);
      SHARDKIT_RETURN_IF_ERROR(Check());
      for (const uint64_t bytes : sizes) {
        unit_.skip = listed_ - unit_.samples;
        SHARDKIT_RETURN_IF_ERROR(Count(1, bytes));
      }
    }
    return EndUnit();
  }

  absl::Status ListFiles(FileSource& source) {
    using Sizes = absl::StatusOr<std::vector<uint64_t>>;
    ThreadPool pool(std::max(options_.dataset.threads, 1));
    OrderedTasks<Sizes, FileSource::Listed> tasks(pool, "listing samples", options_.dataset.cancellation,
                                                  static_cast<size_t>(pool.thread_count()) + 1);
    for (bool more = true; more || !tasks.empty();) {
      while (more && !tasks.full()) {
        SHARDKIT_ASSIGN_OR_RETURN(auto next, source.List(kListedAtOnce));
        more = next.has_value();
        if (!more) break;
        tasks.Add(
            [&source, tree = next->tree, tar = next->tar]() -> Sizes {
              if (tree != nullptr) return source.InputBytes(*tree);
              SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, source.options().file_system->Stat(tar->path));
              return std::vector<uint64_t>{info.size};
            },
            *next);
      }
      if (tasks.empty()) break;
      auto [listed, sizes] = tasks.Take();
      SHARDKIT_RETURN_IF_ERROR(Check());
      SHARDKIT_ASSIGN_OR_RETURN(const std::vector<uint64_t> bytes, std::move(sizes));
      SHARDKIT_RETURN_IF_ERROR(listed.tree ? AddSamples(source, *listed.tree, bytes) : AddTar(*listed.tar, bytes[0]));
    }
    return EndUnit();
  }

 private:
  absl::Status AddSamples(const FileSource& source, const TreeUnit& tree, const std::vector<uint64_t>& bytes) {
    for (size_t i = 0; i < tree.size(); ++i) {
      if (unit_.samples > 0 && input_ != tree.input()) EndList(source);
      input_ = tree.input();
      files_.Add(tree, i);
      unit_source_ = &source;
      SHARDKIT_RETURN_IF_ERROR(Count(1, bytes[i]));
    }
    return absl::OkStatus();
  }

  absl::Status AddTar(const SourceInput& tar, uint64_t bytes) {
    SHARDKIT_RETURN_IF_ERROR(EndUnit());
    has_tars_ = true;
    ++totals_.units;
    totals_.input_bytes += bytes;
    return take_({.samples = UINT64_MAX, .bytes = bytes, .skip = 0, .inputs = {tar}});
  }

  void EndList(const FileSource& source) {
    if (files_.empty()) return;
    unit_.inputs.push_back({.path = source.input(input_).path,
                            .tar = false,
                            .listed = std::make_shared<const std::string>(files_.Take())});
  }

  absl::Status Count(uint64_t samples, uint64_t bytes) {
    unit_.samples += samples;
    unit_.bytes += bytes;
    listed_ += samples;
    return limit_.Add(samples, bytes) ? EndUnit() : absl::OkStatus();
  }

  absl::Status EndUnit() {
    limit_.Reset();
    if (unit_source_ != nullptr) EndList(*unit_source_);
    if (unit_.samples == 0) return absl::OkStatus();
    ++totals_.units;
    totals_.input_bytes += unit_.bytes;
    return take_(std::exchange(unit_, PlannedUnit{.samples = 0, .bytes = 0, .skip = 0, .inputs = {}}));
  }

  absl::Status Check() {
    if (options_.progress) options_.progress({.samples = listed_, .input_bytes = totals_.input_bytes + unit_.bytes});
    return options_.dataset.cancellation ? options_.dataset.cancellation->Check("listing samples") : absl::OkStatus();
  }

  const PackOptions& options_;
  ShardLimit limit_;
  const std::function<absl::Status(const PlannedUnit& unit)>& take_;
  PackPlan totals_;
  PlannedUnit unit_{.samples = 0, .bytes = 0, .skip = 0, .inputs = {}};
  FileList files_;  // of the unit and input_, not in unit_ yet
  const FileSource* unit_source_ = nullptr;
  size_t input_ = 0;
  uint64_t listed_ = 0;
  bool has_tars_ = false;
};

}  // namespace

absl::StatusOr<PackPlan> ListUnits(Source& source, const PackOptions& options,
                                   const std::function<absl::Status(const PlannedUnit& unit)>& take) {
  UnitLister lister(options, take);
  auto* const files = dynamic_cast<FileSource*>(&source);
  SHARDKIT_RETURN_IF_ERROR(files != nullptr ? lister.ListFiles(*files) : lister.ListPlaces(source));
  return lister.totals();
}

std::string PlanPath(const std::string& directory) { return JoinPath(dataset::JobFolderPath(directory), "plan.shard"); }

absl::StatusOr<std::unique_ptr<PlanWriter>> PlanWriter::Create(FileSystem& file_system, const std::string& directory,
                                                               const PlanHead& head) {
  for (const auto* const texts : {&head.inputs, &head.classes}) {
    for (const std::string& path : *texts) {
      if (!ValidUtf8(path)) return InvalidArgument(path, ": is not UTF-8, which a plan needs: rename it");
    }
  }
  std::unique_ptr<PlanWriter> writer(new PlanWriter());
  ShardOptions options;
  options.max_block_samples = 4096;
  options.metadata.emplace(kHeadName, FormatHead(head));
  SHARDKIT_ASSIGN_OR_RETURN(writer->units_,
                            ShardWriter::Create(file_system, PlanPath(directory), UnitSchema(), options));
  return writer;
}

absl::Status PlanWriter::Add(const PlannedUnit& unit) {
  char bytes[8], samples[8];
  StoreLittle(bytes, unit.bytes);
  StoreLittle(samples, unit.samples);
  const std::string encoded = EncodeUnit(unit);
  const std::optional<Value> row[] = {Value({bytes, sizeof(bytes)}), Value({samples, sizeof(samples)}), Value(encoded)};
  return units_->Append(row);
}

absl::StatusOr<std::unique_ptr<PlanReader>> PlanReader::Open(FileSystem& file_system, const std::string& directory) {
  std::unique_ptr<PlanReader> reader(new PlanReader());
  const absl::Status status = reader->Read(file_system, directory);
  if (status.ok()) return reader;
  if (absl::IsNotFound(status)) return NotFound(directory, ": there is no plan in it: shardctl plan-pack makes one");
  return absl::IsDataLoss(status) ? DataLoss(ToStd(status.message()), ": remove ", directory, " and plan again")
                                  : status;
}

absl::Status PlanReader::Read(FileSystem& file_system, const std::string& directory) {
  // It is written after the plan.
  SHARDKIT_ASSIGN_OR_RETURN(const auto job, dataset::ReadJob(file_system, directory));
  if (!job || !job->in_tasks) return absl::NotFoundError("");
  SHARDKIT_ASSIGN_OR_RETURN(units_, ShardReader::Open(file_system, PlanPath(directory)));
  SHARDKIT_ASSIGN_OR_RETURN(const Metadata metadata, units_->ReadMetadata());
  const auto text = metadata.find(std::string(kHeadName));
  if (text == metadata.end()) return DataLoss(units_->path(), ": is no plan");
  fingerprint_ = StrCat(absl::Hex(Hash64(StrCat(ToHex(units_->content_hash()), text->second)), absl::kZeroPad16));
  const absl::Status read =
      ReadJson(text->second, /*all=*/true, [&](JsonReader& json) { return ReadHead(json, &head_); });
  if (!read.ok()) return Annotate(read, units_->path());
  head_.source.file_system = &file_system;
  BlockBuffer buffer;
  BlockView view;
  for (size_t block = 0; block < units_->blocks().size(); ++block) {
    SHARDKIT_RETURN_IF_ERROR(
        units_->ReadBlock(block, std::initializer_list<size_t>{kBytesColumn, kSamplesColumn}, &buffer, &view));
    for (uint32_t i = 0; i < view.sample_count(); ++i) {
      bytes_.push_back(LoadLittle<uint64_t>(view.column(kBytesColumn).bytes(i).data()));
      samples_.push_back(LoadLittle<uint64_t>(view.column(kSamplesColumn).bytes(i).data()));
    }
  }
  totals_.units = bytes_.size();
  totals_.input_bytes = std::accumulate(bytes_.begin(), bytes_.end(), uint64_t{0});
  if (std::ranges::find(samples_, UINT64_MAX) == samples_.end()) {
    totals_.samples = std::accumulate(samples_.begin(), samples_.end(), uint64_t{0});
  }
  return absl::OkStatus();
}

absl::StatusOr<PlannedUnit> PlanReader::Unit(uint64_t number) const {
  BlockBuffer buffer;
  SHARDKIT_ASSIGN_OR_RETURN(const auto value, units_->ReadValue(number, kUnitColumn, &buffer));
  PlannedUnit unit;
  unit.bytes = bytes_[number];
  unit.samples = samples_[number];
  if (value && DecodeUnit(*value, &unit)) return unit;
  return DataLoss(units_->path(), ": unit ", number, " is damaged: remove the dataset's directory and plan again");
}

}  // namespace shardkit::operations
