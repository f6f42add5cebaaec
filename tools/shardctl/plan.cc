// shardctl plan
#include "shardkit/plan.h"

#include <algorithm>

#include "command_line.h"
#include "dataset_access.h"
#include "json.h"
#include "numbers.h"
#include "order_options.h"
#include "output.h"
#include "plan_scores.h"
#include "report.h"
#include "shardkit/remote.h"
#include "verbs.h"

namespace shardctl {
namespace {

struct PlanArguments {
  std::vector<std::string> paths;
  OrderOptions order;
  std::optional<uint64_t> epoch;
  uint64_t from_step = 0;
  uint64_t steps = UINT64_MAX;
  std::optional<std::string> cursor;
  std::optional<std::string> label;
  HashOption hashes;
  bool json = false;
};

// The steps to show: `count` steps, after `skip` steps that follow the cursor.
struct Range {
  shardkit::Cursor cursor;
  uint64_t first_number = 0;  // of the step at the cursor
  uint64_t skip = 0;
  uint64_t count = 0;
};

absl::StatusOr<Range> ChooseRange(const shardkit::Plan& plan, const PlanArguments& arguments) {
  Range range;
  range.cursor = plan.Begin(arguments.epoch.value_or(0));
  if (arguments.cursor.has_value()) {
    const absl::StatusOr<shardkit::Cursor> cursor = shardkit::ParseCursor(*arguments.cursor);
    if (!cursor.ok()) return absl::InvalidArgumentError("--" + std::string(cursor.status().message()));
    if (const absl::Status status = plan.CheckCursor(*cursor); !status.ok()) {
      return absl::InvalidArgumentError("--cursor: " + std::string(status.message()));
    }
    if (arguments.epoch.has_value() && *arguments.epoch != cursor->epoch) {
      return absl::InvalidArgumentError("--cursor: it stands in epoch " + std::to_string(cursor->epoch) +
                                        ", not in --epoch " + std::to_string(*arguments.epoch));
    }
    range.cursor = *cursor;
    // The loader also continues with the next epoch.
    if (plan.StepsFrom(cursor->position) == 0) range.cursor = plan.Begin(cursor->epoch + 1);
  }
  const uint64_t batch = plan.options().batch_size;
  range.first_number = range.cursor.position / batch + (range.cursor.position % batch != 0);
  const uint64_t steps = plan.StepsFrom(range.cursor.position);
  if (arguments.from_step > range.first_number) range.skip = arguments.from_step - range.first_number;
  range.skip = std::min(range.skip, steps);
  range.count = std::min(arguments.steps, steps - range.skip);
  return range;
}

class PlanPrinter {
 public:
  PlanPrinter(const shardkit::Plan& plan, const PlanArguments& arguments, const Range& range, const PlanScores& scores,
              double amplification)
      : plan_(plan),
        arguments_(arguments),
        range_(range),
        scores_(scores),
        order_(plan.Epoch(range.cursor.epoch)),
        amplification_(amplification) {}

  // What could not be read while printing.
  const absl::Status& status() const { return status_; }

  void PrintText() {
    PrintHeading();
    const uint64_t last = range_.first_number + range_.skip + std::max<uint64_t>(range_.count, 1) - 1;
    const size_t width = std::max<size_t>(4, std::to_string(last).size());
    Stdout().Write(std::string(width - 4, ' ') + "step  samples\n");
    for (uint64_t i = 0; i < range_.count && Stdout().ok() && Cover(i); ++i) PrintLine(i, width);
    if (!status_.ok()) return;
    Stdout().Write("\ngo on with --cursor '" + FormatCursor(After()) + "'\n");
  }

