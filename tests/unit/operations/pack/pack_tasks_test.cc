#include <atomic>
#include <thread>

#include "base/strings.h"
#include "shardkit/copy.h"
#include "shardkit/filesystem.h"
#include "shardkit/pack.h"
#include "unit/operations/pack/convert_support.h"

namespace shardkit {
namespace {

using test::Describe;
using test::Exists;
using test::MakeTar;
using test::Message;
using test::ReadTree;
using test::Tree;
using test::WriteFile;
using test::WriteTree;

// Lists files with their sizes, as object stores do, and notes which files it was asked about and what it was told.
class ListingSizes : public ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;

  absl::Status ForEachEntry(const std::string& path, const TakeEntry& take) override {
    return ForwardingFileSystem::ForEachEntry(path, [&](const ListedEntry& entry) {
      ListedEntry sized = entry;
      if (entry.type == FileType::kRegular) sized.size = base().Stat(path + "/" + std::string(entry.name), true)->size;
      return take(sized);
    });
  }
  absl::StatusOr<FileInfo> Stat(const std::string& path, bool follow) override {
    auto info = ForwardingFileSystem::Stat(path, follow);
    if (path.starts_with("/in/") && info.ok() && info->type == FileType::kRegular) ++asked;
    return info;
  }
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> size) override {
    if (path.starts_with("/in/") && !size) ++asked;
    return ForwardingFileSystem::OpenForReading(path, mode, size);
  }

  std::atomic<int> asked = 0;
};

class PackTasksTest : public testing::Test {
 protected:
  PackTasksTest() { source_.file_system = files_.get(); }

  // A folder, a tar, a tar without members, another folder and another tar, with samples that cannot be packed, of
  // columns that come late and change their type.
  void WriteInputs() {
    Tree first, second;
    std::vector<test::TarItem> tar, last;
    for (int i = 0; i < 90; ++i) {
      const std::string key = "s" + std::to_string(100 + i);
      first["a/" + key + ".txt"] = std::string(static_cast<size_t>(i * 37 % 400), 'a');
      if (i % 20 == 7) first["a/" + key + ".late"] = "\xff\xfe";
      if (i % 9 == 2) first["a/" + key + ".jpg"] = i % 18 == 2 ? "no picture" : std::string(test::kJpegBytes);
      second["b/" + key + ".txt"] = std::string(static_cast<size_t>(i * 53 % 300), i == 60 ? '\xff' : 'b');
      tar.push_back({"t/" + key + ".txt", std::string(static_cast<size_t>(i * 31 % 300), i > 50 ? '\xff' : 't')});
      if (i % 3 == 0) last.push_back({"u/" + key + ".cls", std::to_string(i)});
    }
    WriteTree(*files_, "/first", first);
    WriteTree(*files_, "/second", second);
    WriteFile(*files_, "/one.tar", MakeTar(tar));
    WriteFile(*files_, "/none.tar", MakeTar({}));
    WriteFile(*files_, "/two.tar.gz", MakeTar(last, "gzip"));
  }
  std::vector<std::string> Inputs() const { return {"/first", "/one.tar", "/none.tar", "/second", "/two.tar.gz"}; }

  PackOptions Options(bool skip) const {
    PackOptions options;
    options.dataset.shard_size = 3000;
    options.dataset.shard.block_size = 700;
    options.skip_errors = skip;
    return options;
  }

  absl::StatusOr<PackReport> PackWhole(const std::string& kind, const std::vector<std::string>& inputs,
                                       const PackOptions& options, const std::string& directory = "/whole") {
    source_.skip_errors = options.skip_errors;
    auto source = OpenSource(kind, inputs, source_);
    if (!source.ok()) return source.status();
    return Pack(*files_, **source, directory, options);
  }

  absl::Status Plan(const std::string& kind, const std::vector<std::string>& inputs, const PackOptions& options) {
    source_.skip_errors = options.skip_errors;
    return PlanPack(*files_, kind, inputs, source_, "/tasks", options).status();
  }

  absl::StatusOr<PackTaskReport> Task(uint64_t task, uint64_t tasks) {
    return PackTask(*files_, "/tasks", {.task = task, .tasks = tasks, .threads = 2});
  }

