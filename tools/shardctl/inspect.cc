// shardctl inspect
#include "inspect.h"

#include <string>
#include <vector>

#include "command_line.h"
#include "dataset_access.h"
#include "report.h"
#include "shardkit/filesystem.h"
#include "verbs.h"

namespace shardctl {
namespace {

int InspectOneShard(const shardkit::DatasetReader& dataset, uint64_t index, const shardkit::ReadOptions& read,
                    bool json) {
  if (index >= dataset.shard_count()) {
    return Fail(absl::OutOfRangeError(dataset.path() + ": there is no shard " + std::to_string(index) + ": it has " +
                                      std::to_string(dataset.shard_count())));
  }
  const absl::StatusOr<std::shared_ptr<const shardkit::ShardReader>> shard = dataset.OpenShard(index);
  if (!shard.ok()) return Fail(shard.status());
  const auto alone = OpenDataset((*shard)->path(), read);
  if (!alone.ok()) return Fail(alone.status());
  return InspectDataset(**alone, json);
}

}  // namespace

int RunInspect(int argc, char** argv) {
  CommandLine line("inspect", "describe a dataset, shard, block or sample", "[OPTION]... PATH");
  std::vector<std::string> paths;
  SampleOption sample;
  std::optional<uint64_t> shard;
  std::optional<uint64_t> block;
  DecompressionOption decompression;
  HashOption hashes;
  AtOption at;
  bool json = false;
  line.Arguments("PATH", 1, 1, &paths);
  sample.AddTo(&line);
  line.Count("--shard", "I", &shard, 0, UINT64_MAX, "the shard at this place in the dataset, counted from 0");
  line.Count("--block", "J", &block, 0, UINT64_MAX,
             "this block of the shard, counted from 0 (of shard 0 unless --shard)");
  decompression.AddTo(&line);
  hashes.AddTo(&line);
  at.AddTo(&line);
  line.StoreOptions(StoreUse::kRead);
  line.Flag("--json", &json, "print one JSON document");
  line.Notes("Sizes marked ~ come from a histogram and are at most so much, and at least half of it.");
  line.Example("shardctl inspect photos", "what is in it: columns, types, sizes, ratios");
  line.Example("shardctl inspect photos --key n01440764_tench", "every value of one sample");
  line.Example("shardctl inspect photos --shard 2 --block 0", "where a block lies and what each column takes in it");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  if (sample.sample.has_value() && sample.key.has_value()) {
    return line.UsageError("--sample and --key cannot be combined");
  }
  if (sample.given() && (shard.has_value() || block.has_value())) {
    return line.UsageError("a sample and a shard or block cannot be asked for at once");
  }

  shardkit::ReadOptions read;
  read.max_decompression = decompression.bytes();
  read.verify_listed_hashes = hashes.verify();
  const absl::StatusOr<std::unique_ptr<shardkit::DatasetReader>> dataset =
      OpenDataset(paths[0], read, {}, at.generation());
  if (!dataset.ok()) return Fail(dataset.status());
  if (sample.given()) {
    const absl::StatusOr<uint64_t> ordinal = sample.Find(**dataset);
    return ordinal.ok() ? InspectSample(**dataset, *ordinal, json) : Fail(ordinal.status());
  }
  if (block.has_value()) return InspectBlock(**dataset, shard.value_or(0), *block, json);
  if (shard.has_value()) return InspectOneShard(**dataset, *shard, read, json);
  return InspectDataset(**dataset, json);
}

}  // namespace shardctl
