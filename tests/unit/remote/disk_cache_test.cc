// The cache on local disk: what it fetches, that it gives right bytes whatever has happened to its files, and its
// limit.
#include "remote/cache/disk_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>
#include <thread>

#include "base/errors.h"
#include "io/read_again.h"
#include "remote/object_file.h"
#include "shardkit/filesystem.h"
#include "shardkit/remote.h"

namespace shardkit::remote {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMiB = uint64_t{1} << 20;

// What is fetched, counted over processes.
struct Counters {
  std::atomic<uint64_t> bytes;
  std::atomic<uint64_t> reads;
  std::atomic<uint64_t> checked;  // reads of ReadAsProcess that were compared
};

// An object that knows its version once it was read.
class FakeObject final : public RandomAccessFile {
 public:
  FakeObject(std::string path, std::string bytes, std::string etag, Counters& counters)
      : path_(std::move(path)), bytes_(std::move(bytes)), etag_(std::move(etag)), counters_(counters) {}

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return bytes_.size(); }
  std::string identity() const override { return known_ && !etag_.empty() ? path_ + " " + etag_ : std::string(); }
  ReadHints hints() const override { return {.worth_reading_again = true}; }

  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    if (hangs) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return cancelled_; });
      return Cancelled(path_, ": cancelled");
    }
    ++counters_.reads;
    counters_.bytes += buffer.size();
    if (fails) return Unavailable(path_, ": does not answer");
    std::copy_n(bytes_.begin() + static_cast<ptrdiff_t>(offset), buffer.size(), buffer.begin());
    known_ = true;
    return absl::OkStatus();
  }

  void CancelReads() const override {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    changed_.notify_all();
  }

  mutable std::atomic<bool> fails = false, hangs = false;

 private:
  const std::string path_;
  const std::string bytes_;
  const std::string etag_;
  Counters& counters_;
  mutable std::atomic<bool> known_ = false;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable bool cancelled_ = false;
};

std::string RandomBytes(size_t size, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(random());
  return bytes;
}

class DiskCacheTest : public testing::Test {
 protected:
  DiskCacheTest() {
    directory_ = fs::path(testing::TempDir()) / ("cache-" + std::to_string(getpid()) + "-" +
                                                 testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(directory_);
    void* const shared = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    counters_ = new (shared) Counters();
  }
  ~DiskCacheTest() override {
    fs::remove_all(directory_);
    munmap(counters_, 4096);
  }

  std::shared_ptr<DiskCache> Open(uint64_t limit = 1024 * kMiB) {
    auto cache = DiskCache::Open(directory_, limit);
    EXPECT_TRUE(cache.ok()) << cache.status();
    return *std::move(cache);
  }

  std::unique_ptr<RandomAccessFile> Object(std::shared_ptr<DiskCache> cache, const std::string& bytes,
                                           const std::string& etag = "\"1\"", const std::string& url = "s3://b/k") {
    auto object = std::make_unique<FakeObject>(url, bytes, etag, *counters_);
    object_ = object.get();
    return NewCachedFile(std::move(object), url, std::move(cache));
  }

  static std::string Read(const RandomAccessFile& file, uint64_t offset, uint64_t length) {
    std::string bytes(length, '\0');
    const absl::Status status = file.ReadAt(offset, bytes);
    EXPECT_TRUE(status.ok()) << status;
    return bytes;
  }

  std::vector<fs::path> Lines() const {
    std::vector<fs::path> lines;
    const fs::path folder = fs::path(directory_) / "lines";
    if (!fs::exists(folder)) return lines;  // another process has not made it yet
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) lines.push_back(entry.path());
    }
    return lines;
  }

  // While nobody takes or gives back any: the lock is the cache's own.
  uint64_t OnDisk() const {
    const io::FileDescriptor usage(open((directory_ + "/usage").c_str(), O_RDWR | O_CLOEXEC));
    while (usage.valid() && !TryLockBytes(usage.get(), 0, 1)) std::this_thread::yield();
    uint64_t bytes = 0;
    for (const fs::path& line : Lines()) {
      struct stat info;
      EXPECT_EQ(stat(line.c_str(), &info), 0) << line;
      bytes += static_cast<uint64_t>(info.st_blocks) * 512;
    }
    return bytes;
  }

  std::string directory_;
  Counters* counters_;
  FakeObject* object_ = nullptr;
};

