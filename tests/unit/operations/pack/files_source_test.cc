#include <sys/stat.h>
#include <unistd.h>

#include <tuple>

#include "base/strings.h"
#include "unit/operations/pack/convert_support.h"

namespace shardkit {
namespace {

using test::LoadAll;
using test::Message;
using test::WriteFile;
using testing::Test;

class FilesSourceTest : public Test {
 protected:
  void Add(const std::string& path, std::string_view bytes) { WriteFile(*file_system_, "/in/" + path, bytes); }
  test::Loaded Load(SourceOptions options = {}) { return LoadAll(file_system_.get(), "files", {"/in"}, options); }

  std::unique_ptr<FileSystem> file_system_ = NewMemoryFileSystem();
};

TEST_F(FilesSourceTest, FilesWithTheSameStemAreOneSample) {
  Add("a.jpg", test::kJpegBytes);
  Add("a.cls", "7");
  Add("a.json", "{\"x\": 1}");
  Add("b.jpg", test::kPngBytes);
  Add("d/c.bin", "");
  Add("README", "hi");
  const test::Loaded loaded = Load();
  ASSERT_TRUE(loaded.status.ok()) << loaded.status;
  EXPECT_TRUE(loaded.failures.empty());
  ASSERT_EQ(loaded.Keys(), (std::vector<std::string>{"README", "a", "b", "d/c"}));
  EXPECT_EQ(loaded.samples[0].fields.at("/").bytes, "hi");
  const auto& a = loaded.samples[1].fields;
  ASSERT_EQ(a.size(), 3u);
  EXPECT_EQ(a.at("jpg").type, Type::kJpeg);
  EXPECT_EQ(a.at("jpg").codec, Codec::kNone);
  EXPECT_EQ(a.at("cls").type, Type::kUtf8);
  EXPECT_EQ(a.at("cls").codec, Codec::kZstd);
  EXPECT_EQ(a.at("json").type, Type::kJson);
  EXPECT_EQ(a.at("json").bytes, "{\"x\": 1}");
  EXPECT_TRUE(a.at("json").nullable);
  EXPECT_EQ(loaded.samples[2].fields.at("jpg").type, Type::kPng);
  EXPECT_EQ(loaded.samples[3].fields.at("bin").bytes, "");
}

TEST_F(FilesSourceTest, InitialColumnsAreThoseOfTheWholeTree) {
  Add("a.txt", "t");
  Add("z/b.jpg", test::kJpegBytes);
  Add("z/b.key", "k");
  auto source = OpenSource("files", {"/in"}, {{}, file_system_.get()});
  ASSERT_TRUE(source.ok()) << source.status();
  const auto columns = (*source)->InitialColumns();
  ASSERT_TRUE(columns.ok());
  ASSERT_EQ(columns->size(), 4u);
  EXPECT_TRUE((*columns)[0].is_key);
  EXPECT_EQ((*columns)[1].name, "/key");
  EXPECT_EQ((*columns)[2].name, "jpg");
  EXPECT_EQ((*columns)[2].type, Type::kJpeg);
  EXPECT_EQ((*columns)[3].name, "txt");
  EXPECT_EQ((*columns)[3].type, Type::kUtf8);
  EXPECT_TRUE(Schema::Create(*columns).ok());
  EXPECT_TRUE((*source)->keys_ascend());
  EXPECT_EQ((*source)->name(), "files");
}

TEST_F(FilesSourceTest, LargeValuesStayFiles) {
  Add("a.jpg", std::string(test::kJpegBytes) + std::string(100, 'x'));
  Add("b.bin", std::string(99, 'y'));
  SourceOptions options;
  options.stream_above = 100;
  const test::Loaded loaded = Load(options);
  ASSERT_EQ(loaded.samples.size(), 2u);
  EXPECT_TRUE(loaded.samples[0].fields.at("jpg").file);
  EXPECT_EQ(loaded.samples[0].fields.at("jpg").type, Type::kJpeg);
  EXPECT_EQ(loaded.samples[0].fields.at("jpg").bytes.substr(0, test::kJpegBytes.size()), test::kJpegBytes);
  EXPECT_FALSE(loaded.samples[1].fields.at("bin").file);
}

TEST_F(FilesSourceTest, ImagesOfAnyFormatAreImages) {
  using namespace std::string_literals;
  Add("a.JPEG", test::kPngBytes);
  Add("b.JPEG", test::kJpegBytes);
  Add("c.JPEG", "GIF89a and more");
  Add("d.JPEG", test::kJpegBytes);
  Add("e.avif",
      "\0\0\0\x1c"
      "ftypavif and more than 16 bytes"s);
  Add("f.txt", "BMW");
  for (const uint64_t stream_above : {uint64_t{1} << 20, uint64_t{2}}) {
    SourceOptions options;
    options.stream_above = stream_above;
    const test::Loaded loaded = Load(options);
    ASSERT_TRUE(loaded.failures.empty()) << loaded.failures[0].status;
    ASSERT_EQ(loaded.samples.size(), 6u);
    EXPECT_EQ(loaded.samples[0].fields.at("JPEG").type, Type::kPng);
    EXPECT_EQ(loaded.samples[1].fields.at("JPEG").type, Type::kJpeg);
    EXPECT_EQ(loaded.samples[2].fields.at("JPEG").type, Type::kImage);
    EXPECT_EQ(loaded.samples[3].fields.at("JPEG").type, Type::kJpeg);
    EXPECT_EQ(loaded.samples[4].fields.at("avif").type, Type::kImage);
    EXPECT_EQ(loaded.samples[5].fields.at("txt").type, stream_above == 2 ? Type::kBytes : Type::kUtf8);
  }
}

TEST_F(FilesSourceTest, WhatIsNamedAsAnImageAndIsNoneFailsItsSample) {
  Add("a.jpg", "<!DOCTYPE html>\n<html>");
  Add("b.jpg", test::kJpegBytes);
  Add("c.seg.png", "MZ");
  Add("d.jpg", std::string(test::kJpegBytes).substr(0, 3));  // truncated, but begins like a JPEG
  Add("e.jpg", "");
  for (const uint64_t stream_above : {uint64_t{1} << 20, uint64_t{2}}) {
    SourceOptions options;
    options.stream_above = stream_above;
    const test::Loaded loaded = Load(options);
    EXPECT_EQ(loaded.Keys(), (std::vector<std::string>{"b", "d"}));
    ASSERT_EQ(loaded.failures.size(), 3u);
    EXPECT_TRUE(absl::IsDataLoss(loaded.failures[0].status));
    EXPECT_EQ(Message(loaded.failures[2].status),
              "/in/e.jpg: an empty file is not an image; remove it, pack with --on-error skip, or --type jpg=bytes");
    EXPECT_EQ(Message(loaded.failures[0].status),
              "/in/a.jpg: is named .jpg and is no image of a known format: begins with \"<!DOCTYPE html>\\n\"; "
              "remove it, pack with --on-error skip, or --type jpg=bytes");
    EXPECT_EQ(Message(loaded.failures[1].status),
              "/in/c.seg.png: is named .png and is no image of a known format: begins with \"MZ\"; "
              "remove it, pack with --on-error skip, or --type seg.png=bytes");
  }
  // The file that fails does not decide the column's type.
  const auto source = OpenSource("files", {"/in"}, {{}, file_system_.get()});
  const auto columns = (*source)->InitialColumns();
  ASSERT_TRUE(columns.ok()) << columns.status();
  EXPECT_EQ((*columns)[1].type, Type::kJpeg);
}

TEST_F(FilesSourceTest, TypesThatAreAskedFor) {
  Add("a.jpg", "<!DOCTYPE html>");
  Add("b.jpg", test::kJpegBytes);
  Add("b.txt", "text");
  Add("c.jpg", test::kPngBytes);
  Add("c.txt", "\xff");
  Add("d.txt", std::string(30, 'd'));
  SourceOptions options;
  options.types = {{"jpg", Type::kBytes}, {"txt", Type::kUtf8}};
  options.stream_above = 30;
  test::Loaded loaded = Load(options);
  EXPECT_EQ(loaded.Keys(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(loaded.samples[0].fields.at("jpg").type, Type::kBytes);
  EXPECT_EQ(loaded.samples[1].fields.at("jpg").type, Type::kBytes);
  EXPECT_EQ(loaded.samples[1].fields.at("txt").type, Type::kUtf8);
  ASSERT_EQ(loaded.failures.size(), 2u);
  EXPECT_EQ(Message(loaded.failures[0].status),
            "/in/c.txt: cannot be of type utf8, which --type asks of column \"txt\": begins with \"\\xff\"");
  EXPECT_EQ(Message(loaded.failures[1].status), "/in/d.txt: has 30 bytes, too many to look through as utf8");

  options.types = {{"jpg", Type::kImage}};
  loaded = Load(options);
  EXPECT_EQ(loaded.Keys(), (std::vector<std::string>{"b", "c", "d"}));
  EXPECT_EQ(loaded.samples[0].fields.at("jpg").type, Type::kImage);
  EXPECT_EQ(loaded.samples[1].fields.at("jpg").type, Type::kImage);
  EXPECT_EQ(loaded.samples[2].fields.at("txt").type, Type::kBytes);

  options.file_system = file_system_.get();
  auto source = OpenSource("files", {"/in"}, options);
  const auto columns = (*source)->InitialColumns();
  ASSERT_TRUE(columns.ok()) << columns.status();
  EXPECT_EQ((*columns)[1].type, Type::kImage);
  options.types = {{"png", Type::kImage}};
  source = OpenSource("files", {"/in"}, options);
  EXPECT_EQ((*source)->InitialColumns().status(),
            absl::InvalidArgumentError("--type png=image: there is no column \"png\"; there is \"jpg\", \"txt\""));
  options.types = {{"jpg", Type::kI32}};
  EXPECT_TRUE(absl::IsInvalidArgument(OpenSource("files", {"/in"}, options).status()));
  options.types = {{"jpg", Type::kBytes}};
  EXPECT_TRUE(absl::IsInvalidArgument(OpenSource("sa1b", {"/in"}, options).status()));
}

// The columns of a tar are known only at its end.
TEST_F(FilesSourceTest, TypesThatAreAskedForOfTars) {
  WriteFile(*file_system_, "/in.tar",
            test::MakeTar({{"d/a.jpg", "<html>"}, {"d/b.jpg", std::string(test::kJpegBytes)}}));
  SourceOptions options;
  options.file_system = file_system_.get();
  test::Loaded loaded = LoadAll(file_system_.get(), "files", {"/in.tar"});
  EXPECT_EQ(loaded.Keys(), std::vector<std::string>{"d/b"});
  ASSERT_EQ(loaded.failures.size(), 1u);
  EXPECT_TRUE(
      Message(loaded.failures[0].status).starts_with("/in.tar: member 'd/a.jpg': is named .jpg and is no image"))
      << loaded.failures[0].status;
  for (const auto& [name, type, found] : {std::tuple("jpg", Type::kBytes, true), std::tuple("jpg", Type::kJson, true),
                                          std::tuple("png", Type::kBytes, false)}) {
    options.types = {{name, type}};
    const auto source = OpenSource("files", {"/in.tar"}, options);
    ASSERT_TRUE((*source)->InitialColumns().ok());
    loaded = LoadAll(**source);
    EXPECT_EQ(loaded.samples.size(), type == Type::kJson ? 0u : std::string(name) == "png" ? 1u : 2u);
    EXPECT_EQ((*source)->CheckTypes().ok(), found) << (*source)->CheckTypes();
    EXPECT_EQ(absl::IsInvalidArgument((*source)->CheckTypes()), !found);
  }
}

TEST_F(FilesSourceTest, NamesTheFormatCannotHoldFailAlone) {
  Add("good.txt", "x");
  Add("bad\xff.txt", "x");
  Add("ext.\xff", "x");
  Add("line.a\nb", "x");
  const test::Loaded loaded = Load();
  EXPECT_EQ(loaded.Keys(), std::vector<std::string>{"good"});
  ASSERT_EQ(loaded.failures.size(), 3u);
  EXPECT_EQ(loaded.failures[0].position, 0u);
  EXPECT_NE(Message(loaded.failures[0].status).find("/in/bad\xff.txt: the name is not valid UTF-8"), std::string::npos);
  EXPECT_NE(Message(loaded.failures[1].status).find("/in/ext.\xff: the name is not valid UTF-8"), std::string::npos);
  EXPECT_NE(
      Message(loaded.failures[2].status).find("/in/line.a\nb: the extension cannot name a column (a column name has"),
      std::string::npos);
}

TEST_F(FilesSourceTest, TooManyExtensionsAreRefusedWithAReason) {
  for (int i = 0; i < 4100; ++i) Add(StrCat("a.", i), "x");
  auto source = OpenSource("files", {"/in"}, {{}, file_system_.get()});
  ASSERT_TRUE(source.ok());
  const auto columns = (*source)->InitialColumns();
  EXPECT_TRUE(absl::IsInvalidArgument(columns.status()));
  EXPECT_NE(Message(columns.status()).find("more than 4095 different extensions"), std::string::npos);
}

TEST_F(FilesSourceTest, SkippingAndCountingAgreeWithListing) {
  for (int i = 100; i < 150; ++i) Add(StrCat("d", i % 3, "/", i, ".txt"), "x");
  const test::Loaded all = Load();
  ASSERT_EQ(all.samples.size(), 50u);
  auto source = OpenSource("files", {"/in"}, {{}, file_system_.get()});
  ASSERT_TRUE(source.ok());
  EXPECT_EQ((*source)->Skip(17).value(), 17u);
  EXPECT_EQ((*source)->Count().value(), 50u);
  const test::Loaded rest = LoadAll(**source, 5);
  ASSERT_EQ(rest.samples.size(), 33u);
  EXPECT_EQ(rest.samples[0].key, all.samples[17].key);
  EXPECT_EQ((*source)->Skip(1).value(), 0u);
}

TEST_F(FilesSourceTest, InputsAreTakenInTheOrderGiven) {
  Add("b.txt", "1");
  WriteFile(*file_system_, "/other/a.txt", "2");
  const test::Loaded loaded = LoadAll(file_system_.get(), "files", {"/in", "/other"});
  EXPECT_EQ(loaded.Keys(), (std::vector<std::string>{"b", "a"}));
  EXPECT_FALSE((*OpenSource("files", {"/in", "/other"}, {{}, file_system_.get()}))->keys_ascend());
}

TEST_F(FilesSourceTest, MissingAndUnsuitableInputsAreNamed) {
  Add("a.txt", "x");
  EXPECT_TRUE(absl::IsNotFound(LoadAll(file_system_.get(), "files", {"/none"}).status));
  const test::Loaded not_tar = LoadAll(file_system_.get(), "files", {"/in/a.txt"});
  EXPECT_TRUE(absl::IsInvalidArgument(not_tar.status));
  EXPECT_EQ(Message(not_tar.status),
            "/in/a.txt: neither a directory nor a tar or zip: give the directory that holds the files");
  EXPECT_TRUE(absl::IsInvalidArgument(LoadAll(file_system_.get(), "mds2", {"/in"}).status));
  EXPECT_TRUE(absl::IsInvalidArgument(LoadAll(file_system_.get(), "files", {}).status));
}

TEST(FilesSourceDiskTest, WhatIsNoFileFailsItsSample) {
  const test::TemporaryFolder folder;
  FileSystem& disk = *PosixFileSystem();
  WriteFile(disk, folder / "in/a.txt", "x");
  WriteFile(disk, folder / "in/b.txt", "x");
  WriteFile(disk, folder / "target.txt", "linked");
  ASSERT_EQ(symlink("../nothing", (folder / "in/b.jpg").c_str()), 0);
  ASSERT_EQ(symlink("../target.txt", (folder / "in/c.txt").c_str()), 0);
  ASSERT_EQ(mkfifo((folder / "in/d.txt").c_str(), 0600), 0);
  ASSERT_EQ(symlink("../in", (folder / "in/e").c_str()), 0);
  const test::Loaded loaded = LoadAll(&disk, "files", {folder / "in"});
  ASSERT_TRUE(loaded.status.ok()) << loaded.status;
  ASSERT_EQ(loaded.Keys(), (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(loaded.samples[1].fields.at("txt").bytes, "linked");
  ASSERT_EQ(loaded.failures.size(), 3u);
  EXPECT_EQ(Message(loaded.failures[0].status),
            folder / "in/b.jpg" + ": a symbolic link to a file that does not exist");
  EXPECT_EQ(Message(loaded.failures[1].status),
            folder / "in/d.txt" + ": not a regular file (a socket, pipe or device)");
  EXPECT_EQ(Message(loaded.failures[2].status), folder / "in/e" + ": a symbolic link to a directory that contains it");
}

TEST(FilesSourceDiskTest, AFileThatVanishesFailsItsSample) {
  const test::TemporaryFolder folder;
  WriteFile(*PosixFileSystem(), folder / "in/a.txt", "x");
  auto source = OpenSource("files", {folder / "in"});
  ASSERT_TRUE(source.ok());
  auto unit = (*source)->Next(10);
  ASSERT_TRUE(unit.ok());
  ASSERT_EQ(unlink((folder / "in/a.txt").c_str()), 0);
  SampleBatch batch;
  (*source)->Load(**unit, &batch);
  ASSERT_EQ(batch.failures.size(), 1u);
  EXPECT_TRUE(absl::IsNotFound(batch.failures[0].status));
  EXPECT_EQ(batch.failures[0].key, "a.txt");
}

}  // namespace
}  // namespace shardkit
