// Lists of tars for wids: what is written, opened and refused.
#include <gtest/gtest.h>

#include "base/named_hash.h"
#include "base/strings.h"
#include "container/foreign/tar_wids.h"
#include "dataset/dataset_support.h"
#include "format/foreign/wids_index.h"
#include "shardkit/tar_index.h"
#include "shardkit/validate.h"
#include "support/fault_filesystem.h"
#include "webdataset/tar_maker.h"

namespace shardkit::test {
namespace {

std::string Index(const std::string& shards, const std::string& more = "") {
  return StrCat(R"({"__kind__": "wids-shard-index-v1", "wids_version": 1, "shardlist": [)", shards, "]", more, "}");
}

class WidsTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(files_->CreateDirectory("/data").ok());
    ASSERT_TRUE(files_->CreateDirectory("/data/sub").ok());
    WriteFile(*files_, "/data/a.tar", MakeTar(a_));
    WriteFile(*files_, "/data/sub/b.tar", MakeTar(b_));
  }

  std::vector<std::string> Keys(const std::string& index, const std::string& path = "/data/all.json") {
    WriteFile(*files_, path, index);
    const auto dataset = DatasetReader::Open(*files_, path);
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    std::vector<std::string> keys;
    if (!dataset.ok()) return keys;
    for (const auto& row : AllRows(**dataset)) keys.push_back(row.at("key"));
    return keys;
  }

  absl::Status ErrorOf(const std::string& index) {
    WriteFile(*files_, "/data/all.json", index);
    return DatasetReader::Open(*files_, "/data/all.json").status();
  }

  std::string Refused(const std::string& tar) {
    WriteFile(*files_, "/data/x.tar", tar);
    const auto report = WriteWidsIndex(*files_, {"/data/x.tar"}, "/data/x.json");
    EXPECT_TRUE(absl::IsInvalidArgument(report.status())) << report.status();
    EXPECT_FALSE(Exists(*files_, "/data/x.json"));
    return Message(report.status());
  }

