// The common behaviour of all ways to read a file.
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "io/started_read.h"
#include "unit/io/backend.h"

namespace shardkit::io {
namespace {

using ReadTest = BackendTest;
INSTANTIATE_TEST_SUITE_P(AllBackends, ReadTest, AllBackends(), BackendName);

struct FreeMemory {
  void operator()(char* memory) const { std::free(memory); }
};

// A buffer `shift` bytes after an aligned address, because direct reads treat each shift differently.
class Buffer {
 public:
  Buffer(size_t length, size_t shift)
      : memory_(static_cast<char*>(std::aligned_alloc(4096, (length + shift + 2 * 4096) / 4096 * 4096))),
        span_(memory_.get() + shift, length) {
    std::fill_n(memory_.get(), length + shift, '#');
    span_.data()[length] = '!';
  }
  std::span<char> span() const { return span_; }
  std::string_view view() const { return {span_.data(), span_.size()}; }
  bool end_untouched() const { return span_.data()[span_.size()] == '!'; }

 private:
  std::unique_ptr<char, FreeMemory> memory_;
  std::span<char> span_;
};

TEST_P(ReadTest, WholeFilesOfManySizes) {
  for (const size_t size : {0, 1, 511, 4095, 4096, 4097, 262143, 262144, 262145, 1048576, 5 * 1048576 + 77}) {
    const std::string content = Pattern(size);
    auto file = Open(Write(StrCat("file", size), content));
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ((*file)->size(), size);
    EXPECT_EQ((*file)->path(), Path(StrCat("file", size)));
    for (const size_t shift : {0, 1, 512}) {
      Buffer buffer(size, shift);
      const absl::Status status = (*file)->ReadAt(0, buffer.span());
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_TRUE(buffer.view() == content) << "size " << size << " shift " << shift;
      EXPECT_TRUE(buffer.end_untouched());
    }
  }
}

TEST_P(ReadTest, OffsetsAndLengthsOfEveryAlignment) {
  const std::string content = Pattern(3 * 1048576 + 4097);
  auto file = Open(Write("file", content));
  ASSERT_TRUE(file.ok()) << file.status();
  for (const size_t offset : {0, 1, 4095, 4096, 4097, 1048575, 1048576, 3 * 1048576 + 4096}) {
    for (const size_t length : {0, 1, 4095, 4096, 8192, 65537, 300000, 1048576, 2 * 1048576 + 4095}) {
      for (const size_t shift : {0, 1, 4095}) {
        if (offset + length > content.size()) continue;
        Buffer buffer(length, shift);
        const absl::Status status = (*file)->ReadAt(offset, buffer.span());
        ASSERT_TRUE(status.ok()) << status;
        ASSERT_TRUE(buffer.view() == std::string_view(content).substr(offset, length))
            << "offset " << offset << " length " << length << " shift " << shift;
        ASSERT_TRUE(buffer.end_untouched());
      }
    }
  }
}

TEST_P(ReadTest, PastTheEndIsOutOfRange) {
  const std::string path = Write("file", Pattern(10000));
  auto file = Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  Buffer buffer(4096, 0);
  EXPECT_EQ((*file)->ReadAt(9000, buffer.span()).ToString(),
            "OUT_OF_RANGE: " + path + ": ends at byte 10000; cannot read 4096 bytes at offset 9000");
  EXPECT_TRUE(absl::IsOutOfRange((*file)->ReadAt(10000, buffer.span())));
  EXPECT_TRUE(absl::IsOutOfRange((*file)->ReadAt(~uint64_t{0}, buffer.span())));
  EXPECT_TRUE(absl::IsOutOfRange((*file)->ReadAt(~uint64_t{0} - 4095, buffer.span())));
  EXPECT_TRUE((*file)->ReadAt(10000, {}).ok());
  EXPECT_TRUE(absl::IsOutOfRange((*file)->ReadAt(10001, {})));
}

TEST_P(ReadTest, WhatIsCachedFillsAllBuffersOrNothingIsPromised) {
  const std::string content = Pattern(300000);
  auto file = Open(Write("file", content));
  ASSERT_TRUE(file.ok()) << file.status();
  std::string first(100000, '?'), second(8, '?');
  const std::span<char> buffers[] = {first, second};
  for (const uint64_t offset : {0, 4096, 99999, 199992}) {
    const bool cached = (*file)->ReadCached(offset, buffers);
    EXPECT_TRUE(cached || !GetParam().in_memory);
    EXPECT_TRUE(!cached || first + second == content.substr(offset, 100008)) << offset;
  }
  for (const uint64_t offset : {uint64_t{199993}, uint64_t{300000}, ~uint64_t{0}}) {
    EXPECT_FALSE((*file)->ReadCached(offset, buffers)) << offset;
  }
}

TEST_P(ReadTest, BatchesFillEveryRequest) {
  const std::string content = Pattern(4 * 1048576 + 123);
  auto file = Open(Write("file", content));
  ASSERT_TRUE(file.ok()) << file.status();
  for (const bool started : {false, true}) {
    std::vector<Buffer> buffers;
    std::vector<ReadRequest> requests;
    uint64_t random = 12345;
    for (size_t i = 0; i < 300; ++i) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      // Aligned reads of a page, reads of any place and length, a few long ones, and empty ones.
      const size_t length = i % 50 == 0 ? 1300000 : i % 3 == 0 ? 4096 : (random >> 33) % 20000;
      const uint64_t offset = (random >> 20) % (content.size() - length);
      buffers.emplace_back(i % 7 == 0 ? 0 : length, i % 5);
      requests.push_back({i % 3 == 0 ? offset / 4096 * 4096 : offset, buffers.back().span()});
    }
    const absl::Status status = started ? StartedRead(**file, requests).Wait() : (*file)->ReadBatch(requests);
    ASSERT_TRUE(status.ok()) << status;
    for (size_t i = 0; i < requests.size(); ++i) {
      ASSERT_TRUE(buffers[i].view() == std::string_view(content).substr(requests[i].offset, requests[i].buffer.size()))
          << started << " request " << i;
      ASSERT_TRUE(buffers[i].end_untouched());
    }
  }
  EXPECT_TRUE((*file)->ReadBatch({}).ok());
}

TEST_P(ReadTest, BatchReportsTheRequestPastTheEnd) {
  const std::string path = Write("file", Pattern(100000));
  auto file = Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  Buffer first(4096, 0);
  Buffer second(4096, 0);
  Buffer third(4096, 0);
  const ReadRequest requests[] = {{0, first.span()}, {99000, second.span()}, {8192, third.span()}};
  EXPECT_TRUE(Says((*file)->ReadBatch(requests), absl::StatusCode::kOutOfRange, path, "offset 99000"));
}

TEST_P(ReadTest, ManyThreadsReadOneFile) {
  const std::string content = Pattern(2 * 1048576 + 5);
  auto file = Open(Write("file", content));
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<std::thread> threads;
  std::vector<std::string> problems(6);
  for (size_t t = 0; t < problems.size(); ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 20; ++i) {
        const size_t offset = (t * 7919 + i * 104729) % 500000;
        Buffer large(1200000 + t, t);
        Buffer small(4096, 0);
        const ReadRequest requests[] = {{offset, large.span()}, {4096 * i, small.span()}};
        const absl::Status status = (*file)->ReadBatch(requests);
        if (!status.ok()) problems[t] = status.ToString();
        if (large.view() != std::string_view(content).substr(offset, 1200000 + t)) problems[t] += " large differs";
        if (small.view() != std::string_view(content).substr(4096 * i, 4096)) problems[t] += " small differs";
        (*file)->WillNeed(offset, 1000);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& problem : problems) EXPECT_EQ(problem, "");
}

TEST_P(ReadTest, HintsOnAnyRangeAreHarmless) {
  auto file = Open(Write("file", Pattern(10000)));
  auto empty = Open(Write("empty", ""));
  ASSERT_TRUE(file.ok() && empty.ok());
  for (const uint64_t offset : {uint64_t{0}, uint64_t{5000}, uint64_t{10000}, ~uint64_t{0}}) {
    for (const uint64_t length : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
      (*file)->WillNeed(offset, length);
      (*empty)->WillNeed(offset, length);
    }
  }
}

TEST_P(ReadTest, MapsExactlyInMappedMode) {
  const std::string content = Pattern(5000);
  auto file = Open(Write("file", content));
  auto empty = Open(Write("empty", ""));
  ASSERT_TRUE(file.ok() && empty.ok());
  if (GetParam().mode == ReadMode::kMapped) {
    EXPECT_TRUE((*file)->Mapped() == content);
    EXPECT_TRUE((*empty)->Mapped() == "");
  } else {
    EXPECT_FALSE((*file)->Mapped().has_value());
  }
}

TEST_P(ReadTest, OpenFilesOutliveTheirNames) {
  const std::string content = Pattern(5000);
  const std::string path = Write("file", content);
  auto file = Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file_system().RemoveFile(path).ok());
  Write("file", "another");
  Buffer buffer(5000, 0);
  ASSERT_TRUE((*file)->ReadAt(0, buffer.span()).ok());
  EXPECT_TRUE(buffer.view() == content);
}

