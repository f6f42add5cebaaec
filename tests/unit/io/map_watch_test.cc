// Files that are truncated while they are mapped, and SIGBUS with other causes.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "base/errors.h"
#include "unit/io/backend.h"

namespace shardkit {
namespace {

class MapWatchTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, std::string_view bytes) {
    const std::string path = JoinPath(directory_.path(), name);
    auto file = PosixFileSystem()->Create(path);
    EXPECT_TRUE(file.ok() && (*file)->Append(bytes).ok() && (*file)->Close().ok());
    return path;
  }
  static std::unique_ptr<RandomAccessFile> Map(const std::string& path) {
    auto file = PosixFileSystem()->OpenForReading(path, ReadMode::kMapped);
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }
  static void Cut(const std::string& path, size_t length) {
    ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(length)), 0);
  }

  const TemporaryDirectory directory_;
};

TEST_F(MapWatchTest, ZerosTakeThePlaceOfWhatWasCut) {
  const std::string bytes = Pattern(50000, 1);
  for (const size_t length : {0, 1, 4095, 4096, 12288, 30000, 49152, 49999}) {
    const std::string path = Write("file" + std::to_string(length), bytes);
    const auto file = Map(path);
    EXPECT_TRUE(file->CheckMapped().ok());
    Cut(path, length);
    const std::string seen(*file->Mapped());
    EXPECT_EQ(seen.substr(0, length), bytes.substr(0, length));
    EXPECT_EQ(seen.substr(length), std::string(bytes.size() - length, '\0'));
    const std::string expected = path + ": the file was cut while it was mapped: it had 50000 bytes, now it has " +
                                 std::to_string(length) + "; restore it and open it again";
    EXPECT_EQ(file->CheckMapped(), DataLoss(expected));
    std::string buffer(100, '\0');
    EXPECT_EQ(file->ReadAt(49900, buffer), DataLoss(expected));
  }
}

TEST_F(MapWatchTest, WhatHasGrownAgainIsNotBelieved) {
  const std::string path = Write("file", Pattern(50000, 2));
  const auto file = Map(path);
  Cut(path, 10000);
  EXPECT_EQ((*file->Mapped())[40000], 0);
  Cut(path, 60000);
  const absl::Status status = file->CheckMapped();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(std::string(status.message()).starts_with(path + ": cannot read at offset 36864")) << status;
}

// More maps than one table of watches can hold. The other maps are not affected.
TEST_F(MapWatchTest, EachMapForItself) {
  const std::string bytes = Pattern(20000, 3);
  std::vector<std::unique_ptr<RandomAccessFile>> files;
  for (int i = 0; i < 200; ++i) files.push_back(Map(Write("file" + std::to_string(i), bytes)));
  for (size_t i = 0; i < files.size(); i += 3) {
    Cut(files[i]->path(), 5000);
    if (i % 2 == 0) files[i + 1].reset();
  }
  for (size_t i = 0; i < files.size(); ++i) {
    if (files[i] == nullptr) continue;
    const bool cut = i % 3 == 0;
    EXPECT_EQ(std::ranges::count(*files[i]->Mapped(), '\0') > 14000, cut) << i;
    EXPECT_EQ(absl::IsDataLoss(files[i]->CheckMapped()), cut) << i;
  }
}

TEST_F(MapWatchTest, ManyThreadsWhileMapsComeAndGo) {
  const std::string bytes = Pattern(100000, 4);
  const std::string path = Write("cut", bytes), other = Write("other", bytes);
  const auto file = Map(path);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::string buffer(1000, '\0');
      for (uint64_t i = 0; i < 3000; ++i) {
        const uint64_t offset = (i * 7919 + static_cast<uint64_t>(t) * 31) % 99000;
        const absl::Status status = file->ReadAt(offset, buffer);
        EXPECT_TRUE(!status.ok() || buffer == bytes.substr(offset, 1000));
        if (i % 64 == 0) {
          const auto again = Map(other);
          ASSERT_TRUE(again->ReadAt(offset, buffer).ok());
          EXPECT_EQ(buffer, bytes.substr(offset, 1000));
        }
      }
    });
  }
  threads.emplace_back([&] { Cut(path, 4096); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(absl::IsDataLoss(file->CheckMapped()));
}

// What follows runs in a process of its own, in which no map has been made before.

volatile char sink;

void TouchCutMapOfOwn(const std::string& path) {
  FILE* const file = fopen(path.c_str(), "r+");
  void* const map = mmap(nullptr, 8192, PROT_READ, MAP_SHARED, fileno(file), 0);
  if (map == MAP_FAILED || ftruncate(fileno(file), 0) != 0) _exit(100);
  sink = *static_cast<const volatile char*>(map);
}

void LeaveWith7(int) { _exit(7); }
void LeaveWith8(int, siginfo_t* info, void*) { _exit(info->si_code == BUS_ADRERR && info->si_addr != nullptr ? 8 : 9); }

void Install(void (*handler)(int), int flags = 0) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(SIGBUS, &action, nullptr);
}

class MapWatchDeathTest : public MapWatchTest {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    ours_ = Write("ours", Pattern(8192, 5));
    theirs_ = Write("theirs", Pattern(8192, 6));
  }

  // As one of Shardkit's readers would. The handler is installed then.
  void SurviveACut() {
    const auto file = Map(ours_);
    Cut(ours_, 0);
    if ((*file->Mapped())[5000] != 0 || !absl::IsDataLoss(file->CheckMapped())) _exit(101);
  }

  std::string ours_, theirs_;
};

TEST_F(MapWatchDeathTest, AnotherMapIsForTheHandlerOfBefore) {
  EXPECT_EXIT(
      {
        Install(LeaveWith7);
        SurviveACut();
        TouchCutMapOfOwn(theirs_);
      },
      testing::ExitedWithCode(7), "");
  EXPECT_EXIT(
      {
        struct sigaction action {};
        action.sa_sigaction = LeaveWith8;
        action.sa_flags = SA_SIGINFO;
        sigaction(SIGBUS, &action, nullptr);
        SurviveACut();
        TouchCutMapOfOwn(theirs_);
      },
      testing::ExitedWithCode(8), "");
}

TEST_F(MapWatchDeathTest, WithoutOneItEndsTheProcess) {
  EXPECT_EXIT(
      {
        Install(SIG_DFL);
        SurviveACut();
        TouchCutMapOfOwn(theirs_);
        _exit(0);
      },
      testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(
      {
        Install(SIG_DFL);
        SurviveACut();
        raise(SIGBUS);
        _exit(0);
      },
      testing::KilledBySignal(SIGBUS), "");
}

TEST_F(MapWatchDeathTest, AnIgnoredOneIsIgnored) {
  EXPECT_EXIT(
      {
        Install(SIG_IGN);
        SurviveACut();
        raise(SIGBUS);
        _exit(5);
      },
      testing::ExitedWithCode(5), "");
  // Even then a bad access is not ignored.
  EXPECT_EXIT(
      {
        Install(SIG_IGN);
        SurviveACut();
        TouchCutMapOfOwn(theirs_);
        _exit(5);
      },
      testing::KilledBySignal(SIGBUS), "");
}

int calls = 0;
void Count(int) { ++calls; }

TEST_F(MapWatchDeathTest, AHandlerForOneSignalIsCalledOnce) {
  EXPECT_EXIT(
      {
        Install(Count, SA_RESETHAND);
        SurviveACut();
        raise(SIGBUS);
        if (calls != 1) _exit(102);
        raise(SIGBUS);
        _exit(0);
      },
      testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace shardkit
