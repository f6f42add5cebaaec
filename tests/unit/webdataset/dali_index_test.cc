// Indexes for DALI: the bytes written, opening through them, and contents that must not be trusted.
#include <gtest/gtest.h>

#include "base/status_macros.h"
#include "base/strings.h"
#include "container/foreign/tar_shard_reader.h"
#include "dataset/dataset_support.h"
#include "format/foreign/dali_index.h"
#include "shardkit/tar_index.h"
#include "shardkit/validate.h"
#include "support/fault_filesystem.h"
#include "webdataset/tar_maker.h"

namespace shardkit::test {
namespace {

const std::vector<TarMember> kIndexedMembers = {{"d/", "", '5'},      {"d/a.jpg", std::string(600, 'j')},
                                                {"d/a.SEG.cls", "7"}, {"README", "not a sample"},
                                                {"b.jpg", ""},        {"c.jpg", "third"},
                                                {"c.cls", "9"}};

class DaliIndexTest : public testing::Test {
 protected:
  // Every value read in every way, or the first error.
  absl::StatusOr<std::vector<Row>> Read(const std::string& path, ReadMode mode = ReadMode::kBuffered) {
    DatasetOptions options;
    options.mode = mode;
    SHARDKIT_ASSIGN_OR_RETURN(const auto dataset, DatasetReader::Open(*files_, path, options));
    std::vector<Row> rows(dataset->sample_count());
    BlockBuffer buffer;
    for (uint64_t i = 0; i < rows.size(); ++i) {
      for (size_t c = 0; c < dataset->columns().size(); ++c) {
        SHARDKIT_ASSIGN_OR_RETURN(const auto value, dataset->ReadValue(i, c, &buffer));
        if (value) rows[i][dataset->columns()[c].name] = *value;
      }
    }
    SHARDKIT_ASSIGN_OR_RETURN(const auto scanner, dataset->Scan());
    while (true) {
      SHARDKIT_ASSIGN_OR_RETURN(const auto block, scanner->Next());
      if (block == nullptr) return rows;
      for (uint32_t i = 0; i < block->view().sample_count(); ++i) {
        for (size_t c = 0; c < dataset->columns().size(); ++c) {
          const Row& row = rows[block->first_sample() + i];
          const auto found = row.find(dataset->columns()[c].name);
          const auto value = block->view().column(c).value(i);
          EXPECT_EQ(value.has_value(), found != row.end());
          EXPECT_EQ(value.value_or(""), found == row.end() ? "" : found->second);
        }
      }
    }
  }

  // The error of opening or reading the tar with a changed index.
  std::string ErrorWith(const std::string& tar, const std::string& index) {
    WriteFile(*files_, "/x.tar", tar);
    WriteFile(*files_, "/x.idx", index);
    const auto rows = Read("/x.tar");
    EXPECT_TRUE(absl::IsDataLoss(rows.status())) << rows.status();
    return Message(rows.status());
  }

  uint64_t ReadsToOpen(const std::string& path) {
    FaultFileSystem counting(files_.get());
    EXPECT_TRUE(DatasetReader::Open(counting, path).ok());
    uint64_t reads = 0;
    for (const FileSystemCall& call : counting.calls()) reads += call.operation == "read" && call.path == path ? 1 : 0;
    return reads;
  }

