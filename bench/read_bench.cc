// Reading a dataset, compared with a plain loop over the same files.
//
//   read_bench DATASET [--column NAME] [--rounds N]
//
// Yardstick: read(2) of the shard files in pieces of 1 MiB into one buffer. Each piece is hashed once with the inlined
// XXH3, built for this machine's processor (the fastest hash available here).

#define XXH_INLINE_ALL
#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <thread>

#include "scan.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/validate.h"
#include "timing.h"

using namespace shardkit;
using namespace shardkit::bench;

namespace {

std::atomic<uint64_t> sink = 0;  // keeps the compiler from dropping work

void BareLoop(const std::vector<std::string>& paths, char* buffer, size_t piece) {
  uint64_t hash = 0;
  for (const std::string& path : paths) {
    const int file = open(path.c_str(), O_RDONLY);
    for (;;) {
      const ssize_t got = read(file, buffer, piece);
      if (got <= 0) break;
      hash += XXH3_64bits(buffer, static_cast<size_t>(got));
    }
    close(file);
  }
  sink += hash;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string path = argv[1];
  std::string column_name;
  int rounds = 9;
  for (int i = 2; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--column") == 0) column_name = argv[i + 1];
    if (std::strcmp(argv[i], "--rounds") == 0) rounds = std::atoi(argv[i + 1]);
  }
  FileSystem& files = *PosixFileSystem();
  const auto dataset = Must(DatasetReader::Open(files, path));
  DatasetOptions mapped_options;
  mapped_options.mode = ReadMode::kMapped;
  const auto mapped = Must(DatasetReader::Open(files, path, mapped_options));

  std::vector<std::string> paths;
  const Manifest manifest = Must(dataset->ReadManifest());
  for (const ManifestShard& shard : manifest.shards) paths.push_back(JoinPath(path, shard.name));
  const auto buffer = std::make_unique<char[]>(size_t{4} << 20);

  std::vector<Contender> contenders;
  contenders.push_back({"bare loop, 1 MiB", [&] { BareLoop(paths, buffer.get(), size_t{1} << 20); }, {}, {}});
  const auto second_buffer = std::make_unique<char[]>(size_t{4} << 20);
  contenders.push_back({"bare loop, 2 threads, each the whole",
                        [&] {
                          std::thread other([&] { BareLoop(paths, second_buffer.get(), size_t{1} << 20); });
                          BareLoop(paths, buffer.get(), size_t{1} << 20);
                          other.join();
                        },
                        {},
                        {}});
  contenders.push_back({"scan, 1 thread", [&] { sink += ScanAll(*dataset, 0); }, {}, {}});
  contenders.push_back({"scan, 2 threads", [&] { sink += ScanAll(*dataset, 2); }, {}, {}});
  contenders.push_back({"scan, memory map, 1 thread", [&] { sink += ScanAll(*mapped, 0); }, {}, {}});
  contenders.push_back({"scan, memory map, 2 threads", [&] { sink += ScanAll(*mapped, 2); }, {}, {}});
  contenders.push_back({"validate, 2 threads",
                        [&] {
                          ValidateOptions options;
                          options.threads = 2;
                          if (!Must(Validate(files, path, options)).ok()) std::exit(1);
                        },
                        {},
                        {}});
  RunAlternating(contenders, rounds);
  const double bytes = static_cast<double>(dataset->summary().bytes);
  const double samples = static_cast<double>(dataset->sample_count());
  for (const Contender& contender : contenders) {
    const double seconds = Median(contender.seconds);
    Report(contender.name + ": rate", bytes / seconds / 1e9, "GB/s");
    Report(contender.name + ": samples", samples / seconds, "samples/s");
    Report(contender.name + ": processor", 1e6 * Median(contender.processor_seconds) / samples,
           "s per million samples");
    Report(contender.name + ": ratio to the bare loop", SpeedRatio(contender, contenders[0]), "x");
    Report(contender.name + ": processor time, ratio to the bare loop", ProcessorRatio(contender, contenders[0]), "x");
  }

  if (column_name.empty()) return sink == 42;
  const size_t column = Must(mapped->FindColumn(column_name));
  std::vector<uint64_t> order(500000);
  std::mt19937_64 random(1);
  for (uint64_t& sample : order) sample = random() % dataset->sample_count();
  std::vector<Contender> random_access;
  BlockBuffer memory;
  random_access.push_back({"random values, memory map, 1 thread",
                           [&] {
                             for (const uint64_t sample : order)
                               sink += Must(mapped->ReadValue(sample, column, &memory))->size();
                           },
                           {},
                           {}});
  random_access.push_back({"random values, positioned reads, 1 thread",
                           [&] {
                             for (const uint64_t sample : order)
                               sink += Must(dataset->ReadValue(sample, column, &memory))->size();
                           },
                           {},
                           {}});
  RunAlternating(random_access, 5);
  for (const Contender& contender : random_access) {
    const double samples_read = static_cast<double>(order.size());
    Report(contender.name, samples_read / Median(contender.seconds), "samples/s");
    Report(contender.name + ": processor", 1e6 * Median(contender.processor_seconds) / samples_read,
           "s per million samples");
  }
  return sink == 42;
}