TEST_F(DiskCacheTest, FetchesEachByteOnce) {
  const std::string bytes = RandomBytes(20 * kMiB + 123, 1);
  std::mt19937 random(2);
  {
    const auto file = Object(Open(), bytes);
    for (int i = 0; i < 300; ++i) {
      const uint64_t offset = random() % bytes.size();
      const uint64_t length = std::min<uint64_t>(random() % (i % 10 == 0 ? 9 * kMiB : 40000), bytes.size() - offset);
      ASSERT_EQ(Read(*file, offset, length), bytes.substr(offset, length));
    }
    ASSERT_EQ(Read(*file, 0, bytes.size()), bytes);
    EXPECT_EQ(counters_->bytes, bytes.size() + 1) << "and one byte for the version";
  }
  counters_->bytes = counters_->reads = 0;
  const auto again = Object(Open(), bytes);
  ASSERT_EQ(Read(*again, 0, bytes.size()), bytes);
  EXPECT_EQ(counters_->reads, 1);
  EXPECT_EQ(counters_->bytes, 1);
}

TEST_F(DiskCacheTest, FetchesOnlyPieces) {
  const std::string bytes = RandomBytes(20 * kMiB, 1);
  const auto file = Object(Open(), bytes);
  ASSERT_EQ(Read(*file, 9 * kMiB, 100), bytes.substr(9 * kMiB, 100));
  EXPECT_EQ(counters_->bytes, 1 + kPieceBytes);
  EXPECT_LE(OnDisk(), kLineDataBegin + kPieceBytes + 16384);
}

TEST_F(DiskCacheTest, SeesAnotherVersion) {
  const std::string old_bytes = RandomBytes(kMiB, 1), new_bytes = RandomBytes(kMiB, 2);
  const auto cache = Open();
  ASSERT_EQ(Read(*Object(cache, old_bytes, "\"1\""), 0, kMiB), old_bytes);
  ASSERT_EQ(Read(*Object(cache, new_bytes, "\"2\""), 0, kMiB), new_bytes);
  ASSERT_EQ(Read(*Object(cache, old_bytes, "\"1\"", "s3://b/other"), 0, kMiB), old_bytes);
  EXPECT_EQ(counters_->bytes, 3 * (kMiB + 1));
}

TEST_F(DiskCacheTest, KeepsNothingWithoutAVersion) {
  const std::string bytes = RandomBytes(kMiB, 1);
  const auto file = Object(Open(), bytes, "");
  ASSERT_EQ(Read(*file, 0, kMiB), bytes);
  ASSERT_EQ(Read(*file, 0, kMiB), bytes);
  EXPECT_EQ(counters_->bytes, 2 * kMiB + 1);
  EXPECT_TRUE(Lines().empty());
}