  const std::vector<TarMember> a_ = {{"1.txt", "one"}, {"1.cls", "1"}, {"2.txt", "two"}};
  const std::vector<TarMember> b_ = {{"3.txt", "three"}};
  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_F(WidsTest, WrittenAsPythonWrites) {
  const auto md5 = HexDigestOf("md5", ReadAll(*files_, "/data/a.tar"));
  WidsOptions options;
  options.name = "n\xc3\xa4me";
  options.md5 = md5.ok();
  const auto report = WriteWidsIndex(*files_, {"/data/sub/b.tar", "/data/a.tar"}, "/data/all.json", options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->shards, 2u);
  EXPECT_EQ(report->samples, 3u);
  const auto line = [&](const std::string& tar) {
    return md5.ok() ? StrCat("      \"md5sum\": \"", *HexDigestOf("md5", ReadAll(*files_, tar)), "\",\n") : "";
  };
  EXPECT_EQ(ReadAll(*files_, "/data/all.json"),
            StrCat("{\n  \"__kind__\": \"wids-shard-index-v1\",\n  \"wids_version\": 1,\n  \"shardlist\": [\n    {\n"
                   "      \"url\": \"sub/b.tar\",\n",
                   line("/data/sub/b.tar"),
                   "      \"nsamples\": 1,\n      \"filesize\": 2048\n    },\n    {\n"
                   "      \"url\": \"a.tar\",\n",
                   line("/data/a.tar"),
                   "      \"nsamples\": 2,\n      \"filesize\": 4096\n    }\n  ],\n  \"name\": \"n\\u00e4me\"\n}"));
  EXPECT_EQ(Keys(ReadAll(*files_, "/data/all.json")), (std::vector<std::string>{"3", "1", "2"}));
  EXPECT_EQ(ValidateText(*files_, "/data/all.json", true), "");
  // An existing list is replaced, but no other file is.
  EXPECT_TRUE(WriteWidsIndex(*files_, {"/data/a.tar"}, "/data/all.json", options).ok());
  WriteFile(*files_, "/data/notes.json", "{}");
  for (const std::string output : {"/data/notes.json", "/data/index.json", "/data/a.tar", "/data/all"}) {
    const auto refused = WriteWidsIndex(*files_, {"/data/a.tar"}, output, options);
    EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << output << ": " << refused.status();
  }
  EXPECT_EQ(ReadAll(*files_, "/data/notes.json"), "{}");
}

TEST_F(WidsTest, TarsAreNamedFromTheIndex) {
  const auto url = [&](const std::string& tar, const std::string& output) {
    const auto report = WriteWidsIndex(*files_, {tar}, output, {.md5 = false});
    EXPECT_TRUE(report.ok()) << report.status();
    const auto index = format::ParseWidsIndex(ReadAll(*files_, output));
    EXPECT_TRUE(index.ok() && *index);
    const auto dataset = DatasetReader::Open(*files_, output);
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    return (*index)->shards.at(0).url;
  };
  EXPECT_EQ(url("/data/sub/b.tar", "/data/sub/b.json"), "b.tar");
  EXPECT_EQ(url("/data/./sub//b.tar", "/data/b.json"), "sub/b.tar");
  EXPECT_EQ(url("/data/sub/b.tar", "/b.json"), "data/sub/b.tar");
  const auto mixed = WriteWidsIndex(*files_, {"/data/a.tar"}, "a.json", {.md5 = false});
  EXPECT_TRUE(absl::IsInvalidArgument(mixed.status())) << mixed.status();
}

TEST_F(WidsTest, PathsThatAnIndexMayName) {
  const std::vector<std::string> keys = {"3", "1", "2"};
  const std::string b = R"({"url": "sub/b.tar", "nsamples": 1}, )";
  EXPECT_EQ(Keys(Index(b + R"({"url": "a.tar", "nsamples": 2, "filesize": 4096, "md5sum": null, "weight": 1.5})")),
            keys);
  EXPECT_EQ(Keys(Index(b + R"({"url": "/data/a.tar", "nsamples": 2})")), keys);
  EXPECT_EQ(Keys(Index(b + R"({"url": "file:///data/a.tar", "nsamples": 2})")), keys);
  EXPECT_EQ(Keys(Index(b + R"({"url": "file:a.tar", "nsamples": 2})")), keys);
  const std::string plain = R"({"url": "b.tar", "nsamples": 1})";
  const std::vector<std::string> one = {"3"};
  EXPECT_EQ(Keys(Index(plain, R"(, "base": "sub")")), one);
  EXPECT_EQ(Keys(Index(plain, R"(, "base": "/data/sub")")), one);
  EXPECT_EQ(
      Keys(Index(plain, R"(, "base": "file://localhost/data/sub", "name": null, "info": {"a": [1]}, "datasets": [])")),
      one);
  EXPECT_EQ(Keys(Index(plain), "/data/sub/all.json"), one);
  // The same tar twice gives two shards.
  EXPECT_EQ(Keys(Index(R"({"url": "sub/b.tar", "nsamples": 1}, {"url": "sub/b.tar", "nsamples": 1})")).size(), 2u);
}

TEST_F(WidsTest, WhatIsElsewhereIsNotFetched) {
  for (const std::string url :
       {"https://host/a.tar", "s3://bucket/a.tar", "pipe:cat a.tar", "file://host/a.tar", "//host/a.tar"}) {
    const absl::Status status = ErrorOf(Index(StrCat(R"({"url": ")", url, R"(", "nsamples": 2})")));
    EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
    EXPECT_TRUE(Message(status).starts_with("/data/all.json: shard 0: '")) << status;
  }
  EXPECT_TRUE(
      absl::IsUnimplemented(ErrorOf(Index(R"({"url": "a.tar", "nsamples": 2})", R"(, "base": "https://host/")"))));
  EXPECT_TRUE(absl::IsUnimplemented(ErrorOf(Index("", R"(, "datasets": [{"source_url": "x.json"}])"))));
  EXPECT_TRUE(absl::IsDataLoss(ErrorOf(Index(R"({"url": "", "nsamples": 2})"))));
  EXPECT_TRUE(absl::IsDataLoss(ErrorOf(Index(R"({"url": "a\u0000.tar", "nsamples": 2})"))));
}

// Else whoever owns the server would choose which files of this machine become part of a dataset.
TEST_F(WidsTest, AnIndexBehindAUrlNamesNothingElse) {
  const std::string folder = "http://host/data";
  for (const char* const part : {"http:", "http://host", "http://host/data", "http://host/data/sub"}) {
    ASSERT_TRUE(files_->CreateDirectory(part).ok()) << part;
  }
  WriteFile(*files_, folder + "/a.tar", MakeTar(a_));
  WriteFile(*files_, folder + "/sub/b.tar", MakeTar(b_));
  const std::string path = folder + "/all.json";
  const std::string b = R"({"url": "b.tar", "nsamples": 1})";
  EXPECT_EQ(Keys(Index(R"({"url": "sub/b.tar", "nsamples": 1}, {"url": "./a.tar", "nsamples": 2})"), path),
            (std::vector<std::string>{"3", "1", "2"}));
  EXPECT_EQ(Keys(Index(b, R"(, "base": "sub")"), path), std::vector<std::string>{"3"});
  const auto refused = [&](const std::string& index) {
    WriteFile(*files_, path, index);
    const absl::Status status = DatasetReader::Open(*files_, path).status();
    EXPECT_TRUE(absl::IsUnimplemented(status)) << index << status;
    EXPECT_NE(Message(status).find("below the folder of this index"), std::string::npos) << status;
  };
  for (const std::string url : {"/data/a.tar", "file:///data/a.tar", "file:a.tar", "../data/a.tar", "sub/../a.tar"}) {
    refused(Index(StrCat(R"({"url": ")", url, R"(", "nsamples": 2})")));
  }
  for (const std::string base : {"/data/sub", "file:///data/sub", "..", "file:sub"}) {
    refused(Index(b, StrCat(R"(, "base": ")", base, R"(")")));
  }
}

TEST_F(WidsTest, TarsThatAreNotWhatTheIndexSays) {
  EXPECT_EQ(Message(ErrorOf(Index(R"({"url": "sub/b.tar", "nsamples": 1}, {"url": "a.tar", "nsamples": 3})"))),
            "/data/a.tar: has 2 samples, but /data/all.json says 3 (shard 1): make the index anew with shardctl "
            "index --wids");
  EXPECT_EQ(Message(ErrorOf(Index(R"({"url": "a.tar", "nsamples": 2, "filesize": 5000})"))),
            "/data/a.tar: has 4096 bytes, but /data/all.json says 5000 (shard 0): it was cut off, or the "
            "index is of another tar");
  EXPECT_TRUE(absl::IsDataLoss(ErrorOf(Index(R"({"url": "a.tar", "nsamples": 2, "filesize": 4095})"))));
  const absl::Status missing = ErrorOf(Index(R"({"url": "a.tar", "nsamples": 2}, {"url": "c.tar", "nsamples": 2})"));
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_EQ(Message(missing), "/data/c.tar: shard 1 of /data/all.json is missing");
  EXPECT_TRUE(absl::IsNotFound(ErrorOf(Index(R"({"url": "c.tar", "nsamples": 2, "filesize": 5})"))));
  // A hash is compared when the first value is read.
  const std::string digits = "0123456789ABCDEF0123456789abcdef";
  EXPECT_TRUE(ErrorOf(Index(StrCat(R"({"url": "a.tar", "nsamples": 2, "md5sum": ")", digits, "\"}"))).ok());
  const std::string problem = ValidateText(*files_, "/data/all.json");
  EXPECT_TRUE(problem.starts_with("/data/a.tar: ")) << problem;
  if (HexDigestOf("md5", "").ok()) {
    EXPECT_NE(problem.find(", but shard 0 of /data/all.json says 0123456789abcdef0123456789abcdef: the file was "),
              std::string::npos)
        << problem;
  }
}

// For plain tars and for compressed ones. For a compressed tar, the bytes of the compressed file are hashed.
TEST_F(WidsTest, TheHashIsComparedBeforeTheFirstValue) {
  if (!HexDigestOf("md5", "").ok()) GTEST_SKIP() << "no OpenSSL";
  WriteFile(*files_, "/data/a.tar.gz", WriteTar(a_, "ustar", "gzip"));
  for (const std::string tar : {"a.tar", "a.tar.gz"}) {
    const std::string bytes = ReadAll(*files_, "/data/" + tar), md5 = *HexDigestOf("md5", bytes);
    WriteFile(*files_, "/data/all.json",
              Index(StrCat(R"({"url": ")", tar, R"(", "nsamples": 2, "md5sum": ")", md5, "\"}")));
    const auto read = [&](ReadMode mode, bool verify, const auto& each) {
      DatasetOptions options;
      options.mode = mode;
      options.verify_listed_hashes = verify;
      const auto dataset = DatasetReader::Open(*files_, "/data/all.json", options);
      ASSERT_TRUE(dataset.ok()) << dataset.status();
      const size_t text = *(*dataset)->FindColumn("txt"), key = *(*dataset)->FindColumn("key");
      BlockBuffer buffer;
      BlockView view;
      EXPECT_EQ(*(*dataset)->ReadValue(1, key, &buffer), "2");  // in a header, which has a checksum
      each((*dataset)->ReadBlock(0, 0, &buffer, &view));
      each((*dataset)->ReadValue(0, text, &buffer).status());
      each((*dataset)->CopyValue(0, text, [](std::string_view) { return absl::OkStatus(); }).status());
    };
    const auto sound = [](const absl::Status& status) { EXPECT_TRUE(status.ok()) << status; };
    read(ReadMode::kBuffered, true, sound);
    // In the plain tar, a value is damaged. In the other tar, it is the time in the gzip header, which nothing reads.
    std::string damaged = bytes;
    damaged[tar == "a.tar" ? 512 : 4] ^= 1;
    WriteFile(*files_, "/data/" + tar, damaged);
    for (const ReadMode mode : {ReadMode::kBuffered, ReadMode::kMapped}) {
      read(mode, true, [&](const absl::Status& status) {
        EXPECT_TRUE(absl::IsDataLoss(status)) << status;
        EXPECT_TRUE(Message(status).starts_with(StrCat("/data/", tar, ": md5 is ", *HexDigestOf("md5", damaged),
                                                       ", but shard 0 of /data/all.json says ", md5, ": ")))
            << status;
      });
      read(mode, false, sound);
    }
  }
}

TEST_F(WidsTest, DamagedIndexes) {
  const std::string sound =
      Index(R"({"url": "a.tar", "md5sum": "0123456789abcdef0123456789abcdef", "nsamples": 2, "filesize": 4096})");
  ASSERT_TRUE(ErrorOf(sound).ok()) << ErrorOf(sound);
  for (size_t length = 0; length < sound.size(); ++length) {
    const absl::Status status = ErrorOf(sound.substr(0, length));
    EXPECT_TRUE(absl::IsDataLoss(status)) << length << ": " << status;
  }
  for (size_t bit = 0; bit < 8 * sound.size(); ++bit) {
    std::string changed = sound;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    WriteFile(*files_, "/data/all.json", changed);
    const auto dataset = DatasetReader::Open(*files_, "/data/all.json");
    EXPECT_EQ(dataset.ok() ? (*dataset)->sample_count() : 2u, 2u) << changed;
  }
  for (const std::string shard :
       {R"({"nsamples": 2})", R"({"url": "a.tar"})", R"({"url": 1, "nsamples": 2})",
        R"({"url": "a.tar", "nsamples": -2})", R"({"url": "a.tar", "nsamples": 2.5})",
        R"({"url": "a.tar", "nsamples": 2, "md5sum": "12"})",
        R"({"url": "a.tar", "nsamples": 2, "md5sum": "0123456789abcdef0123456789abcdeg"})", "[]", "1"}) {
    const absl::Status status = ErrorOf(Index(shard));
    EXPECT_TRUE(absl::IsDataLoss(status)) << shard << ": " << status;
  }
  EXPECT_EQ(Message(ErrorOf(Index(R"({"url": "a.tar", "nsamples": 2}, {"url": "a.tar"})"))),
            "/data/all.json: shard 1: it has no nsamples");
  EXPECT_TRUE(absl::IsDataLoss(ErrorOf(Index(""))));
  EXPECT_TRUE(
      absl::IsUnimplemented(ErrorOf(R"({"__kind__": "wids-shard-index-v1", "wids_version": 2, "shardlist": []})")));
  // Other JSON is not checked here.
  EXPECT_FALSE(*format::ParseWidsIndex("{}"));
  EXPECT_FALSE(*format::ParseWidsIndex(R"({"text": "wids-shard-index-v1"})"));
}

TEST_F(WidsTest, TarsThatWidsReadsOtherwiseAreNotListed) {
  const auto after = [](const std::string& member, uint64_t byte, const std::string& what) {
    return StrCat("/data/x.tar: member '", member, "' at byte ", byte, ": ", what,
                  ": wids would read other samples; rename the member");
  };
  const std::string only_wids = "is a part of a sample for wids, and for webdataset it is none";
  EXPECT_EQ(Refused(MakeTar({{"a.x", "1"}, {".hidden", "2"}})), after(".hidden", 1024, only_wids));
  EXPECT_EQ(Refused(MakeTar({{"__m__/a.x", "1"}})), after("__m__/a.x", 0, only_wids));
  EXPECT_EQ(Refused(MakeTar({{"d.x/README", "1"}})), after("d.x/README", 0, only_wids));
  EXPECT_EQ(Refused(MakeTar({{"a.x", "1"}, {"a\n.x", "1"}})), after("a\n.x", 1024, "is passed over by wids"));
  const std::string twice = "has the name of a member before, which wids takes for the same";
  EXPECT_EQ(Refused(MakeTar({{"a.x", "1"}, {"b.x", "2"}, {"a.x", "3"}})), after("a.x", 2048, twice));
  // Names of which wids reads only the beginning, here without the extension.
  const std::string long_name = std::string(110, 'n');
  EXPECT_NE(Refused(WriteTar({{long_name + ".x", "1"}}, "gnutar")).find("is passed over by wids"), std::string::npos);
  EXPECT_NE(Refused(WriteTar({{"a.x", "1"}}, "ustar", "gzip")).find("is compressed"), std::string::npos);
  // It does not matter when both rules skip a name, or treat it alike.
  WriteFile(*files_, "/data/x.tar",
            MakeTar({{"d/", "", '5'}, {"README", "1"}, {"d/.h.x", "2"}, {"a..b", "3"}, {"a.", "4"}, {"l.x", "", '2'}}));
  const auto report = WriteWidsIndex(*files_, {"/data/x.tar"}, "/data/x.json", {.md5 = false});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->samples, 2u);
  EXPECT_TRUE(DatasetReader::Open(*files_, "/data/x.json").ok());
}

// An index made by wids itself also counts samples that webdataset does not count. The error says so.
TEST_F(WidsTest, CountsByTheRuleOfWidsAreExplained) {
  WriteFile(*files_, "/data/x.tar", MakeTar({{"a.x", "1"}, {".hidden", "2"}}));
  EXPECT_EQ(Message(ErrorOf(Index(R"({"url": "x.tar", "nsamples": 2})"))),
            "/data/x.tar: has 1 samples, but /data/all.json says 2 (shard 0): that is how wids counts, for "
            "member '.hidden' at byte 1024 is "
            "a part of a sample for wids, and for webdataset it is none");
}

TEST_F(WidsTest, SurvivesEveryFailure) {
  const WidsOptions options{.md5 = HexDigestOf("md5", "").ok()};
  ASSERT_TRUE(WriteWidsIndex(*files_, {"/data/a.tar"}, "/data/all.json", options).ok());
  const std::string old = ReadAll(*files_, "/data/all.json");
  uint64_t failures = 0;
  std::string good;
  for (uint64_t n = 1;; ++n) {
    WriteFile(*files_, "/data/all.json", old);
    FaultFileSystem faults(files_.get());
    faults.FailCall(n, {.status = absl::ResourceExhaustedError("no space"), .short_write = true});
    const auto report = WriteWidsIndex(faults, {"/data/a.tar", "/data/sub/b.tar"}, "/data/all.json", options);
    if (!faults.failed_call()) {
      EXPECT_TRUE(report.ok());
      break;
    }
    ++failures;
    EXPECT_FALSE(report.ok()) << n << " " << faults.failed_call()->operation;
    const std::string now = ReadAll(*files_, "/data/all.json");
    EXPECT_TRUE(now == old || format::ParseWidsIndex(now).value()->shards.size() == 2u) << n;
    EXPECT_FALSE(Exists(*files_, "/data/all.json.tmp")) << n << " " << faults.failed_call()->operation;
  }
  EXPECT_GT(failures, 12u);
  for (uint64_t n = 1;; ++n) {
    FaultFileSystem faults(files_.get());
    faults.FailCall(n, {.status = absl::UnavailableError("gone")});
    const auto dataset = DatasetReader::Open(faults, "/data/all.json");
    if (!faults.failed_call()) break;
    EXPECT_TRUE(absl::IsUnavailable(dataset.status()))
        << n << " " << faults.failed_call()->operation << ": " << dataset.status();
  }
}

}  // namespace
}  // namespace shardkit::test
