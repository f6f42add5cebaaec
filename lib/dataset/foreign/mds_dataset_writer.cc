// Writing MDS.
#include "base/json.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/named_hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "dataset/foreign/foreign_job.h"
#include "foreign/mds/mds_shard_writer.h"
#include "foreign/mds/mds_text.h"
#include "io/publish_file.h"

namespace shardkit {
namespace {

constexpr std::string_view kIndexJson = "index.json";

// "shard.00042.mds" or "shard.00042.mds.zstd".
bool IsShardName(std::string_view name) {
  constexpr std::string_view kPrefix = "shard.", kZstdSuffix = ".zstd";
  if (name.ends_with(kZstdSuffix)) name.remove_suffix(kZstdSuffix.size());
  if (!name.starts_with(kPrefix)) return false;
  size_t number = 0;
  const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), number);
  return error == std::errc() && name == foreign::MdsShardName(number);
}

class MdsJobFiles final : public dataset::ForeignJobFiles {
 public:
  std::string_view manifest_name() const override { return kIndexJson; }

  Name Recognize(std::string_view name) const override {
    const bool temporary = name.ends_with(".tmp");
    if (temporary) name.remove_suffix(4);
    if (name == kIndexJson || name == kOriginName) return {true, {}};
    if (!IsShardName(name)) return {};
    return {true, temporary ? std::string_view() : name};
  }
};

std::string FormatDetails(const foreign::MdsShard& shard) {
  const auto file = [](const foreign::MdsFile& described) {
    JsonValue hashes = JsonValue::Object();
    for (const auto& [name, digits] : described.hashes) hashes.Set(name, digits);
    JsonValue object = JsonValue::Object();
    object.Set("name", described.name).Set("bytes", described.bytes).Set("hashes", std::move(hashes));
    return object;
  };
  JsonValue details = JsonValue::Object();
  details.Set("raw", file(shard.raw));
  if (shard.zip) details.Set("zip", file(*shard.zip));
  return details.Format();
}

std::optional<foreign::MdsShard> ParseDetails(const dataset::ShardRecord& record) {
  foreign::MdsShard shard;
  shard.samples = record.shard.samples;
  const auto file = [](foreign::MdsFile* described) {
    return [described](JsonReader& json) {
      const auto read_hashes = [described](JsonReader& hashes) {
        return hashes.Members([described](std::string_view name, JsonReader& digits) {
          return digits.Read(&described->hashes.emplace_back(name, std::string()).second);
        });
      };
      return json.Object({{"name", &described->name}, {"bytes", &described->bytes}, {"hashes", read_hashes}});
    };
  };
  const auto read_zip = [&](JsonReader& json) { return file(&shard.zip.emplace())(json); };
  const absl::Status status = ReadJson(record.details, /*all=*/true, [&](JsonReader& json) {
    return json.Object({{"raw", file(&shard.raw)}, {"zip", read_zip, JsonField::kOptional}});
  });
  if (!status.ok()) return std::nullopt;
  return shard;
}

class MdsDatasetWriter final : public dataset::ForeignJob {
 public:
  MdsDatasetWriter(FileSystem& file_system, std::string directory, const MdsWriterOptions& options)
      : dataset::ForeignJob(file_system, std::move(directory), options),
        options_(options),
        in_flight_(threads(), "writing shards", options.cancellation,
                   static_cast<size_t>(threads().thread_count()) + 1) {}

  ~MdsDatasetWriter() override {
    (void)Guarded("giving up", [this] { return Abort(); });
  }

  absl::Status Start(const Schema& schema) {
    if (!options_.compression.empty()) {
      SHARDKIT_RETURN_IF_ERROR(Annotate(foreign::ParseMdsCompression(options_.compression).status(), directory_));
    }
    SHARDKIT_RETURN_IF_ERROR(Annotate(TakeHashes(), directory_));
    SHARDKIT_RETURN_IF_ERROR(Annotate(TakeColumns(schema), directory_));
    if (options_.shard_size > foreign::kMaxMdsShardBytes) {
      return InvalidArgument(directory_, ": shards of ", options_.shard_size, " bytes: those of MDS have at most ",
                             foreign::kMaxMdsShardBytes);
    }
    settings_.compression = options_.compression;
    settings_.size_limit = options_.shard_size;
    header_ = foreign::FormatMdsHeader(settings_);
    return StartForeign(schema, files_, header_);
  }