// Whatever is in a line's file, what is read is right, and nothing hangs.
TEST_F(DiskCacheTest, BelievesNoDamagedLine) {
  const std::string bytes = RandomBytes(3 * kPieceBytes + 77, 1);
  (void)Read(*Object(Open(), bytes), 0, bytes.size());
  const std::vector<fs::path> lines = Lines();
  ASSERT_EQ(lines.size(), 1);
  std::string right;
  {
    std::ifstream in(lines[0], std::ios::binary);
    right.assign(std::istreambuf_iterator<char>(in), {});
  }
  ASSERT_EQ(right.size(), kLineDataBegin + bytes.size());
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    std::string damaged = right;
    const uint32_t kind = random() % 4;
    if (kind == 0) damaged[random() % damaged.size()] ^= static_cast<char>(1 << random() % 8);
    if (kind == 1) damaged.resize(random() % damaged.size());
    if (kind == 2) damaged = RandomBytes(random() % damaged.size(), i);
    if (kind == 3) std::fill_n(damaged.begin() + static_cast<ptrdiff_t>(random() % damaged.size() / 2), 5000, '\0');
    std::ofstream(lines[0], std::ios::binary | std::ios::trunc) << damaged;
    const auto file = Object(Open(), bytes);
    ASSERT_EQ(Read(*file, 0, bytes.size()), bytes) << i;
    ASSERT_EQ(Read(*file, 0, bytes.size()), bytes) << i;
    EXPECT_LE(counters_->bytes.exchange(0), bytes.size() + 1 + (i == 0 ? bytes.size() + 1 : 0)) << i;
  }
}

TEST_F(DiskCacheTest, VerifyFindsAndForgetsDamage) {
  const std::string bytes = RandomBytes(10 * kPieceBytes, 1);
  (void)Read(*Object(Open(), bytes), 0, bytes.size());
  {
    std::fstream line(Lines()[0], std::ios::binary | std::ios::in | std::ios::out);
    line.seekp(kLineDataBegin + 3 * kPieceBytes + 5);
    line.put(static_cast<char>(bytes[3 * kPieceBytes + 5] ^ 1));
  }
  auto check = VerifyCache(directory_);
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_EQ(check->pieces, 10);
  EXPECT_EQ(check->damaged, 1);
  check = VerifyCache(directory_);
  EXPECT_EQ(check->pieces, 9);
  EXPECT_EQ(check->damaged, 0);
  counters_->bytes = 0;
  EXPECT_EQ(Read(*Object(Open(), bytes), 0, bytes.size()), bytes);
  EXPECT_EQ(counters_->bytes, kPieceBytes + 1);
}

