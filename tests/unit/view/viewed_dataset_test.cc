// Tars without an index: their first samples are shown before all have been found. Files far away: what was read is
// kept.
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "shardkit/filesystem.h"
#include "support/counting_filesystem.h"
#include "unit/foreign/webdataset/tar_maker.h"
#include "view/prefix_filesystem.h"
#include "view/recent_reads.h"
#include "view/viewed_dataset.h"

namespace shardctl {
namespace {

using shardkit::test::TarMember;

constexpr size_t kSamples = 60;

// Samples of a quarter of a MiB.
std::string LargeTar(size_t samples = kSamples) {
  std::vector<TarMember> members;
  for (size_t i = 0; i < samples; ++i) {
    const std::string key = std::to_string(1000 + i);
    members.push_back({key + ".bin", std::string(256 << 10, static_cast<char>(i))});
    members.push_back({key + ".txt", "text " + key});
  }
  return MakeTar(members);
}

void Write(shardkit::FileSystem& files, const std::string& path, const std::string& bytes) {
  auto file = files.Create(path);
  ASSERT_TRUE(file.ok() && (*file)->Append(bytes).ok() && (*file)->Close().ok());
}

// Reads of more than `before` bytes into a file wait until they are let through.
class WaitingFileSystem final : public shardkit::ForwardingReadableFileSystem {
 public:
  WaitingFileSystem(shardkit::ReadableFileSystem& base, uint64_t before)
      : shardkit::ForwardingReadableFileSystem(base), before_(before) {}

  absl::StatusOr<std::unique_ptr<shardkit::RandomAccessFile>> OpenForReading(const std::string& path,
                                                                             shardkit::ReadMode mode,
                                                                             std::optional<uint64_t> size) override {
    auto file = base().OpenForReading(path, mode, size);
    if (!file.ok()) return file;
    return std::make_unique<File>(*std::move(file), *this);
  }

  void LetThrough() {
    const std::lock_guard lock(mutex_);
    through_ = true;
    changed_.notify_all();
  }

 private:
  class File final : public shardkit::ForwardingFile {
   public:
    File(std::unique_ptr<shardkit::RandomAccessFile> base, WaitingFileSystem& files)
        : ForwardingFile(std::move(base)), files_(files) {}
    absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
      files_.Wait(offset + buffer.size());
      return base().ReadAt(offset, buffer);
    }
    absl::Status ReadBatch(std::span<const shardkit::ReadRequest> requests) const override {
      for (const shardkit::ReadRequest& request : requests) files_.Wait(request.offset + request.buffer.size());
      return base().ReadBatch(requests);
    }

   private:
    WaitingFileSystem& files_;
  };

  void Wait(uint64_t end) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return through_ || end <= before_; });
  }

  const uint64_t before_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool through_ = false;
};

template <typename Until>
std::shared_ptr<const Snapshot> Await(const ViewedDataset& dataset, Until until) {
  while (true) {
    auto snapshot = dataset.current();
    if (until(*snapshot)) return snapshot;
    std::this_thread::yield();
  }
}

TEST(ViewedTarTest, FirstSamplesAreShownWhileTheOthersAreLookedFor) {
  const auto files = shardkit::NewMemoryFileSystem();
  Write(*files, "/large.tar", LargeTar());
  // Beyond the first part, and what reading ahead in it may take.
  WaitingFileSystem waiting(*files, uint64_t{5} << 20);
  const auto dataset = ViewedDataset::Open(waiting, "/large.tar");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const auto first = Await(**dataset, [](const Snapshot& snapshot) { return snapshot.samples > 0; });
  EXPECT_FALSE(first->complete);
  EXPECT_LT(first->samples, kSamples);
  EXPECT_GE(first->samples, 14);
  shardkit::BlockBuffer buffer;
  const auto text = first->reader->ReadValue(3, *first->reader->FindColumn("txt"), &buffer);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(**text, "text 1003");
  waiting.LetThrough();
  const auto whole = Await(**dataset, [](const Snapshot& snapshot) { return snapshot.complete; });
  EXPECT_EQ(whole->samples, kSamples);
  EXPECT_TRUE(whole->problem.ok());
  // Who still holds the first goes on with it.
  EXPECT_TRUE(first->reader->ReadValue(3, *first->reader->FindColumn("bin"), &buffer).ok());
}