  void ExpectSame(const std::string& kind, const std::vector<std::string>& inputs, const PackOptions& options) {
    const auto whole = PackWhole(kind, inputs, options);
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_EQ(test::ValidateText(*files_, "/whole"), "");
    const Tree expected = ReadTree(*files_, "/whole");
    for (const uint64_t tasks : {1, 2, 7, 100}) {
      SCOPED_TRACE(tasks);
      ASSERT_TRUE(RemoveTree(*files_, "/tasks").ok());
      const absl::Status planned = Plan(kind, inputs, options);
      ASSERT_TRUE(planned.ok()) << planned;
      for (uint64_t task = tasks; task-- > 0;) {
        const auto packed = Task(task, tasks);
        ASSERT_TRUE(packed.ok()) << packed.status();
      }
      const auto finished = FinishPack(*files_, "/tasks");
      ASSERT_TRUE(finished.ok()) << finished.status();
      EXPECT_EQ(finished->samples, whole->samples);
      EXPECT_EQ(finished->input_bytes, whole->input_bytes);
      EXPECT_EQ(finished->warnings, whole->warnings);
      ASSERT_EQ(finished->skipped.size(), whole->skipped.size());
      for (size_t i = 0; i < whole->skipped.size(); ++i) {
        EXPECT_EQ(finished->skipped[i].position, whole->skipped[i].position);
        EXPECT_EQ(finished->skipped[i].reason, whole->skipped[i].reason);
      }
      EXPECT_TRUE(ReadTree(*files_, "/tasks") == expected) << Describe(ReadTree(*files_, "/tasks")) << "\nis not\n"
                                                           << Describe(expected);
    }
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
  SourceOptions source_;
};

TEST_F(PackTasksTest, AnyNumberOfTasksMakesTheSameFiles) {
  WriteInputs();
  ExpectSame("files", Inputs(), Options(/*skip=*/true));
  const auto manifest = ReadManifest(*files_, "/whole");
  EXPECT_GT(manifest->shards.size(), 15u);
}

TEST_F(PackTasksTest, OfEveryKindOfSource) {
  WriteInputs();
  Tree classes;
  for (int i = 0; i < 60; ++i) {
    classes["c" + std::to_string(i % 7) + "/" + std::to_string(i) + ".jpg"] =
        StrCat(test::kJpegBytes, std::string(static_cast<size_t>(i * 13 % 200), 'j'));
  }
  WriteTree(*files_, "/classes", classes);
  ExpectSame("imagefolder", {"/classes"}, Options(false));
  ASSERT_TRUE(PackWhole("files", {"/second"}, Options(true), "/native").ok());
  for (const Container to : {Container::kMds, Container::kWebDataset}) {
    ASSERT_TRUE(RemoveTree(*files_, "/whole").ok());
    ConvertOptions convert;
    convert.to = to;
    convert.lossy = true;
    convert.mds.shard_size = convert.webdataset.shard_size = 2000;
    const std::string path = StrCat("/", ContainerName(to));
    ASSERT_TRUE(Convert(*files_, "/native", path, convert).ok());
    PackOptions by_count = Options(false);
    by_count.dataset.shard_samples = 7;
    ExpectSame(std::string(ContainerName(to)), {path}, by_count);
  }
}

// A run that is resumed, wherever it stopped, divides the input like one that was not.
TEST_F(PackTasksTest, AResumedRunMakesTheSameFiles) {
  WriteInputs();
  PackOptions options = Options(true);
  ASSERT_TRUE(PackWhole("files", Inputs(), options).ok());
  const Tree expected = ReadTree(*files_, "/whole");
  options.dataset.resume = options.keep_on_cancel = true;
  for (int first = 1; first < 12; ++first) {
    SCOPED_TRACE(first);
    ASSERT_TRUE(RemoveTree(*files_, "/resumed").ok());
    int runs = 0;
    for (bool done = false; !done; ++runs) {
      ASSERT_LT(runs, 100);
      Cancellation cancellation;
      options.dataset.cancellation = &cancellation;
      int calls = 0;
      options.progress = [&](const PackProgress&) {
        if (++calls == first + runs) cancellation.Cancel();
      };
      const auto report = PackWhole("files", Inputs(), options, "/resumed");
      done = report.ok();
      if (!done) {
        ASSERT_TRUE(absl::IsCancelled(report.status())) << report.status();
      }
    }
    EXPECT_TRUE(ReadTree(*files_, "/resumed") == expected) << Describe(ReadTree(*files_, "/resumed")) << "\nis not\n"
                                                           << Describe(expected);
  }
}

TEST_F(PackTasksTest, MissingUnitsAreNamedAndPackedLater) {
  WriteInputs();
  const PackOptions options = Options(true);
  ASSERT_TRUE(PackWhole("files", Inputs(), options).ok());
  ASSERT_TRUE(Plan("files", Inputs(), options).ok());
  const absl::Status again = Plan("files", Inputs(), options);
  EXPECT_TRUE(absl::IsAlreadyExists(again)) << again;
  EXPECT_NE(Message(again).find("already has a plan"), std::string::npos) << again;
  ASSERT_TRUE(Task(1, 3).ok());
  // What tasks have made is not for another job.
  const Tree begun = ReadTree(*files_, "/tasks");
  for (const bool resume : {false, true}) {
    PackOptions other = options;
    other.dataset.resume = resume;
    const absl::Status refused = test::PackFiles(*files_, Inputs(), "/tasks", other).status();
    EXPECT_TRUE(absl::IsAlreadyExists(refused)) << refused;
    EXPECT_TRUE(ReadTree(*files_, "/tasks") == begun) << Describe(ReadTree(*files_, "/tasks"));
  }
  const absl::Status missing = FinishPack(*files_, "/tasks").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(missing)) << missing;
  EXPECT_NE(Message(missing).find("units are missing (0-"), std::string::npos) << missing;
  EXPECT_FALSE(Exists(*files_, "/tasks/dataset.json"));

