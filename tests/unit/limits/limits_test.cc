// Data that decompresses to more than the limit is refused with an error that names the limit, before memory is
// allocated. With a higher limit it is read.
#include <gtest/gtest.h>
#include <png.h>

#include <string>
#include <vector>

#include "base/status_macros.h"
#include "base/strings.h"
#include "codec/jpeg_maker.h"
#include "codec/zstd.h"
#include "dataset/dataset_support.h"
#include "shardkit/copy.h"
#include "shardkit/image.h"
#include "shardkit/loader.h"
#include "shardkit/pack.h"
#include "shardkit/repair.h"
#include "shardkit/source.h"
#include "shardkit/validate.h"
#include "unit/foreign/mds/mds_maker.h"
#include "unit/foreign/webdataset/tar_maker.h"

namespace shardkit::test {
namespace {

constexpr size_t kLong = 1 << 20;
constexpr uint64_t kTooLittle = kLong / 2;
constexpr uint64_t kEnough = 2 * kLong;

void ExpectRefused(const absl::Status& status, std::string_view path) {
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_NE(ToStd(status.message()).find(path), std::string_view::npos) << status;
  EXPECT_NE(ToStd(status.message()).find("limit"), std::string_view::npos) << status;
}

class LimitsTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::string> FirstValue(const std::string& path, const std::string& column, uint64_t limit) {
    DatasetOptions options;
    options.max_decompression = limit;
    const auto dataset = DatasetReader::Open(*files_, path, options);
    if (!dataset.ok()) return dataset.status();
    SHARDKIT_ASSIGN_OR_RETURN(const size_t position, (*dataset)->FindColumn(column));
    BlockBuffer buffer;
    SHARDKIT_ASSIGN_OR_RETURN(const auto value, (*dataset)->ReadValue(0, position, &buffer));
    return std::string(value.value_or("absent"));
  }

  absl::StatusOr<ValidateReport> Check(const std::string& path, uint64_t limit) {
    ValidateOptions options;
    options.max_decompression = limit;
    return Validate(*files_, path, options);
  }

  void ExpectLimit(const std::string& path, const std::string& column, const std::string& file,
                   const std::string& value) {
    ExpectRefused(FirstValue(path, column, kTooLittle).status(), file);
    const auto read = FirstValue(path, column, kEnough);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(*read == value);
    ExpectRefused(Check(path, kTooLittle).status(), file);
    const auto checked = Check(path, kEnough);
    ASSERT_TRUE(checked.ok()) << checked.status();
    EXPECT_TRUE(checked->ok());

    ConvertOptions options;
    options.to = Container::kShard;
    options.max_decompression = kTooLittle;
    ExpectRefused(Convert(*files_, path, "/converted", options).status(), file);
    options.max_decompression = kEnough;
    const auto converted = Convert(*files_, path, "/converted", options);
    EXPECT_TRUE(converted.ok()) << converted.status();
  }

  // A dataset of one sample, whose column "value" has this type and value.
  void WriteOne(const std::string& directory, Type type, const std::string& value) {
    const Column column{.name = "value", .type = type};
    const OwnedSample sample{"one", {{&column, value}}};
    const auto written = WriteDataset(*files_, directory, {sample});
    ASSERT_TRUE(written.ok()) << written.status();
  }