  void PrintDocument() {
    Stdout().Write("{\n  \"steps\": [");
    for (uint64_t i = 0; i < range_.count && Stdout().ok() && Cover(i); ++i) {
      Json samples = Json::array();
      ForEachSample(i, UINT64_MAX, [&](const shardkit::PlannedSample& sample) {
        if (several()) {
          samples.push_back({sample.dataset, sample.ordinal});
        } else {
          samples.push_back(sample.ordinal);
        }
      });
      Stdout().Write((i == 0 ? "\n    " : ",\n    ") + FormatJson(Json{{"step", Number(i)}, {"samples", samples}}));
    }
    if (!status_.ok()) return;
    Stdout().Write(range_.count == 0 ? "],\n" : "\n  ],\n");
    const std::string rest = Rest().dump(2, ' ', false, Json::error_handler_t::replace);
    Stdout().Write(rest.substr(rest.find('\n') + 1) + "\n");
  }

 private:
  static constexpr uint64_t kMostInLine = 12;

  bool several() const { return plan_.datasets().size() > 1; }
  uint64_t Number(uint64_t i) const { return range_.first_number + range_.skip + i; }
  shardkit::Step StepAt(uint64_t i) const { return plan_.StepAt(range_.cursor.position, range_.skip + i); }

  // Whether the order knows the step.
  bool Cover(uint64_t i) {
    auto covering = order_->Covering(StepAt(i));
    status_.Update(covering.status());
    if (covering.ok()) order_ = *std::move(covering);
    return status_.ok();
  }

  // The nearest world sizes that divide the lanes, unless the given one does.
  std::vector<uint64_t> BetterWorldSizes() const {
    const uint64_t world_size = arguments_.order.world_size;
    std::vector<uint64_t> better;
    if (plan_.options().order != shardkit::SampleOrder::kShuffled || plan_.lanes() % world_size == 0) return better;
    uint64_t near = std::min<uint64_t>(world_size, plan_.lanes());
    while (plan_.lanes() % near != 0) --near;
    better.push_back(near);
    for (near = world_size + 1; near < plan_.lanes() && plan_.lanes() % near != 0;) ++near;
    if (near <= plan_.lanes()) better.push_back(near);
    return better;
  }

  // Calls `take` for up to `most` samples of the step. Returns how many samples follow them.
  template <typename Take>
  uint64_t ForEachSample(uint64_t i, uint64_t most, Take take) const {
    const shardkit::Step step = StepAt(i);
    std::vector<uint64_t> own;  // without a rank, all positions are taken
    if (arguments_.order.rank.has_value()) {
      own = order_->RankPositions(step, *arguments_.order.rank, arguments_.order.world_size);
    }
    const uint64_t count = arguments_.order.rank.has_value() ? own.size() : step.end - step.begin;
    for (uint64_t slot = 0; slot < std::min(count, most); ++slot) {
      take(order_->At((own.empty() ? step.begin + slot : own[slot]) % order_->size()));
    }
    return count - std::min(count, most);
  }

  // The cursor of a loader that has delivered the steps shown.
  shardkit::Cursor After() const {
    const uint64_t done = range_.skip + range_.count;
    if (done >= plan_.StepsFrom(range_.cursor.position)) return plan_.Begin(range_.cursor.epoch + 1);
    return plan_.At(range_.cursor.epoch, plan_.StepAt(range_.cursor.position, done).begin);
  }

