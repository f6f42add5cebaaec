// Types of columns from other containers, and encodings that are kept.
#include <nlohmann/json.hpp>

#include "unit/foreign/mds/mds_maker.h"
#include "unit/foreign/webdataset/tar_maker.h"
#include "unit/operations/copy/containers_support.h"

namespace shardkit::test {
namespace {

TEST(TypesTest, OfMdsWithoutAWordOnWhatItWas) {
  const auto files = NewMemoryFileSystem();
  WriteThree(*files, "/in",
             {MakeColumn("image", Type::kJpeg), MakeArrayColumn("a", Type::kF32), MakeColumn("n", Type::kI64, true)},
             {{"x"}, {ArrayValue(Type::kF32, {1}, "1234")}, {"12345678"}});
  ASSERT_TRUE(ConvertTo(*files, "/in", "/mds", Container::kMds).ok());
  ASSERT_TRUE(files->RemoveFile("/mds/shardkit.json").ok());
  ASSERT_TRUE(ConvertTo(*files, "/mds", "/out", Container::kShard).ok());
  EXPECT_EQ(ColumnText(*files, "/out"), "key utf8*, a ndarray:f32, image jpeg, n i64, text utf8");
  EXPECT_TRUE(ScanRows(*files, "/out") == ScanRows(*files, "/in"));
  const auto dataset = OpenDataset(*files, "/out");
  EXPECT_EQ(dataset->summary().metadata.at("shardkit.source"), "mds");
}

// The values decide the type, as in packing. For MDS the encoding must be known before the values.
TEST(TypesTest, OfTarsWithoutAWordOnWhatTheyWere) {
  const auto files = NewMemoryFileSystem();
  WriteFile(*files, "/in/0.tar",
            MakeTar({{"a.json", "{}"},
                     {"a.txt", "text"},
                     {"a.jpg", "\xff\xd8\xff"},
                     {"a.bin", "\xff"},
                     {"b.json", "[1]"},
                     {"b.txt", "more"},
                     {"b.cls", "3"}}));
  ASSERT_TRUE(ConvertTo(*files, "/in", "/out", Container::kShard).ok());
  EXPECT_EQ(ColumnText(*files, "/out"), "key utf8*, json json?, txt utf8?, jpg jpeg?, bin bytes?, cls utf8?");
  WriteFile(*files, "/two/0.tar", MakeTar({{"a.json", "{}"}, {"b.json", "no JSON"}}));
  ASSERT_TRUE(ConvertTo(*files, "/two", "/out2", Container::kShard).ok());
  EXPECT_EQ(ColumnText(*files, "/out2"), "key utf8*, json utf8?");
  ConvertOptions options = SmallOptions(Container::kMds);
  options.lossy = true;
  ASSERT_TRUE(ConvertTo(*files, "/in", "/mds", options).ok());
  EXPECT_EQ(ColumnText(*files, "/mds"), "bin bytes, cls bytes, jpg bytes, json bytes, key utf8*, txt bytes");
  const std::vector<Row> rows = ScanRows(*files, "/out");
  ASSERT_TRUE(ConvertTo(*files, "/out", "/tars", Container::kWebDataset).ok());
  EXPECT_TRUE(ScanRows(*files, "/tars") == rows);
}

// Also for a tar whose names say one format. Another container records the type.
TEST(TypesTest, ImagesOfSeveralFormats) {
  const auto files = NewMemoryFileSystem();
  WriteFile(*files, "/in/0.tar",
            MakeTar({{"a.jpg", "\xff\xd8\xff"}, {"b.jpg", "\x89PNG\r\n\x1a\n"}, {"c.webp", "RIFF1234WEBP"}}));
  EXPECT_EQ(ColumnText(*files, "/in"), "key utf8*, jpg jpeg?, webp image?");
  ASSERT_TRUE(ConvertTo(*files, "/in", "/out", Container::kShard).ok());
  EXPECT_EQ(ColumnText(*files, "/out"), "key utf8*, jpg image?, webp image?");
  ConvertOptions options = SmallOptions(Container::kMds);
  options.lossy = true;
  ASSERT_TRUE(ConvertTo(*files, "/out", "/mds", options).ok());
  EXPECT_EQ(ColumnText(*files, "/mds"), "jpg bytes, key utf8*, webp bytes");
  ASSERT_TRUE(ConvertTo(*files, "/mds", "/again", Container::kShard).ok());
  EXPECT_EQ(ColumnText(*files, "/again"), "key utf8*, jpg image?, webp image?");
  ASSERT_TRUE(ConvertTo(*files, "/out", "/tars", Container::kWebDataset).ok());
  ASSERT_TRUE(ConvertTo(*files, "/tars", "/back", Container::kShard).ok());
  EXPECT_EQ(ColumnText(*files, "/back"), "key utf8*, jpg image?, webp image?");
  EXPECT_TRUE(ScanRows(*files, "/back") == ScanRows(*files, "/out"));

  WriteFile(*files, "/bad/0.tar", MakeTar({{"a.jpg", "\xff\xd8\xff"}, {"b.jpg", "<html>"}}));
  const absl::Status bad = ConvertTo(*files, "/bad", "/bad.out", Container::kShard);
  EXPECT_TRUE(absl::IsDataLoss(bad)) << bad;
  EXPECT_NE(Message(bad).find("sample 1: column \"jpg\": is named .jpg and is no image"), std::string::npos) << bad;
}

// For every readable encoding, the stored bytes are written again.
TEST(TypesTest, EncodingsOfMdsStay) {
  const MdsFields fields = EveryField();
  const std::vector<MdsRow> rows = EveryRow(12);
  const auto files = NewMemoryFileSystem();
  WriteTree(*files, "/in", MdsTree(fields, rows, 5));
  ASSERT_TRUE(ConvertTo(*files, "/in", "/shards", Container::kShard).ok());
  ASSERT_TRUE(ConvertTo(*files, "/in", "/direct", Container::kMds).ok());
  ASSERT_TRUE(ConvertTo(*files, "/shards", "/again", Container::kMds).ok());
  const auto encodings = [&](const std::string& directory) {
    const auto index = nlohmann::json::parse(ReadAll(*files, directory + "/index.json"));
    std::map<std::string, std::string> by_column;
    const auto& shard = index.at("shards").at(0);
    for (size_t i = 0; i < shard.at("column_names").size(); ++i) {
      by_column[shard.at("column_names").at(i)] = shard.at("column_encodings").at(i);
    }
    return by_column;
  };
  EXPECT_EQ(encodings("/again"), encodings("/in"));
  EXPECT_EQ(encodings("/direct"), encodings("/in"));
  EXPECT_EQ(ReadAll(*files, "/direct/shard.00001.mds"), ReadAll(*files, "/again/shard.00001.mds"));
  EXPECT_TRUE(ScanRows(*files, "/again") == ScanRows(*files, "/in"));
  ExpectRows(*OpenDataset(*files, "/again"), fields, rows);
}

// Encodings chosen for a Shardkit dataset are kept from MDS to MDS. Converted back, the columns are the original ones.
TEST(TypesTest, ChosenEncodings) {
  const auto files = NewMemoryFileSystem();
  WriteThree(*files, "/in", {MakeColumn("n", Type::kI64), MakeColumn("p", Type::kBytes)}, {{"12345678"}, {"any"}});
  ConvertOptions options = SmallOptions(Container::kMds);
  options.mds.encodings = {{"n", "int"}, {"p", "pil"}, {"text", "str_int"}};
  ASSERT_TRUE(ConvertTo(*files, "/in", "/mds", options).ok());
  ASSERT_TRUE(ConvertTo(*files, "/mds", "/again", Container::kMds).ok());
  EXPECT_EQ(ReadAll(*files, "/again/index.json"), ReadAll(*files, "/mds/index.json"));
  options.mds.encodings = {{"p", "jpeg"}, {"text", "png"}};
  ASSERT_TRUE(ConvertTo(*files, "/in", "/pictures", options).ok());
  EXPECT_EQ(ColumnText(*files, "/pictures"), "key utf8*, n i64, p jpeg, text png");
  ASSERT_TRUE(ConvertTo(*files, "/pictures", "/back", Container::kShard).ok());
  EXPECT_TRUE(ColumnsOf(*files, "/back") == ColumnsOf(*files, "/in")) << ColumnText(*files, "/back");
}

TEST(TypesTest, OnlyImagesMadeOfPixelsBecomePixels) {
  const auto files = NewMemoryFileSystem();
  const std::string tiff = GrayTiff(2, 1, "ab");
  WriteThree(*files, "/in", {MakeColumn("p", Type::kImage)}, {{tiff}});
  ConvertOptions options = SmallOptions(Container::kMds);
  options.mds.encodings = {{"p", "pil"}};
  ASSERT_TRUE(ConvertTo(*files, "/in", "/mds", options).ok());
  EXPECT_EQ(ColumnText(*files, "/mds"), "key utf8*, p image, text utf8");
  EXPECT_TRUE(ScanRows(*files, "/mds") == ScanRows(*files, "/in"));
  EXPECT_NE(ReadAll(*files, "/mds/shard.00000.mds").find(MdsPixels(2, 1, "L", "ab")), std::string::npos);
  ASSERT_TRUE(ConvertTo(*files, "/mds", "/back", Container::kShard).ok());
  EXPECT_TRUE(ColumnsOf(*files, "/back") == ColumnsOf(*files, "/in")) << ColumnText(*files, "/back");
  WriteThree(*files, "/jpeg", {MakeColumn("p", Type::kImage)}, {{"\xff\xd8\xff"}});
  const absl::Status refused = ConvertTo(*files, "/jpeg", "/no", options);
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_NE(Message(refused).find("column \"p\": an image that is not one of MDS's encoding pil: choose another "
                                  "(--encoding p=jpeg"),
            std::string::npos)
      << refused;
}

TEST(TypesTest, ADamagedWordOnWhatItWas) {
  const auto files = NewMemoryFileSystem();
  WriteThree(*files, "/in", {}, {});
  for (const Container to : {Container::kMds, Container::kWebDataset}) {
    const std::string out = std::string("/") + std::string(ContainerName(to));
    ASSERT_TRUE(ConvertTo(*files, "/in", out, to).ok());
    WriteFile(*files, out + "/shardkit.json", "{}");
    const absl::Status status = ConvertTo(*files, out, "/back", Container::kShard);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_NE(Message(status).find("shardkit.json (remove it"), std::string::npos) << status;
  }
}

// A value that is no longer the file of an array: the damage is reported, not converted.
TEST(TypesTest, DamagedArraysInTars) {
  const auto files = NewMemoryFileSystem();
  WriteThree(*files, "/in", {MakeColumn("n", Type::kI32)}, {{"1234"}});
  ConvertOptions options = SmallOptions(Container::kWebDataset);
  options.webdataset.index = false;
  ASSERT_TRUE(ConvertTo(*files, "/in", "/tars", options).ok());
  std::string tar = ReadAll(*files, "/tars/000000.tar");
  const size_t place = tar.find("<i4");
  ASSERT_NE(place, tar.npos);
  tar[place + 2] = '8';
  WriteFile(*files, "/tars/000000.tar", tar);
  const absl::Status status = ConvertTo(*files, "/tars", "/back", Container::kShard);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_NE(Message(status).find("sample 0: column \"n\": npy"), std::string::npos) << status;
}

}  // namespace
}  // namespace shardkit::test
