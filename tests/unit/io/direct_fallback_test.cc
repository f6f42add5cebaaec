// Direct reads that the kernel or the file system refuses. seccomp filters cause the refusals, in child processes
// because a filter cannot be removed.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "io/direct_file.h"
#include "unit/io/backend.h"

namespace shardkit::io {
namespace {

// From now on `system_call` fails with `error_number` if its argument number `argument` has one of the bits of `mask`.
// A mask of 0 means always. False when the system does not allow filters.
bool Refuse(int system_call, int error_number, int argument = 0, unsigned mask = 0) {
  const auto load = [](size_t offset) {
    return sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offset));
  };
  const unsigned verdict = SECCOMP_RET_ERRNO | (static_cast<unsigned>(error_number) & SECCOMP_RET_DATA);
  const unsigned char when_masked = mask == 0 ? 0 : 1;
  std::vector<sock_filter> filter = {
      load(offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(system_call), 0, 3),
      load(offsetof(seccomp_data, args) + static_cast<size_t>(argument) * sizeof(uint64_t)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, mask, 0, when_masked),
      sock_filter BPF_STMT(BPF_RET | BPF_K, verdict),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

class DirectFallbackTest : public testing::Test {
 protected:
  enum Outcome { kPassed = 0, kFailed = 1, kNoFilters = 2 };

  void SetUp() override {
    content_ = Pattern(3 * 1048576 + 555);
    path_ = directory_.path() + "/file";
    auto file = PosixFileSystem()->Create(path_);
    ASSERT_TRUE(file.ok() && (*file)->Append(content_).ok());
  }

  // Reads everything in a child process after `refuse`, and expects these words in the reason.
  template <typename Function>
  void ExpectFallback(Function refuse, const std::vector<std::string>& words) {
    const pid_t child = fork();
    if (child == 0) {
      if (!refuse()) _exit(kNoFilters);
      _exit(ReadAndCheck(words) ? kPassed : kFailed);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    if (WEXITSTATUS(status) == kNoFilters) GTEST_SKIP() << "this machine does not allow seccomp filters";
    EXPECT_EQ(WEXITSTATUS(status), kPassed);
  }

  bool ReadAndCheck(const std::vector<std::string>& words) {
    auto file = PosixFileSystem()->OpenForReading(path_, ReadMode::kDirect);
    if (!file.ok()) return Complain(file.status().ToString());
    std::string whole(content_.size(), '\0');
    std::string part(70000, '\0');
    std::string page(4096, '\0');
    const ReadRequest requests[] = {{0, whole}, {12345, part}, {4096, page}};
    const absl::Status status = (*file)->ReadBatch(requests);
    if (!status.ok()) return Complain(status.ToString());
    if (whole != content_ || part != content_.substr(12345, 70000) || page != content_.substr(4096, 4096)) {
      return Complain("the bytes differ");
    }
    if (!absl::IsOutOfRange((*file)->ReadAt(content_.size(), page))) return Complain("read past the end");
    const std::string reason = (*file)->fallback_reason();
    for (const std::string& word : words) {
      if (reason.find(word) == std::string::npos) return Complain("no '" + word + "' in: " + reason);
    }
    return words.empty() && !reason.empty() ? Complain(reason) : true;
  }

  static bool Complain(const std::string& what) {
    (void)!write(STDERR_FILENO, (what + "\n").c_str(), what.size() + 1);
    return false;
  }

  const TemporaryDirectory directory_;
  std::string path_;
  std::string content_;
};

TEST_F(DirectFallbackTest, ReadsSinglyWhereIoUringIsForbidden) {
  ExpectFallback([] { return Refuse(SYS_io_uring_setup, EPERM); },
                 {"io_uring refused", "Operation not permitted", "one read in flight"});
}

TEST_F(DirectFallbackTest, ReadsSinglyWhereIoUringIsMissing) {
  ExpectFallback([] { return Refuse(SYS_io_uring_setup, ENOSYS); }, {"io_uring refused", "Function not implemented"});
}

TEST_F(DirectFallbackTest, ReadsBufferedWhereTheFileSystemRefusesToOpen) {
  ExpectFallback([] { return Refuse(SYS_openat, EINVAL, 2, O_DIRECT); },
                 {"O_DIRECT refused by the file system", "Invalid argument", "buffered"});
}

TEST_F(DirectFallbackTest, ReadsBufferedWhereTheFileSystemRefusesToRead) {
  // A misaligned read stands for a file system that refuses the aligned ones too.
  auto opened = OpenRegularFile(path_, O_DIRECT);
  if (!opened.ok()) GTEST_SKIP() << opened.status();
  const DirectDescriptor file(path_, *std::move(opened), "");
  std::string memory(4096 + 1, '\0');
  char* const unaligned = reinterpret_cast<uintptr_t>(memory.data()) % 2 == 0 ? &memory[1] : memory.data();
  const DirectPiece piece{.offset = 0, .length = 4095, .needed = 4095, .target = unaligned};
  const absl::Status status = file.Finish(piece, unaligned, -EINVAL);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(std::string_view(unaligned, 4095) == std::string_view(content_).substr(0, 4095));
  if (file.fallback_reason().empty()) GTEST_SKIP() << "this file system reads misaligned pieces directly";
  EXPECT_EQ(file.fallback_reason(), "O_DIRECT reads refused (Invalid argument): buffered reads");
}

TEST_F(DirectFallbackTest, GoesOnWhereAShortReadEnded) {
  auto opened = OpenRegularFile(path_, O_DIRECT);
  if (!opened.ok()) GTEST_SKIP() << opened.status();
  const DirectDescriptor file(path_, *std::move(opened), "");
  for (const int64_t result :
       {int64_t{0}, int64_t{4096}, int64_t{5000}, int64_t{65536}, int64_t{-EAGAIN}, int64_t{-EINTR}}) {
    AlignedBuffer buffer;
    char* const memory = buffer.Reserve(65536);
    ASSERT_NE(memory, nullptr);
    const size_t there = result > 0 ? static_cast<size_t>(result) : 0;
    std::copy_n(content_.data() + 8192, there, memory);
    std::string copy(60000, '\0');
    const DirectPiece piece{.offset = 8192, .length = 65536, .needed = 60100, .skip = 100, .copy_to = copy.data()};
    const absl::Status status = file.Finish(piece, memory, result);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(copy == content_.substr(8292, 60000)) << "after " << result;
  }
  AlignedBuffer buffer;
  char* const memory = buffer.Reserve(4096);
  const DirectPiece piece{.offset = 4096, .length = 4096, .needed = 4096, .target = memory};
  EXPECT_TRUE(Says(file.Finish(piece, memory, -EIO), absl::StatusCode::kInternal, path_, "read at offset 4096"));
}

TEST_F(DirectFallbackTest, AShrunkFileIsAnErrorAndNotALoop) {
  auto file = PosixFileSystem()->OpenForReading(path_, ReadMode::kDirect);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(truncate(path_.c_str(), 1048576 + 100), 0);
  std::string whole(content_.size(), '\0');
  EXPECT_TRUE(Says((*file)->ReadAt(0, whole), absl::StatusCode::kOutOfRange, path_, "ends at byte 1048676"));
  std::string page(4096, '\0');
  EXPECT_TRUE(Says((*file)->ReadAt(1048576, page), absl::StatusCode::kOutOfRange, path_, "ends at byte 1048676"));
  EXPECT_TRUE((*file)->ReadAt(0, page).ok());
}

TEST_F(DirectFallbackTest, ParentAndChildReadTheSameOpenFile) {
  auto file = PosixFileSystem()->OpenForReading(path_, ReadMode::kDirect);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto reads_all = [&] {
    for (int i = 0; i < 20; ++i) {
      std::string whole(content_.size(), '\0');
      if (!(*file)->ReadAt(0, whole).ok() || whole != content_) return false;
    }
    return true;
  };
  ASSERT_TRUE(reads_all());
  const pid_t child = fork();
  if (child == 0) _exit(reads_all() ? kPassed : kFailed);
  EXPECT_TRUE(reads_all());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kPassed) << status;
}

}  // namespace
}  // namespace shardkit::io