 protected:
  absl::Status AppendSample(const Sample& sample, uint64_t /*next_position*/) override {
    SHARDKIT_RETURN_IF_ERROR(Arrange(sample));
    scratch_.clear();
    SHARDKIT_RETURN_IF_ERROR(foreign::AppendMdsSample(columns_, settings_.columns, values_, &scratch_));
    const uint64_t most = foreign::MdsShardLength(header_.size(), 1, scratch_.size());
    if (most > foreign::kMaxMdsShardBytes) {
      return InvalidArgument("a sample of ", scratch_.size(), " bytes: an MDS shard has at most ",
                             foreign::kMaxMdsShardBytes);
    }
    if (MustCloseBefore(scratch_.size())) SHARDKIT_RETURN_IF_ERROR(Fail(CloseShard()));
    samples_.bytes += scratch_;
    samples_.ends.push_back(samples_.bytes.size());
    return absl::OkStatus();
  }

  absl::Status AdoptShard(const dataset::ShardRecord& record) override {
    std::optional<foreign::MdsShard> shard = ParseDetails(record);
    if (!shard)
      return FailedPrecondition(directory_,
                                ": its records were not written by this program; run without resuming to start over");
    shards_.push_back(*std::move(shard));
    return absl::OkStatus();
  }

  absl::Status FinishShards() override {
    if (!samples_.ends.empty()) SHARDKIT_RETURN_IF_ERROR(CloseShard());
    while (!in_flight_.empty()) SHARDKIT_RETURN_IF_ERROR(WriteOne());
    return absl::OkStatus();
  }

  absl::Status PublishIndexes() override {
    SHARDKIT_RETURN_IF_ERROR(PublishOrigin(/*must_be_new=*/false));
    return io::PublishFile(file_system_, Path(kIndexJson), foreign::FormatMdsIndex(settings_, shards_),
                           /*must_be_new=*/true);
  }

  absl::Status DiscardOpen() override {
    in_flight_.Stop();
    return absl::OkStatus();
  }

 private:
  struct InFlight {
    uint64_t next_position = 0;
    std::vector<SkippedSample> skipped;
  };

  absl::Status TakeHashes() {
    settings_.hashes = options_.hashes;
    std::ranges::sort(settings_.hashes);
    // clang 14 cannot compile what std::ranges::unique of libstdc++ 12 returns.
    settings_.hashes.erase(std::unique(settings_.hashes.begin(), settings_.hashes.end()), settings_.hashes.end());
    for (const std::string& name : settings_.hashes) {
      // A reader may ignore an unknown hash, but here the caller asked for it.
      if (const auto hash = NamedHash::Create(name); !hash.ok()) return InvalidArgument(ToStd(hash.status().message()));
    }
    return absl::OkStatus();
  }

  absl::Status TakeColumns(const Schema& schema) {
    columns_ = schema.columns();
    std::ranges::sort(columns_, {}, &Column::name);
    for (const auto& [name, encoding] : options_.encodings) {
      if (!schema.Find(name)) return InvalidArgument("encoding of column \"", name, "\": there is no such column");
    }
    for (const Column& column : columns_) {
      const auto chosen = options_.encodings.find(column.name);
      std::string encoding;
      if (chosen != options_.encodings.end()) {
        encoding = chosen->second;
      } else {
        SHARDKIT_ASSIGN_OR_RETURN(encoding, foreign::MdsEncodingOf(column));
      }
      SHARDKIT_ASSIGN_OR_RETURN(foreign::MdsColumn made, foreign::MakeMdsColumn(column, encoding));
      settings_.columns.push_back(std::move(made));
      if (column.is_key) key_ = settings_.columns.size() - 1;
    }
    return absl::OkStatus();
  }

