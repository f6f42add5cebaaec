// Finding the values of a tar.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>

#include "base/strings.h"
#include "codec/zstd.h"
#include "dataset/dataset_support.h"
#include "foreign/webdataset/tar_index.h"
#include "foreign/webdataset/tar_shard_reader.h"
#include "foreign/webdataset/tar_sidecar.h"
#include "support/fault_filesystem.h"
#include "unit/foreign/webdataset/tar_maker.h"

namespace shardkit::test {
namespace {

class TarIndexTest : public testing::Test {
 protected:
  absl::StatusOr<foreign::TarContents> Scan(const std::string& tar, std::vector<TarProblem>* problems = nullptr) {
    WriteFile(*files_, "/x.tar", tar);
    auto file = files_->OpenForReading("/x.tar");
    EXPECT_TRUE(file.ok());
    return foreign::ScanTar(**file, kDefaultMaxDecompression, problems);
  }

  // "key: column=bytes column=bytes; …"
  std::string Show(const std::string& tar) {
    const auto contents = Scan(tar);
    if (!contents.ok()) return Message(contents.status());
    const foreign::TarIndex& index = contents->index;
    std::string text;
    for (uint64_t i = 0; i < index.sample_count(); ++i) {
      text += StrCat(i == 0 ? "" : "; ", index.key(i), ":");
      for (uint64_t v = index.value_ends[i]; v < index.value_ends[i + 1]; ++v) {
        const foreign::TarValue& value = index.values[v];
        text += StrCat(" ", index.columns[value.column], "=", tar.substr(value.offset, value.length));
      }
    }
    return text;
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

// The rule for kept samples is the same as for packing tars (tests/unit/operations/pack/tar_source_test.cc).
TEST_F(TarIndexTest, KeepsWhatStandsBeforeACut) {
  const std::string tar =
      MakeTar({{"a.x", std::string(600, '1')}, {"a.y", "2"}, {"b.z", "3"}, {"b.x", ""}, {"c.w", "4"}});
  const std::vector<size_t> next = {512 + 1024 + 1024, 512 + 1024 + 1024 + 1024 + 512};  // headers of samples 1 and 2
  for (size_t length = 0; length < tar.size() - 1024; length += 31) {
    SCOPED_TRACE(length);
    WriteFile(*files_, "/x.tar", tar.substr(0, length));
    const auto whole = foreign::LoadTarContents(*files_, "/x.tar", kDefaultMaxDecompression);
    EXPECT_TRUE(absl::IsDataLoss(whole.status())) << whole.status();
    const auto kept = foreign::LoadTarContents(*files_, "/x.tar", kDefaultMaxDecompression, /*skip_lost=*/true);
    ASSERT_TRUE(kept.ok()) << kept.status();
    const foreign::TarContents& contents = **kept;
    const uint64_t expected = length >= next[1] + 512 ? 2 : length >= next[0] + 512 ? 1 : 0;
    EXPECT_EQ(contents.index.sample_count(), expected);
    EXPECT_EQ(contents.index.columns.size(), expected == 0 ? 0 : expected + 1);
    EXPECT_TRUE(contents.cut);
    ASSERT_EQ(contents.lost.size(), 1u);
    const auto& [key, status] = contents.lost[0];
    EXPECT_EQ(key, length < 512 ? "x.tar" : std::string(1, static_cast<char>('a' + expected)));
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_TRUE(Message(status).starts_with("/x.tar: ")) << status;
  }
  WriteFile(*files_, "/x.tar", tar);
  const auto kept = foreign::LoadTarContents(*files_, "/x.tar", kDefaultMaxDecompression, /*skip_lost=*/true);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_FALSE((*kept)->cut);
  EXPECT_TRUE((*kept)->lost.empty());
  EXPECT_EQ((*kept)->index.sample_count(), 3u);
}

TEST_F(TarIndexTest, LeavesOutSamplesThatCannotBeTaken) {
  const auto lost = [&](const std::vector<TarMember>& members) {
    WriteFile(*files_, "/x.tar", MakeTar(members));
    EXPECT_TRUE(absl::IsDataLoss(foreign::LoadTarContents(*files_, "/x.tar", kDefaultMaxDecompression).status()));
    const auto loaded = foreign::LoadTarContents(*files_, "/x.tar", kDefaultMaxDecompression, /*skip_lost=*/true);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    if (!loaded.ok()) return std::string();
    EXPECT_FALSE((*loaded)->cut);
    std::string text;
    for (uint64_t i = 0; i < (*loaded)->index.sample_count(); ++i) {
      text += StrCat((*loaded)->index.key(i), ":");
      for (uint64_t v = (*loaded)->index.value_ends[i]; v < (*loaded)->index.value_ends[i + 1]; ++v) {
        text += " " + (*loaded)->index.columns[(*loaded)->index.values[v].column];
      }
      text += "; ";
    }
    for (const std::string& column : (*loaded)->index.columns) text += column + " ";
    for (const foreign::LostTarSample& each : (*loaded)->lost) text += "-" + each.key;
    return text;
  };
  EXPECT_EQ(lost({{"\xff.x", "1"}, {"\xff.y", "2"}, {"a.y", "3"}}), "a: y; y -\xff");
  EXPECT_EQ(lost({{"a.x", "1"}, {"a.\xff", "2"}, {"a.z", "3"}, {"b.y", "4"}, {"c.x", "4"}}), "b: y; c: x; x y -a");
  // What stood in the dropped sample is not there twice in the next one.
  EXPECT_EQ(lost({{"a.x", "1"}, {"a.y", "1"}, {"a.x", "2"}, {"b.y", "3"}, {"b.x", "4"}}), "b: y x; x y -a");
  EXPECT_EQ(lost({{"a.only", "1"}, {"a.x", "1"}, {"a.x", "2"}, {"b.y", "3"}, {"c.y", "4"}, {"c.Y", "5"}}),
            "b: y; y -a-c");
  EXPECT_EQ(lost({{"a.\xff", "1"}}), "-a");
  // Where the tar ends within a lost sample, the sample before it is whole.
  const std::string cut = MakeTar({{"a.x", "1"}, {"b.x", "2"}, {"b.x", "3"}, {"b.y", std::string(600, '4')}});
  for (const size_t length : {cut.find("b.y") + 700, cut.find("b.y") + 100}) {
    WriteFile(*files_, "/x.tar", cut.substr(0, length));
    const auto loaded = foreign::LoadTarContents(*files_, "/x.tar", kDefaultMaxDecompression, /*skip_lost=*/true);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_TRUE((*loaded)->cut);
    ASSERT_EQ((*loaded)->index.sample_count(), 1u);
    EXPECT_EQ((*loaded)->index.key(0), "a");
    ASSERT_EQ((*loaded)->lost.size(), 1u);
    EXPECT_EQ((*loaded)->lost[0].key, "b");
  }
  // The key of a lost sample that comes again is a sample of its own.
  EXPECT_EQ(lost({{"a.\xff", "1"}, {"b.x", "2"}, {"a.x", "3"}}), "b: x; a: x; x -a");
}

TEST_F(TarIndexTest, GroupsNeighbours) {
  EXPECT_EQ(Show(MakeTar({{"a.TXT", "1"}, {"a.cls", "2"}, {"b.txt", "3"}, {"a.txt", "4"}})),
            "a: txt=1 cls=2; b: txt=3; a: txt=4");
  EXPECT_EQ(Show(MakeTar({})), "");
  EXPECT_EQ(Show(MakeTar({{"d/", "", '5'},
                          {"d/a.x", "1"},
                          {"d/b", "2"},
                          {".c.x", "3"},
                          {"__m__", "4"},
                          {"__m__/a.x", "5"},
                          {"d/a.y", "6"},
                          {"d/a.z", "", '2'},
                          {"d/a.w", "", '1'},
                          {"d/a.", "7"},
                          {"d/a.key", "8"},
                          {"d/.h", "9"}})),
            "d/a: x=1 y=6 /.=7 /key=8; d/: h=9");
  EXPECT_EQ(Show(MakeTar({{"./a.x", ""}, {"a.y", ""}, {"././b.x", ""}})), "a: x= y=; b: x=");
}

TEST_F(TarIndexTest, KnowsLongNames) {
  const std::string folder = std::string(120, 'f') + "/" + std::string(130, 'g') + "/";
  const std::string word = "\xc3\xa4\xe6\xbc\xa2\xf0\x9f\x8e\x89";
  const std::vector<TarMember> members = {{"short.a", "1"},
                                          {folder + word + ".jpg", std::string(1000, 'j')},
                                          {folder + word + ".json", "{}"},
                                          {"last.b", "2"}};
  for (const std::string format : {"pax", "gnutar"}) {
    const std::string tar = WriteTar(members, format);
    EXPECT_EQ(Show(tar), StrCat("short: a=1; ", folder, word, ": jpg=", std::string(1000, 'j'), " json={}; last: b=2"))
        << format;
  }
  // The bytes of a ustar name are not changed.
  EXPECT_EQ(Show(MakeTar({{word + ".x", "1"}})), word + ": x=1");
}

// Plain headers are parsed here and all others by libarchive, which reads the whole of a compressed tar.
TEST_F(TarIndexTest, ReadsPlainHeadersAsLibarchiveDoes) {
  const auto without_end = [](std::string tar) { return tar.substr(0, (tar.find_last_not_of('\0') / 512 + 1) * 512); };
  const std::string long_name = std::string(120, 'f') + "/a.";
  std::vector<std::string> parts = {
      MakeTar({{"a.x", std::string(600, '1')}, {"a.y", ""}}),
      MakeTar({{"d/", "", '5'}, {"d/b.x", "2"}}),
      MakeTar({{"a.x", "", '1'}}),  // a link without a target
      MakeTar({{"c.x/", "", '0'}}),
      MakeTar({{"c.z", "3", '7'}}),
      MakeTar({{std::string(98, 'n') + ".x", std::string(512, '4')}}),
      WriteTar({{long_name + "x", "5"}}, "ustar"),
      WriteTar({{long_name + "y", std::string(3000, '6')}, {"e.y", "7"}}, "gnutar"),
      WriteTar({{long_name + "z", "8"}, {"e.z", "9"}}, "pax"),
  };
  const auto changed = [](std::string header, size_t place, std::string_view bytes) {
    std::memcpy(header.data() + place, bytes.data(), bytes.size());
    std::memset(header.data() + 148, ' ', 8);
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<uint8_t>(c);
    std::snprintf(header.data() + 148, 8, "%06o", sum);
    return header;
  };
  parts.push_back(changed(TarHeaderBlock("l.x", 0, '1'), 157, "a.x"));
  parts.push_back(changed(TarHeaderBlock("t.x", 0), 136, "0000000-1 "));          // a time that is no number of tar's
  parts.push_back(changed(TarHeaderBlock("u.x", 0), 108, {"\0zzzz", 5}));         // libarchive looks no further
  parts.push_back(changed(TarHeaderBlock("v.x", 0), 116, {"\x80\0\0\1zzz", 7}));  // binary
  for (std::string& part : parts) part = without_end(std::move(part));
  parts.emplace_back(1024, '\0');  // an end mark, behind which more follows
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::string tar;
    for (int i = 0; i < 6; ++i) tar += parts[random() % parts.size()];
    if (round % 3 > 0) tar.resize(tar.size() + 1024);
    if (round % 3 == 2) tar.resize(random() % tar.size());
    std::string compressed;
    ASSERT_TRUE(codec::ZstdCompressor().Compress(tar, 3, nullptr, &compressed).ok());
    const auto plain = Scan(tar), whole = Scan(compressed);
    ASSERT_EQ(plain.ok(), whole.ok()) << round << ": " << plain.status() << whole.status();
    if (!plain.ok()) continue;
    EXPECT_EQ(plain->index.keys, whole->index.keys) << round;
    EXPECT_EQ(plain->index.columns, whole->index.columns);
    EXPECT_EQ(plain->links, whole->links);
    EXPECT_EQ(plain->passed_over_count, whole->passed_over_count);
    EXPECT_EQ(plain->after_end_mark.has_value(), whole->after_end_mark.has_value());
    ASSERT_EQ(plain->index.values.size(), whole->index.values.size());
    for (size_t i = 0; i < plain->index.values.size(); ++i) {
      EXPECT_EQ(plain->index.values[i].offset, whole->index.values[i].offset);
      EXPECT_EQ(plain->index.values[i].length, whole->index.values[i].length);
      EXPECT_EQ(plain->index.values[i].column, whole->index.values[i].column);
    }
  }
}

TEST_F(TarIndexTest, RefusesWhatIsNoDataset) {
  const std::string twice = Show(MakeTar({{"a.jpg", "1"}, {"a.b", "2"}, {"a.JPG", "3"}}));
  EXPECT_EQ(twice,
            "/x.tar: member 'a.JPG' at byte 2048: sample 'a' has two members with the extension 'JPG' (large "
            "and small letters "
            "are the same): remove one");
  EXPECT_TRUE(absl::IsDataLoss(Scan(MakeTar({{"a.b", "1"}, {"a.b", "2"}})).status()));
  for (const std::string name : {"\xff.x", "a.\xff"}) {
    const auto bad = Scan(MakeTar({{name, "1"}}));
    EXPECT_TRUE(absl::IsDataLoss(bad.status())) << bad.status();
  }
  std::string many;
  for (int i = 0; i < 4096; ++i) many += TarHeaderBlock("a." + std::to_string(i), 0);
  const auto wide = Scan(many + std::string(1024, '\0'));
  EXPECT_TRUE(absl::IsUnimplemented(wide.status())) << wide.status();
  EXPECT_TRUE(Scan(many.substr(512) + std::string(1024, '\0')).ok());
  const auto long_name = Scan(WriteTar({{"a." + std::string(256, 'x'), "1"}}, "pax"));
  EXPECT_TRUE(absl::IsDataLoss(long_name.status())) << long_name.status();
  const auto long_key = Scan(WriteTar({{std::string(40000, 'x') + ".a", "1"}}, "pax"));
  EXPECT_TRUE(absl::IsDataLoss(long_key.status())) << long_key.status();
  EXPECT_TRUE(absl::IsDataLoss(Scan("not a tar at all").status()));
  EXPECT_TRUE(absl::IsDataLoss(Scan("").status()));
}

TEST_F(TarIndexTest, TellsProblems) {
  std::vector<TarProblem> problems;
  const std::string tar = MakeTar({{"a.x", "1"}, {"b.x", "2"}, {"a.y", "3"}});
  const auto contents = Scan(tar, &problems);
  ASSERT_TRUE(contents.ok());
  EXPECT_TRUE(problems.empty());
  const auto repeated = foreign::FindRepeatedKeys(contents->index);
  ASSERT_EQ(repeated.size(), 1u);
  EXPECT_EQ(repeated[0].member, "a.y");
  EXPECT_EQ(repeated[0].offset, 2560u);
  // What lies behind an end mark is read, other than in webdataset, and told.
  const std::string joined = tar + std::string(20480, '\0') + MakeTar({{"c.x", "4"}, {"d.x", "5"}});
  const auto both = Scan(joined, &problems);
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->index.sample_count(), 5u);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].member, "c.x");
  EXPECT_EQ(problems[0].offset, 3072u);
  EXPECT_EQ(Show(joined), Show(tar) + "; c: x=4; d: x=5");
  problems.clear();
  ASSERT_TRUE(Scan(tar + std::string(600, 'x'), &problems).ok());
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].message, "behind the end mark there is more, which is no tar and is not read");
  problems.clear();
  ASSERT_TRUE(Scan(tar + std::string(8192, '\0'), &problems).ok());
  EXPECT_TRUE(problems.empty());
}

