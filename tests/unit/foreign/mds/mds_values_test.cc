// Values of MDS in our form, and back.
#include "foreign/mds/mds_values.h"

#include <cmath>
#include <limits>

#include "shardkit/copy.h"
#include "shardkit/image.h"
#include "unit/foreign/mds/mds_maker.h"

namespace shardkit::test {
namespace {

using foreign::AppendFromMds;
using foreign::AppendToMds;
using foreign::DescribeMdsEncoding;

absl::StatusOr<std::string> Read(std::string_view encoding, std::string_view stored, Type dtype = Type::kU8) {
  foreign::MdsEncoding how = DescribeMdsEncoding(encoding);
  if (how.form == foreign::MdsForm::kTypedArray) how.dtype = dtype;
  std::string out = "before";
  if (absl::Status status = AppendFromMds(how, stored, &out); !status.ok()) return status;
  EXPECT_TRUE(out.starts_with("before"));
  return out.substr(6);
}

std::string Write(std::string_view encoding, Type type, std::string_view value, Type dtype = Type::kU8) {
  Column column;
  column.name = "c";
  column.type = type;
  column.dtype = dtype;
  std::string out = "before";
  const absl::Status status = AppendToMds(column, DescribeMdsEncoding(encoding).form, value, &out);
  EXPECT_TRUE(status.ok()) << status;
  return out.substr(6);
}

TEST(MdsValues, Integers) {
  for (const int64_t number : {int64_t{0}, int64_t{7}, int64_t{-1}, INT64_MAX, INT64_MIN}) {
    const std::string text = std::to_string(number);
    EXPECT_EQ(*Read("str_int", text), Little(number));
    EXPECT_EQ(Write("str_int", Type::kI64, Little(number)), text);
  }
  EXPECT_EQ(*Read("str_int", "007"), Little(int64_t{7}));
  for (const std::string_view text : {"", " 1", "1 ", "1.0", "True", "0x1", "+1", "-"}) {
    EXPECT_TRUE(absl::IsDataLoss(Read("str_int", text).status())) << text;
  }
  for (const std::string_view text : {"9223372036854775808", "-9223372036854775809"}) {
    const absl::Status status = Read("str_int", text).status();
    EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
    EXPECT_EQ(Message(status), "a number of " + std::to_string(text.size()) + " digits, beyond those of 64 bits");
  }
}

// The texts are those of Python's str().
TEST(MdsValues, Reals) {
  const std::vector<std::pair<double, std::string>> texts = {{0, "0.0"},
                                                             {-0.0, "-0.0"},
                                                             {1, "1.0"},
                                                             {0.1, "0.1"},
                                                             {1e-4, "0.0001"},
                                                             {9.5e-5, "9.5e-05"},
                                                             {1e15, "1000000000000000.0"},
                                                             {1e16, "1e+16"},
                                                             {1.5e300, "1.5e+300"},
                                                             {5e-324, "5e-324"},
                                                             {1.0 / 3, "0.3333333333333333"},
                                                             {123456789.125, "123456789.125"},
                                                             {-2.5e-10, "-2.5e-10"},
                                                             {std::numeric_limits<double>::infinity(), "inf"},
                                                             {-std::numeric_limits<double>::infinity(), "-inf"}};
  for (const auto& [number, text] : texts) {
    EXPECT_EQ(*Read("str_float", text), Little(number)) << text;
    EXPECT_EQ(Write("str_float", Type::kF64, Little(number)), text);
  }
  EXPECT_EQ(Write("str_float", Type::kF64, *Read("str_float", "nan")), "nan");
  for (const std::string_view text : {"", "x", "1.0 ", "1,5"}) {
    EXPECT_TRUE(absl::IsDataLoss(Read("str_float", text).status())) << text;
  }
}

TEST(MdsValues, ArraysThatAreNone) {
  std::string out;
  const foreign::MdsEncoding how = foreign::DescribeMdsEncoding("ndarray:uint16");
  const auto append = [&](std::string_view payload) { return foreign::AppendFromMds(how, payload, &out); };
  EXPECT_TRUE(append(MdsArray({2, 1}, 0, "abcd")).ok());
  EXPECT_EQ(out, OurArray({2, 1}, "abcd"));
  EXPECT_TRUE(append(MdsArray({}, 0, "ab")).ok());
  EXPECT_TRUE(append(MdsArray({0, 5}, 3, "")).ok());
  EXPECT_TRUE(append(MdsArray({1, 1, 1, 1, 1, 1, 1, 1}, 0, "ab")).ok());
  for (const std::string& payload :
       {std::string(), MdsArray({2, 1}, 0, "abc"), MdsArray({2, 1}, 0, "abcde"),
        MdsArray({2, 1}, 2, "abcd").substr(0, 8), MdsArray({uint64_t{1} << 62, 2}, 3, ""), MdsArray({}, 0, "")}) {
    EXPECT_TRUE(absl::IsDataLoss(append(payload))) << append(payload);
  }
  EXPECT_TRUE(absl::IsUnimplemented(append(MdsArray({1, 1, 1, 1, 1, 1, 1, 1, 1}, 0, "ab"))));
}

TEST(MdsValues, ArraysThatCarryTheirDtype) {
  const std::vector<std::pair<char, Type>> codes = {
      {8, Type::kU8},   {9, Type::kI8},   {16, Type::kU16}, {17, Type::kI16}, {18, Type::kF16}, {32, Type::kU32},
      {33, Type::kI32}, {34, Type::kF32}, {64, Type::kU64}, {65, Type::kI64}, {66, Type::kF64}};
  for (const auto& [code, dtype] : codes) {
    const std::string elements(ScalarSize(dtype) * 6, 'e');
    const std::string stored = code + MdsArray({2, 3}, 0, elements);
    EXPECT_EQ(foreign::MdsDtypeOf(stored), dtype);
    EXPECT_EQ(*Read("ndarray", stored, dtype), OurArray({2, 3}, elements));
    EXPECT_EQ(Write("ndarray", Type::kNdarray, OurArray({2, 3}, elements), dtype), stored);
  }
  EXPECT_EQ(foreign::MdsDtypeOf(""), std::nullopt);
  EXPECT_EQ(foreign::MdsDtypeOf("\x0a"), std::nullopt);
  EXPECT_TRUE(absl::IsDataLoss(Read("ndarray", "").status()));
  EXPECT_TRUE(absl::IsDataLoss(Read("ndarray", "\x0a").status()));
  EXPECT_TRUE(absl::IsDataLoss(Read("ndarray", "\x08").status()));
  const absl::Status other = Read("ndarray", "\x11" + MdsArray({1}, 0, "ab")).status();
  EXPECT_TRUE(absl::IsUnimplemented(other));
  EXPECT_EQ(Message(other), "an array of i16, but the dataset begins with one of u8, and a column has one dtype");
}

// Bytes of the pixels of a mode.
size_t PixelBytes(std::string_view mode, uint32_t width, uint32_t height) {
  if (mode == "1") return size_t{(width + 7) / 8} * height;
  const size_t of_pixel = mode == "L" || mode == "P"       ? 1
                          : mode == "LA" || mode == "I;16" ? 2
                          : mode == "RGB" || mode == "LAB" ? 3
                                                           : 4;
  return of_pixel * width * height;
}

std::string Noise(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * i * 31 + 7 * i + 3);
  return bytes;
}

const std::vector<std::string> kModes = {"1", "L", "P", "LA", "RGB", "RGBA", "CMYK", "LAB", "I;16", "I", "F"};

TEST(MdsValues, PixelsOfEveryModeComeBack) {
  for (const std::string& mode : kModes) {
    for (const auto& [width, height] : std::vector<std::pair<uint32_t, uint32_t>>{{1, 1}, {2, 5}, {17, 3}, {300, 1}}) {
      const std::string stored = MdsPixels(width, height, mode, Noise(PixelBytes(mode, width, height)));
      const auto file = Read("pil", stored);
      ASSERT_TRUE(file.ok()) << mode << file.status();
      EXPECT_LE(file->size(), stored.size() + foreign::kMdsValueRoom) << mode;
      EXPECT_EQ(Write("pil", Type::kImage, *file), stored) << mode;
      const auto info = ProbeImage(*file);
      ASSERT_TRUE(info.ok()) << mode << info.status();
      EXPECT_EQ(info->width, width);
      EXPECT_EQ(info->height, height);
    }
  }
}

TEST(MdsValues, PixelsAreDecodedAsTheyAre) {
  const auto decoded = [](const std::string& mode, int channels) -> std::string {
    const auto file = Read("pil", MdsPixels(3, 2, mode, Noise(PixelBytes(mode, 3, 2))));
    EXPECT_TRUE(file.ok()) << file.status();
    ImageDecoder decoder;
    std::string pixels(static_cast<size_t>(3 * 2 * channels), '\0');
    MutableImageView view;
    view.pixels = reinterpret_cast<uint8_t*>(pixels.data());
    view.width = 3;
    view.height = 2;
    view.channels = channels;
    view.row_stride = static_cast<size_t>(3 * channels);
    const absl::Status status = decoder.Decode(*file, FullImage({3, 2, 1}), {}, view);
    EXPECT_TRUE(status.ok()) << mode << status;
    return pixels;
  };
  EXPECT_EQ(decoded("L", 1), Noise(6));
  EXPECT_EQ(decoded("P", 1), Noise(6));
  EXPECT_EQ(decoded("RGB", 3), Noise(18));
  EXPECT_EQ(decoded("RGBA", 4), Noise(24));
  EXPECT_EQ(*Read("pil", MdsPixels(3, 2, "L", Noise(6))), GrayTiff(3, 2, Noise(6)));
}

TEST(MdsValues, PixelsThatAreNone) {
  const std::string sound = MdsPixels(3, 2, "RGB", Noise(18));
  for (size_t length = 0; length < sound.size(); ++length) {
    const absl::Status status = Read("pil", sound.substr(0, length)).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << length << status;
  }
  EXPECT_TRUE(absl::IsDataLoss(Read("pil", sound + "x").status()));
  EXPECT_TRUE(absl::IsDataLoss(Read("pil", MdsPixels(UINT32_MAX, UINT32_MAX, "RGBA", "abcd")).status()));
  EXPECT_TRUE(absl::IsDataLoss(Read("pil", Little(uint64_t{1}) + Little(UINT32_MAX) + "RGB").status()));
  for (const std::string& stored : {MdsPixels(1, 1, "HSV", "abc"), MdsPixels(1, 1, "YCbCr", "abc"),
                                    MdsPixels(0, 1, "L", ""), MdsPixels(1, 0, "L", "")}) {
    EXPECT_TRUE(absl::IsUnimplemented(Read("pil", stored).status())) << Read("pil", stored).status();
  }
  Column column;
  column.name = "c";
  column.type = Type::kImage;
  std::string file = GrayTiff(3, 2, Noise(6)), out;
  for (size_t i = 0; i < file.size() - 6; ++i) {
    file[i] = static_cast<char>(file[i] ^ 1);
    const absl::Status status = AppendToMds(column, foreign::MdsForm::kPixels, file, &out);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << i << status;
    file[i] = static_cast<char>(file[i] ^ 1);
  }
}

std::string List(const std::vector<std::string>& elements) {
  std::string list = Little(uint32_t{0}) + Little(static_cast<uint32_t>(elements.size()));
  for (const std::string& element : elements) list += Little(static_cast<uint32_t>(element.size()));
  for (const std::string& element : elements) list += element;
  return list;
}

TEST(MdsValues, ListsOfPixels) {
  for (const size_t count : {0, 1, 2, 5}) {
    std::vector<std::string> pixels, files;
    for (uint32_t i = 0; i < count; ++i) {
      pixels.push_back(MdsPixels(i + 1, 2, "L", Noise(2 * (i + 1))));
      files.push_back(GrayTiff(i + 1, 2, Noise(2 * (i + 1))));
    }
    EXPECT_EQ(*Read("list[pil]", List(pixels)), List(files));
    EXPECT_EQ(Write("list[pil]", Type::kBytes, List(files)), List(pixels));
    EXPECT_EQ(Write("list[pil]", Type::kBytes, List(pixels)), List(pixels));
  }
  EXPECT_EQ(Write("list[pil]", Type::kBytes, "no list"), "no list");
  // The growth is bounded, which the memory for a block relies on.
  const std::vector<std::string> tiny(1000, MdsPixels(1, 1, "I;16", "ab"));
  EXPECT_LE(Read("list[pil]", List(tiny))->size(), foreign::kMdsListGrowth * List(tiny).size());
  const std::string sound = List({MdsPixels(1, 1, "L", "a"), MdsPixels(1, 1, "L", "b")});
  for (size_t length = 0; length < sound.size(); ++length) {
    const absl::Status status = Read("list[pil]", sound.substr(0, length)).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << length << status;
  }
  EXPECT_TRUE(absl::IsDataLoss(Read("list[pil]", sound + "x").status()));
  EXPECT_TRUE(absl::IsDataLoss(Read("list[pil]", Little(uint32_t{0}) + Little(UINT32_MAX)).status()));
  const absl::Status inner = Read("list[pil]", List({MdsPixels(1, 1, "L", "a"), MdsPixels(1, 1, "L", "")})).status();
  EXPECT_EQ(Message(inner), "element 1: 1 x 1 pixels of mode \"L\" in 0 bytes");
}

class MdsDtypeTest : public testing::Test {
 protected:
  const MdsFields fields_ = {{"any", "ndarray", {}}, {"id", "int", 8}};
  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_F(MdsDtypeTest, IsThatOfTheFirstSample) {
  std::vector<MdsRow> rows;
  for (int64_t i = 0; i < 5; ++i) rows.push_back({"\x22" + MdsArray({1, 2}, 0, "abcdefgh"), Little(i)});
  // A first sample that is larger than a shard follows a shard without samples.
  Tree tree = MdsTree(fields_, rows, 2);
  tree["empty.mds"] = MdsShardBytes(fields_, {});
  std::vector<MdsListed> listed = {{.name = "empty.mds", .bytes = tree["empty.mds"].size()}};
  for (const auto& [name, count] : {std::pair{"shard.00000.mds", 2}, {"shard.00001.mds", 2}, {"shard.00002.mds", 1}}) {
    listed.push_back({.name = name, .bytes = tree[name].size(), .samples = static_cast<uint64_t>(count)});
  }
  tree["index.json"] = MdsIndexText(fields_, listed);
  WriteTree(*files_, "/data", tree);
  const auto dataset = OpenDataset(*files_, "/data");
  ASSERT_NE(dataset, nullptr);
  EXPECT_EQ(dataset->columns()[0].type, Type::kNdarray);
  EXPECT_EQ(dataset->columns()[0].dtype, Type::kF32);
  BlockBuffer buffer;
  for (uint64_t i = 0; i < 5; ++i) EXPECT_EQ(*dataset->ReadValue(i, 0, &buffer), OurArray({1, 2}, "abcdefgh"));
}

TEST_F(MdsDtypeTest, AnotherOneIsNamed) {
  WriteTree(*files_, "/data",
            MdsTree(fields_,
                    {{"\x08" + MdsArray({1}, 0, "a"), Little(int64_t{0})},
                     {"\x09" + MdsArray({1}, 0, "a"), Little(int64_t{1})}},
                    2));
  const auto dataset = OpenDataset(*files_, "/data");
  ASSERT_NE(dataset, nullptr);
  BlockBuffer buffer;
  EXPECT_TRUE(dataset->ReadValue(0, 0, &buffer).ok());
  const absl::Status other = dataset->ReadValue(1, 0, &buffer).status();
  EXPECT_TRUE(absl::IsUnimplemented(other));
  EXPECT_NE(Message(other).find("/data/shard.00000.mds: sample 1 at byte "), std::string::npos) << other;
  EXPECT_NE(Message(other).find("column \"any\": an array of i8, but the dataset begins with one of u8"),
            std::string::npos)
      << other;
  DatasetOptions options;
  options.mds_as_stored = true;
  const auto stored = OpenDataset(*files_, "/data", options);
  EXPECT_EQ(*stored->ReadValue(1, 0, &buffer), "\x09" + MdsArray({1}, 0, "a"));
  // From MDS to MDS, values stay as they are stored.
  ConvertOptions convert;
  convert.to = Container::kMds;
  ASSERT_TRUE(Convert(*files_, "/data", "/copy", convert).ok());
  EXPECT_EQ(*files_->ReadFile("/copy/shard.00000.mds", 1 << 20).value().substr(0, 4).data(), '\x02');
  EXPECT_EQ(*OpenDataset(*files_, "/copy", options)->ReadValue(1, 0, &buffer), "\x09" + MdsArray({1}, 0, "a"));
}

TEST_F(MdsDtypeTest, IsThatOfTheFirstShardThatCanBeRead) {
  const std::string value = "\x09" + MdsArray({1}, 0, "a");
  const Tree sound = MdsTree(fields_, {{value, Little(int64_t{0})}, {value, Little(int64_t{1})}}, 1);
  const std::string first = "shard.00000.mds";
  const auto damaged = [&](std::string bytes) {
    Tree tree = sound;
    tree[first] = std::move(bytes);
    return tree;
  };
  std::string other = sound.at(first);
  other[other.find(value)] = '\x01';
  Tree missing = sound;
  missing.erase(first);
  for (const Tree& tree : {missing, damaged(sound.at(first).substr(1)), damaged(other)}) {
    const auto files = NewMemoryFileSystem();
    WriteTree(*files, "/data", tree);
    const auto dataset = OpenDataset(*files, "/data");
    ASSERT_NE(dataset, nullptr);
    EXPECT_EQ(dataset->columns()[0].dtype, Type::kI8);
    BlockBuffer buffer;
    EXPECT_EQ(*dataset->ReadValue(1, 0, &buffer), OurArray({1}, "a"));
    EXPECT_NE(Message(dataset->ReadValue(0, 0, &buffer).status()).find("/data/shard.00000.mds: "), std::string::npos);
  }
}

// Of a dataset whose shards are all missing, a few are looked for.
TEST_F(MdsDtypeTest, IsNotLookedForInAllShards) {
  const std::string value = "\x09" + MdsArray({1}, 0, "a");
  std::vector<std::vector<std::string>> rows;
  for (int64_t i = 0; i < 20; ++i) rows.push_back({value, Little(i)});
  for (const size_t missing : {7, 8}) {
    Tree tree = MdsTree(fields_, rows, 1);
    for (size_t shard = 0; shard < missing; ++shard) tree.erase(StrCat("shard.0000", shard, ".mds"));
    const auto files = NewMemoryFileSystem();
    WriteTree(*files, "/data", tree);
    const auto dataset = DatasetReader::Open(*files, "/data");
    EXPECT_EQ(dataset.ok(), missing == 7) << dataset.status();
    if (!dataset.ok()) {
      EXPECT_NE(Message(dataset.status()).find("/data/shard.00000.mds"), std::string::npos);
    }
  }
}

TEST_F(MdsDtypeTest, IsReadOnlyWhereTheColumnIsWanted) {
  Tree tree = MdsTree(fields_, {{"nonsense", Little(int64_t{0})}}, 1);
  WriteTree(*files_, "/data", tree);
  const auto refused = DatasetReader::Open(*files_, "/data");
  EXPECT_TRUE(absl::IsDataLoss(refused.status()));
  EXPECT_EQ(
      Message(refused.status()),
      "/data/shard.00000.mds: sample 0: column \"any\": an array of a dtype that MDS does not have; mds_as_stored "
      "reads its bytes");
  DatasetOptions options;
  options.columns = {"id"};
  EXPECT_NE(OpenDataset(*files_, "/data", options), nullptr);
  tree.erase("shard.00000.mds");
  WriteTree(*files_, "/gone", tree);
  EXPECT_NE(OpenDataset(*files_, "/gone", options), nullptr);
  EXPECT_TRUE(absl::IsNotFound(DatasetReader::Open(*files_, "/gone").status()));
  // Without samples there is nothing to look at.
  const std::string shard = MdsShardBytes(fields_, {});
  WriteTree(*files_, "/empty",
            {{"a.mds", shard}, {"index.json", MdsIndexText(fields_, {{.name = "a.mds", .bytes = shard.size()}})}});
  EXPECT_EQ(OpenDataset(*files_, "/empty")->columns()[0].type, Type::kBytes);
}

}  // namespace
}  // namespace shardkit::test
