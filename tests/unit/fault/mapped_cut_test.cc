// Files that are truncated while they are mapped, under every reader: an error, never the end of the process and never
// wrong data.
#include <functional>

#include "fault/cut_support.h"
#include "support/read_in_parts.h"

namespace shardkit::test {
namespace {

struct Case {
  std::string kind;
  bool verify = true;
};

class MappedCutTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    WriteContainer(GetParam().kind, directory_, path_);
    auto opened = Open();
    ASSERT_NE(opened, nullptr);
    expected_ = ScanRows(*opened);
    ASSERT_EQ(expected_.size(), kCutSamples);
  }

  std::unique_ptr<DatasetReader> Open() {
    DatasetOptions options;
    options.mode = ReadMode::kMapped;
    options.verify = GetParam().verify ? Verify::kEvery : Verify::kNever;
    auto opened = DatasetReader::Open(*PosixFileSystem(), path_, options);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened.ok() ? *std::move(opened) : nullptr;
  }

  // The file of shard 0 of the open dataset.
  std::string FirstShard(const DatasetReader& dataset) {
    const auto shard = dataset.OpenShard(0);
    EXPECT_TRUE(shard.ok()) << shard.status();
    std::string path = (*shard)->path();
    if (GetParam().kind == "mds-zstd" && !Exists(*PosixFileSystem(), path)) path += ".zstd";
    return path;
  }

  void ExpectCut(const absl::Status& status, const std::string& file) {
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_NE(Message(status).find(file), std::string::npos) << status;
    EXPECT_NE(Message(status).find("was cut while it was mapped: it had"), std::string::npos) << status;
  }

  // The lengths for truncation: 0, within a page, at page boundaries, and without the last byte.
  static std::vector<uint64_t> Lengths(uint64_t size) {
    return {0, 1, 4096, 4097, size / 2, size / 4096 * 4096, size - 1};
  }

  // Opens, reads a little so that the first shard is mapped, truncates the shard, and calls `read`.
  void AfterEachCut(const std::function<void(const DatasetReader&, const std::string&)>& read) {
    const auto probe = Open();
    const std::string file = FirstShard(*probe);
    const std::string bytes = ReadAll(*PosixFileSystem(), file);
    for (const uint64_t length : Lengths(bytes.size())) {
      SCOPED_TRACE("cut to " + std::to_string(length) + " of " + std::to_string(bytes.size()));
      const auto dataset = Open();
      ASSERT_TRUE(dataset->OpenShard(0).ok());
      Cut(file, length);
      read(*dataset, file);
      ASSERT_TRUE(PosixFileSystem()->RemoveFile(file).ok());
      WriteFile(*PosixFileSystem(), file, bytes);
      if (HasFailure()) return;
    }
  }

  const SystemDirectory directory_;
  const std::string path_ = directory_.Path("data");
  std::vector<Row> expected_;
};

TEST_P(MappedCutTest, Scanning) {
  for (const int threads : {0, 2}) {
    AfterEachCut([&](const DatasetReader& dataset, const std::string& file) {
      ScanOptions scan;
      scan.threads = threads;
      auto scanner = dataset.Scan(scan);
      ASSERT_TRUE(scanner.ok());
      auto block = (*scanner)->Next();
      while (block.ok() && *block != nullptr) block = (*scanner)->Next();
      ExpectCut(block.status(), file);
    });
  }
}

TEST_P(MappedCutTest, ValuesInAnyOrder) {
  AfterEachCut([&](const DatasetReader& dataset, const std::string& file) {
    BlockBuffer buffer;
    for (size_t column = 0; column < dataset.columns().size(); ++column) {
      const std::string& name = dataset.columns()[column].name;
      for (const uint64_t sample : {19, 3, 33, 0, 11}) {
        const Row& row = expected_[sample];
        const auto value = dataset.ReadValue(sample, column, &buffer);
        std::string copied;
        const auto copy = dataset.CopyValue(sample, column, [&](std::string_view piece) {
          copied += piece;
          return absl::OkStatus();
        });
        if (sample >= 20) {  // of another shard
          ASSERT_TRUE(value.ok()) << value.status();
          EXPECT_EQ(**value, row.at(name));
          EXPECT_TRUE(copy.ok() && copied == row.at(name));
          EXPECT_EQ(**test::ReadInParts(dataset.OpenValue(sample, column)), row.at(name));
          continue;
        }
        // A tar's keys are in memory.
        if (value.ok() && GetParam().kind.starts_with("tar") && column == 0) {
          EXPECT_EQ(**value, row.at(name));
          continue;
        }
        ExpectCut(value.status(), file);
        ExpectCut(copy.status(), file);
        ExpectCut(test::ReadInParts(dataset.OpenValue(sample, column)).status(), file);
      }
    }
    // The keys of tars and the key index of a shard may have been read before.
    const auto found = dataset.FindKey("key105", &buffer);
    if (!dataset.summary().schema.key_column()) {
      EXPECT_TRUE(absl::IsFailedPrecondition(found.status()));
    } else if (found.ok()) {
      EXPECT_EQ(*found, 5u);
    } else {
      ExpectCut(found.status(), file);
    }
    if (dataset.index_problem().empty()) {
      std::vector<std::string_view> values(3);
      const size_t image = ImagePosition(dataset);
      const std::vector<uint64_t> samples = {30, 2, 25};
      ExpectCut(dataset.ReadValues(samples, image, &buffer, values), file);
    }
  });
}