TEST_F(TarIndexTest, SparseMembersAreRefusedUnlessPassedOver) {
  // GNU's old form: type 'S', one stretch of data, and the size of the whole.
  const auto sparse = [](const std::string& name) {
    std::string header = TarHeaderBlock(name, 512, 'S');
    std::memcpy(header.data() + 257, "ustar  ", 8);
    std::memcpy(header.data() + 386, "00000010000", 11);
    std::memcpy(header.data() + 398, "00000001000", 11);
    std::memcpy(header.data() + 483, "00000011000", 11);
    std::memset(header.data() + 148, ' ', 8);
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<uint8_t>(c);
    std::snprintf(header.data() + 148, 8, "%06o", sum);
    return header + std::string(512, 's');
  };
  const auto refused = Scan(sparse("a.x") + MakeTar({{"b.x", "1"}}));
  EXPECT_TRUE(absl::IsDataLoss(refused.status())) << refused.status();
  EXPECT_EQ(Show(sparse("without dot") + MakeTar({{"b.x", "1"}})), "b: x=1");
}

TEST_F(TarIndexTest, SidecarIsUsedAndChecked) {
  const std::string tar = MakeTar({{"a.x", "11111"}, {"a.y", ""}, {"b.x", std::string(3000, 'z')}});
  WriteFile(*files_, "/x.tar", tar);
  const auto report = BuildTarIndex(*files_, "/x.tar");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->samples, 2u);
  EXPECT_EQ(report->values, 3u);
  EXPECT_EQ(report->bytes, tar.size());
  EXPECT_EQ(report->index_path, "/x.tar.shardidx");
  const auto loaded = foreign::LoadTarContents(*files_, "/x.tar", kDefaultMaxDecompression);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)->stored->length, ReadAll(*files_, "/x.tar.shardidx").size());
  EXPECT_EQ((*loaded)->index.sample_count(), 0u);  // they are in the blocks
  const auto blocks = foreign::TarBlocks::Open(*files_, "/x.tar", *loaded);
  ASSERT_TRUE(blocks.ok()) << blocks.status();
  const auto block = (*blocks)->Block(0);
  ASSERT_TRUE(block.ok()) << block.status();
  EXPECT_EQ((*block)->checksums.size(), 3u);
  auto scanned = Scan(tar);
  scanned->index.checksums = (*block)->checksums;
  EXPECT_EQ(static_cast<const foreign::TarSamples&>(scanned->index), **block);
  EXPECT_EQ(scanned->index.columns, (*loaded)->index.columns);

  // A tar with another length, another content, and an empty one.
  WriteFile(*files_, "/x.tar", tar + std::string(512, '\0'));
  EXPECT_EQ(Message(foreign::LoadTarContents(*files_, "/x.tar", kDefaultMaxDecompression).status()),
            StrCat("/x.tar.shardidx: is of a tar of ", tar.size(), " bytes, but /x.tar has ", tar.size() + 512,
                   "; run shardctl index /x.tar"));
  std::string other = tar;
  other[512] = '2';
  WriteFile(*files_, "/x.tar", other);
  EXPECT_EQ(Message(foreign::LoadTarContents(*files_, "/x.tar", kDefaultMaxDecompression).status()),
            "/x.tar.shardidx: is of another tar than /x.tar, or the tar was changed; run shardctl index /x.tar");
  WriteFile(*files_, "/x.tar.shardidx", "");
  const auto empty = foreign::LoadTarContents(*files_, "/x.tar", kDefaultMaxDecompression);
  EXPECT_TRUE(absl::IsDataLoss(empty.status())) << empty.status();
  ASSERT_TRUE(BuildTarIndex(*files_, "/x.tar").ok());
  EXPECT_TRUE(foreign::LoadTarContents(*files_, "/x.tar", kDefaultMaxDecompression).ok());
}