  // The only problem that a deep check finds with this memory limit for an image.
  std::string DeepProblem(const std::string& directory, uint64_t image_memory) {
    ValidateOptions options;
    options.deep = true;
    options.max_image_memory = image_memory;
    const auto report = Validate(*files_, directory, options);
    if (!report.ok()) return report.status().ToString();
    return report->ok() ? std::string() : report->problems[0].message;
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_F(LimitsTest, BlocksOfShards) {
  const std::string text(kLong, 'x');
  const OwnedSample sample{"one", {{&TextColumn(), text}}};
  const auto written = WriteDataset(*files_, "/data", {sample});
  ASSERT_TRUE(written.ok()) << written.status();
  const std::string shard = JoinPath("/data", written->manifest.shards[0].name);
  ASSERT_LT(files_->Stat(shard)->size, uint64_t{32768});
  ExpectLimit("/data", "text", shard, text);

  RepairOptions repair;
  repair.max_decompression = kTooLittle;
  ExpectRefused(RepairShard(*files_, shard, "/repaired.shard", repair).status(), shard);
  repair.max_decompression = kEnough;
  const auto repaired = RepairShard(*files_, shard, "/repaired.shard", repair);
  ASSERT_TRUE(repaired.ok()) << repaired.status();
  EXPECT_TRUE(repaired->lossless());
}

// The sum over a block's requested columns counts.
TEST_F(LimitsTest, ColumnsAddUp) {
  std::vector<Column> columns;
  for (const char* const name : {"a", "b", "c"}) {
    columns.push_back({.name = name, .type = Type::kUtf8, .codec = Codec::kZstd});
  }
  OwnedSample sample{"one", {}};
  for (const Column& column : columns) sample.fields.emplace_back(&column, std::string(kLong, 'x'));
  ASSERT_TRUE(WriteDataset(*files_, "/data", {sample}).ok());
  DatasetOptions options;
  options.max_decompression = kEnough;
  const auto dataset = DatasetReader::Open(*files_, "/data", options);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  BlockBuffer buffer;
  BlockView view;
  ExpectRefused((*dataset)->ReadBlock(0, 0, &buffer, &view), ".shard: block 0");
  options.columns = {"a", "c"};
  const auto projected = DatasetReader::Open(*files_, "/data", options);
  ASSERT_TRUE(projected.ok()) << projected.status();
  const absl::Status two = (*projected)->ReadBlock(0, 0, &buffer, &view);
  EXPECT_TRUE(two.ok()) << two;
}

// A loader reads no block larger than its budget, in any container. max_block_memory alone has the same effect.
TEST_F(LimitsTest, BlocksOfALoader) {
  std::string noise(3 * kLong, '\0');
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<char>(i * i * 2654435761U >> 13);
  WriteOne("/stored", Type::kBytes, noise);
  const OwnedSample text{"one", {{&TextColumn(), std::string(3 * kLong, 'x')}}};
  ASSERT_TRUE(WriteDataset(*files_, "/compressed", {text}).ok());
  WriteFile(*files_, "/data.tar", MakeTar({{"one.bin", noise}}));
  ConvertOptions convert;
  convert.to = Container::kMds;
  convert.mds.compression = "zstd";
  convert.columns = {"value"};
  const auto converted = Convert(*files_, "/stored", "/mds", convert);
  ASSERT_TRUE(converted.ok()) << converted.status();
  for (const std::string path : {"/stored", "/compressed", "/data.tar", "/mds"}) {
    const auto load = [&](uint64_t memory, uint64_t block) -> absl::Status {
      LoaderOptions options;
      options.plan = {.order = SampleOrder::kSequential, .batch_size = 1};
      options.memory_bytes = memory;
      options.read.max_block_memory = block;
      options.read_threads = options.decode_threads = 1;
      SHARDKIT_ASSIGN_OR_RETURN(const auto loader, Loader::Open(*files_, {{.path = path}}, options));
      return loader->Next().status();
    };
    const absl::Status budget = load(kEnough, uint64_t{8} << 30);
    ExpectRefused(budget, path);
    EXPECT_NE(Message(budget).find("over the limit of " + std::to_string(kEnough)), std::string::npos) << budget;
    EXPECT_NE(Message(budget).find("memory_bytes"), std::string::npos) << budget;
    ExpectRefused(load(16 * kLong, kEnough), path);
    const absl::Status enough = load(16 * kLong, 8 * kLong);
    EXPECT_TRUE(enough.ok()) << enough;
  }
}

// Compression that the default limit would refuse is not used for writing.
TEST_F(LimitsTest, WritersStayWithinTheDefault) {
  const std::string text(kDefaultMaxDecompression + kLong, 'x');
  {
    const OwnedSample sample{"one", {{&TextColumn(), text}}};
    ASSERT_TRUE(WriteDataset(*files_, "/data", {sample}).ok());
  }
  const auto value = FirstValue("/data", "text", kDefaultMaxDecompression);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_TRUE(*value == text);
}

TEST_F(LimitsTest, CompressedMdsShards) {
  const std::string payload(kLong, 'x');
  const MdsFields fields = {{"value", "bytes", {}}};
  const std::string raw = MdsShardBytes(fields, {{payload}});
  std::string zip;
  ASSERT_TRUE(codec::ZstdCompressor().Compress(raw, codec::kDefaultZstdLevel, nullptr, &zip).ok());
  const MdsListed listed = {.name = "shard.00000.mds",
                            .bytes = raw.size(),
                            .samples = 1,
                            .raw_hashes = {},
                            .compression = "zstd:3",
                            .zip_name = "shard.00000.mds.zstd",
                            .zip_bytes = zip.size(),
                            .zip_hashes = {}};
  WriteTree(*files_, "/data", {{listed.zip_name, zip}, {"index.json", MdsIndexText(fields, {listed})}});
  ExpectLimit("/data", "value", listed.zip_name, payload);
}

// A raw hash that can be checked only after decompression is subject to the limit, too.
TEST_F(LimitsTest, HashesOfCompressedMdsShards) {
  const MdsFields fields = {{"value", "bytes", {}}};
  const std::string raw = MdsShardBytes(fields, {{std::string(kLong, 'x')}});
  std::string zip;
  ASSERT_TRUE(codec::ZstdCompressor().Compress(raw, codec::kDefaultZstdLevel, nullptr, &zip).ok());
  const MdsListed listed = {.name = "shard.00000.mds",
                            .bytes = raw.size(),
                            .samples = 1,
                            .raw_hashes = {{"md5", std::string(32, '0')}},
                            .compression = "zstd:3",
                            .zip_name = "shard.00000.mds.zstd",
                            .zip_bytes = zip.size(),
                            .zip_hashes = {}};
  WriteTree(*files_, "/data", {{listed.zip_name, zip}, {"index.json", MdsIndexText(fields, {listed})}});
  ExpectRefused(Check("/data", kTooLittle).status(), listed.zip_name);
  const auto report = Check("/data", kEnough);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->ok());  // the hash is wrong
}

TEST_F(LimitsTest, ValuesOfCompressedTars) {
  const std::string payload(kLong, 'x');
  WriteFile(*files_, "/data.tar.zst", WriteTar({{"one.bin", payload}}, "ustar", "zstd"));
  ExpectLimit("/data.tar.zst", "bin", "/data.tar.zst", payload);
}

// A plain tar stores its bytes uncompressed: only the limit for a block applies.
TEST_F(LimitsTest, PlainTarsHaveTheirBytes) {
  const std::string payload(kLong, 'x');
  WriteFile(*files_, "/data.tar", MakeTar({{"one.bin", payload}}));
  EXPECT_EQ(FirstValue("/data.tar", "bin", 0).value_or(""), payload);
}

// Headers compress to almost nothing.
TEST_F(LimitsTest, MembersOfCompressedTars) {
  std::vector<TarMember> members;
  for (int i = 0; i < 20000; ++i) members.push_back({std::to_string(i) + ".bin", ""});
  WriteFile(*files_, "/data.tar.zst", WriteTar(members, "ustar", "zstd"));
  ExpectRefused(DatasetReader::Open(*files_, "/data.tar.zst",
                                    [] {
                                      DatasetOptions options;
                                      options.max_decompression = 1000;
                                      return options;
                                    }())
                    .status(),
                "/data.tar.zst");
  EXPECT_TRUE(DatasetReader::Open(*files_, "/data.tar.zst").ok());
}

TEST_F(LimitsTest, PackingCompressedTars) {
  WriteFile(*files_, "/data.tar.gz",
            WriteTar({{"one.bin", std::string(kLong, 'x')}, {"one.txt", "1"}}, "ustar", "gzip"));
  SourceOptions options;
  options.file_system = files_.get();
  const auto pack = [&](uint64_t limit) {
    options.max_decompression = limit;
    const auto source = OpenSource("files", {"/data.tar.gz"}, options);
    EXPECT_TRUE(source.ok()) << source.status();
    return Pack(*files_, **source, "/packed").status();
  };
  ExpectRefused(pack(kTooLittle), "/data.tar.gz: member 'one.bin'");
  const absl::Status packed = pack(kEnough);
  EXPECT_TRUE(packed.ok()) << packed;
}

// The frame header alone decides: the file has no pixels.
TEST_F(LimitsTest, JpegsOfManyPixels) {
  const auto frame = [](char marker) {
    std::string jpeg("\xff\xd8\xff\xe0\x00\x04zz\xff", 9);
    jpeg += marker;
    jpeg += std::string("\x00\x11\x08\xff\xdc\xff\xdc\x03\x01\x22\x00\x02\x11\x00\x03\x11\x00",
                        17);  // 65500 x 65500, 4:2:0
    return jpeg + std::string("\xff\xda\x00\x0c\x03\x01\x00\x02\x11\x03\x11\x00\x3f\x00", 14);
  };
  JpegDecoder decoder;
  DecodedImage image;
  for (const char marker : {'\xc0', '\xc2'}) {
    const std::string jpeg = frame(marker);
    ASSERT_TRUE(ProbeJpeg(jpeg).ok()) << ProbeJpeg(jpeg).status();
    const bool progressive = marker == '\xc2';
    EXPECT_EQ(ProbeJpeg(jpeg)->coefficient_bytes, progressive ? uint64_t{4094} * 4094 * 6 * 128 : 0);
    const absl::Status decoded = decoder.Decode(jpeg, &image);
    EXPECT_TRUE(absl::IsResourceExhausted(decoded)) << decoded;
    DecodedRegion region;
    EXPECT_TRUE(absl::IsResourceExhausted(decoder.DecodeRegion(jpeg, {}, &region)));
    // A sequential file is decoded row by row and needs no memory, so the error is that it is truncated.
    const absl::Status checked = decoder.Check(jpeg);
    EXPECT_EQ(checked.code(), progressive ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kDataLoss)
        << checked;
  }
  // Arithmetic coding continues past the end of the file, for all announced pixels.
  const std::string arithmetic = frame('\xc9');
  ASSERT_TRUE(ProbeJpeg(arithmetic)->arithmetic);
  EXPECT_TRUE(absl::IsResourceExhausted(decoder.Check(arithmetic)));
  DecodedRegion last;
  EXPECT_TRUE(absl::IsResourceExhausted(
      decoder.DecodeRegion(arithmetic, {.x = 0, .y = 65499, .width = 1, .height = 1, .scale = 1}, &last)));
}

TEST_F(LimitsTest, ImagesInADeepCheck) {
  WriteOne("/jpeg", Type::kJpeg, testing::MakeJpeg({.width = 64, .height = 48, .progressive = true}));
  constexpr uint64_t kCoefficients = uint64_t{4} * 3 * 6 * 128;
  EXPECT_NE(DeepProblem("/jpeg", kCoefficients - 1).find("over the limit"), std::string::npos);
  EXPECT_EQ(DeepProblem("/jpeg", kCoefficients), "");
  WriteOne("/sequential", Type::kJpeg, testing::MakeJpeg({.width = 64, .height = 48}));
  EXPECT_EQ(DeepProblem("/sequential", 0), "");

  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = 20;
  image.height = 10;
  image.format = PNG_FORMAT_RGB;
  const std::vector<uint8_t> pixels(600, 7);
  png_alloc_size_t size = 0;
  ASSERT_NE(png_image_write_get_memory_size(image, size, 0, pixels.data(), 0, nullptr), 0);
  std::string png(size, '\0');
  ASSERT_NE(png_image_write_to_memory(&image, png.data(), &size, 0, pixels.data(), 0, nullptr), 0);
  png.resize(size);
  WriteOne("/png", Type::kPng, png);
  EXPECT_EQ(DeepProblem("/png", 0), "");
  for (size_t length = 8; length < png.size(); ++length) {
    WriteOne(StrCat("/png", length), Type::kPng, png.substr(0, length));
    EXPECT_NE(DeepProblem(StrCat("/png", length), 0).find("PNG: "), std::string::npos) << length;
  }

  // The same in a column of images. Of other formats only the beginning is checked.
  WriteOne("/image", Type::kImage, png);
  EXPECT_EQ(DeepProblem("/image", 0), "");
  WriteOne("/cut", Type::kImage, png.substr(0, png.size() - 1));
  EXPECT_NE(DeepProblem("/cut", 0).find("PNG: "), std::string::npos);
  WriteOne("/progressive", Type::kImage, testing::MakeJpeg({.width = 64, .height = 48, .progressive = true}));
  EXPECT_NE(DeepProblem("/progressive", kCoefficients - 1).find("over the limit"), std::string::npos);
  EXPECT_EQ(DeepProblem("/progressive", kCoefficients), "");
  WriteOne("/html", Type::kImage, "<!DOCTYPE html>");
  EXPECT_NE(DeepProblem("/html", 0).find("image: begins like no known format"), std::string::npos);
  WriteOne("/bmp", Type::kImage, "BM");
  EXPECT_NE(DeepProblem("/bmp", 0).find("BMP: ends within its headers"), std::string::npos);
  WriteOne("/pnm", Type::kImage, "P6\n1 1\n255\nabc");
  for (const bool deep : {false, true}) {
    const auto report = Validate(*files_, "/pnm", {.deep = deep});
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_TRUE(report->ok());
    EXPECT_EQ(report->undecoded_images, deep ? 1u : 0u);
  }
}

}  // namespace
}  // namespace shardkit::test
