#include <algorithm>
#include <set>

#include "base/endian.h"
#include "base/strings.h"
#include "shardkit/tar_index.h"
#include "unit/operations/pack/convert_support.h"

namespace shardkit {
namespace {

using test::LoadAll;
using test::Message;

class ImageFolderTest : public testing::Test {
 protected:
  void Add(const std::string& path, std::string_view bytes) { test::WriteFile(*file_system_, path, bytes); }
  test::Loaded Load(const std::vector<std::string>& inputs = {"/in"}) {
    SourceOptions options;
    options.order = FolderOrder::kPath;
    return LoadAll(file_system_.get(), "imagefolder", inputs, options);
  }
  std::unique_ptr<FileSystem> file_system_ = NewMemoryFileSystem();
};

int64_t Label(const test::LoadedSample& sample) { return LoadLittle<int64_t>(sample.fields.at("label").bytes.data()); }

TEST_F(ImageFolderTest, LabelsAreClassesInByteOrder) {
  Add("/in/dog/x/1.jpg", test::kJpegBytes);
  Add("/in/cat/2.png", test::kPngBytes);
  Add("/in/Bird/3.bmp", "BM not really");
  const test::Loaded loaded = Load();
  ASSERT_TRUE(loaded.failures.empty()) << loaded.failures[0].status;
  ASSERT_EQ(loaded.Keys(), (std::vector<std::string>{"Bird/3.bmp", "cat/2.png", "dog/x/1.jpg"}));
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(Label(loaded.samples[static_cast<size_t>(i)]), i);
  EXPECT_EQ(loaded.samples[2].fields.at("class_name").bytes, "dog");
  EXPECT_EQ(loaded.samples[0].fields.at("image").type, Type::kImage);
  EXPECT_EQ(loaded.samples[1].fields.at("image").type, Type::kPng);
  EXPECT_EQ(loaded.samples[2].fields.at("image").type, Type::kJpeg);
}

TEST_F(ImageFolderTest, ClassesAreMixedUnlessByPath) {
  std::vector<std::string> by_path;
  for (int i = 0; i < 400; ++i) {
    by_path.push_back(StrCat("class ", i / 40, "/", 100 + i, ".jpg"));
    Add("/in/" + by_path.back(), test::kJpegBytes);
  }
  EXPECT_EQ(Load().Keys(), by_path);
  const test::Loaded mixed = LoadAll(file_system_.get(), "imagefolder", {"/in"});
  std::vector<std::string> keys = mixed.Keys();
  for (size_t begin = 0; begin < keys.size(); begin += 40) {
    std::set<int64_t> labels;
    for (size_t i = begin; i < begin + 40; ++i) labels.insert(Label(mixed.samples[i]));
    EXPECT_GE(labels.size(), 8u) << begin;
  }
  std::ranges::sort(keys);
  EXPECT_EQ(keys, by_path);

  // The order is the same with other units, and another file moves none.
  Add("/in/class 3/new.jpg", test::kJpegBytes);
  auto source = OpenSource("imagefolder", {"/in"}, {{}, file_system_.get()});
  ASSERT_TRUE(source.ok());
  EXPECT_EQ((*source)->Count().value(), 401u);
  keys = LoadAll(**source, 64).Keys();
  EXPECT_EQ(keys.size(), 401u);
  std::erase(keys, "class 3/new.jpg");
  EXPECT_EQ(keys, mixed.Keys());

  SourceOptions options;
  options.file_system = file_system_.get();
  options.order = FolderOrder::kRandom;
  EXPECT_TRUE(absl::IsInvalidArgument(OpenSource("files", {"/in"}, options).status()));
  EXPECT_TRUE(OpenSource("auto", {"/in"}, options).ok());
}

TEST_F(ImageFolderTest, ClassesAreThoseOfAllInputs) {
  Add("/in/b/1.jpg", test::kJpegBytes);
  Add("/more/a/1.jpg", test::kJpegBytes);
  Add("/more/b/2.jpg", test::kJpegBytes);
  const test::Loaded loaded = Load({"/in", "/more"});
  ASSERT_EQ(loaded.samples.size(), 3u);
  EXPECT_EQ(Label(loaded.samples[0]), 1);
  EXPECT_EQ(Label(loaded.samples[1]), 0);
  EXPECT_EQ(Label(loaded.samples[2]), 1);
  const auto source = OpenSource("imagefolder", {"/in", "/more"}, {{}, file_system_.get()});
  ASSERT_TRUE(source.ok());
  EXPECT_EQ((*source)->metadata().at("imagefolder.classes"), R"(["a", "b"])");
}

TEST_F(ImageFolderTest, InitialColumns) {
  Add("/in/a/0.txt", "no image");
  Add("/in/a/1.jpg", test::kJpegBytes);
  const auto source = OpenSource("imagefolder", {"/in"}, {{}, file_system_.get()});
  ASSERT_TRUE(source.ok());
  const auto columns = (*source)->InitialColumns();
  ASSERT_TRUE(columns.ok());
  ASSERT_EQ(columns->size(), 4u);
  EXPECT_EQ((*columns)[2].metadata, (Metadata{{"class_names", R"(["a"])"}}));
  EXPECT_EQ((*columns)[1].name, "image");
  EXPECT_EQ((*columns)[1].type, Type::kJpeg);
  EXPECT_FALSE((*columns)[1].nullable);
  EXPECT_EQ((*columns)[2].type, Type::kI64);
  EXPECT_TRUE(Schema::Create(*columns).ok());
}

TEST_F(ImageFolderTest, WhatIsNoImageFails) {
  Add("/in/a/1.txt", "text");
  Add("/in/a/2.jpg", "");
  Add("/in/a/3", test::kJpegBytes);
  Add("/in/a/4.JPEG", "<html>");
  Add("/in/a/5.ppm", "P6\n1 1\n255\nabc");
  Add("/in/a/6", "BM");  // too short a signature without an extension
  Add("/in/stray.jpg", test::kJpegBytes);
  const test::Loaded loaded = Load();
  EXPECT_EQ(loaded.Keys(), (std::vector<std::string>{"a/3", "a/5.ppm"}));
  EXPECT_EQ(loaded.samples[1].fields.at("image").type, Type::kImage);
  ASSERT_EQ(loaded.failures.size(), 5u);
  EXPECT_EQ(Message(loaded.failures[0].status), "/in/a/1.txt: not an image; `--from files` packs any kind of file");
  EXPECT_EQ(Message(loaded.failures[1].status),
            "/in/a/2.jpg: an empty file is not an image; remove it, pack with --on-error skip, or --type image=bytes");
  EXPECT_EQ(Message(loaded.failures[2].status),
            "/in/a/4.JPEG: is named .JPEG and is no image of a known format: begins with \"<html>\"; remove it, pack "
            "with --on-error skip, or --type image=bytes");
  EXPECT_EQ(Message(loaded.failures[3].status), "/in/a/6: not an image; `--from files` packs any kind of file");
  EXPECT_EQ(Message(loaded.failures[4].status),
            "/in/stray.jpg: lies outside of the class directories; imagefolder expects INPUT/CLASS/IMAGE");
}

TEST_F(ImageFolderTest, TypesThatAreAskedFor) {
  Add("/in/a/1.jpg", "<html>");
  Add("/in/a/2.jpg", test::kPngBytes);
  Add("/in/a/3.jpg", "");
  SourceOptions options;
  options.file_system = file_system_.get();
  options.order = FolderOrder::kPath;
  options.types = {{"image", Type::kBytes}};
  auto source = OpenSource("imagefolder", {"/in"}, options);
  EXPECT_EQ((*source)->InitialColumns().value()[1].type, Type::kBytes);
  EXPECT_EQ(LoadAll(**source).samples.size(), 3u);
  options.types = {{"image", Type::kImage}};
  source = OpenSource("imagefolder", {"/in"}, options);
  EXPECT_EQ((*source)->InitialColumns().value()[1].type, Type::kImage);
  const test::Loaded loaded = LoadAll(**source);
  ASSERT_EQ(loaded.Keys(), (std::vector<std::string>{"a/2.jpg"}));
  EXPECT_EQ(loaded.samples[0].fields.at("image").type, Type::kImage);
  for (const char* const name : {"label", "jpg"}) {
    options.types = {{name, Type::kBytes}};
    EXPECT_TRUE(absl::IsInvalidArgument(OpenSource("imagefolder", {"/in"}, options).status()));
  }
}

TEST_F(ImageFolderTest, NeedsClassDirectories) {
  Add("/in/1.jpg", test::kJpegBytes);
  EXPECT_TRUE(absl::IsInvalidArgument(Load().status));
  Add("/a.tar", test::MakeTar({{"1.jpg", std::string(test::kJpegBytes)}}));
  EXPECT_TRUE(absl::IsInvalidArgument(Load({"/a.tar"}).status));
}

class DetectTest : public ImageFolderTest {
 protected:
  std::string Kind(const std::vector<std::string>& inputs = {"/in"}) {
    const auto source = OpenSource("auto", inputs, {{}, file_system_.get()});
    return source.ok() ? std::string((*source)->name()) : source.status().ToString();
  }
};

TEST_F(DetectTest, PairsAreSa1b) {
  Add("/in/sa_1.jpg", "x");
  Add("/in/sa_1.json", "x");
  Add("/in/README", "x");
  EXPECT_EQ(Kind(), "sa1b");
  Add("/a.tar", test::MakeTar({{"./sa_1.jpg", "x"}, {"./sa_1.json", "x"}, {"./sa_2.jpg", "x"}}));
  EXPECT_EQ(Kind({"/a.tar"}), "sa1b");
  EXPECT_EQ(Kind({"/in", "/a.tar"}), "sa1b");
}

TEST_F(DetectTest, DirectoriesOfTarsAreTheSamplesInThem) {
  const std::string tar = test::MakeTar({{"a.txt", "x"}, {"b.txt", "y"}});
  Add("/in/0.tar", tar);
  ASSERT_TRUE(BuildTarIndex(*file_system_, "/in/0.tar").ok());
  ASSERT_TRUE(BuildDaliIndex(*file_system_, "/in/0.tar").ok());
  Add("/in/.hidden", "x");
  Add("/b.tar", tar);
  EXPECT_EQ(Kind(), "webdataset");
  EXPECT_EQ(Kind({"/b.tar"}), "files");
  EXPECT_EQ(Kind({"/b.tar", "/in"}), "webdataset");
  Add("/loose/a.txt", "x");
  EXPECT_EQ(Kind({"/loose", "/in"}).rfind("INVALID_ARGUMENT: /loose: is not, as /in, a directory of tars", 0), 0u);
  Add("/in/README", "x");
  EXPECT_EQ(Kind(), "files");
  Add("/pairs/1.tar", test::MakeTar({{"sa_1.jpg", "x"}, {"sa_1.json", "x"}}));
  Add("/pairs/2.tar", test::MakeTar({{"sa_2.jpg", "x"}, {"sa_2.json", "x"}}));
  EXPECT_EQ(Kind({"/pairs"}), "sa1b");
  EXPECT_EQ(Kind({"/pairs", "/b.tar"}), "webdataset");
}

TEST_F(DetectTest, EmptyDirectoriesAreRefusedUnlessMeant) {
  Add("/in/.git/config", "x");
  ASSERT_TRUE(CreateDirectories(*file_system_, "/in/sub/.x").ok());
  const std::string refused = "INVALID_ARGUMENT: /in: there are no files in it";
  EXPECT_EQ(Kind().rfind(refused, 0), 0u) << Kind();
  SourceOptions options{{}, file_system_.get()};
  EXPECT_EQ(OpenSource("files", {"/in"}, options).status().ToString().rfind(refused, 0), 0u);
  options.allow_empty = true;
  EXPECT_TRUE(OpenSource("auto", {"/in"}, options).ok());
  Add("/in/sub/a.b", "x");
  EXPECT_EQ(Kind(), "files");
}

TEST_F(DetectTest, ClassDirectoriesOfImagesAreAnImageFolder) {
  Add("/in/a/1.jpg", "x");
  Add("/in/b/1.png", "x");
  Add("/in/b/2.avif", "x");
  Add("/in/b/2.JXL", "x");
  EXPECT_EQ(Kind(), "imagefolder");
  Add("/in/b/1.txt", "x");
  EXPECT_EQ(Kind(), "files");
}

TEST_F(DetectTest, HiddenNamesAreNoClassesAndNoImages) {
  Add("/in/a/1.jpg", test::kJpegBytes);
  Add("/in/b/2.jpg", test::kJpegBytes);
  Add("/in/.DS_Store", "x");
  Add("/in/a/thumbs.DB", "x");
  Add("/in/b/.x/3.jpg", test::kJpegBytes);
  Add("/in/.ipynb_checkpoints/4.jpg", test::kJpegBytes);
  EXPECT_EQ(Kind(), "imagefolder");
  SourceOptions options{{}, file_system_.get()};
  options.order = FolderOrder::kPath;
  const auto source = OpenSource("imagefolder", {"/in"}, options);
  ASSERT_TRUE(source.ok());
  EXPECT_EQ((*source)->Count().value(), 2u);
  const test::Loaded loaded = LoadAll(**source);
  EXPECT_EQ(loaded.Keys(), (std::vector<std::string>{"a/1.jpg", "b/2.jpg"}));
  EXPECT_EQ(Label(loaded.samples[1]), 1);
  EXPECT_EQ((*source)->warnings(),
            (std::vector<std::string>{"passed over 4 hidden files or folders (/in/.DS_Store, …); --keep-hidden packs "
                                      "them"}));
  options.keep_hidden = true;
  EXPECT_EQ(LoadAll(file_system_.get(), "imagefolder", {"/in"}, options).positions, 6u);
}

TEST_F(DetectTest, EverythingElseIsFiles) {
  Add("/in/a/1.jpg", "x");
  EXPECT_EQ(Kind(), "files") << "one directory makes no classes";
  Add("/in/b/1.jpg", "x");
  Add("/in/c.jpg", "x");
  EXPECT_EQ(Kind(), "files");
  Add("/a.tar", test::MakeTar({{"a/1.jpg", "x"}, {"b/1.jpg", "x"}}));
  EXPECT_EQ(Kind({"/a.tar"}), "files");
}

}  // namespace
}  // namespace shardkit