  // Puts the sample's values in the order of columns_.
  absl::Status Arrange(const Sample& sample) {
    values_.assign(columns_.size(), std::nullopt);
    if (key_) values_[*key_] = Value(sample.key);
    for (const Field& field : sample.fields) {
      const auto found = std::ranges::lower_bound(columns_, field.column->name, {}, &Column::name);
      if (found == columns_.end() || found->name != field.column->name) {
        return InvalidArgument("column \"", field.column->name, "\": the dataset has no such column");
      }
      if (found->type != field.column->type || found->dtype != field.column->dtype ||
          found->shape != field.column->shape) {
        return InvalidArgument("column \"", field.column->name, "\": a value of type ", TypeName(field.column->type),
                               " does not fit the column of type ", TypeName(found->type));
      }
      values_[static_cast<size_t>(found - columns_.begin())] = field.value;
    }
    return absl::OkStatus();
  }

  // Follows the rule of mosaicml-streaming: a shard is closed before a sample that would make it longer than the limit,
  // but not before its first sample.
  bool MustCloseBefore(uint64_t sample_bytes) const {
    const uint64_t count = samples_.ends.size();
    const uint64_t length = foreign::MdsShardLength(header_.size(), count + 1, samples_.bytes.size() + sample_bytes);
    if (count > 0 && (length > foreign::kMaxMdsShardBytes || count == options_.shard_samples)) return true;
    // If the first sample of all is too long, mosaicml-streaming closes a shard without samples. So do we, to have the
    // same names.
    const bool first = count == 0 && shards_.empty() && in_flight_.empty();
    return (count > 0 || first) && *settings_.size_limit < length;
  }

  // Hands the shard to the threads, and writes finished ones so that few are in flight.
  absl::Status CloseShard() {
    const size_t number = shards_.size() + in_flight_.size();
    in_flight_.Add(
        [this, samples = std::exchange(samples_, {}), number]() mutable {
          return foreign::EncodeMdsShard(settings_, header_, std::move(samples), number);
        },
        {next_position(), TakeSkipped()});
    while (in_flight_.full()) SHARDKIT_RETURN_IF_ERROR(WriteOne());
    return absl::OkStatus();
  }

  absl::Status WriteOne() {
    auto [shard, result] = in_flight_.Take();
    SHARDKIT_ASSIGN_OR_RETURN(foreign::EncodedMdsShard encoded, std::move(result));
    const std::string_view pieces[] = {encoded.head, encoded.body};
    SHARDKIT_RETURN_IF_ERROR(io::PublishFile(file_system_, Path(encoded.name()), pieces));
    dataset::ShardRecord record;
    record.shard.name = encoded.name();
    record.shard.bytes = encoded.head.size() + encoded.body.size();
    record.shard.samples = encoded.described.samples;
    record.shard.blocks = 1;
    record.next_position = shard.next_position;
    record.skipped = std::move(shard.skipped);
    record.details = FormatDetails(encoded.described);
    shards_.push_back(std::move(encoded.described));
    return Record(std::move(record));
  }

  const MdsWriterOptions options_;
  const MdsJobFiles files_;
  foreign::MdsSettings settings_;
  std::string header_;           // of each shard
  std::vector<Column> columns_;  // as settings_.columns: ascending by name
  std::optional<size_t> key_;    // among them
  std::vector<std::optional<Value>> values_;
  std::string scratch_;
  foreign::MdsSamples samples_;            // of the shard being filled
  std::vector<foreign::MdsShard> shards_;  // published
  OrderedTasks<absl::StatusOr<foreign::EncodedMdsShard>, InFlight> in_flight_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DatasetWriter>> CreateMdsWriter(FileSystem& file_system, const std::string& directory,
                                                               const Schema& schema, const MdsWriterOptions& options) {
  return dataset::CreateMdsJob(file_system, directory, schema, options);
}

absl::StatusOr<std::unique_ptr<dataset::DatasetJob>> dataset::CreateMdsJob(FileSystem& file_system,
                                                                           const std::string& directory,
                                                                           const Schema& schema,
                                                                           const MdsWriterOptions& options) {
  return dataset::StartOrSuspend(std::make_unique<MdsDatasetWriter>(file_system, directory, options), schema);
}

}  // namespace shardkit