TEST_F(TarIndexTest, CompressedTarsHaveNone) {
  WriteFile(*files_, "/x.tar.gz", WriteTar({{"a.x", "1"}}, "ustar", "gzip"));
  const auto report = BuildTarIndex(*files_, "/x.tar.gz");
  EXPECT_TRUE(absl::IsInvalidArgument(report.status())) << report.status();
  EXPECT_FALSE(Exists(*files_, "/x.tar.gz.shardidx"));
}

// Whatever call fails, there is the old index or the new one, and nothing else.
TEST_F(TarIndexTest, SurvivesEveryFailure) {
  const std::string tar = MakeTar({{"a.x", "1"}, {"b.x", "2"}});
  WriteFile(*files_, "/x.tar", tar);
  ASSERT_TRUE(BuildTarIndex(*files_, "/x.tar").ok());
  const std::string good = ReadAll(*files_, "/x.tar.shardidx");
  uint64_t failures = 0;
  for (uint64_t n = 1;; ++n) {
    WriteFile(*files_, "/x.tar.shardidx", "old");
    FaultFileSystem faults(files_.get());
    faults.FailCall(n, {.status = absl::ResourceExhaustedError("no space"), .short_write = true});
    const auto report = BuildTarIndex(faults, "/x.tar");
    if (!faults.failed_call()) {
      EXPECT_TRUE(report.ok());
      break;
    }
    ++failures;
    EXPECT_FALSE(report.ok()) << n << " " << faults.failed_call()->operation;
    const std::string now = ReadAll(*files_, "/x.tar.shardidx");
    EXPECT_TRUE(now == "old" || now == good) << n;
    EXPECT_FALSE(Exists(*files_, "/x.tar.shardidx.tmp")) << n << " " << faults.failed_call()->operation;
  }
  EXPECT_GT(failures, 8u);
  // A temporary file that a killed run left behind.
  WriteFile(*files_, "/x.tar.shardidx.tmp", "half");
  EXPECT_TRUE(BuildTarIndex(*files_, "/x.tar").ok());
}

