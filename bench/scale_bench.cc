// Measures what a training job does with a dataset before its first sample, and what grows with the dataset.
//
//   scale_bench SHARDS SAMPLES [keys|blocks]
//   scale_bench link SHARDS SAMPLES DATASET
//   scale_bench rank DATASET RANK WORLD_SIZE
//   scale_bench locks small|images|masks|pack|validate PATH THREADS RECORD
//
// The first makes two datasets in memory, each of SHARDS shards of SAMPLES samples: a number, and with "keys" a key;
// with "blocks" each sample is a block. Prints what opening one takes, its manifest, a plan, an epoch's order, one step
// of it for one rank, a cursor, a key, and merging both.
//
// "link" makes a dataset on disk, of SHARDS shards (a power of ten) of SAMPLES samples of 1 KiB in 64 blocks. Ten
// shards are written; the others are hard links to them, with a manifest and an index as of any other dataset. "rank"
// reads such a dataset as one rank of a job does, with the default options and batches of 4096 over all ranks. Prints
// what its first batch takes, finding any step, its first batch after resuming there, walking through the plan of an
// epoch, and the memory of the process.
//
// "locks" delivers two epochs of a dataset in batches, packs files, or validates, and prints for each thread its
// processor time and the locks it took, with RECORD 1 (locks.h).
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <random>

#include "locks.h"
#include "shardkit/copy.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/dataset_writer.h"
#include "shardkit/loader.h"
#include "shardkit/pack.h"
#include "shardkit/source.h"
#include "shardkit/validate.h"
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

constexpr size_t kLinkedValue = 1024;   // bytes
constexpr uint64_t kLinkedBlocks = 64;  // of a shard, as of one of 256 MiB by default