  void PrintHeading() const {
    const shardkit::PlanOptions& options = plan_.options();
    uint64_t blocks = 0;
    for (const shardkit::PlanDataset& dataset : plan_.datasets()) blocks += dataset.block_count();
    std::string text = Counted(plan_.samples_per_epoch(), "sample") + " of " +
                       Counted(plan_.datasets().size(), "dataset") + " in " + Counted(blocks, "block") + ", " +
                       OrderName(options.order) + ", seed " + std::to_string(options.seed) + ", epoch " +
                       std::to_string(range_.cursor.epoch) + "\n" + Counted(plan_.StepsFrom(0), "step") + " of " +
                       Counted(options.batch_size, "sample") + ", ";
    text +=
        arguments_.order.rank.has_value() ? "rank " + std::to_string(*arguments_.order.rank) + " of " : "all ranks of ";
    text += std::to_string(arguments_.order.world_size) + "; " + Counted(plan_.lanes(), "lane") + ", shuffle buffer " +
            FormatBytes(options.shuffle_buffer_bytes) + "\n\n";
    text += "shuffle score   " + FormatFixed(scores_.shuffle, 3) + "  (1: a perfect shuffle, 0: as stored)\n";
    text +=
        "WebDataset      " + FormatFixed(scores_.webdataset, 3) + "  (shards shuffled, a buffer of as many bytes)\n";
    if (scores_.clumping.has_value()) {
      text += "label clumping  " + FormatFixed(*scores_.clumping, 3) +
              "  (1: a perfect shuffle, more: in clumps; WebDataset " + FormatFixed(*scores_.webdataset_clumping, 3) +
              ")\n";
    }
    text +=
        "read by ranks   " + FormatFixed(amplification_, 3) + "  (bytes read by all ranks for each that they need)\n";
    if (const std::vector<uint64_t> better = BetterWorldSizes(); !better.empty()) {
      text += "the lanes suit world sizes";
      for (size_t i = 0; i < better.size(); ++i) text += (i == 0 ? " " : " and ") + std::to_string(better[i]);
      text += " better; or give --lanes " + std::to_string(arguments_.order.world_size) + "\n";
    }
    if (scores_.samples < plan_.samples_per_epoch()) {
      text += "(scores of the first " + std::to_string(scores_.samples) + " samples of the epoch)\n";
    }
    Stdout().Write(text + "\n");
  }

  void PrintLine(uint64_t i, size_t width) const {
    const std::string number = std::to_string(Number(i));
    std::string line = std::string(width - number.size(), ' ') + number + " ";
    const uint64_t more = ForEachSample(i, kMostInLine, [&](const shardkit::PlannedSample& sample) {
      line += several() ? " " + std::to_string(sample.dataset) + ":" : " ";
      line += std::to_string(sample.ordinal);
    });
    if (more > 0) line += " and " + std::to_string(more) + " more";
    Stdout().Write(line + "\n");
  }

  // The members after the steps in the document.
  Json Rest() const {
    const shardkit::PlanOptions& options = plan_.options();
    Json document;
    document["shuffle_score"] = scores_.shuffle;
    document["perfect_score"] = 1.0;
    document["webdataset_score"] = scores_.webdataset;
    if (scores_.clumping.has_value()) {
      document["label_clumping"] = *scores_.clumping;
      document["webdataset_label_clumping"] = *scores_.webdataset_clumping;
    }
    document["scored_samples"] = scores_.samples;
    document["read_amplification"] = amplification_;
    document["better_world_sizes"] = BetterWorldSizes();
    document["datasets"] = Json::array();
    for (size_t i = 0; i < plan_.datasets().size(); ++i) {
      document["datasets"].push_back({{"path", arguments_.paths[i]}, {"samples", plan_.counts()[i]}});
    }
    document["order"] = OrderName(options.order);
    document["seed"] = options.seed;
    document["epoch"] = range_.cursor.epoch;
    document["batch_size"] = options.batch_size;
    document["remainder"] = RemainderName(options.remainder);
    document["shuffle_buffer"] = options.shuffle_buffer_bytes;
    document["lanes"] = plan_.lanes();
    document["world_size"] = arguments_.order.world_size;
    document["rank"] = arguments_.order.rank.has_value() ? Json(*arguments_.order.rank) : Json(nullptr);
    document["samples"] = plan_.samples_per_epoch();
    document["steps_per_epoch"] = plan_.StepsFrom(0);
    document["cursor"] = FormatCursor(After());
    return document;
  }

