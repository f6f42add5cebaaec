// A simulated network: when requests end, and that the bytes are those of the file.
#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <string>
#include <vector>

#include "io/request_counter.h"
#include "io/started_read.h"
#include "shardctl/latency_filesystem.h"

namespace shardkit::io {
namespace {

using namespace std::chrono_literals;
using Time = shardctl::LatencySchedule::Time;

const Time kNow = Time() + 1h;

TEST(LatencySchedule, RequestsSentTogetherTakeOneLatency) {
  shardctl::LatencySchedule schedule({.latency = 50ms});
  for (int i = 0; i < 64; ++i) EXPECT_EQ(schedule.Send(kNow, 1 << 20), kNow + 50ms) << i;
  EXPECT_EQ(schedule.Send(kNow, 0), kNow + 100ms) << "the 65th waits for one of the 64";
  EXPECT_EQ(schedule.Send(kNow + 1s, 0), kNow + 1s + 50ms);
}

TEST(LatencySchedule, RequestsShareTheBandwidth) {
  shardctl::LatencySchedule schedule({.latency = 50ms, .bytes_per_second = 1000});
  EXPECT_EQ(schedule.Send(kNow, 100), kNow + 150ms);
  EXPECT_EQ(schedule.Send(kNow, 200), kNow + 350ms);
  EXPECT_EQ(schedule.Send(kNow + 320ms, 10), kNow + 380ms) << "the link is free while the request is sent";
  EXPECT_EQ(schedule.Send(kNow + 1s, 10), kNow + 1s + 60ms) << "what was not used is lost";
}

TEST(LatencySchedule, RequestsAtOnceAreLimited) {
  shardctl::LatencySchedule schedule({.latency = 10ms, .requests_at_once = 2});
  for (int i = 0; i < 6; ++i) EXPECT_EQ(schedule.Send(kNow, 1), kNow + (1 + i / 2) * 10ms) << i;
}

TEST(LatencySchedule, JitterAndStallsDependOnTheSeedAlone) {
  const auto ends = [](uint64_t seed) {
    shardctl::LatencySchedule schedule({.latency = 10ms, .jitter = 5ms, .stall_every = 10, .stall = 2s, .seed = seed});
    std::vector<Time> ends;
    for (int i = 0; i < 1000; ++i) ends.push_back(schedule.Send(kNow + i * 1s, 1) - i * 1s);
    return ends;
  };
  const std::vector<Time> some = ends(1);
  EXPECT_EQ(some, ends(1));
  EXPECT_NE(some, ends(2));
  int stalled = 0;
  std::set<Time> different;
  for (const Time end : some) {
    const bool stall = end >= kNow + 2s;
    stalled += stall;
    const Time without = stall ? end - 2s : end;
    EXPECT_GE(without, kNow + 10ms);
    EXPECT_LE(without, kNow + 15ms);
    different.insert(without);
  }
  EXPECT_GT(stalled, 50);
  EXPECT_LT(stalled, 200);
  EXPECT_GT(different.size(), 900u);
}

class LatencyFileSystemTest : public testing::Test {
 protected:
  LatencyFileSystemTest() {
    auto file = files_->Create("/f");
    EXPECT_TRUE((*file)->Append("0123456789").ok());
    EXPECT_TRUE((*file)->Close().ok());
  }

