#include "order_options.h"

#include <functional>

#include "dataset_access.h"
#include "numbers.h"
#include "report.h"
#include "shardkit/plan.h"

namespace shardctl {
namespace {

constexpr const char* kOrders[] = {"sequential", "shuffled", "window"};
constexpr const char* kRemainders[] = {"keep", "drop", "pad"};
constexpr double kMostTimes = 1e9;  // the largest --repeat
constexpr uint64_t kMostSamples = uint64_t{1} << 47;

// Calls `take` with each dataset and its element of the list.
absl::Status ForEach(const std::string& option, const std::optional<std::string>& list,
                     std::vector<shardkit::LoaderDataset>* datasets,
                     const std::function<absl::Status(const std::string&, shardkit::LoaderDataset*)>& take) {
  if (!list.has_value()) return absl::OkStatus();
  const std::vector<std::string> parts = SplitAtCommas(*list);
  if (parts.size() != datasets->size()) {
    return absl::InvalidArgumentError(option + ": " + Counted(parts.size(), "value") + " for " +
                                      Counted(datasets->size(), "dataset") + "; give one for each, A,B,...");
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    const absl::Status status = take(parts[i], &(*datasets)[i]);
    if (!status.ok()) return absl::InvalidArgumentError(option + ": " + std::string(status.message()));
  }
  return absl::OkStatus();
}

}  // namespace

std::string OrderName(shardkit::SampleOrder order) { return kOrders[static_cast<size_t>(order)]; }
std::string RemainderName(shardkit::Remainder remainder) { return kRemainders[static_cast<size_t>(remainder)]; }

std::vector<std::string> SplitAtCommas(const std::string& text) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (true) {
    const size_t comma = text.find(',', begin);
    parts.push_back(text.substr(begin, comma - begin));
    if (comma == std::string::npos) return parts;
    begin = comma + 1;
  }
}

OrderOptions::OrderOptions() : order_(static_cast<size_t>(plan.order)) { plan.batch_size = 64; }

void OrderOptions::AddTo(CommandLine* line, const std::string& shuffle_buffer) {
  line->Count("--batch-size", "N", &plan.batch_size, 1, kMostSamples, "samples of a step, over all ranks [64]");
  line->Count("--seed", "S", &plan.seed, 0, UINT64_MAX, "what the random order is made from [0]");
  line->Choice("--order", "ORDER", {std::begin(kOrders), std::end(kOrders)}, &order_,
               "sequential (as stored), shuffled (blocks in random order, samples shuffled in the buffer) or "
               "window (blocks as stored, samples shuffled in the buffer) [shuffled]");
  line->Size("--shuffle-buffer", &shuffle_buffer_,
             "bytes that samples are shuffled in, over all ranks [" + shuffle_buffer + "]");
  line->Count("--lanes", "N", &lanes_, 1, 65536,
              "canonical streams of the shuffled order [up to 120, found from the buffer]");
  line->Count("--expect-world-size", "W", &plan.expected_world_size, 1, 65536,
              "choose lanes so that W ranks read only what is theirs; of several, their least common multiple");
  line->Flag("--locality", &plan.locality,
             "let lanes keep their blocks in all epochs, so that nodes find again what they have cached");
  line->Choice("--remainder", "ACTION", {std::begin(kRemainders), std::end(kRemainders)}, &remainder_,
               "samples that do not fill the last step: keep (a smaller step), drop, or pad with the first of "
               "the epoch [keep]");
  line->Count("--world-size", "W", &world_size, 1, UINT32_MAX, "ranks that share each step [1]");
  line->Text("--proportion", "A,B,...", &proportion_, "mix datasets in these shares of an epoch, one for each");
  line->Text("--repeat", "A,B,...", &repeat_, "take each dataset's samples so many times an epoch");
  line->Text("--choose", "A,B,...", &choose_, "take so many samples of each dataset an epoch; all: each once");
  line->Text("--at", "A,B,...", &at_,
             "read each dataset as it was in this generation, which shardctl history lists [the newest]");
  line->Count("--epoch-samples", "N", &plan.epoch_samples, 1, kMostSamples,
              "samples of an epoch, with --proportion [the sum of all datasets']");
}

void OrderOptions::AddRankTo(CommandLine* line) {
  line->Count("--rank", "R", &rank, 0, UINT32_MAX, "this one of the ranks, counted from 0");
}

absl::Status OrderOptions::Finish(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) datasets.emplace_back().path = path;
  plan.order = static_cast<shardkit::SampleOrder>(order_);
  plan.remainder = static_cast<shardkit::Remainder>(remainder_);
  plan.lanes = static_cast<uint32_t>(lanes_);
  if (shuffle_buffer_given()) plan.shuffle_buffer_bytes = shuffle_buffer_;
  if (rank.has_value() && *rank >= world_size) {
    return absl::InvalidArgumentError("--rank: " + std::to_string(*rank) + " is not below --world-size, " +
                                      std::to_string(world_size));
  }
  absl::Status status = ForEach("--proportion", proportion_, &datasets, [](const std::string& text, auto* dataset) {
    const absl::StatusOr<double> number = ParseNumber(text, 1e-9, 1e9);
    if (number.ok()) dataset->proportion = *number;
    return number.status();
  });
  if (!status.ok()) return status;
  status = ForEach("--repeat", repeat_, &datasets, [](const std::string& text, auto* dataset) {
    const absl::StatusOr<double> number = ParseNumber(text, 1e-9, kMostTimes);
    // 1 is the default. It is not set, so that another option can be given for this dataset.
    if (number.ok() && *number != 1) dataset->repeat = *number;
    return number.status();
  });
  if (!status.ok()) return status;
  status = ForEach("--at", at_, &datasets, [](const std::string& text, auto* dataset) {
    const absl::StatusOr<uint64_t> number = ParseCount(text, 1, UINT64_MAX);
    if (number.ok()) dataset->generation = *number;
    return number.status();
  });
  if (!status.ok()) return status;
  return ForEach("--choose", choose_, &datasets, [](const std::string& text, auto* dataset) {
    if (text == "all") return absl::OkStatus();
    const absl::StatusOr<uint64_t> number = ParseCount(text, 1, kMostSamples);
    if (number.ok()) dataset->choose = *number;
    return number.status();
  });
}

void OrderOptions::NoteClumps() const {
  if (plan.order != shardkit::SampleOrder::kShuffled) return;
  for (const shardkit::LoaderDataset& from : datasets) {
    // What is wrong with the dataset is said elsewhere.
    const auto dataset = OpenDataset(from.path, {}, {}, from.generation);
    if (!dataset.ok() || (*dataset)->summary().bytes <= plan.shuffle_buffer_bytes) continue;
    const absl::StatusOr<std::vector<std::string>> columns = shardkit::ClumpedColumns(**dataset);
    for (const std::string& column : columns.ok() ? *columns : std::vector<std::string>()) {
      Note(from.path + ": equal values of column " + Quote(column) +
           " stand together, most blocks having one alone, and a shuffle buffer mixes few blocks; shardctl reshard "
           "--shuffle mixes all, once for good");
    }
  }
}

}  // namespace shardctl
