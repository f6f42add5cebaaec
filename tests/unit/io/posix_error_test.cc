// Errors that only a real system gives: no space, limits, permissions.
#include "io/posix_error.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <vector>

#include "base/errors.h"
#include "io/posix_file.h"
#include "unit/io/backend.h"

namespace shardkit::io {
namespace {

TEST(PosixErrorTest, MapsEachClass) {
  const std::pair<int, absl::StatusCode> expected[] = {
      {ENOENT, absl::StatusCode::kNotFound},          {ENOTDIR, absl::StatusCode::kNotFound},
      {ENOSPC, absl::StatusCode::kResourceExhausted}, {EDQUOT, absl::StatusCode::kResourceExhausted},
      {EMFILE, absl::StatusCode::kResourceExhausted}, {ENFILE, absl::StatusCode::kResourceExhausted},
      {ENOMEM, absl::StatusCode::kResourceExhausted}, {EFBIG, absl::StatusCode::kResourceExhausted},
      {EACCES, absl::StatusCode::kPermissionDenied},  {EPERM, absl::StatusCode::kPermissionDenied},
      {EROFS, absl::StatusCode::kPermissionDenied},   {EEXIST, absl::StatusCode::kAlreadyExists},
      {EXDEV, absl::StatusCode::kFailedPrecondition}, {EINVAL, absl::StatusCode::kInvalidArgument},
      {EOPNOTSUPP, absl::StatusCode::kUnimplemented}, {EIO, absl::StatusCode::kInternal},
      {ESTALE, absl::StatusCode::kUnavailable},       {ETIMEDOUT, absl::StatusCode::kUnavailable},
      {99999, absl::StatusCode::kInternal},
  };
  for (const auto& [error_number, code] : expected) {
    EXPECT_TRUE(Says(PosixError("/a/b", "frob", error_number), code, "/a/b", "cannot frob: "));
  }
}

TEST(PosixErrorTest, SaysWhatToDo) {
  EXPECT_EQ(PosixError("/a", "write", ENOSPC).message(),
            "/a: cannot write: No space left on device; free some space or write to another device");
  EXPECT_NE(PosixError("/a", "open for reading", EMFILE).message().find("ulimit -n"), absl::string_view::npos);
}

TEST(PosixLimitsTest, AFullDeviceIsResourceExhausted) {
  io::FileDescriptor descriptor = io::OpenDescriptor("/dev/full", O_WRONLY);
  if (!descriptor.valid()) GTEST_SKIP() << "there is no /dev/full";
  const auto file = io::NewPosixWritableFile("/dev/full", std::move(descriptor), 0);
  const std::string_view pieces[] = {"a", "b"};
  const absl::StatusCode full = absl::StatusCode::kResourceExhausted;
  EXPECT_TRUE(Says(file->Append("x"), full, "/dev/full", "cannot write: No space left on device"));
  EXPECT_TRUE(Says(file->AppendPieces(pieces), full, "/dev/full", "cannot write: No space left on device"));
  EXPECT_EQ(file->size(), 0u);
}

// Runs the checks in a child process with its own limits.
template <typename Function>
void InChild(Function checks) {
  const pid_t child = fork();
  if (child == 0) {
    checks();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "see above; wait status " << status;
}

TEST(PosixLimitsTest, TheFileSizeLimitIsResourceExhausted) {
  const TemporaryDirectory directory;
  InChild([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {100000, 100000};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    const std::string path = directory.path() + "/file";
    auto file = PosixFileSystem()->Create(path);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Append(Pattern(90000)).ok());
    // The system writes the 10000 bytes that fit before it refuses the rest.
    EXPECT_TRUE(Says((*file)->Append(Pattern(20000)), absl::StatusCode::kResourceExhausted, path,
                     "cannot write: File too large; the file size limit"));
    EXPECT_EQ((*file)->size(), 90000u);
    EXPECT_EQ(PosixFileSystem()->Stat(path)->size, 100000u);
    const std::string piece = Pattern(6000);
    const std::string_view pieces[] = {piece, piece};
    EXPECT_TRUE(absl::IsResourceExhausted((*file)->AppendPieces(pieces)));
    EXPECT_EQ((*file)->size(), 90000u);
    EXPECT_TRUE((*file)->Append(Pattern(10000)).ok());  // the part that still fits, over the bytes left from before
    auto content = PosixFileSystem()->ReadFile(path, 100000);
    ASSERT_TRUE(content.ok()) << content.status();
    EXPECT_TRUE(*content == Pattern(90000) + Pattern(10000));
  });
}

TEST(PosixLimitsTest, TooManyOpenFilesSaysWhichLimit) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/file";
  ASSERT_TRUE(PosixFileSystem()->Create(path).ok());
  InChild([&] {
    rlimit before;
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit limit = {32, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    std::vector<std::unique_ptr<RandomAccessFile>> files;
    absl::Status status;
    while (status.ok() && files.size() < 64) {
      auto file = PosixFileSystem()->OpenForReading(path);
      status = file.status();
      if (file.ok()) files.push_back(*std::move(file));
    }
    EXPECT_TRUE(Says(status, absl::StatusCode::kResourceExhausted, path,
                     "cannot open for reading: Too many open files; raise the limit"));
    EXPECT_TRUE(absl::IsResourceExhausted(PosixFileSystem()->List(directory.path()).status()));
    EXPECT_TRUE(absl::IsResourceExhausted(PosixFileSystem()->Create(path + "2").status()));
    EXPECT_TRUE(absl::IsResourceExhausted(PosixFileSystem()->Lock(path).status()));
    // UndefinedBehaviorSanitizer needs its own pipe to examine the objects that are destroyed now.
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  });
}

TEST(PosixLimitsTest, AFullFileSystemIsResourceExhausted) {
  const TemporaryDirectory directory;
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("none", directory.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "mounting a small tmpfs is not permitted here: " << ErrorText(errno);
  }
  const std::string path = directory.path() + "/file";
  {
    auto file = PosixFileSystem()->Create(path);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_TRUE(Says((*file)->Append(Pattern(2 * 1048576)), absl::StatusCode::kResourceExhausted, path,
                     "cannot write: No space left on device; free some space"));
    EXPECT_EQ((*file)->size(), 0u);
    EXPECT_TRUE((*file)->Close().ok());
  }
  EXPECT_TRUE(absl::IsFailedPrecondition(
      PosixFileSystem()->Link(path, testing::TempDir() + "/shardkit-other-device")));  // EXDEV
  EXPECT_EQ(umount(directory.path().c_str()), 0);
}

TEST(PosixLimitsTest, PermissionsAreRespected) {
  if (geteuid() == 0) GTEST_SKIP() << "root may do everything";
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/file";
  ASSERT_TRUE(PosixFileSystem()->Create(path).ok());
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  for (const ReadMode mode : {ReadMode::kBuffered, ReadMode::kMapped, ReadMode::kDirect}) {
    EXPECT_TRUE(Says(PosixFileSystem()->OpenForReading(path, mode).status(), absl::StatusCode::kPermissionDenied, path,
                     "cannot open for reading: Permission denied"));
  }
}

TEST(PosixLimitsTest, ReadingAShrunkFileIsOutOfRange) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/file";
  auto writer = PosixFileSystem()->Create(path);
  ASSERT_TRUE(writer.ok() && (*writer)->Append(Pattern(10000)).ok());
  auto file = PosixFileSystem()->OpenForReading(path);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(truncate(path.c_str(), 3000), 0);
  std::string buffer(5000, '\0');
  EXPECT_TRUE(Says((*file)->ReadAt(1000, buffer), absl::StatusCode::kOutOfRange, path, "ends at byte 3000"));
}

TEST(PosixLimitsTest, FilesAreClosedInProgramsStartedLater) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/file";
  ASSERT_TRUE(PosixFileSystem()->Create(path).ok());
  std::vector<std::unique_ptr<RandomAccessFile>> files;
  for (const ReadMode mode : {ReadMode::kBuffered, ReadMode::kDirect}) {
    auto file = PosixFileSystem()->OpenForReading(path, mode);
    ASSERT_TRUE(file.ok()) << file.status();
    files.push_back(*std::move(file));
  }
  size_t found = 0;
  for (int number = 3; number < 64; ++number) {
    const std::string link = "/proc/self/fd/" + std::to_string(number);
    char target[4096];
    const ssize_t length = readlink(link.c_str(), target, sizeof(target));
    if (length <= 0 || std::string_view(target, static_cast<size_t>(length)) != path) continue;
    ++found;
    EXPECT_TRUE(fcntl(number, F_GETFD) & FD_CLOEXEC);
    // With the page cache the flag has no effect. io_uring would give up instead of waiting.
    const int flags = fcntl(number, F_GETFL);
    if ((flags & O_DIRECT) != 0) {
      EXPECT_FALSE(flags & O_NONBLOCK);
    }
  }
  if (found == 0) GTEST_SKIP() << "no /proc";
  EXPECT_EQ(found, 2u);
}

// Names that look like the text around them.
TEST(ErrorPlace, IsKeptAndNeverReplaced) {
  const ErrorPlace place = {"/a, path b", 3, std::nullopt, 12, "x, path 4:y"};
  const absl::Status status = At(Annotate(At(DataLoss("bad"), place), "where"), {"/c", 4, 5, 6, "z"});
  const ErrorPlace found = PlaceOf(status);
  EXPECT_EQ(found.path, place.path);
  EXPECT_EQ(found.shard, 3u);
  EXPECT_EQ(found.block, 5u);
  EXPECT_EQ(found.sample, 12u);
  EXPECT_EQ(found.column, place.column);
  EXPECT_EQ(status.message(), "where: bad");
  EXPECT_EQ(PlaceOf(absl::OkStatus()).path, "");
  EXPECT_EQ(At(DataLoss("bad"), {}).ToString(), "DATA_LOSS: bad");
}

}  // namespace
}  // namespace shardkit::io
