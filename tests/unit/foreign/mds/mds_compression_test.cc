// Compressed shards, and the hashes that an index may list.
#include "base/named_hash.h"
#include "codec/decompress.h"
#include "foreign/mds/mds_directory.h"
#include "support/effort.h"
#include "unit/foreign/mds/compressed_vectors.h"
#include "unit/foreign/mds/mds_maker.h"

namespace shardkit::test {
namespace {

std::string FromHex(std::string_view digits) {
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

const std::vector<MdsRow>& Rows() {
  static const std::vector<MdsRow> rows = TextRows(20);
  return rows;
}

const std::string& Shard() {
  static const std::string shard = MdsShardBytes(TextFields(), Rows());
  return shard;
}

// A library that was missing at build time is reported as such.
bool Missing(const absl::Status& status) {
  return absl::IsUnimplemented(status) && Message(status).find("install lib") != std::string::npos;
}

MdsListed Listed(std::string_view compression, uint64_t zip_bytes) {
  const std::string name(compression);
  return {.name = "shard.00000.mds",
          .bytes = Shard().size(),
          .samples = 20,
          .raw_hashes = {},
          .compression = name + ":3",
          .zip_name = "shard.00000.mds." + name,
          .zip_bytes = zip_bytes,
          .zip_hashes = {}};
}

class MdsCompressionTest : public testing::TestWithParam<NamedText> {
 protected:
  void Write(const std::string& path, const MdsListed& listed, const std::string& bytes) {
    WriteTree(*files_, path, {{listed.zip_name, bytes}, {"index.json", MdsIndexText(TextFields(), {listed})}});
  }

  const std::string_view name_ = GetParam().name;
  const std::string bytes_ = FromHex(GetParam().text);
  const MdsListed listed_ = Listed(name_, bytes_.size());
  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_P(MdsCompressionTest, Bytes) {
  const codec::Compression compression = *codec::CompressionFromName(name_);
  std::string out(Shard().size(), '\0');
  absl::Status status = codec::Decompress(compression, bytes_, out);
  if (Missing(status)) GTEST_SKIP() << status;
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out, Shard());
  for (const size_t size : {size_t{0}, size_t{1}, out.size() - 1, out.size() + 1, 2 * out.size()}) {
    std::string other(size, '\0');
    EXPECT_TRUE(absl::IsDataLoss(codec::Decompress(compression, bytes_, other))) << size;
  }
  for (size_t length = 0; length < bytes_.size(); ++length) {
    EXPECT_TRUE(absl::IsDataLoss(codec::Decompress(compression, bytes_.substr(0, length), out))) << length;
  }
  EXPECT_TRUE(absl::IsDataLoss(codec::Decompress(compression, bytes_ + "x", out)));
  for (size_t bit = 0; bit < 8 * bytes_.size(); ++bit) {
    std::string flipped = bytes_;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    status = codec::Decompress(compression, flipped, out);
    EXPECT_TRUE(status.ok() || absl::IsDataLoss(status)) << status;
  }
}

TEST_P(MdsCompressionTest, Dataset) {
  Write("/data", listed_, bytes_);
  for (const ReadMode mode : {ReadMode::kBuffered, ReadMode::kMapped}) {
    DatasetOptions options;
    options.mode = mode;
    const auto dataset = OpenDataset(*files_, "/data", options);
    ASSERT_NE(dataset, nullptr);
    EXPECT_EQ(dataset->Shard(0)->name, listed_.zip_name);
    EXPECT_EQ(dataset->Shard(0)->bytes, bytes_.size());
    BlockBuffer buffer;
    BlockView view;
    if (const absl::Status status = dataset->ReadBlock(0, 0, &buffer, &view); Missing(status)) GTEST_SKIP() << status;
    ExpectRows(*dataset, TextFields(), Rows());
    options.columns = {"text"};
    const auto part = OpenDataset(*files_, "/data", options);
    ASSERT_NE(part, nullptr);
    EXPECT_EQ(*part->ReadValue(3, 0, &buffer), "sample 3...");
  }
  // When the raw shard lies beside it, the raw shard is read.
  WriteFile(*files_, "/data/shard.00000.mds", Shard());
  const auto dataset = OpenDataset(*files_, "/data");
  EXPECT_EQ(dataset->Shard(0)->name, "shard.00000.mds");
  ExpectRows(*dataset, TextFields(), Rows());
}

TEST_P(MdsCompressionTest, Damage) {
  Write("/data", listed_, bytes_);
  if (Missing(ReadEverything(*files_, "/data"))) GTEST_SKIP();
  MdsListed wrong = listed_;
  ++wrong.zip_bytes;
  Write("/size", wrong, bytes_);
  absl::Status status = ReadEverything(*files_, "/size");
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_NE(Message(status).find("bytes, but index.json says"), std::string::npos) << status;
  wrong = listed_;
  ++wrong.bytes;
  Write("/raw", wrong, bytes_);
  status = ReadEverything(*files_, "/raw");
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  wrong = listed_;
  --wrong.samples;
  Write("/samples", wrong, bytes_);
  status = ReadEverything(*files_, "/samples");
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_NE(Message(status).find("decompressed: header: byte 0 announces 20 samples, but index.json says 19"),
            std::string::npos)
      << status;
  wrong = listed_;
  wrong.bytes = uint64_t{1} << 40;
  Write("/huge", wrong, bytes_);
  EXPECT_TRUE(absl::IsResourceExhausted(ReadEverything(*files_, "/huge")));
  for (size_t byte = 0; byte < bytes_.size(); byte += TestStep()) {
    std::string flipped = bytes_;
    flipped[byte] = static_cast<char>(~flipped[byte]);
    WriteFile(*files_, "/data/" + listed_.zip_name, flipped);
    status = ReadEverything(*files_, "/data");
    EXPECT_TRUE(status.ok() || absl::IsDataLoss(status) || absl::IsUnimplemented(status)) << status;
  }
}

// When none of the listed hashes of the file can be computed.
TEST_P(MdsCompressionTest, HashOfTheRawBytesIsCheckedAtOnce) {
  MdsListed listed = listed_;
  listed.zip_hashes = {{"newest", "00"}};
  listed.raw_hashes = {{"sha1", "not looked at"}, {"xxh64", std::string(kShardHashes[1].text)}};
  Write("/data", listed, bytes_);
  const absl::Status right = ReadEverything(*files_, "/data");
  if (Missing(right)) GTEST_SKIP() << right;
  EXPECT_TRUE(right.ok()) << right;
  listed.raw_hashes[1].second[0] ^= 1;
  Write("/wrong", listed, bytes_);
  const absl::Status wrong = ReadEverything(*files_, "/wrong");
  EXPECT_TRUE(absl::IsDataLoss(wrong));
  EXPECT_NE(Message(wrong).find(": decompressed: xxh64 is " + std::string(kShardHashes[1].text)), std::string::npos)
      << wrong;
  DatasetOptions options;
  options.verify_listed_hashes = false;
  EXPECT_TRUE(ReadEverything(*files_, "/wrong", options).ok());
}

INSTANTIATE_TEST_SUITE_P(All, MdsCompressionTest, testing::ValuesIn(kCompressedShards),
                         [](const auto& of) { return std::string(of.param.name); });

TEST(MdsCompression, AnUnknownNameIsRefused) {
  const auto files = NewMemoryFileSystem();
  WriteTree(*files, "/data", {{"index.json", MdsIndexText(TextFields(), {Listed("lz9", 100)})}});
  const auto dataset = DatasetReader::Open(*files, "/data");
  EXPECT_TRUE(absl::IsUnimplemented(dataset.status()));
  EXPECT_EQ(Message(dataset.status()),
            "/data/shard.00000.mds.lz9: is compressed with \"lz9:3\"; br, bz2, gz, snappy and zstd are read");
}

TEST(NamedHash, DigestsOfPython) {
  for (const NamedText& hash : kShardHashes) {
    const auto digest = HexDigestOf(hash.name, Shard());
    if (Missing(digest.status())) continue;
    ASSERT_TRUE(digest.ok()) << digest.status();
    EXPECT_EQ(*digest, hash.text) << hash.name;
  }
  for (const std::string_view name : {"", "crc32", "shake_128", "xxh", "XXH64 "}) {
    EXPECT_TRUE(absl::IsUnimplemented(HexDigestOf(name, "").status())) << name;
  }
}

TEST(MdsHashes, FilesAreComparedWithTheIndex) {
  const auto files = NewMemoryFileSystem();
  MdsListed listed = {.name = "a.mds", .bytes = Shard().size(), .samples = 20};
  for (const NamedText& hash : kShardHashes) {
    if (IsXxHashName(hash.name)) listed.raw_hashes.emplace_back(hash.name, hash.text);
  }
  const auto write = [&](const std::string& shard) {
    WriteTree(*files, "/data", {{"a.mds", shard}, {"index.json", MdsIndexText(TextFields(), {listed})}});
  };
  write(Shard());
  EXPECT_TRUE(CheckMdsHashes(*files, "/data").ok()) << CheckMdsHashes(*files, "/data");
  EXPECT_TRUE(CheckMdsHashes(*files, "/data/index.json").ok());
  std::string damaged = Shard();
  damaged.back() ^= 1;
  write(damaged);
  EXPECT_TRUE(absl::IsDataLoss(CheckMdsHashes(*files, "/data")));
  EXPECT_TRUE(Message(CheckMdsHashes(*files, "/data")).starts_with("/data/a.mds: xxh32 is "))
      << CheckMdsHashes(*files, "/data");
  // An unknown hash does not hide a difference in another hash.
  listed.raw_hashes.insert(listed.raw_hashes.begin(), {"newest", "00"});
  write(damaged);
  EXPECT_TRUE(absl::IsDataLoss(CheckMdsHashes(*files, "/data")));
  write(Shard());
  EXPECT_TRUE(absl::IsUnimplemented(CheckMdsHashes(*files, "/data")));
  ASSERT_TRUE(files->RemoveFile("/data/a.mds").ok());
  EXPECT_TRUE(absl::IsNotFound(CheckMdsHashes(*files, "/data")));
}

// Every way of reading fails: blocks, single values, copies, statistics.
void ExpectEachReadFails(FileSystem& files, const std::string& path, ReadMode mode, const std::string& message) {
  DatasetOptions options;
  options.mode = mode;
  const auto dataset = OpenDataset(files, path, options);
  ASSERT_NE(dataset, nullptr);
  ASSERT_TRUE(dataset->OpenShard(0).ok());
  const size_t text = *dataset->FindColumn("text");
  BlockBuffer buffer;
  BlockView view;
  std::string copied;
  const auto copy = [&](std::string_view piece) {
    copied += piece;
    return absl::OkStatus();
  };
  for (const absl::Status& status :
       {dataset->ReadBlock(0, 0, &buffer, &view), dataset->ReadValue(3, text, &buffer).status(),
        dataset->CopyValue(3, text, copy).status(), dataset->ReadStatistics().status()}) {
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_EQ(Message(status), message);
  }
  EXPECT_EQ(copied, "");
}

// The first hash of the xxHash family is compared, wherever it is listed. Without one, the first hash that can be
// computed.
TEST(MdsHashes, OneIsComparedBeforeTheFirstValue) {
  const std::string zstd = FromHex(kCompressedShards[4].text);
  const std::string sha256 = std::string(64, '0'), right = *HexDigestOf("xxh3_64", Shard());
  struct Case {
    std::vector<std::pair<std::string, std::string>> hashes;
    std::string name;  // of the one compared
  };
  for (const Case& hashes : {Case{{{"sha256", sha256}, {"xxh3_64", right}, {"xxh64", "not looked at"}}, "xxh3_64"},
                             Case{{{"newest", "00"}, {"sha256", *HexDigestOf("sha256", Shard())}}, "sha256"}}) {
    const auto files = NewMemoryFileSystem();
    const MdsListed listed = {.name = "a.mds", .bytes = Shard().size(), .samples = 20, .raw_hashes = hashes.hashes};
    const auto write = [&](const std::string& shard) {
      WriteTree(*files, "/data", {{"a.mds", shard}, {"index.json", MdsIndexText(TextFields(), {listed})}});
    };
    write(Shard());
    EXPECT_TRUE(ReadEverything(*files, "/data").ok()) << ReadEverything(*files, "/data");
    std::string damaged = Shard();
    damaged.back() ^= 1;
    write(damaged);
    for (const ReadMode mode : {ReadMode::kBuffered, ReadMode::kMapped}) {
      ExpectEachReadFails(*files, "/data", mode,
                          "/data/a.mds: " + hashes.name + " is " + *HexDigestOf(hashes.name, damaged) +
                              ", but index.json says " + *HexDigestOf(hashes.name, Shard()) +
                              ": the file was damaged or replaced; get it again, or read it as it is "
                              "(--no-verify-hashes)");
    }
    DatasetOptions options;
    options.verify_listed_hashes = false;
    EXPECT_TRUE(ReadEverything(*files, "/data", options).ok());
  }
}

TEST(MdsHashes, ThatOfACompressedFileIsComparedBeforeItIsDecompressed) {
  std::string bytes = FromHex(kCompressedShards[4].text);
  MdsListed listed = Listed("zstd", bytes.size());
  const std::string right = *HexDigestOf("xxh64", bytes);
  listed.zip_hashes = {{"xxh64", right}};
  listed.raw_hashes = {{"xxh64", "not looked at"}};
  bytes[0] ^= 1;  // the frame's magic
  const auto files = NewMemoryFileSystem();
  WriteTree(*files, "/data", {{listed.zip_name, bytes}, {"index.json", MdsIndexText(TextFields(), {listed})}});
  for (const ReadMode mode : {ReadMode::kBuffered, ReadMode::kMapped}) {
    ExpectEachReadFails(*files, "/data", mode,
                        "/data/shard.00000.mds.zstd: xxh64 is " + *HexDigestOf("xxh64", bytes) +
                            ", but index.json says " + right +
                            ": the file was damaged or replaced; get it again, or read it as it is "
                            "(--no-verify-hashes)");
  }
  DatasetOptions options;
  options.verify_listed_hashes = false;
  const absl::Status status = ReadEverything(*files, "/data", options);
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_EQ(Message(status).find("xxh64"), std::string::npos) << status;
}

TEST(MdsHashes, AreNotComparedAgainByOneReader) {
  const auto files = NewMemoryFileSystem();
  const std::string hash = *HexDigestOf("xxh64", Shard());
  std::vector<MdsListed> shards;
  for (const std::string name : {"a.mds", "b.mds"}) {
    shards.push_back({.name = name, .bytes = Shard().size(), .samples = 20, .raw_hashes = {{"xxh64", hash}}});
  }
  WriteTree(*files, "/data",
            {{"a.mds", Shard()}, {"b.mds", Shard()}, {"index.json", MdsIndexText(TextFields(), shards)}});
  DatasetOptions options;
  options.max_open_shards = 1;
  const auto dataset = OpenDataset(*files, "/data", options);
  BlockBuffer buffer;
  ASSERT_TRUE(dataset->ReadValue(0, 1, &buffer).ok());
  ASSERT_TRUE(dataset->ReadValue(20, 1, &buffer).ok());  // closes the first shard
  std::string damaged = Shard();
  damaged.back() ^= 1;
  WriteFile(*files, "/data/a.mds", damaged);
  EXPECT_TRUE(dataset->ReadValue(0, 1, &buffer).ok());
  EXPECT_TRUE(absl::IsDataLoss(OpenDataset(*files, "/data")->ReadValue(0, 1, &buffer).status()));
}

TEST(MdsHashes, CompressedFiles) {
  const NamedText& zstd = kCompressedShards[4];
  ASSERT_EQ(zstd.name, "zstd");
  const std::string bytes = FromHex(zstd.text);
  MdsListed listed = Listed("zstd", bytes.size());
  listed.zip_hashes = {{"xxh64", *HexDigestOf("xxh64", bytes)}};
  listed.raw_hashes = {{"xxh3_64", *HexDigestOf("xxh3_64", Shard())}};
  const auto files = NewMemoryFileSystem();
  const auto check = [&](const Tree& tree) {
    static int count = 0;
    const std::string path = "/" + std::to_string(++count);
    WriteTree(*files, path, tree);
    WriteFile(*files, path + "/index.json", MdsIndexText(TextFields(), {listed}));
    return CheckMdsHashes(*files, path);
  };
  EXPECT_TRUE(check({{listed.zip_name, bytes}}).ok());
  EXPECT_TRUE(check({{listed.name, Shard()}}).ok());
  EXPECT_TRUE(check({{listed.name, Shard()}, {listed.zip_name, bytes}}).ok());
  EXPECT_TRUE(absl::IsNotFound(check({})));
  std::string damaged = bytes;
  damaged[30] ^= 1;
  EXPECT_TRUE(absl::IsDataLoss(check({{listed.zip_name, damaged}})));
  EXPECT_TRUE(absl::IsDataLoss(check({{listed.name, Shard()}, {listed.zip_name, damaged}})));
  listed.raw_hashes[0].second[0] ^= 1;
  const absl::Status status = check({{listed.zip_name, bytes}});
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_NE(Message(status).find(".zstd: decompressed: xxh3_64 is"), std::string::npos) << status;
}

}  // namespace
}  // namespace shardkit::test
