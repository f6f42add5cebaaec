#include "unit/io/backend.h"

#include <stdlib.h>

#include "base/endian.h"
#include "base/strings.h"

namespace shardkit {

TemporaryDirectory::TemporaryDirectory() {
  std::string path = JoinPath(testing::TempDir(), "shardkit-io-XXXXXX");
  EXPECT_NE(mkdtemp(path.data()), nullptr);
  path_ = path;
}

TemporaryDirectory::~TemporaryDirectory() { EXPECT_TRUE(RemoveTree(*PosixFileSystem(), path_).ok()); }

BackendTest::BackendTest() {
  if (GetParam().in_memory) {
    memory_ = NewMemoryFileSystem();
    file_system_ = memory_.get();
    root_ = "/root";
    EXPECT_TRUE(file_system_->CreateDirectory(root_).ok());
  } else {
    directory_ = std::make_unique<TemporaryDirectory>();
    file_system_ = PosixFileSystem();
    root_ = directory_->path();
  }
}

std::string BackendTest::Write(std::string_view name, std::string_view content) {
  const std::string path = Path(name);
  auto file = file_system_->Create(path);
  EXPECT_TRUE(file.ok()) << file.status();
  if (file.ok()) {
    EXPECT_TRUE((*file)->Append(content).ok());
    EXPECT_TRUE((*file)->Close().ok());
  }
  return path;
}

std::string Pattern(size_t length, uint64_t seed) {
  std::string bytes;
  bytes.reserve(length + 8);
  for (uint64_t i = 0; bytes.size() < length; ++i) {
    uint64_t value = (i + 1 + (seed << 32)) * 0x9E3779B97F4A7C15u;
    AppendLittle(bytes, value ^ (value >> 29));
  }
  bytes.resize(length);
  return bytes;
}

testing::AssertionResult Says(const absl::Status& status, absl::StatusCode code, std::string_view path,
                              std::string_view operation) {
  const std::string_view message = ToStd(status.message());
  if (status.code() == code && message.starts_with(StrCat(path, ": ")) &&
      message.find(operation) != std::string_view::npos) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "wanted " << absl::StatusCodeToString(code) << ": " << path << ": ... "
                                     << operation << "; got " << status;
}

}  // namespace shardkit