TEST(ViewedTarTest, ADatasetOfManyTarsBeginsWithTheFirst) {
  const auto files = shardkit::NewMemoryFileSystem();
  ASSERT_TRUE(files->CreateDirectory("/d").ok());
  Write(*files, "/d/b.tar", LargeTar(2));
  Write(*files, "/d/a.tar", LargeTar(3));
  const auto dataset = ViewedDataset::Open(*files, "/d");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const auto whole = Await(**dataset, [](const Snapshot& snapshot) { return snapshot.complete; });
  EXPECT_EQ(whole->samples, 5);
}

TEST(ViewedTarTest, ACutTarShowsWhatPrecedesTheCutAndWhy) {
  const auto files = shardkit::NewMemoryFileSystem();
  const std::string tar = LargeTar(40);
  Write(*files, "/cut.tar", tar.substr(0, tar.size() / 2 + 100));
  const auto dataset = ViewedDataset::Open(*files, "/cut.tar");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const auto whole = Await(**dataset, [](const Snapshot& snapshot) { return snapshot.complete; });
  EXPECT_GE(whole->samples, 18);
  EXPECT_LT(whole->samples, 22);
  EXPECT_TRUE(absl::IsDataLoss(whole->problem)) << whole->problem;
}

// One file cannot be opened.
class ForbiddingFileSystem final : public shardkit::ForwardingReadableFileSystem {
 public:
  ForbiddingFileSystem(shardkit::ReadableFileSystem& base, std::string path)
      : shardkit::ForwardingReadableFileSystem(base), path_(std::move(path)) {}

  absl::StatusOr<std::unique_ptr<shardkit::RandomAccessFile>> OpenForReading(const std::string& path,
                                                                             shardkit::ReadMode mode,
                                                                             std::optional<uint64_t> size) override {
    if (path == path_) return absl::PermissionDeniedError(path + ": not for you");
    return base().OpenForReading(path, mode, size);
  }

 private:
  const std::string path_;
};

TEST(ViewedTarTest, WhatWasFoundStaysWhenTheRestCannotBeRead) {
  const auto files = shardkit::NewMemoryFileSystem();
  ASSERT_TRUE(files->CreateDirectory("/d").ok());
  Write(*files, "/d/a.tar", LargeTar());
  Write(*files, "/d/b.tar", LargeTar(2));
  ForbiddingFileSystem forbidding(*files, "/d/b.tar");
  const auto dataset = ViewedDataset::Open(forbidding, "/d");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const auto last = Await(**dataset, [](const Snapshot& snapshot) { return snapshot.complete; });
  EXPECT_TRUE(absl::IsPermissionDenied(last->problem)) << last->problem;
  ASSERT_NE(last->reader, nullptr);
  EXPECT_GE(last->samples, 14);
}

TEST(ViewedTarTest, WhatIsNoTarSaysSo) {
  const auto files = shardkit::NewMemoryFileSystem();
  Write(*files, "/no.tar", std::string(100000, 'x'));
  const auto dataset = ViewedDataset::Open(*files, "/no.tar");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const auto whole = Await(**dataset, [](const Snapshot& snapshot) { return snapshot.complete; });
  EXPECT_FALSE(whole->problem.ok());
}

TEST(ViewedTarTest, EndingDoesNotWaitForTheSearch) {
  const auto files = shardkit::NewMemoryFileSystem();
  Write(*files, "/large.tar", LargeTar(2000));
  const auto dataset = ViewedDataset::Open(*files, "/large.tar");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
}

