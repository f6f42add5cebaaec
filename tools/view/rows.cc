#include "view/rows.h"

#include <algorithm>
#include <future>
#include <random>
#include <set>

#include "shardctl/dataset_access.h"
#include "view/value.h"

namespace shardctl {
namespace {

constexpr size_t kMostCaptions = 20;

// Samples that one thread reads at least, one after another, where each takes requests of its own.
constexpr size_t kSamplesOfThread = 4;

// Passes the values of the samples to `take`, with their places in `ordinals`; on several threads at once where the
// dataset is far away. The errors go into `rows`.
template <typename Take>
void ReadColumn(const shardkit::DatasetReader& dataset, std::span<const uint64_t> ordinals, size_t column,
                WorkspacePool& pool, Json* rows, Take take) {
  const auto read = [&](size_t begin, size_t end) {
    // Value by value, because a workspace remembers its block.
    WorkspacePool::Lease workspace(pool);
    for (size_t i = begin; i < end; ++i) {
      const auto value = dataset.ReadValue(ordinals[i], column, &workspace->buffer);
      if (!value.ok()) {
        if ((*rows)[i]["error"].is_null()) (*rows)[i]["error"] = std::string(value.status().message());
      } else if (value->has_value()) {
        take((*rows)[i], **value);
      }
    }
  };
  if (!shardkit::IsUrl(dataset.path()) || dataset.container() == "shard") return read(0, ordinals.size());
  std::vector<std::future<void>> parts;
  constexpr size_t kThreads = WorkspacePool::kWorkspaces;
  const size_t share = std::max(kSamplesOfThread, (ordinals.size() + kThreads - 1) / kThreads);
  for (size_t begin = 0; begin < ordinals.size(); begin += share) {
    parts.push_back(std::async(std::launch::async, read, begin, std::min(begin + share, ordinals.size())));
  }
  for (std::future<void>& part : parts) part.get();
}

}  // namespace

RowOptions RowOptionsOf(const Request& request) {
  RowOptions options;
  options.image = request.Text("image");
  const auto [begin, end] = request.parameters.equal_range("captions");
  for (auto each = begin; each != end && options.captions.size() < kMostCaptions; ++each) {
    options.captions.push_back(each->second);
  }
  return options;
}

std::vector<uint64_t> DrawSamples(uint64_t samples, uint64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::set<uint64_t> seen;
  std::vector<uint64_t> drawn;
  while (drawn.size() < std::min(count, samples)) {
    // The remainder prefers small ordinals by less than one in 2^16, for less than 2^48 samples.
    const uint64_t ordinal = random() % samples;
    if (seen.insert(ordinal).second) drawn.push_back(ordinal);
  }
  return drawn;
}

absl::StatusOr<Json> ReadRows(const Snapshot& snapshot, std::span<const uint64_t> ordinals, const RowOptions& options,
                              WorkspacePool& pool) {
  const shardkit::DatasetReader& dataset = *snapshot.reader;
  std::vector<size_t> captions;
  for (const std::string& name : options.captions) {
    const auto column = dataset.FindColumn(name);
    if (!column.ok()) return column.status();
    captions.push_back(*column);
  }
  if (!options.image.empty()) {
    const auto column = dataset.FindColumn(options.image);
    if (!column.ok()) return column.status();
  }
  Json rows = Json::array();
  for (const uint64_t ordinal : ordinals) {
    rows.push_back({{"ordinal", ordinal},
                    {"key", nullptr},
                    {"captions", Json::array()},
                    {"image", !options.image.empty()},
                    {"error", nullptr}});
  }
  if (const auto key = KeyColumn(dataset)) {
    ReadColumn(dataset, ordinals, *key, pool, &rows, [](Json& row, std::string_view value) { row["key"] = value; });
  }
  for (const size_t caption : captions) {
    const shardkit::Column& column = dataset.columns()[caption];
    const std::vector<std::string> classes = ShownClasses(column);
    ReadColumn(dataset, ordinals, caption, pool, &rows, [&](Json& row, std::string_view value) {
      row["captions"].push_back({{"column", column.name}, {"text", CaptionText(column, classes, value)}});
    });
  }
  return rows;
}

}  // namespace shardctl