  static std::string Replaced(std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    return text.replace(at, from.size(), to);
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_F(DaliIndexTest, HasTheBytesThatWds2idxWrites) {
  WriteFile(*files_, "/x.tar", MakeTar(kIndexedMembers));
  const auto report = BuildDaliIndex(*files_, "/x.tar");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(ReadAll(*files_, "/x.idx"),
            "v1.2 4\n"
            "jpg 1024 600 d/a.jpg SEG.cls 2560 1 d/a.SEG.cls\n"
            "README 3584 12 README\n"
            "jpg 4608 0 b.jpg\n"
            "jpg 5120 5 c.jpg cls 6144 1 c.cls\n");
  EXPECT_EQ(report->index_path, "/x.idx");
  EXPECT_EQ(report->samples, 4u);
  EXPECT_EQ(report->values, 6u);
  ASSERT_EQ(report->problems.size(), 1u);
  EXPECT_EQ(report->problems[0].member, "README");
  // Without a dot, everything except the last character counts, although that is odd.
  WriteFile(*files_, "/y.tar", MakeTar({{"ab", "1"}, {"ac", "2"}, {"a.x", "3"}, {"d/e", "4"}, {"R", "5"}}));
  ASSERT_TRUE(BuildDaliIndex(*files_, "/y.tar").ok());
  EXPECT_EQ(ReadAll(*files_, "/y.idx"), "v1.2 1\nab 512 1 ab ac 1536 1 ac x 2560 1 a.x\n");
}

TEST_F(DaliIndexTest, GivesTheSamplesThatTheTarHas) {
  for (const std::string format : {"ustar", "pax", "gnutar"}) {
    std::vector<TarMember> members = kIndexedMembers;
    if (format != "ustar") members.push_back({std::string(150, 'n') + ".jpg", "long"});
    const std::string tar = WriteTar(members, format);
    WriteFile(*files_, "/plain.tar", tar);
    WriteFile(*files_, "/x.tar", tar);
    ASSERT_TRUE(BuildDaliIndex(*files_, "/x.tar").ok());
    const auto expected = Read("/plain.tar");
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (const ReadMode mode : {ReadMode::kBuffered, ReadMode::kMapped}) {
      const auto rows = Read("/x.tar", mode);
      ASSERT_TRUE(rows.ok()) << rows.status();
      EXPECT_EQ(*rows, *expected) << format;
    }
    EXPECT_EQ(ValidateText(*files_, "/x.tar"), "");
  }
}

TEST_F(DaliIndexTest, OpeningDoesNotLookThroughTheTar) {
  std::vector<TarMember> members;
  for (int i = 0; i < 100; ++i) members.push_back({StrCat(i, ".bin"), std::string(20000, 'b')});
  WriteFile(*files_, "/x.tar", MakeTar(members));
  EXPECT_GT(ReadsToOpen("/x.tar"), 90u);
  ASSERT_TRUE(BuildDaliIndex(*files_, "/x.tar").ok());
  EXPECT_LT(ReadsToOpen("/x.tar"), 10u);
  // Shardkit's own index has priority. An index of a version without names is ignored.
  ASSERT_TRUE(BuildTarIndex(*files_, "/x.tar").ok());
  WriteFile(*files_, "/x.idx", "v1.2 nonsense");
  EXPECT_TRUE(Read("/x.tar").ok());
  ASSERT_TRUE(files_->RemoveFile("/x.tar.shardidx").ok());
  for (const std::string other : {"v1.1 1\nbin 512 20000\n", "v1.0 1\n", "v1.3 1\n", "another program's", ""}) {
    WriteFile(*files_, "/x.idx", other);
    const auto rows = Read("/x.tar");
    ASSERT_TRUE(rows.ok()) << rows.status();
    EXPECT_EQ(rows->size(), 100u);
  }
}

// For any change of an index: the tar's samples, or an error, and nothing else.
TEST_F(DaliIndexTest, EveryTruncationAndEveryFlippedBit) {
  WriteFile(*files_, "/x.tar", MakeTar(kIndexedMembers));
  ASSERT_TRUE(BuildDaliIndex(*files_, "/x.tar").ok());
  const std::string index = ReadAll(*files_, "/x.idx");
  const auto expected = Read("/x.tar");
  ASSERT_TRUE(expected.ok());
  uint64_t errors = 0;
  const auto check = [&](const std::string& changed, size_t at) {
    WriteFile(*files_, "/x.idx", changed);
    const auto rows = Read("/x.tar");
    if (rows.ok()) {
      EXPECT_EQ(*rows, *expected) << at << ": " << changed;
    } else {
      ++errors;
      EXPECT_TRUE(absl::IsDataLoss(rows.status()) || absl::IsUnimplemented(rows.status()))
          << at << ": " << rows.status();
      EXPECT_TRUE(Message(rows.status()).starts_with("/x.")) << rows.status();
    }
  };
  for (size_t length = 4; length + 1 < index.size(); ++length) {
    check(index.substr(0, length), length);
    EXPECT_EQ(errors, length - 3) << index.substr(0, length);
  }
  for (size_t bit = 0; bit < 8 * index.size(); ++bit) {
    std::string changed = index;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    check(changed, bit);
  }
}

TEST_F(DaliIndexTest, ErrorsNameTheLine) {
  const std::string tar = MakeTar(kIndexedMembers);
  WriteFile(*files_, "/x.tar", tar);
  ASSERT_TRUE(BuildDaliIndex(*files_, "/x.tar").ok());
  const std::string index = ReadAll(*files_, "/x.idx");
  const auto error = [&](const std::string& from, const std::string& to) {
    const std::string message = ErrorWith(tar, Replaced(index, from, to));
    EXPECT_TRUE(message.ends_with("; run shardctl index --dali /x.tar, or remove it")) << message;
    return message.substr(0, message.find("; run"));
  };
  EXPECT_EQ(error("v1.2 4", "v1.2 x"), "/x.idx: line 1: is not \"v1.2\" and a number of samples");
  EXPECT_EQ(error("v1.2 4", "v1.2 0"), "/x.idx: line 1: is not \"v1.2\" and a number of samples");
  EXPECT_EQ(error("v1.2 4", "v1.2 18446744073709551615"),
            "/x.idx: line 1: announces 18446744073709551615 samples, but there are 4: it was cut off");
  EXPECT_EQ(error("v1.2 4", "v1.2 3"), "/x.idx: line 5: follows the 3 samples that line 1 announces");
  EXPECT_EQ(error("2560", "2561"),
            "/x.idx: line 2: the data of 'd/a.SEG.cls' would begin at byte 2561, which is no multiple of 512");
  EXPECT_EQ(error("2560", "2048"),
            "/x.idx: line 2: the data of 'd/a.SEG.cls' would begin at byte 2048, within the member before, "
            "which ends at 2048");
  EXPECT_EQ(error(" 1024 ", " 0 "),
            "/x.idx: line 2: the data of 'd/a.jpg' would begin at byte 0, within the member before, which "
            "ends at 0");
  EXPECT_EQ(error("6144 1 c.cls", "6144 18446744073709551615 c.cls"),
            StrCat("/x.idx: line 5: the 18446744073709551615 bytes of 'c.cls' at byte 6144 would pass the "
                   "end of the tar, which has ",
                   tar.size()));
  EXPECT_EQ(error("0 b.jpg", "b.jpg"),
            "/x.idx: line 4: what follows 'jpg' is not offset, size and name (a name with a space?)");
  EXPECT_EQ(error("jpg 4608", "png 4608"), "/x.idx: line 4: 'png' is not the extension of 'b.jpg'");
  EXPECT_EQ(error("cls 6144 1 c.cls", "jpg 6144 1 c.jpg"),
            "/x.idx: member 'c.jpg' at byte 5632: sample 'c' has two members with the extension 'jpg' (large "
            "and small letters are the "
            "same): remove one");
  // Of the members.
  EXPECT_EQ(error("1024 600 d/a.jpg", "1024 599 d/a.jpg"),
            "/x.idx: has 'd/a.jpg', 599 bytes at byte 1024, where /x.tar has member 'd/a.jpg', 600 bytes at "
            "byte 1024: it is of another "
            "tar, or the tar was changed");
  EXPECT_EQ(error(" cls 6144 1 c.cls", ""), "/x.idx: does not have member 'c.cls', which is at byte 5632 of /x.tar");
  EXPECT_EQ(error("6144 1 c.cls", "6144 1 c.cls zzz 7168 0 c.zzz"),
            "/x.idx: says that 'c.zzz' has data at byte 7168, but /x.tar ends before");
  // In the middle, where nothing is checked before the bytes are requested.
  EXPECT_EQ(error("jpg 4608 0 b.jpg", "jpg 4608 0 B.jpg"),
            "/x.idx: has 'B.jpg', 0 bytes at byte 4608, where /x.tar has member 'b.jpg', 0 bytes at byte "
            "4608: it is of another tar, or "
            "the tar was changed");
  EXPECT_EQ(error(" SEG.cls 2560 1 d/a.SEG.cls", ""),
            "/x.idx: has 'b.jpg', 0 bytes at byte 4608, where /x.tar has member 'd/a.SEG.cls', 1 bytes at "
            "byte 2560: it is of another "
            "tar, or the tar was changed");
}

// First and last member are the same; only the members between them differ.
TEST_F(DaliIndexTest, AnIndexOfAnotherTarGivesNoBytes) {
  std::vector<TarMember> members = {{"a.x", "1"}, {"b.x", "22"}, {"c.x", "3"}};
  WriteFile(*files_, "/x.tar", MakeTar(members));
  ASSERT_TRUE(BuildDaliIndex(*files_, "/x.tar").ok());
  members[1] = {"e.x", "22"};
  WriteFile(*files_, "/x.tar", MakeTar(members));
  const auto reader = container::TarShardReader::Open(*files_, "/x.tar", {});
  ASSERT_TRUE(reader.ok()) << reader.status();
  BlockBuffer buffer;
  BlockView view;
  const auto sink = [](std::string_view) { return absl::OkStatus(); };
  for (const absl::Status& status :
       {(*reader)->ReadBlock(0, {}, &buffer, &view), (*reader)->ReadBlock(0, std::vector<size_t>{0}, &buffer, &view),
        (*reader)->ReadValue(1, 1, &buffer).status(), (*reader)->ReadValue(1, 0, &buffer).status(),
        (*reader)->CopyValue(1, 1, sink).status()}) {
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_NE(Message(status).find("has 'b.x', 2 bytes at byte 1536, where /x.tar has member 'e.x'"), std::string::npos)
        << status;
  }
  EXPECT_NE(ValidateText(*files_, "/x.tar"), "");
  // One that was cut off.
  members[1] = {"b.x", "22"};
  const std::string tar = MakeTar(members);
  WriteFile(*files_, "/x.tar", tar.substr(0, tar.size() - 1024));
  const auto cut = Read("/x.tar");
  EXPECT_TRUE(absl::IsDataLoss(cut.status()));
  EXPECT_NE(Message(cut.status()).find("ends without an end mark"), std::string::npos) << cut.status();
}

// The index also lists members that belong to no sample. Only validation checks them.
TEST_F(DaliIndexTest, ValidateComparesAllOfIt) {
  WriteFile(*files_, "/x.tar", MakeTar(kIndexedMembers));
  ASSERT_TRUE(BuildDaliIndex(*files_, "/x.tar").ok());
  const std::string index = ReadAll(*files_, "/x.idx");
  WriteFile(*files_, "/x.idx", Replaced(index, "3584 12", "3584 13"));
  EXPECT_TRUE(Read("/x.tar").ok());
  EXPECT_EQ(ValidateText(*files_, "/x.tar"),
            "/x.idx: line 3: 'README', 13 bytes at byte 3584, but /x.tar has 'README', 12 bytes at byte "
            "3584; run shardctl index --dali "
            "/x.tar, or remove it");
  WriteFile(*files_, "/x.idx", Replaced(Replaced(index, "README 3584 12 README\n", ""), "v1.2 4", "v1.2 3"));
  EXPECT_NE(ValidateText(*files_, "/x.tar"), "");
  // Also when Shardkit's own index is used.
  ASSERT_TRUE(BuildTarIndex(*files_, "/x.tar").ok());
  EXPECT_NE(ValidateText(*files_, "/x.tar"), "");
  WriteFile(*files_, "/x.idx", index);
  EXPECT_EQ(ValidateText(*files_, "/x.tar"), "");
}

TEST_F(DaliIndexTest, IsNotWrittenOfWhatItCannotTell) {
  const auto refused = [&](const std::vector<TarMember>& members) {
    WriteFile(*files_, "/x.tar", WriteTar(members, "pax"));
    const auto report = BuildDaliIndex(*files_, "/x.tar");
    EXPECT_TRUE(absl::IsInvalidArgument(report.status())) << report.status();
    EXPECT_FALSE(Exists(*files_, "/x.idx"));
    return Message(report.status());
  };
  EXPECT_EQ(refused({{"a b.x", "1"}}),
            "/x.tar: member 'a b.x' at byte 512: its name has white space, which ends a word of an index; "
            "rename it");
  EXPECT_NE(refused({{"a.", "1"}}).find("its name ends with a dot"), std::string::npos);
  EXPECT_EQ(refused({{"a.x", "1"}, {"d/.b.x", "2"}}),
            "/x.tar: member 'd/.b.x' at byte 1024: is hidden for DALI, which would leave it out; rename it");
  EXPECT_NE(refused({}).find("has no samples"), std::string::npos);
  WriteFile(*files_, "/x.tar", WriteTar({{"a.x", "1"}}, "ustar", "gzip"));
  EXPECT_TRUE(absl::IsInvalidArgument(BuildDaliIndex(*files_, "/x.tar").status()));
  WriteFile(*files_, "/x.tgz", MakeTar({{"a.x", "1"}}));
  EXPECT_TRUE(absl::IsInvalidArgument(BuildDaliIndex(*files_, "/x.tgz").status()));
  EXPECT_TRUE(absl::IsNotFound(BuildDaliIndex(*files_, "/none.tar").status()));
  WriteFile(*files_, "/y.tar", MakeTar({{"a.x", "1"}}));
  WriteFile(*files_, "/y.idx", "of another program");
  EXPECT_TRUE(absl::IsInvalidArgument(BuildDaliIndex(*files_, "/y.tar").status()));
  EXPECT_EQ(ReadAll(*files_, "/y.idx"), "of another program");
}

TEST_F(DaliIndexTest, SurvivesEveryFailure) {
  WriteFile(*files_, "/x.tar", MakeTar(kIndexedMembers));
  ASSERT_TRUE(BuildDaliIndex(*files_, "/x.tar").ok());
  const std::string good = ReadAll(*files_, "/x.idx");
  const std::string old = "v1.1 old";
  uint64_t failures = 0;
  for (uint64_t n = 1;; ++n) {
    WriteFile(*files_, "/x.idx", old);
    FaultFileSystem faults(files_.get());
    faults.FailCall(n, {.status = absl::ResourceExhaustedError("no space"), .short_write = true});
    const auto report = BuildDaliIndex(faults, "/x.tar");
    if (!faults.failed_call()) break;
    ++failures;
    EXPECT_FALSE(report.ok()) << n << " " << faults.failed_call()->operation;
    const std::string now = ReadAll(*files_, "/x.idx");
    EXPECT_TRUE(now == old || now == good) << n;
    EXPECT_FALSE(Exists(*files_, "/x.idx.tmp")) << n << " " << faults.failed_call()->operation;
  }
  EXPECT_GT(failures, 8u);
  for (uint64_t n = 1;; ++n) {
    FaultFileSystem faults(files_.get());
    faults.FailCall(n, {.status = absl::UnavailableError("gone")});
    const auto reader = container::TarShardReader::Open(faults, "/x.tar", {});
    BlockBuffer buffer;
    BlockView view;
    const absl::Status status = reader.ok() ? (*reader)->ReadBlock(0, {}, &buffer, &view) : reader.status();
    if (!faults.failed_call()) {
      EXPECT_TRUE(status.ok()) << status;
      break;
    }
    EXPECT_TRUE(absl::IsUnavailable(status)) << n << " " << faults.failed_call()->operation << ": " << status;
  }
}

}  // namespace
}  // namespace shardkit::test
