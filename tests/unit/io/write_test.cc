// The common behaviour of all ways to write a file.
#include <limits>
#include <string>
#include <vector>

#include "unit/io/backend.h"

namespace shardkit {
namespace {

class WriteTest : public BackendTest {
 protected:
  std::string Content(const std::string& path) {
    auto content = file_system().ReadFile(path, std::numeric_limits<uint64_t>::max());
    EXPECT_TRUE(content.ok()) << content.status();
    return content.ok() ? *content : "";
  }
};
INSTANTIATE_TEST_SUITE_P(AllBackends, WriteTest, AllBackends(), BackendName);

TEST_P(WriteTest, AppendsInOrder) {
  auto file = file_system().Create(Path("file"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->path(), Path("file"));
  EXPECT_EQ((*file)->size(), 0u);
  ASSERT_TRUE((*file)->Append("one ").ok());
  ASSERT_TRUE((*file)->Append("").ok());
  ASSERT_TRUE((*file)->Append("two").ok());
  EXPECT_EQ((*file)->size(), 7u);
  (*file)->StartWriteback();
  ASSERT_TRUE((*file)->Sync().ok());
  EXPECT_EQ(Content(Path("file")), "one two");
  ASSERT_TRUE((*file)->Close().ok());
}

TEST_P(WriteTest, AppendsPiecesOfAnyNumberAndSize) {
  // More than one system call takes, with empty ones among them.
  std::vector<std::string> parts;
  std::string expected = "start";
  for (size_t i = 0; i < 5000; ++i) parts.push_back(Pattern(i % 4 == 0 ? 0 : i % 97, i));
  parts.push_back(Pattern(3 * 1048576 + 1));
  parts.push_back("");
  std::vector<std::string_view> pieces(parts.begin(), parts.end());
  for (const std::string& part : parts) expected += part;
  auto file = file_system().Create(Path("file"));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Append("start").ok());
  ASSERT_TRUE((*file)->AppendPieces(pieces).ok());
  ASSERT_TRUE((*file)->AppendPieces({}).ok());
  EXPECT_EQ((*file)->size(), expected.size());
  ASSERT_TRUE((*file)->Append("end").ok());
  EXPECT_TRUE(Content(Path("file")) == expected + "end");
}

TEST_P(WriteTest, CreateRefusesWhatExists) {
  const std::string path = Write("file", "content");
  EXPECT_TRUE(
      Says(file_system().Create(path).status(), absl::StatusCode::kAlreadyExists, path, "cannot create: File exists"));
  EXPECT_EQ(Content(path), "content");
  EXPECT_TRUE(absl::IsAlreadyExists(file_system().Create(root()).status()));
  EXPECT_TRUE(Says(file_system().Create(Path("missing/file")).status(), absl::StatusCode::kNotFound,
                   Path("missing/file"), "cannot create"));
}

TEST_P(WriteTest, ClosesOnceAndThenRefuses) {
  auto file = file_system().Create(Path("file"));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Append("x").ok());
  EXPECT_TRUE((*file)->Close().ok());
  EXPECT_TRUE((*file)->Close().ok());
  const std::string_view pieces[] = {"a", "b"};
  const absl::StatusCode refused = absl::StatusCode::kFailedPrecondition;
  EXPECT_TRUE(Says((*file)->Append("y"), refused, Path("file"), "cannot write: the file is closed"));
  EXPECT_TRUE(Says((*file)->AppendPieces(pieces), refused, Path("file"), "cannot write: the file is closed"));
  EXPECT_TRUE(Says((*file)->Sync(), refused, Path("file"), "cannot sync: the file is closed"));
  (*file)->StartWriteback();
  EXPECT_EQ((*file)->size(), 1u);
  EXPECT_EQ(Content(Path("file")), "x");
}

TEST_P(WriteTest, MapsKeepTheirBytesWhileTheFileGrows) {
  const std::string path = Path("file");
  auto writer = file_system().Create(path);
  ASSERT_TRUE(writer.ok() && (*writer)->Append("before").ok());
  auto reader = Open(path);
  ASSERT_TRUE(reader.ok()) << reader.status();
  ASSERT_TRUE((*writer)->Append(Pattern(1000000)).ok());
  std::string bytes(6, '\0');
  ASSERT_TRUE((*reader)->ReadAt(0, bytes).ok());
  EXPECT_EQ(bytes, "before");
  if ((*reader)->Mapped()) {
    EXPECT_EQ(*(*reader)->Mapped(), "before");
  }
}

}  // namespace
}  // namespace shardkit