TEST_P(ReadTest, SizeIsThatAtOpening) {
  const std::string path = Path("file");
  auto writer = file_system().Create(path);
  ASSERT_TRUE(writer.ok() && (*writer)->Append("12345").ok());
  auto file = Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*writer)->Append(Pattern(100000)).ok() && (*writer)->Close().ok());
  EXPECT_EQ((*file)->size(), 5u);
  Buffer buffer(5, 0);
  ASSERT_TRUE((*file)->ReadAt(0, buffer.span()).ok());
  EXPECT_EQ(buffer.view(), "12345");
  EXPECT_TRUE(absl::IsOutOfRange((*file)->ReadAt(1, buffer.span())));
}

TEST_P(ReadTest, OpeningWhatIsNotAFileSaysSo) {
  const std::string path = Write("file", "x");
  EXPECT_TRUE(Says(Open(Path("missing")).status(), absl::StatusCode::kNotFound, Path("missing"),
                   "cannot open for reading: No such file or directory"));
  EXPECT_TRUE(Says(Open(path + "/below").status(), absl::StatusCode::kNotFound, path + "/below",
                   "cannot open for reading: Not a directory"));
  EXPECT_TRUE(Says(Open(root()).status(), absl::StatusCode::kFailedPrecondition, root(),
                   "cannot open for reading: Is a directory"));
  EXPECT_TRUE(absl::IsInvalidArgument(Open(path + std::string("\0.jpg", 5)).status()));
  EXPECT_TRUE(absl::IsNotFound(Open("").status()));
}

TEST_P(ReadTest, ReadFileKeepsToItsLimit) {
  const std::string path = Write("file", Pattern(5000));
  auto content = file_system().ReadFile(path, 5000);
  ASSERT_TRUE(content.ok()) << content.status();
  EXPECT_TRUE(*content == Pattern(5000));
  EXPECT_TRUE(
      Says(file_system().ReadFile(path, 4999).status(), absl::StatusCode::kResourceExhausted, path, "5000 bytes"));
}

TEST_P(ReadTest, TellsItsAlignment) {
  auto file = Open(Write("file", "x"));
  ASSERT_TRUE(file.ok()) << file.status();
  const bool direct =
      GetParam().mode == ReadMode::kDirect && (*file)->fallback_reason().find("buffered") == std::string::npos;
  EXPECT_EQ((*file)->alignment(), direct ? 4096u : 1u);
  if (GetParam().mode != ReadMode::kDirect) {
    EXPECT_EQ((*file)->fallback_reason(), "");
  }
}

}  // namespace
}  // namespace shardkit::io
