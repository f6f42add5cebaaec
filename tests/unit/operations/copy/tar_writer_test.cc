// Written tars: their bytes, when the next tar begins, and their index.
#include <numeric>

#include "foreign/webdataset/tar_shard_writer.h"
#include "shardkit/tar_index.h"
#include "unit/operations/copy/containers_support.h"

namespace shardkit::test {
namespace {

using namespace std::string_literals;

constexpr size_t kBlock = 512;

// The fields of a header, read by their definition (POSIX ustar; GNU's form has "ustar  " as its magic).
struct Header {
  std::string name;
  uint64_t mode = 0, owner = 0, group = 0, size = 0, time = 0;
  char type = 0;
  std::string magic, user, group_name, rest;
  bool checksum_holds = false;
};

std::string Text(std::string_view field) { return std::string(field.substr(0, field.find('\0'))); }
uint64_t Octal(std::string_view field) { return std::stoull("0" + Text(field), nullptr, 8); }

Header ParseHeader(std::string_view block) {
  Header header;
  header.name = Text(block.substr(0, 100));
  header.mode = Octal(block.substr(100, 8));
  header.owner = Octal(block.substr(108, 8));
  header.group = Octal(block.substr(116, 8));
  header.size = Octal(block.substr(124, 12));
  header.time = Octal(block.substr(136, 12));
  header.type = block[156];
  header.magic = block.substr(257, 8);
  header.user = Text(block.substr(265, 32));
  header.group_name = Text(block.substr(297, 32));
  uint64_t sum = 8 * ' ';
  for (size_t i = 0; i < kBlock; ++i) sum += i >= 148 && i < 156 ? 0 : static_cast<uint8_t>(block[i]);
  header.checksum_holds = Octal(block.substr(148, 8)) == sum;
  return header;
}

std::string WriteTar(FileSystem& files,
                     const std::vector<std::pair<std::string, std::vector<foreign::NamedTarValue>>>& samples,
                     bool index = true) {
  auto writer = foreign::TarShardWriter::Create(files, "/x.tar");
  EXPECT_TRUE(writer.ok()) << writer.status();
  uint64_t length = 0;
  for (const auto& [key, members] : samples) {
    length = (*writer)->LengthWith(key, members);
    const absl::Status status = (*writer)->Append(key, members, nullptr);
    EXPECT_TRUE(status.ok()) << status;
  }
  const auto summary = (*writer)->Finish(index);
  EXPECT_TRUE(summary.ok()) << summary.status();
  const std::string tar = ReadAll(files, "/x.tar");
  EXPECT_EQ(summary->bytes, tar.size());
  EXPECT_EQ(summary->samples, samples.size());
  EXPECT_EQ(length, tar.size());  // as foretold
  EXPECT_FALSE(Exists(files, "/x.tar.tmp"));
  return tar;
}

TEST(TarWriterTest, HeadersAndPadding) {
  const auto files = NewMemoryFileSystem();
  const std::string large(1000, 'l');
  const std::string tar = WriteTar(
      *files, {{"d/a", {{"jpg", Value("image")}, {"", Value("")}}}, {"\xc3\xa4", {{"seg.png", Value(large)}}}});
  ASSERT_EQ(tar.size(), 10240u);
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"d/a.jpg", "image"}, {"d/a.", ""}, {"\xc3\xa4.seg.png", large}};
  size_t place = 0;
  for (const auto& [name, bytes] : expected) {
    const Header header = ParseHeader(std::string_view(tar).substr(place, kBlock));
    EXPECT_EQ(header.name, name);
    EXPECT_EQ(header.size, bytes.size());
    EXPECT_EQ(header.mode, 0644u);
    EXPECT_EQ(header.owner + header.group + header.time, 0u);
    EXPECT_EQ(header.type, '0');
    EXPECT_EQ(header.magic, "ustar  \0"s);
    EXPECT_EQ(header.user + header.group_name, "");
    EXPECT_TRUE(header.checksum_holds);
    place += kBlock;
    const size_t padded = (bytes.size() + kBlock - 1) / kBlock * kBlock;
    EXPECT_EQ(tar.substr(place, padded), bytes + std::string(padded - bytes.size(), '\0'));
    place += padded;
  }
  EXPECT_EQ(tar.find_first_not_of('\0', place), tar.npos);
  EXPECT_GE(tar.size() - place, 2 * kBlock);
}

// GNU's way: a member of type L with the name in front.
TEST(TarWriterTest, LongNames) {
  for (const size_t length : {96u, 97u, 300u, 508u, 509u, 2000u}) {
    SCOPED_TRACE(length);
    const auto files = NewMemoryFileSystem();
    std::string key = "folder/";
    while (key.size() < length) key += "\xc3\xa9";
    key.resize(length - length % 2 + 1);  // whole letters
    const std::string tar = WriteTar(*files, {{key, {{"txt", Value("1")}}}});
    const Header first = ParseHeader(tar);
    const std::string name = key + ".txt";
    EXPECT_EQ(first.type, name.size() > 100 ? 'L' : '0');
    if (name.size() > 100) {
      EXPECT_EQ(first.name, "././@LongLink");
      EXPECT_EQ(Text(std::string_view(tar).substr(kBlock)), name);
    }
    const std::vector<Row> rows = ScanRows(*files, "/x.tar");
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0].at("key"), key);
  }
}