  const std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_F(LatencyFileSystemTest, BytesAreThoseOfTheFile) {
  const auto slow = shardctl::NewLatencyFileSystem(*files_, {.latency = 1us, .bytes_per_second = 1000000});
  const auto file = slow->OpenForReading("/f", ReadMode::kMapped, 10);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_FALSE((*file)->Mapped().has_value());
  EXPECT_EQ((*file)->size(), 10u);
  std::string first(3, ' '), second(4, ' ');
  const ReadRequest requests[] = {{1, first}, {6, second}};
  ASSERT_TRUE((*file)->ReadBatch(requests).ok());
  EXPECT_EQ(first + second, "1236789");
  ASSERT_TRUE((*file)->ReadAt(0, first).ok());
  EXPECT_EQ(first, "012");
  EXPECT_TRUE(absl::IsOutOfRange((*file)->ReadAt(8, first)));
  EXPECT_EQ(*slow->ReadFile("/f", 10), "0123456789");
  EXPECT_EQ(slow->Stat("/f")->size, 10u);
  EXPECT_EQ(slow->List("/")->size(), 1u);
  EXPECT_TRUE(absl::IsNotFound(slow->OpenForReading("/g").status()));
}

TEST_F(LatencyFileSystemTest, AGapIsWorthBridgingForTheBytesOfOneLatency) {
  const auto slow =
      shardctl::NewLatencyFileSystem(*files_, {.latency = 50ms, .bytes_per_second = 1000000, .requests_at_once = 7});
  const ReadHints hints = (*slow->OpenForReading("/f", ReadMode::kBuffered, 10))->hints();
  EXPECT_EQ(hints.bridge_gap_bytes, 50000u);
  EXPECT_EQ(hints.requests_in_flight, 7);
}

// Every wait would take a day.
TEST_F(LatencyFileSystemTest, WaitsAreCancelled) {
  Cancellation cancellation;
  const auto slow = shardctl::NewLatencyFileSystem(*files_, {.latency = 24h, .cancellation = &cancellation});
  const auto file = slow->OpenForReading("/f", ReadMode::kBuffered, 10);
  ASSERT_TRUE(file.ok()) << file.status();
  cancellation.Cancel();
  std::string bytes(3, ' ');
  const ReadRequest request{0, bytes};
  EXPECT_TRUE(absl::IsCancelled((*file)->ReadAt(0, bytes)));
  EXPECT_TRUE(absl::IsCancelled((*file)->ReadBatch({&request, 1})));
  EXPECT_TRUE(absl::IsCancelled(slow->Stat("/f").status()));
  EXPECT_TRUE(absl::IsCancelled(slow->List("/").status()));
  EXPECT_TRUE(absl::IsCancelled(slow->ReadFile("/f", 10).status()));
  EXPECT_TRUE(absl::IsCancelled(slow->OpenForReading("/f").status()));
}

// If starting one waited, it would take a day.
TEST_F(LatencyFileSystemTest, StartedReadsWaitTogether) {
  Cancellation cancellation;
  const auto slow =
      shardctl::NewLatencyFileSystem(*files_, {.latency = 24h, .requests_at_once = 1, .cancellation = &cancellation});
  const auto file = slow->OpenForReading("/f", ReadMode::kBuffered, 10);
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<std::string> bytes(300, "?");
  std::deque<StartedRead> reads;
  for (std::string& byte : bytes) {
    const ReadRequest request{0, byte};
    reads.emplace_back(**file, std::span(&request, 1));
  }
  cancellation.Cancel();
  for (const StartedRead& read : reads) EXPECT_TRUE(absl::IsCancelled(read.Wait()));
}

TEST_F(LatencyFileSystemTest, ReadsOfOneFileAreCancelled) {
  const auto slow = shardctl::NewLatencyFileSystem(*files_, {.latency = 24h});
  const auto file = slow->OpenForReading("/f", ReadMode::kBuffered, 10);
  ASSERT_TRUE(file.ok()) << file.status();
  std::string bytes(3, ' ');
  const ReadRequest request{0, bytes};
  const StartedRead read(**file, std::span(&request, 1));
  (*file)->CancelReads();
  EXPECT_TRUE(absl::IsCancelled(read.Wait()));
  EXPECT_TRUE(absl::IsCancelled((*file)->ReadAt(0, bytes)));
  EXPECT_TRUE(absl::IsCancelled((*file)->ReadBatch({&request, 1})));
}

TEST_F(LatencyFileSystemTest, StartedReadsFillTheirBuffers) {
  const auto slow = shardctl::NewLatencyFileSystem(*files_, {.latency = 1us, .jitter = 100us});
  const auto file = slow->OpenForReading("/f", ReadMode::kBuffered, 10);
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<std::string> bytes(300, "??");
  std::deque<StartedRead> reads;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const ReadRequest request{i % 10, bytes[i]};
    reads.emplace_back(**file, std::span(&request, 1));
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i % 10 == 9) {
      EXPECT_TRUE(absl::IsOutOfRange(reads[i].Wait()));
    } else {
      ASSERT_TRUE(reads[i].Wait().ok());
      EXPECT_EQ(bytes[i], std::string_view("0123456789").substr(i % 10, 2));
    }
  }
}

TEST(RequestCounter, RoundTripsAreTheLongestChain) {
  RequestCounter counter;
  { const RequestCounter::Scope first(counter, 3, 30), second(counter, 1, 10); }
  EXPECT_EQ(counter.round_trips(), 1u) << "sent together";
  {
    const RequestCounter::Scope slow(counter, 1, 0);
    for (int i = 0; i < 3; ++i) const RequestCounter::Scope fast(counter, 1, 0);
  }
  EXPECT_EQ(counter.round_trips(), 4u) << "three after each other, beside one";
  EXPECT_EQ(counter.requests(), 8u);
  EXPECT_EQ(counter.bytes(), 40u);
}

}  // namespace
}  // namespace shardkit::io