void Write(FileSystem& files, const std::string& path, uint64_t shards, uint64_t samples, std::string_view what,
           uint64_t first) {
  const bool keys = what == "keys", link = what == "link";
  const Column key{.name = "key", .type = Type::kUtf8, .codec = Codec::kZstd, .is_key = true};
  const Column number = link ? Column{.name = "bin", .type = Type::kBytes}
                             : Column{.name = "number", .type = Type::kI64, .codec = Codec::kZstd};
  std::vector<Column> columns = {number};
  if (keys) columns.insert(columns.begin(), key);
  DatasetWriterOptions options;
  options.shard_samples = samples;
  options.shard.alignment = 64;
  options.sync = false;
  if (what == "blocks") options.shard.max_block_samples = 1;
  if (link) options.shard.max_block_samples = static_cast<uint32_t>((samples + kLinkedBlocks - 1) / kLinkedBlocks);
  const auto writer = Must(DatasetWriter::Create(files, path, Must(Schema::Create(columns)), options));
  std::string name;
  std::string bytes(link ? kLinkedValue : 8, '\0');
  for (uint64_t i = 0; i < shards * samples; ++i) {
    const uint64_t value = first + i;
    std::memcpy(bytes.data(), &value, 8);
    Sample sample;
    if (keys) sample.key = name = std::to_string(value);
    sample.fields.push_back({&number, Value(std::string_view(bytes))});
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

int Link(uint64_t shards, uint64_t samples, const std::string& path) {
  constexpr uint64_t kWritten = 10;
  FileSystem& files = *PosixFileSystem();
  std::string made = path + ".10";
  Write(files, made, kWritten, samples, "link", 0);
  for (uint64_t count = kWritten; count < shards; count *= 10) {
    const std::string next = count * 10 < shards ? path + "." + std::to_string(count * 10) : path;
    MergeOptions options;
    options.keep_repeated_keys = true;  // equal shards
    Must(MergeDatasets(files, std::vector<std::string>(10, made), next, options));
    Must(RemoveTree(files, made));
    made = next;
  }
  return 0;
}

// The most MiB that the process has had in memory.
double PeakResident() {
  unsigned long peak = 0;
  char line[256];
  if (std::FILE* const file = std::fopen("/proc/self/status", "r")) {
    while (std::fgets(line, sizeof(line), file) != nullptr && std::sscanf(line, "VmHWM: %lu kB", &peak) != 1) {
    }
    std::fclose(file);
  }
  return static_cast<double>(peak) / 1024;
}

int Rank(const std::string& path, uint64_t rank, uint64_t world_size) {
  FileSystem& files = *PosixFileSystem();
  LoaderOptions options;
  options.plan.seed = 1;
  options.plan.batch_size = 4096;
  options.rank = rank;
  options.world_size = world_size;
  options.epochs = 0;
  std::unique_ptr<Loader> loader;
  uint64_t samples = 0;
  const auto open = [&] { loader = Must(Loader::Open(files, {{.path = path}}, options)); };
  const auto next = [&] { samples += Must(loader->Next())->size(); };
  Report("opening a loader", 1e3 * Seconds(open), "ms");
  Report("first batch after that", 1e3 * Seconds(next), "ms");
  constexpr int kBatches = 500;
  for (int i = 0; i < kBatches; ++i) next();
  const LoaderReport report = loader->Report();
  Report("memory of the rank after 500 batches, at its peak", PeakResident(), "MiB");
  Report("of this blocks", static_cast<double>(report.peak_block_memory) / (1 << 20), "MiB");
  Report("of this batches", static_cast<double>(report.peak_batch_memory) / (1 << 20), "MiB");

  loader.reset();

  const LoaderDataset datasets[] = {{.path = path}};
  const std::shared_ptr<const Plan> plan = Must(PlanDatasets(files, datasets, options.plan));
  // A step that a cursor may stand at, in an epoch that nothing is known of.
  std::mt19937_64 random(1);
  const auto any_step = [&] { return plan->StepAt(0, random() % plan->StepsFrom(0)); };
  std::vector<double> seconds, processor;
  for (int i = 0; i < 20; ++i) {
    const double before = ProcessorSeconds();
    seconds.push_back(Seconds([&] {
      const Step step = any_step();
      const auto order = Must(plan->Epoch(random() % 100)->Covering(step));
      for (const uint64_t position : order->RankPositions(step, rank, world_size)) {
        samples += order->BlockOf(order->At(position % order->size())).sample_count;
      }
    }));
    processor.push_back(ProcessorSeconds() - before);
  }
  Report("finding the samples of any step, median of 20", 1e3 * Median(seconds), "ms");
  Report("the slowest of these", 1e3 * std::ranges::max(seconds), "ms");
  Report("processor time of these, median", 1e3 * Median(processor), "ms");
  seconds.clear();
  for (int i = 0; i < 5; ++i) {
    options.cursor = plan->At(random() % 100, any_step().begin);
    loader.reset();
    seconds.push_back(Seconds([&] {
      open();
      next();
    }));
  }
  Report("opening a loader at any step, and its first batch, median of 5", 1e3 * Median(seconds), "ms");
  Report("the slowest of them", 1e3 * std::ranges::max(seconds), "ms");
  loader.reset();

  const double before = ProcessorSeconds();
  Report("all steps of an epoch, the samples of the rank", Seconds([&] {
           auto order = plan->Epoch(1);
           for (uint64_t i = 0, steps = plan->StepsFrom(0); i < steps; ++i) {
             const Step step = plan->StepAt(0, i);
             order = Must(order->Covering(step));
             for (const uint64_t position : order->RankPositions(step, rank, world_size)) {
               samples += order->BlockOf(order->At(position % order->size())).sample_count;
             }
           }
         }),
         "s");
  Report("processor time of this", ProcessorSeconds() - before, "s");
  Report("memory of the rank in the end, at its peak", PeakResident(), "MiB");
  return samples == 0;
}

// Prints what each thread did, and where: as offsets in this program, which have names in its table of symbols.
void TellLocks(uint64_t units, double processor_seconds, uint64_t switches) {
  Dl_info self{};
  (void)dladdr(reinterpret_cast<const void*>(&TellLocks), &self);
  std::printf("{\"units\": %" PRIu64 ", \"seconds\": %.9g, \"switches\": %" PRIu64 ", \"threads\": [", units,
              processor_seconds, switches);
  const char* before = "";
  for (const LockingThread* thread = locking_threads; thread != nullptr; thread = thread->next) {
    std::printf("%s{\"main\": %s, \"nanoseconds\": %" PRId64 ", \"wakes\": %" PRIu64 ", \"sites\": [",
                std::exchange(before, ", "), thread == this_record.thread ? "true" : "false",
                thread->end.load() - thread->begin, thread->wakes);
    const char* comma = "";
    for (const LockSite& site : thread->sites) {
      std::printf(
          "%s[%td, %" PRIuPTR ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRId64 "]", std::exchange(comma, ", "),
          static_cast<const char*>(site.caller) - static_cast<const char*>(self.dli_fbase),
          site.many ? 0 : reinterpret_cast<uintptr_t>(site.mutex), site.taken, site.waited, site.wakes, site.held);
    }
    std::printf("]}");
  }
  std::printf("]}\n");
}

uint64_t Switches() {
  rusage usage{};
  (void)getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_nvcsw + usage.ru_nivcsw);
}

LoaderOptions LoadingOf(std::string_view what, int threads) {
  LoaderOptions options;
  options.plan.seed = 1;
  options.plan.batch_size = what == "small" ? 256 : what == "images" ? 64 : 8;
  options.columns = {{.name = "bin"}};
  if (what == "images") {
    options.columns = {{.name = "jpg", .decode = ColumnDecode::kImage}};
    options.geometry.kind = GeometryOptions::Kind::kRandomResizedCrop;
  } else if (what == "masks") {
    options.columns = {{.name = "masks", .decode = ColumnDecode::kMasks}};
    options.geometry.kind = GeometryOptions::Kind::kResize;
  }
  if (what != "small") options.geometry.width = 224;
  options.decode_threads = options.read_threads = threads;
  options.epochs = 0;
  return options;
}

// Without `record` only the processor time is measured, which recording adds to.
int Locks(std::string_view what, const std::string& path, int threads, bool record) {
  FileSystem& files = *PosixFileSystem();
  uint64_t units = 0, switches = 0;
  double seconds = 0;
  MeasureClock();
  const auto measure = [&](const std::function<void()>& work) {
    recording = record;
    ThisThread();
    switches = Switches();
    seconds = ProcessorSeconds();
    work();
    seconds = ProcessorSeconds() - seconds;
    switches = Switches() - switches;
    StopRecording();
  };
  if (what == "pack") {
    const auto source = Must(OpenSource("files", {path}));
    PackOptions options;
    options.dataset.threads = threads;
    options.dataset.sync = false;
    measure([&] { units = Must(Pack(files, *source, path + ".packed", options)).samples; });
    Must(RemoveTree(files, path + ".packed"));
  } else if (what == "validate") {
    units = Must(DatasetReader::Open(files, path))->sample_count();
    ValidateOptions options;
    options.threads = threads;
    measure([&] { Must(Validate(files, path, options)); });
  } else {
    const auto loader = Must(Loader::Open(files, {{.path = path}}, LoadingOf(what, threads)));
    const uint64_t epoch = loader->steps_left();
    for (uint64_t i = 0; i < epoch; ++i) Must(loader->Next());  // memory is new
    measure([&] {
      for (; units < 2 * epoch; ++units) Must(loader->Next());
    });
  }
  TellLocks(units, seconds, switches);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const auto number = [&](int i) { return std::strtoull(argv[i], nullptr, 10); };
  if (argc == 5 && std::string_view(argv[1]) == "link") return Link(number(2), number(3), argv[4]);
  if (argc == 5 && std::string_view(argv[1]) == "rank") return Rank(argv[2], number(3), number(4));
  if (argc == 6 && std::string_view(argv[1]) == "locks")
    return Locks(argv[2], argv[3], static_cast<int>(number(4)), number(5) != 0);
  const uint64_t shards = number(1), samples = number(2);
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
