#include "ceilings.h"

#include <turbojpeg.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>

#include "bench_loop.h"
#include "dataset_access.h"
#include "shardkit/remote.h"

namespace shardctl {
namespace {

// Tests of the command do not look at speeds.
const double kHaste = std::getenv("SHARDKIT_TEST_HASTE") != nullptr ? 0.1 : 1;
const double kStorageSeconds = 5 * kHaste;  // at most
const double kWarmSeconds = 0.3 * kHaste;   // at least, in whole passes
const double kCopySeconds = 0.3 * kHaste;   // at least
const double kJpegSeconds = 0.7 * kHaste;   // at least, in whole passes
constexpr uint64_t kPiece = 8 << 20;        // bytes of a file that one thread reads in a row
constexpr uint64_t kBufferedRead =
    1 << 20;  // bytes of one read through the page cache: small enough for the processor's caches
constexpr size_t kCopyBytes = 64 << 20;
constexpr uint64_t kMostImages = 256;
constexpr uint64_t kMostImageBytes = 128 << 20;
constexpr uint64_t kMostPixels = uint64_t{1} << 27;

// The compiler could remove work whose result is not used.
volatile uint64_t unused_result = 0;

void RunThreads(int count, const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int i = 1; i < count; ++i) threads.emplace_back(work, i);
  work(0);
  for (std::thread& thread : threads) thread.join();
}

// Behind a network, where a range is best asked for whole, and many of them at once.
bool IsFarAway(const shardkit::RandomAccessFile& file) { return file.hints().worth_reading_again; }

struct Piece {
  size_t file = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
};

absl::Status ReadPiece(const shardkit::RandomAccessFile& file, const Piece& piece, std::vector<char>* aligned) {
  if (const auto mapped = file.Mapped()) {
    uint64_t sum = 0;
    for (uint64_t at = piece.begin; at + sizeof(uint64_t) <= piece.end; at += sizeof(uint64_t)) {
      uint64_t word;
      std::memcpy(&word, mapped->data() + at, sizeof(word));
      sum += word;
    }
    unused_result = sum;
    return absl::OkStatus();
  }
  const uint64_t step = file.alignment() > 1 || IsFarAway(file) ? kPiece : kBufferedRead;
  const uintptr_t address = reinterpret_cast<uintptr_t>(aligned->data());
  char* const to = aligned->data() + (4096 - address % 4096) % 4096;
  for (uint64_t at = piece.begin; at < piece.end; at += step) {
    const absl::Status status = file.ReadAt(at, {to, static_cast<size_t>(std::min(step, piece.end - at))});
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// JPEG files, evenly spread over the dataset.
struct Images {
  std::vector<std::string> files;
  double present = 0;
};

absl::StatusOr<Images> CollectImages(const shardkit::LoaderDataset& from, const std::string& column,
                                     shardkit::ReadOptions read) {
  read.mode = shardkit::ReadMode::kBuffered;
  const auto dataset = OpenDataset(from.path, read, {column}, from.generation);
  if (!dataset.ok()) return dataset.status();
  const uint64_t samples = (*dataset)->sample_count();
  const uint64_t wanted = std::min(samples, kMostImages);
  Images images;
  shardkit::BlockBuffer buffer;
  uint64_t bytes = 0, looked_at = 0;
  for (; looked_at < wanted && bytes < kMostImageBytes; ++looked_at) {
    // The loader reports samples that cannot be read or decoded.
    const auto value = (*dataset)->ReadValue(looked_at * samples / wanted, 0, &buffer);
    if (!value.ok() || !value->has_value()) continue;
    images.files.emplace_back(**value);
    bytes += images.files.back().size();
  }
  if (looked_at > 0) images.present = static_cast<double>(images.files.size()) / static_cast<double>(looked_at);
  return images;
}

class JpegLoop {
 public:
  JpegLoop() : handle_(tjInitDecompress()) {}
  ~JpegLoop() {
    if (handle_ != nullptr) tjDestroy(handle_);
  }
  JpegLoop(const JpegLoop&) = delete;
  JpegLoop& operator=(const JpegLoop&) = delete;

  bool Decode(const std::string& file) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(file.data());
    int width = 0, height = 0, subsampling = 0, colours = 0;
    if (handle_ == nullptr ||
        tjDecompressHeader3(handle_, bytes, file.size(), &width, &height, &subsampling, &colours) != 0) {
      return false;
    }
    const uint64_t pixels = static_cast<uint64_t>(width) * static_cast<uint64_t>(height);
    if (pixels > kMostPixels) return false;
    if (pixels_.size() < 3 * pixels) pixels_.resize(3 * pixels);
    return tjDecompress2(handle_, bytes, file.size(), pixels_.data(), width, 0, height, TJPF_RGB, 0) == 0;
  }

  // Decodes the files in whole passes that begin with `first`. Returns images per second.
  double Run(const std::vector<std::string>& files, size_t first, const shardkit::Cancellation& cancellation) {
    const auto begin = Clock::now();
    uint64_t decoded = 0;
    do {
      for (size_t i = 0; i < files.size() && !cancellation.cancelled(); ++i) {
        decoded += Decode(files[(first + i) % files.size()]);
      }
    } while (SecondsSince(begin) < kJpegSeconds && !cancellation.cancelled());
    return static_cast<double>(decoded) / SecondsSince(begin);
  }

 private:
  tjhandle handle_;
  std::vector<unsigned char> pixels_;
};

}  // namespace

absl::StatusOr<StorageCeiling> MeasureStorage(const std::vector<std::string>& paths, shardkit::ReadMode mode,
                                              int threads, bool once, const shardkit::Cancellation& cancellation) {
  // Opens files one by one, because a dataset may have more files than a process may open.
  std::vector<Piece> pieces;
  for (size_t i = 0; i < paths.size(); ++i) {
    const auto info = shardkit::DefaultFileSystem()->Stat(paths[i]);
    if (!info.ok()) return info.status();
    for (uint64_t at = 0; at < info->size; at += kPiece) pieces.push_back({i, at, std::min(info->size, at + kPiece)});
  }
  std::mutex mutex;
  absl::Status failure;
  size_t next = 0;
  size_t open_file = SIZE_MAX;
  std::shared_ptr<const shardkit::RandomAccessFile> file;
  if (!pieces.empty()) {
    auto opened = shardkit::DefaultFileSystem()->OpenForReading(paths[0], mode);
    if (!opened.ok()) return opened.status();
    if (IsFarAway(**opened)) threads = std::max(threads, (*opened)->hints().requests_in_flight);
  }
  std::atomic<uint64_t> bytes = 0;
  std::vector<std::vector<char>> memory(static_cast<size_t>(std::max(1, threads)), std::vector<char>(kPiece + 4096));
  const auto begin = Clock::now();
  RunThreads(std::max(1, threads), [&](int thread) {
    while (SecondsSince(begin) < kStorageSeconds && !cancellation.cancelled()) {
      std::shared_ptr<const shardkit::RandomAccessFile> mine;
      Piece piece;
      {
        const std::lock_guard lock(mutex);
        if (next == pieces.size() && !once && SecondsSince(begin) < kWarmSeconds) next = 0;
        if (!failure.ok() || next >= pieces.size()) return;
        piece = pieces[next++];
        if (piece.file != open_file) {
          auto opened = shardkit::DefaultFileSystem()->OpenForReading(paths[piece.file], mode);
          if (!opened.ok()) {
            failure = opened.status();
            return;
          }
          file = *std::move(opened);
          open_file = piece.file;
        }
        mine = file;
      }
      const absl::Status status = ReadPiece(*mine, piece, &memory[static_cast<size_t>(thread)]);
      bytes += piece.end - piece.begin;
      if (status.ok()) continue;
      const std::lock_guard lock(mutex);
      failure = status;
    }
  });
  const double seconds = SecondsSince(begin);
  if (!failure.ok()) return failure;
  if (const absl::Status status = cancellation.Check("measuring the storage"); !status.ok()) return status;
  return StorageCeiling{static_cast<double>(bytes) / seconds, bytes};
}

double MeasureMemoryCopy() {
  std::vector<char> from(kCopyBytes, 1), to(kCopyBytes, 2);
  uint64_t bytes = 0;
  const auto begin = Clock::now();
  do {
    std::memcpy(to.data(), from.data(), kCopyBytes);
    from[0] = static_cast<char>(to[0] + 1);  // makes every copy different
    bytes += kCopyBytes;
  } while (SecondsSince(begin) < kCopySeconds);
  unused_result = static_cast<uint64_t>(to[0]);
  return static_cast<double>(bytes) / SecondsSince(begin);
}

absl::StatusOr<JpegCeiling> MeasureJpeg(const shardkit::LoaderDataset& dataset, const std::string& column,
                                        const shardkit::ReadOptions& read, int threads,
                                        const shardkit::Cancellation& cancellation) {
  absl::StatusOr<Images> images = CollectImages(dataset, column, read);
  if (!images.ok()) return images.status();
  JpegLoop loop;
  // A first pass warms up and removes the files that cannot be decoded.
  std::erase_if(images->files, [&](const std::string& file) { return !loop.Decode(file); });
  JpegCeiling ceiling{.threads = std::max(1, threads), .images = images->files.size(), .present = images->present};
  if (images->files.empty()) return ceiling;
  ceiling.one_thread = loop.Run(images->files, 0, cancellation);
  std::vector<double> rates(static_cast<size_t>(ceiling.threads));
  RunThreads(ceiling.threads, [&](int thread) {
    JpegLoop own;
    const size_t first = images->files.size() * static_cast<size_t>(thread) / static_cast<size_t>(ceiling.threads);
    rates[static_cast<size_t>(thread)] = own.Run(images->files, first, cancellation);
  });
  ceiling.all_threads = std::accumulate(rates.begin(), rates.end(), 0.0);
  if (const absl::Status status = cancellation.Check("measuring libjpeg-turbo"); !status.ok()) return status;
  return ceiling;
}

}  // namespace shardctl
