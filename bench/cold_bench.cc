// Reads from the storage device. One measurement per call, so that bench/run can empty the page cache in between.
//
//   cold_bench drop FILE...                                  empties the page cache of the files
//   cold_bench scan DATASET buffered|direct THREADS          every value in order
//   cold_bench random DATASET COLUMN COUNT                   COUNT values in random order, direct

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <span>
#include <string_view>

#include "scan.h"
#include "shardkit/dataset_reader.h"
#include "timing.h"

using namespace shardkit;
using namespace shardkit::bench;

namespace {

// The share of a file's pages that is in the page cache.
double Resident(int file, size_t size) {
  if (size == 0) return 0;
  void* const map = mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
  if (map == MAP_FAILED) return 1;
  std::vector<unsigned char> pages((size + 4095) / 4096);
  const bool known = mincore(map, size, pages.data()) == 0;
  munmap(map, size);
  if (!known) return 1;
  return static_cast<double>(std::ranges::count_if(pages, [](unsigned char page) { return (page & 1) != 0; })) /
         static_cast<double>(pages.size());
}

int Drop(std::span<char*> paths) {
  double most = 0;
  for (const char* path : paths) {
    const int file = open(path, O_RDONLY);
    struct stat info;
    if (file < 0 || fstat(file, &info) != 0) {
      std::fprintf(stderr, "cold_bench: %s: %s\n", path, std::strerror(errno));
      return 1;
    }
    // Only clean pages can be dropped.
    fsync(file);
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    most = std::max(most, Resident(file, static_cast<size_t>(info.st_size)));
    close(file);
  }
  Report("share of a file still in the page cache", most, "of 1");
  return 0;
}

int Scan(const std::string& path, bool direct, int threads) {
  DatasetOptions options;
  options.mode = direct ? ReadMode::kDirect : ReadMode::kBuffered;
  uint64_t bytes = 0, stored = 0;
  const double seconds = Seconds([&] {
    const auto dataset = Must(DatasetReader::Open(*PosixFileSystem(), path, options));
    bytes = ScanAll(*dataset, threads);
    stored = dataset->summary().bytes;
  });
  if (bytes == 0) return 1;
  Report("rate", static_cast<double>(stored) / seconds, "B/s");
  return 0;
}

int Random(const std::string& path, const std::string& column_name, size_t count) {
  DatasetOptions options;
  options.mode = ReadMode::kDirect;
  const auto dataset = Must(DatasetReader::Open(*PosixFileSystem(), path, options));
  const size_t column = Must(dataset->FindColumn(column_name));
  std::vector<uint64_t> order(count);
  std::mt19937_64 random(std::random_device{}());
  for (uint64_t& sample : order) sample = random() % dataset->sample_count();
  // The queue becomes empty once between calls, so each call reads many times the queue's depth.
  constexpr size_t batch = 4096;
  std::vector<std::string_view> values(batch);
  BlockBuffer memory;
  uint64_t bytes = 0;
  const double seconds = Seconds([&] {
    for (size_t begin = 0; begin < order.size(); begin += batch) {
      const std::span<const uint64_t> samples =
          std::span<const uint64_t>(order).subspan(begin, std::min(batch, order.size() - begin));
      Must(dataset->ReadValues(samples, column, &memory, std::span(values).first(samples.size())));
      for (size_t i = 0; i < samples.size(); ++i) bytes += values[i].size();
    }
  });
  if (!dataset->fallback_reason().empty()) std::fprintf(stderr, "cold_bench: %s\n", dataset->fallback_reason().c_str());
  Report("values", static_cast<double>(count) / seconds, "/s");
  Report("mean length", static_cast<double>(bytes) / static_cast<double>(count), "bytes");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 2 ? argv[1] : "";
  if (what == "drop") return Drop(std::span(argv + 2, static_cast<size_t>(argc - 2)));
  if (what == "scan" && argc == 5) return Scan(argv[2], std::string_view(argv[3]) == "direct", std::atoi(argv[4]));
  if (what == "random" && argc == 5) return Random(argv[2], argv[3], std::strtoul(argv[4], nullptr, 10));
  std::fprintf(stderr, "usage: see the head of bench/cold_bench.cc\n");
  return 2;
}