  // Other numbers of tasks divide the same units.
  ASSERT_TRUE(Task(0, 2).ok());
  ASSERT_TRUE(Task(1, 2).ok());
  const auto before = Task(0, 1);
  ASSERT_TRUE(before.ok());
  EXPECT_EQ(before->units_before, before->units);
  EXPECT_EQ(before->samples, 0u);

  // A shard or a record that was lost or damaged is made again.
  ASSERT_TRUE(files_->RemoveFile("/tasks/00000001.shard").ok());
  EXPECT_TRUE(absl::IsNotFound(FinishPack(*files_, "/tasks").status()));
  WriteFile(*files_, "/tasks/.shardkit/00000000.json", "{");
  const auto repaired = Task(0, 1);
  ASSERT_TRUE(repaired.ok()) << repaired.status();
  EXPECT_EQ(repaired->units - repaired->units_before, 2u);
  // That of another input, too.
  WriteFile(*files_, "/tasks/00000002.shard", test::ReadAll(*files_, "/tasks/00000000.shard"));
  const absl::Status foreign = FinishPack(*files_, "/tasks").status();
  EXPECT_TRUE(absl::IsDataLoss(foreign)) << foreign;
  EXPECT_EQ(Task(0, 1)->units_before, repaired->units - 1);

  // What killed tasks leave is removed.
  WriteFile(*files_, "/tasks/00000002.shard~0123456789abcdef.tmp", "left");
  WriteFile(*files_, "/tasks/00000000_00009.shard", "left");
  const auto finished = FinishPack(*files_, "/tasks");
  ASSERT_TRUE(finished.ok()) << finished.status();
  EXPECT_TRUE(ReadTree(*files_, "/tasks") == ReadTree(*files_, "/whole"));

  // Late copies of a task, and finishing again, do nothing.
  EXPECT_EQ(Task(0, 1)->units, 0u);
  const auto twice = FinishPack(*files_, "/tasks");
  ASSERT_TRUE(twice.ok()) << twice.status();
  EXPECT_EQ(twice->samples, finished->samples);
  EXPECT_TRUE(ReadTree(*files_, "/tasks") == ReadTree(*files_, "/whole"));
  EXPECT_TRUE(absl::IsAlreadyExists(Plan("files", Inputs(), options)));
}