// Sizes past 8 GiB, with holes for data: in base 256, and in a pax header.
TEST(TarIndexLarge, MembersOfManyGibibytes) {
  char folder[] = "/tmp/shardkit-tar-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string path = StrCat(folder, "/big.tar");
  FileSystem& files = *PosixFileSystem();
  const uint64_t size = (uint64_t{9} << 30) + 7;
  const uint64_t stored = (size + 511) / 512 * 512;
  std::string pax_body = "19 size=9663676423\n";
  pax_body.resize(512);
  const std::string second = TarHeaderBlock("pax", 19, 'x') + pax_body + TarHeaderBlock("b.bin", 0);
  {
    std::ofstream file(path, std::ios::binary);
    const uint64_t middle = 512 + stored;
    file << TarHeaderBlock("a.bin", size) << std::flush;
    file.seekp(static_cast<std::streamoff>(middle)) << second;
    file.seekp(static_cast<std::streamoff>(middle + second.size() + stored)) << MakeTar({{"c.bin", "end"}});
    if (!file.flush()) GTEST_SKIP() << "no room for a file with holes in /tmp";
  }
  ReadOptions options;
  options.max_block_memory = 1 << 20;
  const auto reader = foreign::TarShardReader::Open(files, path, options);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->sample_count(), 3u);
  EXPECT_EQ((*reader)->blocks().size(), 3u);
  BlockBuffer buffer;
  BlockView view;
  const auto end = (*reader)->ReadValue(2, 1, &buffer);
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(*end, "end");
  EXPECT_TRUE(absl::IsResourceExhausted((*reader)->ReadValue(0, 1, &buffer).status()));
  EXPECT_TRUE(absl::IsResourceExhausted((*reader)->ReadBlock(1, {}, &buffer, &view)));
  EXPECT_TRUE((*reader)->ReadBlock(1, std::vector<size_t>{0}, &buffer, &view).ok());
  uint64_t seen = 0;
  const auto copied = (*reader)->CopyValue(1, 1, [&](std::string_view piece) {
    seen += piece.size();
    return seen > (64 << 20) ? absl::CancelledError("enough") : absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsCancelled(copied.status())) << copied.status();
  const auto statistics = (*reader)->ReadStatistics();
  ASSERT_TRUE(statistics.ok());
  EXPECT_EQ((*statistics)[1].max_length, size);
  (void)files.RemoveFile(path);
  (void)files.RemoveDirectory(folder);
}

}  // namespace
}  // namespace shardkit::test
