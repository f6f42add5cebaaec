// The file systems and read modes that have the same contract, and a test directory for each.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "shardkit/filesystem.h"

namespace shardkit {

struct Backend {
  std::string name;
  bool in_memory = false;
  ReadMode mode = ReadMode::kBuffered;
};

// For INSTANTIATE_TEST_SUITE_P.
inline auto AllBackends() {
  return testing::Values(Backend{"PosixBuffered", false, ReadMode::kBuffered},
                         Backend{"PosixMapped", false, ReadMode::kMapped},
                         Backend{"PosixDirect", false, ReadMode::kDirect}, Backend{"Memory", true, ReadMode::kBuffered},
                         Backend{"MemoryMapped", true, ReadMode::kMapped});
}
inline std::string BackendName(const testing::TestParamInfo<Backend>& info) { return info.param.name; }

// A new directory of the operating system, removed with its contents at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class BackendTest : public testing::TestWithParam<Backend> {
 protected:
  BackendTest();

  FileSystem& file_system() { return *file_system_; }
  const std::string& root() const { return root_; }
  std::string Path(std::string_view name) const { return JoinPath(root_, name); }

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> Open(const std::string& path) {
    return file_system_->OpenForReading(path, GetParam().mode);
  }

  // Creates the file Path(name) and returns its path. The test fails when that does not work.
  std::string Write(std::string_view name, std::string_view content);

 private:
  std::unique_ptr<TemporaryDirectory> directory_;
  std::unique_ptr<FileSystem> memory_;
  FileSystem* file_system_;
  std::string root_;
};

// Bytes that differ from their neighbours and between pages; the same for the same arguments.
std::string Pattern(size_t length, uint64_t seed = 0);

// Whether the message of `status` begins with "PATH: " and names the operation.
testing::AssertionResult Says(const absl::Status& status, absl::StatusCode code, std::string_view path,
                              std::string_view operation);

}  // namespace shardkit
