// Measures what a training job does with a dataset before its first sample, and what grows with the dataset.
//
//   scale_bench SHARDS SAMPLES [keys|blocks]
//
// Makes two datasets in memory, each of SHARDS shards of SAMPLES samples: a number, and with "keys" a key; with
// "blocks" each sample is a block. Prints what opening one takes, its manifest, a plan, an epoch's order, one step of
// it for one rank, a cursor, a key, and merging both.
#include <malloc.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "shardkit/copy.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/dataset_writer.h"
#include "shardkit/loader.h"
#include "timing.h"

using namespace shardkit;
using namespace shardkit::bench;

namespace {

// MiB that the process has in memory now.
double Resident() {
  malloc_trim(0);
  unsigned long pages = 0;
  if (std::FILE* const file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%*u %lu", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  return static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

void Write(FileSystem& files, const std::string& path, uint64_t shards, uint64_t samples, std::string_view what,
           uint64_t first) {
  const bool keys = what == "keys";
  const Column key{.name = "key", .type = Type::kUtf8, .codec = Codec::kZstd, .is_key = true};
  const Column number{.name = "number", .type = Type::kI64, .codec = Codec::kZstd};
  std::vector<Column> columns = {number};
  if (keys) columns.insert(columns.begin(), key);
  DatasetWriterOptions options;
  options.shard_samples = samples;
  options.shard.alignment = 64;
  options.sync = false;
  if (what == "blocks") options.shard.max_block_samples = 1;
  const auto writer = Must(DatasetWriter::Create(files, path, Must(Schema::Create(columns)), options));
  std::string name;
  for (uint64_t i = 0; i < shards * samples; ++i) {
    const uint64_t value = first + i;
    char bytes[8];
    std::memcpy(bytes, &value, 8);
    Sample sample;
    if (keys) sample.key = name = std::to_string(value);
    sample.fields.push_back({&number, Value(std::string_view(bytes, 8))});
    Must(writer->Append(sample));
  }
  Must(writer->Finish());
}

// The median of a few rounds, in seconds.
template <typename Work>
double Median5(Work work) {
  std::vector<double> seconds;
  for (int round = 0; round < 5; ++round) seconds.push_back(Seconds(work));
  return Median(seconds);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const uint64_t shards = std::strtoull(argv[1], nullptr, 10), samples = std::strtoull(argv[2], nullptr, 10);
  const std::string_view what = argc > 3 ? argv[3] : "";
  const bool keys = what == "keys";
  const std::unique_ptr<FileSystem> files = NewMemoryFileSystem();
  Report("packing", Seconds([&] { Write(*files, "/one", shards, samples, what, 0); }), "s");

  const double before = Resident();
  std::unique_ptr<DatasetReader> reader;
  Report("opening", 1e3 * Median5([&] { reader = Must(DatasetReader::Open(*files, "/one")); }), "ms");
  Report("memory of an open dataset", Resident() - before, "MiB");
  Report("whole manifest", 1e3 * Median5([&] { Must(reader->ReadManifest()); }), "ms");

  const LoaderDataset datasets[] = {{.path = "/one"}};
  PlanOptions options{.seed = 1, .batch_size = 4096};
  const double unplanned = Resident();
  std::shared_ptr<const Plan> plan;
  Report("plan", 1e3 * Median5([&] { plan = Must(PlanDatasets(*files, datasets, options)); }), "ms");
  Report("memory of a plan", Resident() - unplanned, "MiB");
  const double unordered = Resident();
  std::shared_ptr<const EpochOrder> order;
  const Step middle = plan->StepAt(0, plan->StepsFrom(0) / 2);
  // In sections, that of the step is read and put in order, too.
  Report("order of an epoch", 1e3 * Median5([&] { order = Must(plan->Epoch(1)->Covering(middle)); }), "ms");
  Report("memory of an order", Resident() - unordered, "MiB");
  uint64_t sum = 0;
  Report("a step of 4096 samples, one rank of 8", 1e6 * Median5([&] {
                                                    for (const uint64_t position : order->RankPositions(middle, 3, 8)) {
                                                      sum += order->At(position % order->size()).ordinal;
                                                    }
                                                  }),
         "us");
  Report(
      "a cursor, written, read and checked",
      1e6 * Median5([&] {
        const Cursor cursor = Must(ParseCursor(FormatCursor({1, plan->samples_per_epoch() / 2, plan->fingerprint()})));
        Must(plan->CheckCursor(cursor));
      }),
      "us");
  if (keys) {
    BlockBuffer buffer;
    uint64_t wanted = 0;
    Report("a key", 1e6 / 100 * Median5([&] {
                      for (int i = 0; i < 100; ++i) {
                        wanted = (wanted * 6364136223846793005 + 1442695040888963407);
                        const uint64_t sample = wanted % (shards * samples);
                        if (Must(reader->FindKey(std::to_string(sample), &buffer)) != sample) std::exit(1);
                      }
                    }),
           "us");
  }
  order.reset();
  plan.reset();
  reader.reset();
  Write(*files, "/two", shards, samples, what, shards * samples);
  Report("merging two", Seconds([&] { Must(MergeDatasets(*files, {"/one", "/two"}, "/both")); }), "s");
  return sum == 0;
}