// Values that were read before stay readable. CheckMapped says that they may have changed.
TEST_P(MappedCutTest, ValuesThatAreHeld) {
  const auto probe = Open();
  const std::string file = FirstShard(*probe);
  const std::string bytes = ReadAll(*PosixFileSystem(), file);
  for (const uint64_t length : Lengths(bytes.size())) {
    SCOPED_TRACE("cut to " + std::to_string(length));
    const auto dataset = Open();
    BlockBuffer buffer, single;
    BlockView view;
    ASSERT_TRUE(dataset->ReadBlock(0, 0, &buffer, &view).ok());
    const auto value = dataset->ReadValue(4, ImagePosition(*dataset), &single);
    ASSERT_TRUE(value.ok());
    EXPECT_TRUE(buffer.CheckMapped().ok());
    EXPECT_TRUE(single.CheckMapped().ok());
    Cut(file, length);
    for (uint32_t i = 0; i < view.sample_count(); ++i) {
      for (size_t column = 0; column < dataset->columns().size(); ++column) {
        const auto held = view.column(column).value(i);
        ASSERT_TRUE(held.has_value());
        EXPECT_TRUE(SameOrZero(*held, expected_[i].at(dataset->columns()[column].name)));
      }
    }
    EXPECT_TRUE(SameOrZero(**value, expected_[4].at(dataset->columns()[ImagePosition(*dataset)].name)));
    ExpectCut(buffer.CheckMapped(), file);
    ExpectCut(single.CheckMapped(), file);
    ASSERT_TRUE(PosixFileSystem()->RemoveFile(file).ok());
    WriteFile(*PosixFileSystem(), file, bytes);
  }
}

TEST_P(MappedCutTest, Unpacking) {
  int number = 0;
  AfterEachCut([&](const DatasetReader& dataset, const std::string& file) {
    const auto unpacked = Unpack(*PosixFileSystem(), dataset, directory_.Path("files" + std::to_string(number++)));
    ExpectCut(unpacked.status(), file);
  });
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const char* kind : {"shard", "mds", "mds-zstd", "tar", "tar-indexed"}) cases.push_back({kind, true});
  // Without checksums, only the file's length shows the truncation.
  cases.push_back({"shard", false});
  cases.push_back({"tar-indexed", false});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Kinds, MappedCutTest, testing::ValuesIn(Cases()), [](const auto& info) {
  std::string name = info.param.kind + (info.param.verify ? "" : "_unverified");
  std::erase(name, '-');
  return name;
});

// The offset index is mapped in every mode.
TEST(MappedCutIndexTest, TheOffsetIndex) {
  const SystemDirectory directory;
  const std::string path = directory.Path("data"), index = JoinPath(path, "dataset.segment");
  WriteContainer("shard", directory, path);
  const std::string bytes = ReadAll(*PosixFileSystem(), index);
  for (const uint64_t length : {uint64_t{0}, uint64_t{100}, bytes.size() / 2, bytes.size() - 1}) {
    for (const bool used_before : {false, true}) {
      auto dataset = DatasetReader::Open(*PosixFileSystem(), path);
      ASSERT_TRUE(dataset.ok() && (*dataset)->index_problem().empty());
      BlockBuffer buffer;
      const size_t image = ImagePosition(**dataset);
      if (used_before) {
        for (uint64_t i = 0; i < kCutSamples; ++i) ASSERT_TRUE((*dataset)->ReadValue(i, image, &buffer).ok());
      }
      Cut(index, length);
      for (const uint64_t sample : {0, 17, 39}) {
        const auto value = (*dataset)->ReadValue(sample, image, &buffer);
        EXPECT_TRUE(absl::IsDataLoss(value.status())) << value.status();
        EXPECT_NE(Message(value.status()).find(index + ": the file was cut"), std::string::npos) << value.status();
      }
      EXPECT_TRUE(absl::IsDataLoss((*dataset)->ReadBlockDirectory().status()));
      ASSERT_TRUE(PosixFileSystem()->RemoveFile(index).ok());
      WriteFile(*PosixFileSystem(), index, bytes);
    }
  }
}

TEST(MappedCutIndexTest, TheListOfShards) {
  const SystemDirectory directory;
  const std::string path = directory.Path("data"), list = JoinPath(path, "dataset.segment");
  WriteContainer("shard", directory, path);
  ListShardsApart(*PosixFileSystem(), path);
  const std::string bytes = ReadAll(*PosixFileSystem(), list);
  for (const uint64_t length : {uint64_t{0}, uint64_t{100}, bytes.size() - 1}) {
    auto dataset = DatasetReader::Open(*PosixFileSystem(), path);
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    Cut(list, length);
    for (const absl::Status& status :
         {(*dataset)->Shard(0).status(), (*dataset)->Locate(3).status(), (*dataset)->ReadManifest().status()}) {
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;
      EXPECT_NE(Message(status).find(list + ": the file was cut"), std::string::npos) << status;
    }
    ASSERT_TRUE(PosixFileSystem()->RemoveFile(list).ok());
    WriteFile(*PosixFileSystem(), list, bytes);
  }
}

TEST(MappedCutIndexTest, Validating) {
  const SystemDirectory directory;
  for (const std::string kind : {"shard", "mds", "tar"}) {
    const std::string path = directory.Path(kind);
    WriteContainer(kind, directory, path);
    ValidateOptions options;
    options.mode = ReadMode::kMapped;
    bool cut = false;
    options.progress = [&](uint64_t, uint64_t) {
      if (std::exchange(cut, true)) return;
      for (const auto& [name, bytes] : ReadTree(*PosixFileSystem(), path)) {
        if (bytes.size() > 20000) Cut(JoinPath(path, name), 5000);
      }
    };
    const auto report = Validate(*PosixFileSystem(), path, options);
    ASSERT_TRUE(cut);
    EXPECT_TRUE(!report.ok() || !report->ok()) << kind << " is taken for whole";
  }
}

}  // namespace
}  // namespace shardkit::test