TEST(TarWriterTest, ItsIndexIsTheOneThatLookingMakes) {
  DatasetGenerator generator(3);
  const auto files = NewMemoryFileSystem();
  std::vector<std::string> texts;
  for (int i = 0; i < 60; ++i) texts.push_back(std::string(generator.Below(1500), static_cast<char>(i)));
  const std::vector<std::string> extensions = {
      "jpg", "json", "", "key", "a.b", "\xc3\xa9", "txt" + std::string(120, 'x')};
  std::vector<std::pair<std::string, std::vector<foreign::NamedTarValue>>> samples;
  for (int i = 0; i < 20; ++i) {
    samples.emplace_back("k" + std::to_string(i), std::vector<foreign::NamedTarValue>());
    for (size_t k = 0; k < extensions.size(); ++k) {
      if (k == 0 || generator.Chance(40))
        samples.back().second.push_back({extensions[k], Value(texts[generator.Below(texts.size())])});
    }
  }
  const std::string tar = WriteTar(*files, samples);
  const std::string index = ReadAll(*files, "/x.tar.shardidx");
  const auto report = BuildTarIndex(*files, "/x.tar");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->samples, 20u);
  EXPECT_EQ(report->problem_count, 0u);
  EXPECT_TRUE(ReadAll(*files, "/x.tar.shardidx") == index);
  const auto other = NewMemoryFileSystem();
  EXPECT_TRUE(WriteTar(*other, samples, /*index=*/false) == tar);
  EXPECT_FALSE(Exists(*other, "/x.tar.shardidx"));
}

TEST(TarWriterTest, ValuesThatAreFiles) {
  const auto files = NewMemoryFileSystem();
  std::string large((9 << 20) + 3, '\0');
  std::iota(large.begin(), large.end(), '\0');
  WriteFile(*files, "/large", large);
  WriteFile(*files, "/empty", "");
  const auto value = [&](const std::string& path) {
    Value out;
    out.file = *files->OpenForReading(path);
    return out;
  };
  const std::string streamed = WriteTar(*files, {{"a", {{"bin", value("/large")}, {"txt", value("/empty")}}}});
  const std::string index = ReadAll(*files, "/x.tar.shardidx");
  const auto other = NewMemoryFileSystem();
  EXPECT_TRUE(WriteTar(*other, {{"a", {{"bin", Value(large)}, {"txt", Value("")}}}}) == streamed);
  EXPECT_TRUE(ReadAll(*other, "/x.tar.shardidx") == index);

  auto writer = foreign::TarShardWriter::Create(*files, "/y.tar");
  ASSERT_TRUE(writer.ok());
  Cancellation cancellation;
  cancellation.Cancel();
  const std::vector<foreign::NamedTarValue> members = {{"bin", value("/large")}};
  EXPECT_TRUE(absl::IsCancelled((*writer)->Append("a", members, &cancellation)));
  ASSERT_TRUE((*writer)->Abort().ok());
  EXPECT_FALSE(Exists(*files, "/y.tar.tmp") || Exists(*files, "/y.tar"));
}

TEST(TarWriterTest, SamplesThatWouldNotComeBack) {
  const auto files = NewMemoryFileSystem();
  auto writer = foreign::TarShardWriter::Create(*files, "/x.tar");
  ASSERT_TRUE(writer.ok());
  const auto append = [&](const std::string& key, const std::vector<std::string>& extensions) {
    std::vector<foreign::NamedTarValue> members;
    for (const std::string& extension : extensions) members.push_back({extension, Value("1")});
    return (*writer)->Append(key, members, nullptr);
  };
  const auto refused = [&](const std::string& key, const std::vector<std::string>& extensions,
                           const std::string& what) {
    const absl::Status status = append(key, extensions);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_NE(Message(status).find(what), std::string::npos) << status;
  };
  refused("k", {}, "without values");
  refused("k.l", {"a"}, "would be read as key \"k\", extension \"l.a\"");
  refused("k", {"a/b"}, "is passed over");
  refused("k", {"a/b.c"}, "would be read as key \"k.a/b\", extension \"c\"");
  refused("", {"a"}, "is passed over");
  refused("d/.k", {"a"}, "would be read as");
  refused("__k", {"a__"}, "is passed over");
  refused("__x__/k", {"a"}, "is passed over");
  refused("../k", {"a"}, "'..'");
  refused("d/../k", {"a"}, "'..'");
  refused("./k", {"a"}, "would be read as key \"k\"");
  refused("/k", {"a"}, "absolute");
  refused("d//k", {"a"}, "component ''");
  refused("k", {"a", "a"}, "extension \"a\" occurs twice");
  refused("k", {"key", "KEY"}, "extension \"/key\" occurs twice");
  refused("k\0l"s, {"a"}, "zero byte");
  refused("k", {std::string(256, 'e')}, "an extension of 256 bytes");
  refused(std::string(32769, 'k'), {"a"}, "has 32769 bytes");
  ASSERT_TRUE(append("k", {"a"}).ok());
  refused("k", {"b"}, "is also that of the sample before it");
  ASSERT_TRUE(append("l", {std::string(255, 'e')}).ok());
  ASSERT_TRUE(append("k", {"b"}).ok());
  ASSERT_TRUE((*writer)->Finish(true).ok());
  EXPECT_EQ(ScanRows(*files, "/x.tar").size(), 3u);
}