TEST_F(PackTasksTest, WithoutAPlanAndWithNothingToDo) {
  EXPECT_TRUE(absl::IsNotFound(Task(0, 1).status()));
  EXPECT_TRUE(absl::IsNotFound(FinishPack(*files_, "/tasks").status()));
  EXPECT_TRUE(absl::IsNotFound(ReadPackPlan(*files_, "/tasks").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(PackTask(*files_, "/tasks", {.task = 2, .tasks = 2}).status()));
  ASSERT_TRUE(files_->CreateDirectory("/empty").ok());
  EXPECT_TRUE(absl::IsInvalidArgument(Plan("files", {"/empty"}, {})));
  EXPECT_FALSE(Exists(*files_, "/tasks"));
  source_.allow_empty = true;
  ASSERT_TRUE(PackWhole("files", {"/empty"}, {}).ok());
  ASSERT_TRUE(Plan("files", {"/empty"}, {}).ok());
  EXPECT_EQ(ReadPackPlan(*files_, "/tasks")->units, 0u);
  ASSERT_TRUE(Task(3, 5).ok());
  ASSERT_TRUE(FinishPack(*files_, "/tasks").ok());
  EXPECT_TRUE(ReadTree(*files_, "/tasks") == ReadTree(*files_, "/whole"));
}

// What a user has misspelt is found when planning, where that is possible, or in the end.
TEST_F(PackTasksTest, OptionsThatFitNoColumnAreRefused) {
  WriteInputs();
  PackOptions options = Options(true);
  options.dataset.codecs["txxt"] = Codec::kZstd;
  EXPECT_TRUE(absl::IsOutOfRange(Plan("files", {"/first"}, options)));
  EXPECT_FALSE(Exists(*files_, "/tasks"));
  ASSERT_TRUE(Plan("files", Inputs(), options).ok());
  ASSERT_TRUE(Task(0, 1).ok());
  EXPECT_TRUE(absl::IsOutOfRange(FinishPack(*files_, "/tasks").status()));
}

TEST_F(PackTasksTest, KeysThatStandTwiceAreFoundInTheEnd) {
  WriteFile(*files_, "/one.tar", MakeTar({{"a.txt", "1"}, {"b.txt", "2"}, {"c.txt", "3"}}));
  WriteFile(*files_, "/two.tar", MakeTar({{"d.txt", "1"}, {"b.txt", "4"}, {"c.txt", "5"}}));
  const std::vector<std::string> inputs = {"/one.tar", "/two.tar"};
  ASSERT_TRUE(Plan("files", inputs, Options(false)).ok());
  ASSERT_TRUE(Task(0, 1).ok());
  const absl::Status refused = FinishPack(*files_, "/tasks").status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_NE(Message(refused).find("/two.tar: member '"), std::string::npos) << refused;
  EXPECT_NE(Message(refused).find("occurs twice, first for /one.tar: member '"), std::string::npos) << refused;
  EXPECT_FALSE(Exists(*files_, "/tasks/dataset.json"));

  // Who skips what is wrong with samples loses none of these.
  ExpectSame("files", inputs, Options(true));
  EXPECT_EQ(ReadManifest(*files_, "/whole")->sample_count, 6u);
  ASSERT_TRUE(RemoveTree(*files_, "/whole").ok());
  const auto packed = PackWhole("files", inputs, Options(true));
  ASSERT_EQ(packed->warnings.size(), 1u);
  EXPECT_NE(packed->warnings[0].find("2 samples have the key of another one, first sample "), std::string::npos)
      << packed->warnings[0];
}

// A copy of a task that another one has overtaken.
TEST_F(PackTasksTest, ALateCopyLeavesNothing) {
  WriteInputs();
  const PackOptions options = Options(true);
  ASSERT_TRUE(PackWhole("files", Inputs(), options).ok());
  ASSERT_TRUE(Plan("files", Inputs(), options).ok());
  bool overtaken = false;
  PackTaskOptions late{.task = 0, .tasks = 1};
  late.progress = [&](const PackProgress&) {
    if (std::exchange(overtaken, true)) return;
    EXPECT_TRUE(Task(0, 1).ok());
    EXPECT_TRUE(FinishPack(*files_, "/tasks").ok());
  };
  const auto packed = PackTask(*files_, "/tasks", late);
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_TRUE(overtaken);
  EXPECT_TRUE(ReadTree(*files_, "/tasks") == ReadTree(*files_, "/whole")) << Describe(ReadTree(*files_, "/tasks"));
}

// Copies of all tasks at once, as schedulers run them when one seems to be slow.
TEST_F(PackTasksTest, ManyAtOnce) {
  WriteInputs();
  const PackOptions options = Options(true);
  ASSERT_TRUE(PackWhole("files", Inputs(), options).ok());
  const test::TemporaryFolder folder;
  for (const auto& [path, bytes] : ReadTree(*files_, "/first")) {
    if (path.ends_with('/')) continue;
    ASSERT_TRUE(CreateDirectories(*PosixFileSystem(), folder / "in/a").ok());
    WriteFile(*PosixFileSystem(), folder / ("in/" + path), bytes);
  }
  PackOptions plain = Options(true);
  const auto source = OpenSource("files", {folder / "in"}, {.skip_errors = true});
  ASSERT_TRUE(Pack(*PosixFileSystem(), **source, folder / "whole", plain).ok());
  const auto planned =
      PlanPack(*PosixFileSystem(), "files", {folder / "in"}, {.skip_errors = true}, folder / "tasks", plain);
  ASSERT_TRUE(planned.ok()) << planned.status();
  std::vector<std::thread> threads;
  std::vector<absl::Status> statuses(8);
  for (size_t i = 0; i < statuses.size(); ++i) {
    threads.emplace_back([&, i] {
      statuses[i] = PackTask(*PosixFileSystem(), folder / "tasks", {.task = i % 2, .tasks = 2, .threads = 2}).status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  const auto finished = FinishPack(*PosixFileSystem(), folder / "tasks");
  ASSERT_TRUE(finished.ok()) << finished.status();
  EXPECT_TRUE(ReadTree(*PosixFileSystem(), folder / "tasks") == ReadTree(*PosixFileSystem(), folder / "whole"));
}

TEST_F(PackTasksTest, ConvertingInTasksMakesTheSameFiles) {
  WriteInputs();
  ASSERT_TRUE(PackWhole("files", {"/first", "/second"}, Options(true), "/native").ok());
  ConvertOptions mds;
  mds.to = Container::kMds;
  mds.lossy = true;
  mds.mds.shard_size = 2000;
  ASSERT_TRUE(Convert(*files_, "/native", "/mds", mds).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(ConvertTask(*files_, "/native", "/tasks", mds, 0, 2).status()));
  for (const std::string input : {"/native", "/mds"}) {
    for (const bool some : {false, true}) {
      SCOPED_TRACE(StrCat(input, some));
      ConvertOptions options;
      options.pack = Options(false);
      options.pack.dataset.shard_size = some ? 300 : 2500;
      if (some) options.columns = {"txt"};
      ASSERT_TRUE(RemoveTree(*files_, "/whole").ok());
      const auto whole = Convert(*files_, input, "/whole", options);
      ASSERT_TRUE(whole.ok()) << whole.status();
      EXPECT_GT(whole->manifest.shards.size(), 3u);
      for (const uint64_t tasks : {1, 4, 50}) {
        ASSERT_TRUE(RemoveTree(*files_, "/tasks").ok());
        EXPECT_TRUE(absl::IsNotFound(FinishConvert(*files_, input, "/tasks", options).status()));
        uint64_t samples = 0;
        for (uint64_t task = tasks; task-- > 0;) {
          const auto done = ConvertTask(*files_, input, "/tasks", options, task, tasks);
          ASSERT_TRUE(done.ok()) << done.status();
          samples += done->samples;
        }
        EXPECT_EQ(samples, whole->samples);
        ConvertOptions other = options;
        other.pack.dataset.shard_size = 2400;
        EXPECT_TRUE(absl::IsFailedPrecondition(ConvertTask(*files_, input, "/tasks", other, 0, 1).status()));
        EXPECT_TRUE(absl::IsFailedPrecondition(FinishConvert(*files_, input, "/tasks", other).status()));
        const auto finished = FinishConvert(*files_, input, "/tasks", options);
        ASSERT_TRUE(finished.ok()) << finished.status();
        EXPECT_TRUE(ReadTree(*files_, "/tasks") == ReadTree(*files_, "/whole"));
        EXPECT_EQ(ConvertTask(*files_, input, "/tasks", options, 0, tasks)->units, 0u);
        EXPECT_TRUE(FinishConvert(*files_, input, "/tasks", options).ok());
        EXPECT_TRUE(absl::IsAlreadyExists(ConvertTask(*files_, input, "/tasks", other, 0, 1).status()));
        EXPECT_TRUE(absl::IsAlreadyExists(FinishConvert(*files_, input, "/tasks", other).status()));
        EXPECT_TRUE(ReadTree(*files_, "/tasks") == ReadTree(*files_, "/whole"));
      }
    }
  }
}

// Each would be a request to an object store.
TEST_F(PackTasksTest, AsksForNoSizeThatAListingTold) {
  Tree tree;
  for (int i = 0; i < 40; ++i) {
    const std::string number = std::to_string(10 + i);
    tree["files/d" + std::to_string(i % 3) + "/" + number + ".txt"] = std::string(static_cast<size_t>(i), 't');
    tree["images/c" + std::to_string(i % 3) + "/" + number + ".jpg"] = std::string(test::kJpegBytes);
  }
  WriteTree(*files_, "/in", tree);
  for (const std::string kind : {"files", "imagefolder"}) {
    ListingSizes listing(*files_);
    SourceOptions source;
    source.file_system = &listing;
    const std::string input = kind == "files" ? "/in/files" : "/in/images", output = "/tasks-" + kind;
    ASSERT_TRUE(PlanPack(*files_, kind, {input}, source, output, Options(false)).ok());
    EXPECT_EQ(listing.asked, 0) << kind;
    listing.asked = 0;
    auto opened = OpenSource(kind, {input}, source);
    ASSERT_TRUE(opened.ok());
    ASSERT_TRUE(Pack(*files_, **opened, "/whole-" + kind, Options(false)).ok());
    EXPECT_EQ(listing.asked, 0) << kind;
  }
}

}  // namespace
}  // namespace shardkit