  const shardkit::Plan& plan_;
  const PlanArguments& arguments_;
  const Range range_;
  const PlanScores scores_;
  std::shared_ptr<const shardkit::EpochOrder> order_;
  const double amplification_;
  absl::Status status_;
};

// What opening a loader with these options would be refused for.
void NoteRefusal(const shardkit::Plan& plan, uint64_t position, uint64_t world_size) {
  const uint64_t batch_size = plan.options().batch_size;
  if (plan.StepsFrom(0) == 0) {
    Note("a loader refuses this: an epoch has fewer samples than a batch, and they would be dropped");
  } else if (const absl::Status ranks = plan.CheckRanks(position, world_size); !ranks.ok()) {
    Note("a loader of " + Counted(world_size, "rank") + " refuses this: " + std::string(ranks.message()));
  } else if (batch_size % world_size != 0) {
    Note("batches of " + Counted(world_size, "rank") + " differ by a sample, as their number does not divide " +
         std::to_string(batch_size) + ": a loader in Python refuses this without uneven=True");
  }
}

std::optional<int> ParsePlanArguments(int argc, char** argv, PlanArguments* arguments) {
  CommandLine line("plan", "show which samples the steps of an epoch have, and how well they are mixed",
                   "[OPTION]... DATASET...");
  line.Arguments("DATASET", 1, SIZE_MAX, &arguments->paths);
  arguments->order.AddTo(&line);
  arguments->order.AddRankTo(&line);
  line.Count("--epoch", "E", &arguments->epoch, 0, UINT64_MAX - 1, "the epoch, counted from 0 [0]");
  line.Count("--from-step", "T", &arguments->from_step, 0, UINT64_MAX, "show steps from number T on [0]");
  line.Count("--steps", "N", &arguments->steps, 0, UINT64_MAX, "show at most N steps");
  line.Text("--cursor", "JSON", &arguments->cursor, "begin where this cursor stands, and in its epoch");
  line.Text("--label", "COL", &arguments->label,
            "say also how far equal values of this column stand in clumps (reads the column)");
  arguments->hashes.AddTo(&line);
  line.StoreOptions(StoreUse::kRead);
  line.Flag("--json", &arguments->json, "print one JSON document");
  line.Notes(
      "Nothing but manifests, block directories and ranges of blocks is read, except with --label. Steps are numbered\n"
      "from the start of the epoch; with a cursor that is no multiple of the batch size, the first is numbered up. A\n"
      "sample is its ordinal, or with several datasets [dataset, ordinal], datasets counted from 0. Scores are those\n"
      "of the epoch, at most of its first 4 million samples.");
  line.Example("shardctl plan photos --batch-size 256 --world-size 8 --rank 3 --from-step 1000 --steps 1",
               "which samples does rank 3 see in step 1000?");
  line.Example("shardctl plan web books --proportion 0.7,0.3 --seed 1 --json | jq .shuffle_score",
               "how well is a mixture of two datasets shuffled?");
  if (const std::optional<int> code = line.Parse(argc, argv)) return code;
  if (const absl::Status status = arguments->order.Finish(arguments->paths); !status.ok()) {
    return line.UsageError(std::string(status.message()));
  }
  return std::nullopt;
}

}  // namespace

int RunPlan(int argc, char** argv) {
  PlanArguments arguments;
  if (const std::optional<int> code = ParsePlanArguments(argc, argv, &arguments)) return *code;
  const auto plan =
      shardkit::PlanDatasets(*shardkit::DefaultFileSystem(), arguments.order.datasets, arguments.order.plan);
  if (!plan.ok()) return Fail(plan.status());
  const absl::StatusOr<Range> range = ChooseRange(**plan, arguments);
  if (!range.ok()) return Fail(range.status());
  const absl::StatusOr<PlanScores> scores =
      ScorePlan(**plan, range->cursor.epoch, arguments.order.datasets, arguments.label, arguments.hashes.verify());
  if (!scores.ok()) return Fail(scores.status());
  const absl::StatusOr<double> amplification =
      shardkit::ReadAmplification(**plan, range->cursor.epoch, arguments.order.world_size, kSamplesCounted);
  if (!amplification.ok()) return Fail(amplification.status());
  NoteRefusal(**plan, range->cursor.position, arguments.order.world_size);
  arguments.order.NoteClumps();
  PlanPrinter printer(**plan, arguments, *range, *scores, *amplification);
  if (arguments.json) {
    printer.PrintDocument();
  } else {
    printer.PrintText();
  }
  return printer.status().ok() ? kExitSuccess : Fail(printer.status());
}

}  // namespace shardctl