TEST(BeginningOfTarsTest, ShowsNoMoreThanThat) {
  const auto files = shardkit::NewMemoryFileSystem();
  ASSERT_TRUE(files->CreateDirectory("/d").ok());
  for (const char* name : {"/d/b.tar", "/d/a.tar", "/d/a.tar.shardidx", "/d/notes.txt"}) {
    Write(*files, name, std::string(1000, 'x'));
  }
  const shardkit::Cancellation cancellation;
  const auto part = BeginningOfTars(*files, 600, cancellation);
  std::vector<std::string> names;
  const auto entries = part->List("/d");
  ASSERT_TRUE(entries.ok());
  for (const auto& entry : *entries) names.push_back(entry.name);
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{"a.tar", "notes.txt"}));
  EXPECT_EQ(part->Stat("/d/a.tar")->size, 600);
  EXPECT_TRUE(absl::IsNotFound(part->Stat("/d/a.tar.shardidx").status()));
  const auto file = part->OpenForReading("/d/a.tar");
  ASSERT_TRUE(file.ok());
  char bytes[10];
  EXPECT_TRUE((*file)->ReadAt(590, bytes).ok());
  EXPECT_TRUE(absl::IsOutOfRange((*file)->ReadAt(591, bytes)));
  EXPECT_EQ((*part->OpenForReading("/d/notes.txt"))->size(), 1000);
}

TEST(BeginningOfTarsTest, ReadsEndWhenTheyAreCancelled) {
  const auto files = shardkit::NewMemoryFileSystem();
  Write(*files, "/a.tar", "0123456789");
  shardkit::Cancellation cancellation;
  const auto all = BeginningOfTars(*files, UINT64_MAX, cancellation);
  const auto file = all->OpenForReading("/a.tar");
  ASSERT_TRUE(file.ok());
  char bytes[10];
  EXPECT_TRUE((*file)->ReadAt(0, bytes).ok());
  cancellation.Cancel();
  EXPECT_TRUE(absl::IsCancelled((*file)->ReadAt(0, bytes)));
}

TEST(KeepRecentReadsTest, WhatWasReadIsNotReadAgain) {
  const auto files = shardkit::NewMemoryFileSystem();
  std::string bytes;
  for (int i = 0; i < 1000; ++i) bytes += static_cast<char>(i * 7);
  Write(*files, "/f", bytes);
  shardkit::test::CountingFileSystem counting(files.get());
  const auto recent = KeepRecentReads(counting, 800);
  const auto read = [&](uint64_t offset, size_t length) {
    // Another file object of the same path knows what the first has read.
    const auto file = recent->OpenForReading("/f");
    std::string got(length, '\0');
    EXPECT_TRUE((*file)->ReadAt(offset, got).ok());
    EXPECT_EQ(got, bytes.substr(offset, length));
    const bool fetched = !counting.reads().empty();
    counting.Reset();
    return fetched;
  };
  EXPECT_TRUE(read(100, 80));
  EXPECT_FALSE(read(100, 80));
  EXPECT_FALSE(read(120, 60));
  EXPECT_TRUE(read(120, 61));
  for (uint64_t offset = 200; offset < 1000; offset += 100) EXPECT_TRUE(read(offset, 100));
  EXPECT_TRUE(read(100, 80)) << "the longest unused one makes room";
}

TEST(KeepRecentReadsTest, WhatSeveralAskForAtOnceIsReadOnce) {
  const auto files = shardkit::NewMemoryFileSystem();
  Write(*files, "/f", std::string(1000, 'x'));
  shardkit::test::CountingFileSystem counting(files.get());
  WaitingFileSystem waiting(counting, 0);
  const auto recent = KeepRecentReads(waiting, 800);
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] {
      const auto file = recent->OpenForReading("/f");
      std::string got(80, '\0');
      EXPECT_TRUE((*file)->ReadAt(100, got).ok());
      EXPECT_EQ(got, std::string(80, 'x'));
    });
  }
  waiting.LetThrough();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counting.reads().size(), 1);
}

}  // namespace
}  // namespace shardctl
