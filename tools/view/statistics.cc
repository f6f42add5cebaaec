#include "view/statistics.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "shardctl/dataset_access.h"
#include "shardctl/numbers.h"
#include "view/column_summary.h"
#include "view/rows.h"
#include "view/value.h"

namespace shardctl {
namespace {

// Statistics of so many shards are read: one read of each, and from far away each takes the time of a request.
constexpr uint64_t kMostShards = 4096;
constexpr uint64_t kMostRemoteShards = 64;

// Blocks that are drawn, and the time after which no more are read.
constexpr uint64_t kBlocks = 64;
constexpr auto kStatisticsTime = std::chrono::seconds(5);
constexpr uint64_t kSeed = 1;

// Those whose values say something as numbers or texts. The others are not read.
bool IsSampled(const shardkit::DatasetReader& reader, const shardkit::Column& column) {
  // In other containers all values of variable size are blobs.
  if ((column.is_blob() && reader.container() == "shard") || !shardkit::IsKnownCodec(column.codec)) return false;
  const std::string kind = ValueKind(column);
  return kind == "number" || kind == "boolean" || kind == "text" || kind == "time";
}

// Whether shards know counts and lengths of their columns without a look at the values.
bool KnowsStatistics(const ViewedDataset& dataset, const shardkit::DatasetReader& reader) {
  const uint64_t most = shardkit::IsUrl(dataset.path()) ? kMostRemoteShards : kMostShards;
  return reader.container() != "mds" && reader.shard_count() <= most;
}

struct Sampled {
  uint64_t blocks = 0;
  uint64_t samples = 0;
};

// Adds the values of blocks drawn at random to `columns`, which are those of `names`.
absl::StatusOr<Sampled> SampleBlocks(const shardkit::DatasetReader& reader, uint64_t samples,
                                     const shardkit::Cancellation& cancellation, std::vector<ColumnSummary>* columns,
                                     const std::function<void(double)>& progress) {
  Sampled sampled;
  const uint64_t blocks = std::min(kBlocks, std::max<uint64_t>(reader.summary().block_count, 1));
  std::vector<uint64_t> drawn = DrawSamples(samples, blocks, kSeed);
  std::ranges::sort(drawn);
  const auto end = std::chrono::steady_clock::now() + kStatisticsTime;
  uint64_t seen = 0;  // samples before this one
  uint64_t number = 0;
  for (const uint64_t ordinal : drawn) {
    ++number;
    if (ordinal < seen) continue;  // of a block that was read
    if (std::chrono::steady_clock::now() > end) break;
    if (absl::Status status = cancellation.Check("reading statistics"); !status.ok()) return status;
    const auto scanner = reader.Scan({.threads = 0, .first_sample = ordinal, .end_sample = ordinal + 1});
    if (!scanner.ok()) return scanner.status();
    const auto block = (*scanner)->Next();
    if (!block.ok()) return block.status();
    if (*block == nullptr) continue;
    const shardkit::BlockView& view = (*block)->view();
    for (size_t column = 0; column < columns->size(); ++column) (*columns)[column].Add(view.column(column));
    seen = (*block)->first_sample() + view.sample_count();
    ++sampled.blocks;
    sampled.samples += view.sample_count();
    progress(static_cast<double>(number) / static_cast<double>(drawn.size()));
  }
  return sampled;
}

absl::StatusOr<Json> Compute(const ViewedDataset& dataset, const Snapshot& snapshot,
                             const shardkit::Cancellation& cancellation, const std::function<void(double)>& progress) {
  const shardkit::DatasetReader& reader = *snapshot.reader;
  const bool known = KnowsStatistics(dataset, reader);
  // Those of shards count what was removed since, and values in whose place others are seen.
  const bool exact = known && reader.plain();
  std::optional<std::vector<shardkit::ColumnStatistics>> statistics;
  if (known) {
    auto read = reader.ReadStatistics();
    if (!read.ok()) return read.status();
    statistics = *std::move(read);
  }
  progress(0.5);
  std::vector<std::string> names;
  std::vector<ColumnSummary> summaries;
  for (const shardkit::Column& column : reader.columns()) {
    if (known && !IsSampled(reader, column)) continue;
    names.push_back(column.name);
    summaries.emplace_back(column, IsSampled(reader, column));
  }
  Sampled sampled;
  if (!names.empty()) {
    const auto opened = dataset.Reopen(names);
    if (!opened.ok()) return opened.status();
    const auto counted = SampleBlocks(*(*opened)->reader, std::min(snapshot.samples, (*opened)->samples), cancellation,
                                      &summaries, [&](double done) { progress(0.5 + done / 2); });
    if (!counted.ok()) return counted.status();
    sampled = *counted;
  }
  Json columns = Json::array();
  for (size_t i = 0; i < reader.columns().size(); ++i) {
    const shardkit::Column& column = reader.columns()[i];
    const auto found = std::ranges::find(names, column.name);
    const ColumnSummary* summary =
        found == names.end() ? nullptr : &summaries[static_cast<size_t>(found - names.begin())];
    columns.push_back(DescribeColumn(column, statistics ? &(*statistics)[i] : nullptr, summary, snapshot.samples));
  }
  const std::string drawn = "a sample of " + std::to_string(sampled.blocks) + " of " +
                            Counted(reader.summary().block_count, "block") + " (seed " + std::to_string(kSeed) + ")";
  return Json{{"state", "done"},
              {"error", nullptr},
              {"progress", 1.0},
              {"source", known ? "from the statistics of " + Counted(reader.shard_count(), "shard") +
                                     (exact ? "" : ", which count removed samples and replaced values, too") +
                                     "; numbers and texts from " + drawn
                               : "from " + drawn},
              {"exact", exact},
              {"sampled_samples", sampled.samples},
              {"columns", std::move(columns)}};
}

}  // namespace

Json ReadStatistics(const ViewedDataset& dataset, const Snapshot& snapshot, const shardkit::Cancellation& cancellation,
                    const std::function<void(double)>& progress) {
  auto result = Compute(dataset, snapshot, cancellation, progress);
  if (result.ok()) return *std::move(result);
  return Json{{"state", "failed"},       {"error", std::string(result.status().message())},
              {"progress", 1.0},         {"source", ""},
              {"exact", false},          {"sampled_samples", 0},
              {"columns", Json::array()}};
}

StatisticsJob::~StatisticsJob() {
  cancellation_.Cancel();
  if (thread_.joinable()) thread_.join();
}

void StatisticsJob::SetProgress(double progress) {
  const std::lock_guard lock(mutex_);
  result_["progress"] = progress;
}

Json StatisticsJob::Get(const ViewedDataset& dataset) {
  auto snapshot = dataset.current();
  const std::lock_guard lock(mutex_);
  const bool running = !result_.is_null() && result_["state"] == "running";
  if (!running && (of_ == nullptr || (of_ != snapshot && snapshot->complete))) {
    if (thread_.joinable()) thread_.join();
    of_ = snapshot;
    result_ = Json{{"state", "running"}, {"error", nullptr},     {"progress", 0.0},         {"source", ""},
                   {"exact", false},     {"sampled_samples", 0}, {"columns", Json::array()}};
    thread_ = std::thread([this, &dataset, snapshot] { Run(dataset, snapshot); });
  }
  return result_;
}

void StatisticsJob::Run(const ViewedDataset& dataset, std::shared_ptr<const Snapshot> snapshot) {
  Json result = ReadStatistics(dataset, *snapshot, cancellation_, [this](double progress) { SetProgress(progress); });
  const std::lock_guard lock(mutex_);
  result_ = std::move(result);
}

}  // namespace shardctl
