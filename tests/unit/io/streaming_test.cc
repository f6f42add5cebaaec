// Files written without the page cache have the same contents as files written through it.
#include <stdlib.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "shardkit/filesystem.h"

namespace shardkit {
namespace {

constexpr size_t kStaging = size_t{4} << 20;  // what the implementation gathers before it writes

std::string Pattern(size_t length, uint32_t seed) {
  std::string bytes(length, '\0');
  for (size_t i = 0; i < length; ++i) bytes[i] = static_cast<char>((i * 2654435761u + seed) >> 13);
  return bytes;
}

class StreamingTest : public testing::Test {
 protected:
  void SetUp() override {
    // In the build folder, because it is on a disk more often than the folder for temporary files.
    char name[] = "streaming_test.XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
  }
  void TearDown() override { (void)RemoveTree(*files_, directory_); }

  std::unique_ptr<WritableFile> Create(const std::string& name) {
    auto file = files_->CreateForStreaming(JoinPath(directory_, name));
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }
  std::string Read(const std::string& name) {
    auto bytes = files_->ReadFile(JoinPath(directory_, name), uint64_t{1} << 30);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    return *std::move(bytes);
  }

  FileSystem* files_ = PosixFileSystem();
  std::string directory_;
};

// Where the file system cannot share, nothing is appended.
TEST_F(StreamingTest, SharedBytesComeBack) {
  const std::string bytes = Pattern(kStaging + 100000, 2), front = Pattern(8192, 3);
  const auto source = Create("source");
  ASSERT_TRUE(source->Append(bytes).ok() && source->Close().ok());
  const auto opened = files_->OpenForReading(JoinPath(directory_, "source"));
  ASSERT_TRUE(opened.ok()) << opened.status();
  for (const bool streaming : {false, true}) {
    const std::string path = JoinPath(directory_, streaming ? "streamed" : "plain");
    auto created = streaming ? files_->CreateForStreaming(path) : files_->Create(path);
    ASSERT_TRUE(created.ok()) << created.status();
    WritableFile& file = **created;
    std::string expected = front;
    ASSERT_TRUE(file.Append(front).ok());
    for (const auto& [offset, length] : {std::pair<uint64_t, uint64_t>{4096, kStaging}, {0, 4096}, {0, 0}}) {
      const auto shared = file.AppendShared(**opened, offset, length);
      ASSERT_TRUE(shared.ok()) << shared.status();
      if (*shared) expected += bytes.substr(offset, length);
      EXPECT_EQ(file.size(), expected.size());
    }
    expected += bytes;
    ASSERT_TRUE(file.Append(bytes).ok() && file.Sync().ok());
    EXPECT_FALSE(*file.AppendShared(**opened, 0, 4096));  // the end lies within a block of the file system
    ASSERT_TRUE(file.Close().ok());
    EXPECT_TRUE(*files_->ReadFile(path, uint64_t{1} << 30) == expected);
  }
  const auto memory = NewMemoryFileSystem()->Create("/file");
  ASSERT_TRUE(memory.ok());
  EXPECT_FALSE(*(*memory)->AppendShared(**opened, 0, 4096));
}

TEST_F(StreamingTest, EverySizeAroundTheStagingBufferComesBack) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, kStaging - 1, kStaging, kStaging + 1,
                            2 * kStaging, 2 * kStaging + 4097}) {
    const std::string name = std::to_string(size);
    const std::string bytes = Pattern(size, 1);
    const auto file = Create(name);
    ASSERT_TRUE(file->Append(bytes).ok());
    EXPECT_EQ(file->size(), size);
    ASSERT_TRUE(file->Sync().ok());
    ASSERT_TRUE(file->Close().ok());
    EXPECT_TRUE(Read(name) == bytes) << size;
  }
}

TEST_F(StreamingTest, PiecesOfAnyLengthComeBack) {
  std::string expected;
  const auto file = Create("pieces");
  for (uint32_t i = 0; i < 400; ++i) {
    const std::string first = Pattern(i * 131 % 70001, i), second = Pattern(i * 17, ~i);
    const std::vector<std::string_view> pieces = {first, second};
    ASSERT_TRUE(file->AppendPieces(pieces).ok());
    expected += first;
    expected += second;
    ASSERT_EQ(file->size(), expected.size());
  }
  ASSERT_TRUE(file->Close().ok());
  EXPECT_TRUE(Read("pieces") == expected);
}

TEST_F(StreamingTest, GoingOnAfterSyncWorks) {
  std::string expected = Pattern(kStaging + 12345, 7);
  const auto file = Create("mixed");
  ASSERT_TRUE(file->Append(expected).ok());
  ASSERT_TRUE(file->Sync().ok());
  const std::string more = Pattern(3 * kStaging + 5, 8);
  ASSERT_TRUE(file->Append(more).ok());
  expected += more;
  ASSERT_TRUE(file->Append("end").ok());
  expected += "end";
  EXPECT_EQ(file->size(), expected.size());
  ASSERT_TRUE(file->Close().ok());
  EXPECT_TRUE(Read("mixed") == expected);
}

TEST_F(StreamingTest, WhatIsThereAlreadyIsNotTouched) {
  ASSERT_TRUE(Create("twice")->Append("first").ok());
  EXPECT_EQ(Read("twice"), "first");
  const auto again = files_->CreateForStreaming(JoinPath(directory_, "twice"));
  EXPECT_TRUE(absl::IsAlreadyExists(again.status())) << again.status();
}

}  // namespace
}  // namespace shardkit