TEST(TarWriterTest, AtMost4095Extensions) {
  const auto files = NewMemoryFileSystem();
  auto writer = foreign::TarShardWriter::Create(*files, "/x.tar");
  ASSERT_TRUE(writer.ok());
  absl::Status status;
  int count = 0;
  for (; status.ok() && count < 5000; ++count) {
    const std::string extension = "e" + std::to_string(count);
    const std::vector<foreign::NamedTarValue> members = {{extension, Value("1")}};
    status = (*writer)->Append("k" + std::to_string(count), members, nullptr);
  }
  EXPECT_EQ(count, 4096);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  ASSERT_TRUE((*writer)->Finish(true).ok());
  EXPECT_EQ(ScanRows(*files, "/x.tar").size(), 4095u);
}

// Samples in each tar.
std::vector<uint64_t> Division(uint64_t shard_size, uint64_t shard_samples, size_t value_bytes, size_t key_bytes = 1) {
  const auto files = NewMemoryFileSystem();
  WebDatasetWriterOptions options;
  options.shard_size = shard_size;
  options.shard_samples = shard_samples;
  Samples samples;
  for (char c = 'a'; c < 'h'; ++c)
    samples.push_back({{"key", std::string(key_bytes, c)}, {"x", std::string(value_bytes, c)}});
  const auto written = WriteSamples(
      CreateWebDatasetWriter(*files, "/out", MakeSchema({KeyColumn(), MakeColumn("x", Type::kBytes)}), options),
      samples);
  EXPECT_TRUE(written.ok()) << written.status();
  std::vector<uint64_t> division;
  for (const ManifestShard& shard : written->manifest.shards) {
    division.push_back(shard.samples);
    EXPECT_EQ(shard.bytes, ReadAll(*files, "/out/" + shard.name).size());
    EXPECT_TRUE(shard.bytes <= shard_size || shard.samples == 1) << shard.bytes;
  }
  EXPECT_TRUE(ScanRows(*files, "/out") == samples);
  return division;
}

// Samples of 512 + 5120 bytes, an end mark of 1024, all rounded up to 10240.
TEST(TarWriterTest, RollOver) {
  using Samples = std::vector<uint64_t>;
  EXPECT_EQ(Division(1, 0, 5000), (Samples{1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(Division(20479, 0, 5000), (Samples{1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(Division(20480, 0, 5000), (Samples{3, 3, 1}));  // 3 x 5632 + 1024 = 17920
  EXPECT_EQ(Division(40960, 0, 5000), (Samples{7}));        // 7 x 5632 + 1024 = 40448
  EXPECT_EQ(Division(40959, 0, 5000), (Samples{5, 2}));
  // A long name takes 1024 bytes more.
  EXPECT_EQ(Division(20480, 0, 5000, 98), (Samples{3, 3, 1}));
  EXPECT_EQ(Division(20480, 0, 5120, 99), (Samples{2, 2, 2, 1}));
  EXPECT_EQ(Division(UINT64_MAX, 3, 10), (Samples{3, 3, 1}));
  EXPECT_EQ(Division(UINT64_MAX, 7, 10), (Samples{7}));
  EXPECT_EQ(Division(20480, 2, 5000), (Samples{2, 2, 2, 1}));
}

TEST(TarWriterTest, TypesOfFields) {
  const auto files = NewMemoryFileSystem();
  const Column number = MakeColumn("n", Type::kI32), late = MakeColumn("late", Type::kJson);
  auto writer = CreateWebDatasetWriter(*files, "/out", MakeSchema({KeyColumn()}));
  ASSERT_TRUE(writer.ok()) << writer.status();
  Sample sample;
  sample.key = "a";
  sample.fields = {{&number, Value("1234")}};
  const absl::Status status = (*writer)->Append(sample, 1);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_NE(Message(status).find("column \"n\": a tar holds byte strings, no i32"), std::string::npos) << status;
  sample.fields = {{&late, Value("{}")}};
  ASSERT_TRUE((*writer)->Append(sample, 1).ok());  // a column that the schema lacks
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ(ScanRows(*files, "/out")[0].at("late"), "{}");
}

}  // namespace
}  // namespace shardkit::test