TEST_F(DiskCacheTest, ListsAndClears) {
  const std::string bytes = RandomBytes(9 * kMiB, 1);
  const auto cache = Open();
  (void)Read(*Object(cache, bytes, "\"1\"", "s3://b/one"), 0, bytes.size());
  (void)Read(*Object(cache, bytes, "\"1\"", "s3://b/two"), 0, 100);
  auto list = ListCache(directory_);
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_EQ(list->size(), 2);
  EXPECT_EQ((*list)[0].url, "s3://b/one");
  EXPECT_EQ((*list)[0].lines, 2);
  EXPECT_GE((*list)[0].bytes, bytes.size());
  EXPECT_LE((*list)[0].bytes, bytes.size() + 2 * (kLineDataBegin + 16384));
  EXPECT_GT((*list)[1].last_used, 1'700'000'000);
  ASSERT_TRUE(ClearCache(directory_).ok());
  EXPECT_EQ(OnDisk(), 0);
  // A file that is open goes on.
  const auto file = Object(cache, bytes, "\"1\"", "s3://b/one");
  EXPECT_EQ(Read(*file, 0, bytes.size()), bytes);
  EXPECT_GE(OnDisk(), bytes.size());
  EXPECT_EQ(ListCache(directory_ + "-none").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(DiskCacheTest, ReadsAgainFromTheSource) {
  const std::string damaged = RandomBytes(kMiB, 1), right = RandomBytes(kMiB, 2);
  const auto cache = Open();
  (void)Read(*Object(cache, damaged), 0, kMiB);
  const auto file = Object(cache, right);  // of the same version: the first time it came damaged
  EXPECT_EQ(Read(*file, 0, kMiB), damaged);
  {
    const io::BypassCaches again;
    EXPECT_EQ(Read(*file, 1000, 20000), right.substr(1000, 20000));
  }
  EXPECT_EQ(Read(*file, 1000, 20000), right.substr(1000, 20000));
  EXPECT_EQ(Read(*file, 5 * kPieceBytes, 100), damaged.substr(5 * kPieceBytes, 100));
}

TEST_F(DiskCacheTest, StartedReadsEnd) {
  const std::string bytes = RandomBytes(12 * kMiB, 1);
  const auto file = Object(Open(), bytes);
  std::vector<std::string> parts(64, std::string(300'000, '\0'));
  std::atomic<int> ended = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const ReadRequest request{i * 150'000, parts[i]};
    file->StartRead({&request, 1}, [&](absl::Status status) {
      EXPECT_TRUE(status.ok()) << status;
      ++ended;
    });
  }
  while (ended < 64) std::this_thread::yield();
  for (size_t i = 0; i < parts.size(); ++i) ASSERT_EQ(parts[i], bytes.substr(i * 150'000, 300'000));
  EXPECT_LE(counters_->bytes, bytes.size() + 1);
}

TEST_F(DiskCacheTest, AFailedFetchLeavesNothingTaken) {
  const std::string bytes = RandomBytes(kMiB, 1);
  const auto cache = Open();
  const auto file = Object(cache, bytes);
  (void)Read(*file, 0, 10);
  object_->fails = true;
  std::string out(kMiB, '\0');
  EXPECT_EQ(file->ReadAt(0, out).code(), absl::StatusCode::kUnavailable);
  object_->fails = false;
  EXPECT_EQ(Read(*file, 0, kMiB), bytes);
  EXPECT_EQ(Read(*Object(cache, bytes), 0, kMiB), bytes);
}

TEST_F(DiskCacheTest, CancelEndsTheFetchAndThoseWhoWaitForIt) {
  const std::string bytes = RandomBytes(kMiB, 1);
  const auto cache = Open();
  const auto file = Object(cache, bytes);
  (void)Read(*file, kMiB - 1, 1);
  object_->hangs = true;
  std::atomic<int> cancelled = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      std::string out(1000, '\0');
      cancelled += absl::IsCancelled(file->ReadAt(0, out));
    });
  }
  file->CancelReads();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cancelled, 3);
}

TEST_F(DiskCacheTest, KeepsItsLimitAndWhatWasUsedLast) {
  constexpr uint64_t kLimit = 24 * kMiB;
  const auto cache = Open(kLimit);
  std::vector<std::string> objects;
  for (uint32_t i = 0; i < 12; ++i) objects.push_back(RandomBytes(4 * kMiB, i));
  const auto url = [](size_t i) { return "s3://b/" + std::to_string(i); };
  (void)Read(*Object(cache, objects[0], "\"1\"", url(0)), 0, 4 * kMiB);
  for (size_t i = 1; i < objects.size(); ++i) {
    ASSERT_EQ(Read(*Object(cache, objects[i], "\"1\"", url(i)), 0, 4 * kMiB), objects[i]);
    EXPECT_LE(OnDisk(), kLimit);
    // Object 0 is used all the time. Its line's time is set here, because the cache writes it down only now and then.
    for (const fs::path& line : Lines()) {
      std::ifstream in(line, std::ios::binary);
      std::string page(kCachePageBytes, '\0');
      in.read(page.data(), static_cast<std::streamsize>(page.size()));
      if (const auto name = DecodeLineHeader(page); name.ok() && name->url == url(0)) {
        fs::last_write_time(line, fs::file_time_type::clock::now() + std::chrono::hours(1));
      }
    }
  }
  counters_->bytes = 0;
  ASSERT_EQ(Read(*Object(cache, objects[0], "\"1\"", url(0)), 0, 4 * kMiB), objects[0]);
  ASSERT_EQ(Read(*Object(cache, objects[11], "\"1\"", url(11)), 0, 4 * kMiB), objects[11]);
  EXPECT_EQ(counters_->bytes, 2) << "the one in use and the last one are there";
  ASSERT_EQ(Read(*Object(cache, objects[1], "\"1\"", url(1)), 0, 4 * kMiB), objects[1]);
  EXPECT_GE(counters_->bytes, 4 * kMiB) << "an old one is not";
  (void)Open(kLimit / 3);
  EXPECT_LE(OnDisk(), kLimit / 3) << "the limit of who opens it";
  EXPECT_GT(OnDisk(), 0);
}

TEST_F(DiskCacheTest, ThreadsKeepTheLimitTogether) {
  constexpr uint64_t kLimit = 3 * kMiB;
  const auto cache = Open(kLimit);
  const std::string bytes = RandomBytes(kMiB, 1);
  std::atomic<int> left = 8;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 8; ++i) {
        const std::string url = "s3://b/" + std::to_string(8 * i + thread);
        const auto file = NewCachedFile(std::make_unique<FakeObject>(url, bytes, "\"1\"", *counters_), url, cache);
        for (uint64_t offset = 0; offset < bytes.size(); offset += kPieceBytes) {
          EXPECT_EQ(Read(*file, offset, kPieceBytes), bytes.substr(offset, kPieceBytes));
        }
      }
      --left;
    });
  }
  uint64_t most = 0;
  while (left > 0) {
    most = std::max(most, OnDisk());
    // The lock goes to who asks first, and without a pause that is always this thread.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(std::max(most, OnDisk()), kLimit);
  EXPECT_GT(most, kLimit / 2);
}

