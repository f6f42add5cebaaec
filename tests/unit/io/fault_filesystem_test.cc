#include "support/fault_filesystem.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/errors.h"
#include "base/status_macros.h"
#include "unit/io/backend.h"

namespace shardkit {
namespace {

// Uses each operation once.
absl::Status UseEverything(FileSystem& files) {
  SHARDKIT_RETURN_IF_ERROR(files.CreateDirectory("/d"));
  SHARDKIT_ASSIGN_OR_RETURN(auto lock, files.Lock("/d/lock"));
  SHARDKIT_ASSIGN_OR_RETURN(auto writer, files.Create("/d/a"));
  SHARDKIT_RETURN_IF_ERROR(writer->Append("0123456789"));
  const std::string_view pieces[] = {"abcde", "fghij"};
  SHARDKIT_RETURN_IF_ERROR(writer->AppendPieces(pieces));
  writer->StartWriteback();
  SHARDKIT_RETURN_IF_ERROR(writer->Sync());
  SHARDKIT_RETURN_IF_ERROR(writer->Close());
  SHARDKIT_RETURN_IF_ERROR(files.Rename("/d/a", "/d/b"));
  SHARDKIT_RETURN_IF_ERROR(files.Link("/d/b", "/d/c"));
  SHARDKIT_RETURN_IF_ERROR(files.SyncDirectory("/d"));
  SHARDKIT_RETURN_IF_ERROR(files.Stat("/d/b").status());
  SHARDKIT_RETURN_IF_ERROR(files.List("/d").status());
  {
    SHARDKIT_ASSIGN_OR_RETURN(auto reader, files.OpenForReading("/d/b"));
    std::string buffer(20, '\0');
    SHARDKIT_RETURN_IF_ERROR(reader->ReadAt(0, buffer));
    const ReadRequest request{0, buffer};
    SHARDKIT_RETURN_IF_ERROR(reader->ReadBatch({&request, 1}));
    if (buffer != "0123456789abcdefghij") return absl::DataLossError(buffer);
  }
  SHARDKIT_RETURN_IF_ERROR(files.RemoveFile("/d/b"));
  SHARDKIT_RETURN_IF_ERROR(files.CreateDirectory("/e"));
  return files.RemoveDirectory("/e");
}

TEST(FaultFileSystemTest, PassesAndCountsEverything) {
  const auto base = NewMemoryFileSystem();
  FaultFileSystem faults(base.get());
  const absl::Status status = UseEverything(faults);
  ASSERT_TRUE(status.ok()) << status;
  std::string operations;
  for (const FileSystemCall& call : faults.calls()) operations += call.operation + " " + call.path + "\n";
  EXPECT_EQ(operations,
            "create directory /d\nlock /d/lock\ncreate /d/a\nwrite /d/a\nwrite /d/a\nsync /d/a\n"
            "close /d/a\nrename /d/a\nlink /d/b\nsync directory /d\nstat /d/b\nlist directory /d\nopen /d/b\n"
            "read /d/b\nread /d/b\nremove /d/b\ncreate directory /e\nremove directory /e\n");
  EXPECT_EQ(faults.call_count(), 18u);
  EXPECT_FALSE(faults.failed_call().has_value());
}

TEST(FaultFileSystemTest, EveryCallCanFail) {
  uint64_t number = 1;
  for (;; ++number) {
    const auto base = NewMemoryFileSystem();
    FaultFileSystem faults(base.get());
    faults.FailCall(number, {.status = absl::ResourceExhaustedError("no space")});
    const absl::Status status = UseEverything(faults);
    const auto failed = faults.failed_call();
    if (!failed) {
      EXPECT_TRUE(status.ok()) << status;
      break;
    }
    EXPECT_EQ(failed->number, number);
    EXPECT_EQ(status, absl::ResourceExhaustedError(StrCat(failed->path, ": cannot ", failed->operation, ": no space")));
    EXPECT_EQ(faults.call_count(), number);
  }
  EXPECT_EQ(number, 19u);
}

TEST(FaultFileSystemTest, FailsOnceOrForGood) {
  const auto base = NewMemoryFileSystem();
  FaultFileSystem once(base.get());
  once.FailCall(2, {});
  EXPECT_TRUE(once.CreateDirectory("/a").ok());
  EXPECT_TRUE(Says(once.CreateDirectory("/b"), absl::StatusCode::kInternal, "/b", "injected fault"));
  EXPECT_TRUE(once.CreateDirectory("/b").ok());
  FaultFileSystem for_good(base.get());
  for_good.FailCall(2, {.all_following = true});
  EXPECT_TRUE(for_good.Stat("/a").ok());
  EXPECT_FALSE(for_good.Stat("/a").ok());
  EXPECT_FALSE(for_good.Stat("/b").ok());
  EXPECT_EQ(for_good.failed_call()->path, "/a");
}

TEST(FaultFileSystemTest, ShortWritesLeaveHalf) {
  for (const uint64_t number : {2, 3}) {
    const auto base = NewMemoryFileSystem();
    FaultFileSystem faults(base.get());
    faults.FailCall(number, {.status = absl::ResourceExhaustedError("no space"), .short_write = true});
    auto file = faults.Create("/file");
    ASSERT_TRUE(file.ok()) << file.status();
    const std::string_view pieces[] = {"ABCDE", "FGHIJ"};
    absl::Status status = (*file)->Append("0123456789");
    if (status.ok()) status = (*file)->AppendPieces(pieces);
    EXPECT_TRUE(absl::IsResourceExhausted(status));
    const std::string expected = number == 2 ? "01234" : "0123456789ABCDE";
    EXPECT_EQ(*base->ReadFile("/file", 100), expected);
  }
}

TEST(FaultFileSystemTest, AFailedCloseClosesAllTheSame) {
  const auto base = NewMemoryFileSystem();
  FaultFileSystem faults(base.get());
  faults.FailCall(2, {});
  auto file = faults.Create("/file");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_FALSE((*file)->Close().ok());
  EXPECT_TRUE((*file)->Close().ok());
  EXPECT_TRUE(absl::IsFailedPrecondition((*file)->Append("x")));
}

}  // namespace
}  // namespace shardkit