TEST_F(DiskCacheTest, WithoutRoomEverythingIsReadAllTheSame) {
  const std::string bytes = RandomBytes(2 * kMiB, 1);
  EXPECT_EQ(Read(*Object(Open(10'000), bytes), 0, bytes.size()), bytes);
  EXPECT_EQ(OnDisk(), 0);
  // A disk that takes no more, in a process of its own.
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit most{.rlim_cur = 100'000, .rlim_max = 100'000};
    setrlimit(RLIMIT_FSIZE, &most);
    auto cache = DiskCache::Open(directory_, 1024 * kMiB);
    if (!cache.ok()) _exit(1);
    const auto file = NewCachedFile(std::make_unique<FakeObject>("s3://b/k", bytes, "\"2\"", *counters_), "s3://b/k",
                                    std::shared_ptr<DiskCache>(*std::move(cache)));
    std::string out(bytes.size(), '\0');
    _exit(file->ReadAt(0, out).ok() && out == bytes ? 0 : 2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(DiskCacheTest, AnLostUsageFileIsMadeAgain) {
  constexpr uint64_t kLimit = 12 * kMiB;
  const std::string first = RandomBytes(8 * kMiB, 1), second = RandomBytes(8 * kMiB, 2);
  (void)Read(*Object(Open(kLimit), first), 0, first.size());
  fs::resize_file(fs::path(directory_) / "usage", 17);
  ASSERT_EQ(Read(*Object(Open(kLimit), second, "\"2\""), 0, second.size()), second);
  EXPECT_LE(OnDisk(), kLimit);
}

TEST_F(DiskCacheTest, BelongsToItsOwnerAlone) {
  (void)Read(*Object(Open(), "some bytes"), 0, 4);
  for (const auto& entry : fs::recursive_directory_iterator(directory_)) {
    EXPECT_EQ(entry.status().permissions() & fs::perms(0077), fs::perms::none) << entry.path();
  }
  EXPECT_EQ(fs::status(directory_).permissions(), fs::perms::owner_all);
  fs::permissions(directory_, fs::perms(0770));
  EXPECT_EQ(DiskCache::Open(directory_, 0).status().code(), absl::StatusCode::kPermissionDenied);
  const std::string link = directory_ + "-link";
  fs::remove(link);
  fs::create_symlink(directory_, link);
  EXPECT_FALSE(DiskCache::Open(link, 0).ok());
  fs::remove(link);
  std::ofstream(link) << "a file";
  EXPECT_FALSE(DiskCache::Open(link, 0).ok());
  fs::remove(link);
}

// In a child process: reads the object in random order, checks it, and ends.
[[noreturn]] void ReadAsProcess(const std::string& directory, uint64_t limit, const std::string& bytes,
                                Counters& counters, uint32_t seed, int reads) {
  auto cache = DiskCache::Open(directory, limit);
  if (!cache.ok()) _exit(1);
  const auto file = NewCachedFile(std::make_unique<FakeObject>("s3://b/k", bytes, "\"1\"", counters), "s3://b/k",
                                  std::shared_ptr<DiskCache>(*std::move(cache)));
  std::mt19937 random(seed);
  std::string out;
  for (int i = 0; i < reads; ++i) {
    const uint64_t offset = random() % bytes.size();
    out.resize(std::min<uint64_t>(1 + random() % (2 * kMiB), bytes.size() - offset));
    if (!file->ReadAt(offset, out).ok() || out != std::string_view(bytes).substr(offset, out.size())) _exit(2);
    ++counters.checked;
  }
  out.resize(bytes.size());
  if (!file->ReadAt(0, out).ok() || out != bytes) _exit(3);
  _exit(0);
}

TEST_F(DiskCacheTest, ProcessesFetchEachByteOnceTogether) {
  const std::string bytes = RandomBytes(24 * kMiB, 1);
  std::vector<pid_t> children;
  for (uint32_t i = 0; i < 4; ++i) {
    const pid_t child = fork();
    if (child == 0) ReadAsProcess(directory_, 1024 * kMiB, bytes, *counters_, i, 20);
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(counters_->bytes, bytes.size() + 4);
}

TEST_F(DiskCacheTest, KilledProcessesLeaveNothingBehind) {
  constexpr uint64_t kLimit = 14 * kMiB;  // of 24: lines are evicted all the time
  const std::string bytes = RandomBytes(24 * kMiB, 1);
  std::mt19937 random(5);
  std::vector<pid_t> children(3, 0);
  uint64_t most = 0;
  for (int i = 0; i < 150; ++i) {
    pid_t& child = children[static_cast<size_t>(i) % children.size()];
    if (child != 0) {
      kill(child, SIGKILL);
      int status = 0;
      waitpid(child, &status, 0);
      ASSERT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0) << status;
    }
    const uint64_t checked = counters_->checked;
    child = fork();
    if (child == 0) ReadAsProcess(directory_, kLimit, bytes, *counters_, static_cast<uint32_t>(i), 1000);
    // However slow the machine is, one of them reads something before the next is killed.
    for (siginfo_t ended{}; counters_->checked == checked && ended.si_pid == 0;) {
      ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT), 0);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 30));
    most = std::max(most, OnDisk());
  }
  for (const pid_t child : children) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  EXPECT_LE(most, kLimit);
  EXPECT_GT(most, kLimit / 2);
  // The next one finds a cache that works, without locks of the dead.
  const auto file = Object(Open(kLimit), bytes);
  EXPECT_EQ(Read(*file, 0, 8 * kMiB), bytes.substr(0, 8 * kMiB));
  counters_->bytes = 0;
  EXPECT_EQ(Read(*file, 0, 8 * kMiB), bytes.substr(0, 8 * kMiB));
  EXPECT_EQ(counters_->bytes, 0);
  for (const auto& entry : fs::directory_iterator(directory_)) {
    EXPECT_TRUE(entry.path().filename() == "lines" || entry.path().filename() == "usage") << entry.path();
  }
}

TEST(CacheLineTest, RefusesHeadersThatAreNone) {
  const LineName name{"https://host/x", 100 * kMiB, 3 * kLineBytes, Hash128("version")};
  const std::string page = EncodeLineHeader(name);
  ASSERT_EQ(*DecodeLineHeader(page), name);
  for (size_t i = 0; i < page.size(); ++i) {
    std::string damaged = page;
    damaged[i] ^= 1;
    EXPECT_FALSE(DecodeLineHeader(damaged).ok()) << i;
  }
  for (size_t length = 0; length < page.size(); length += 97)
    EXPECT_FALSE(DecodeLineHeader(page.substr(0, length)).ok());
}

}  // namespace
}  // namespace shardkit::remote
