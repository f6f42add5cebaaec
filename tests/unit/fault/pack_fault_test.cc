// Packing and merging when one call to the file system fails, or all calls from one on.
#include "fault/fault_support.h"
#include "shardkit/copy.h"

namespace shardkit::test {
namespace {

// The first look at a column's files skips a file that cannot be read. Loading it reports the error.
bool IsInputFile(const FileSystemCall& call) {
  return call.path.starts_with("/in/") && (call.operation == "open" || call.operation == "read");
}

absl::Status PackOnce(FileSystem& files, const PackOptions& options) {
  return PackFiles(files, {"/in"}, "/out", options).status();
}

// Leftovers of a run with keep_on_cancel that failed at its third shard.
std::unique_ptr<FileSystem> Interrupted() {
  auto files = NewInput();
  FaultFileSystem faults(files.get());
  const PackOptions plain = SmallPack(false, true);
  uint64_t number = 0;
  {
    const auto probe = NewInput();
    FaultFileSystem count(probe.get());
    EXPECT_TRUE(PackOnce(count, plain).ok());
    for (const FileSystemCall& call : count.calls()) {
      if (call.operation == "create" && call.path == "/out/00000002.shard.tmp") number = call.number;
    }
  }
  EXPECT_NE(number, 0u);
  faults.FailCall(number, {});
  EXPECT_FALSE(PackOnce(faults, plain).ok());
  EXPECT_TRUE(Exists(*files, "/out/00000001.shard"));
  EXPECT_FALSE(Exists(*files, "/out/dataset.json"));
  return files;
}

// A later run gives the result of an undisturbed run, whatever was left.
void CheckLaterRun(FileSystem& files, bool resume) {
  const bool complete = Exists(files, "/out/dataset.json");
  const absl::Status status = PackOnce(files, SmallPack(resume, resume));
  if (complete && !resume) {
    EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
    return;
  }
  EXPECT_TRUE(status.ok()) << status;
  const Tree tree = ReadTree(files, "/out");
  EXPECT_TRUE(tree == ExpectedDataset()) << Describe(tree);
}

std::vector<Fault> Faults() {
  return {{.status = absl::InternalError("injected fault")},
          {.status = absl::ResourceExhaustedError("no space"), .short_write = true},
          {.status = absl::UnavailableError("gone"), .all_following = true, .short_write = true}};
}

TEST(PackFaultTest, EveryCallOfAFreshRun) {
  for (const Fault& fault : Faults()) {
    for (const bool keep : {false, true}) {
      for (const bool resume_later : {false, true}) {
        FaultRun run;
        run.prepare = NewInput;
        run.may_succeed = IsInputFile;
        run.operate = [&](FileSystem& files) { return PackOnce(files, SmallPack(false, keep)); };
        run.check = [&](FileSystem& files, const absl::Status&) {
          EXPECT_TRUE(NothingOrWhole(files, "/out"));
          if (!keep && !fault.all_following && !Exists(files, "/out/dataset.json")) {
            EXPECT_FALSE(Exists(files, "/out")) << Describe(ReadTree(files, "/out"));
          }
          CheckLaterRun(files, resume_later);
        };
        FailEveryCall(run, fault);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(PackFaultTest, EveryCallOfAResumedRun) {
  for (const Fault& fault : Faults()) {
    for (const bool resume_later : {false, true}) {
      FaultRun run;
      run.prepare = Interrupted;
      run.may_succeed = IsInputFile;
      run.operate = [](FileSystem& files) { return PackOnce(files, SmallPack(true, true)); };
      run.check = [&](FileSystem& files, const absl::Status&) {
        EXPECT_TRUE(NothingOrWhole(files, "/out"));
        // Shards finished before are never removed.
        EXPECT_TRUE(Exists(files, "/out/00000000.shard"));
        EXPECT_TRUE(Exists(files, "/out/00000001.shard"));
        CheckLaterRun(files, resume_later);
      };
      FailEveryCall(run, fault);
      if (HasFailure()) return;
    }
  }
}

TEST(PackFaultTest, EveryCallOfAFreshRunOverLeftovers) {
  for (const Fault& fault : Faults()) {
    FaultRun run;
    run.prepare = Interrupted;
    run.may_succeed = IsInputFile;
    run.operate = [](FileSystem& files) { return PackOnce(files, SmallPack()); };
    run.check = [&](FileSystem& files, const absl::Status&) {
      EXPECT_TRUE(NothingOrWhole(files, "/out"));
      CheckLaterRun(files, false);
    };
    FailEveryCall(run, fault);
    if (HasFailure()) return;
  }
}

// While a run is being cancelled, another call fails. Files that cannot be removed must still be recognised as the
// run's own.
TEST(PackFaultTest, EveryCallOfARunThatIsCancelled) {
  for (const bool keep : {false, true}) {
    FaultRun run;
    run.prepare = NewInput;
    // It does not matter whether a file could be closed before it is removed.
    run.may_succeed = [](const FileSystemCall& call) { return call.operation == "close"; };
    run.operate = [&](FileSystem& files) {
      DatasetWriterOptions options = SmallShards(6, 3);
      auto writer = DatasetWriter::Create(files, "/out", MakeSchema({KeyColumn(), ImageColumn()}), options);
      if (!writer.ok()) return writer.status();
      absl::Status status;
      const auto samples = MakeSamples(kInputSamples);
      for (size_t i = 0; status.ok() && i < samples.size(); ++i) status = (*writer)->Append(samples[i].View(), i + 1);
      if (!status.ok()) {
        (void)(*writer)->Abort();
        return status;
      }
      return keep ? (*writer)->Suspend() : (*writer)->Abort();
    };
    run.check = [&](FileSystem& files, const absl::Status&) {
      EXPECT_FALSE(Exists(files, "/out/dataset.json"));
      CheckLaterRun(files, false);
    };
    FailEveryCall(run);
    if (HasFailure()) return;
  }
}

TEST(PackFaultTest, SeveralThreads) {
  for (uint64_t number = 1;; number += 3) {
    const auto files = NewInput();
    FaultFileSystem faults(files.get());
    faults.FailCall(number, {});
    PackOptions options = SmallPack();
    options.dataset.threads = 4;
    const absl::Status status = PackOnce(faults, options);
    if (!faults.failed_call()) break;
    if (status.ok() && IsInputFile(*faults.failed_call())) continue;
    ASSERT_FALSE(status.ok()) << number;
    ASSERT_NE(Message(status).find(faults.failed_call()->path), std::string::npos) << status;
    ASSERT_TRUE(NothingOrWhole(*files, "/out"));
    CheckLaterRun(*files, true);
    ASSERT_FALSE(HasFailure()) << number;
  }
}

// Whatever call fails, once or from then on: what runs later makes the dataset, and nothing is left of the failure.
TEST(PackFaultTest, EveryCallOfTasks) {
  const auto operate = [](FileSystem& files) -> absl::Status {
    absl::Status status = PlanPack(files, "files", {"/in"}, {.file_system = &files}, "/out", SmallPack()).status();
    if (absl::IsAlreadyExists(status)) status = absl::OkStatus();
    for (uint64_t task = 0; status.ok() && task < 2; ++task) {
      status = PackTask(files, "/out", {.task = task, .tasks = 2}).status();
    }
    return status.ok() ? FinishPack(files, "/out").status() : status;
  };
  for (const Fault& fault : Faults()) {
    FaultRun run;
    run.prepare = NewInput;
    run.operate = operate;
    // Without a file that is looked at while planning, columns may get other types and units other sizes.
    run.may_succeed = [](const FileSystemCall& call) {
      return call.path.starts_with("/in/") || (call.operation == "stat" && call.path.ends_with("/plan.shard"));
    };
    run.check = [&](FileSystem& files, const absl::Status& status) {
      EXPECT_TRUE(NothingOrWhole(files, "/out"));
      if (status.ok()) {
        EXPECT_EQ(ScanRows(files, "/out").size(), kInputSamples);
        return;
      }
      const absl::Status again = operate(files);
      EXPECT_TRUE(again.ok()) << again;
      EXPECT_TRUE(ReadTree(files, "/out") == ExpectedDataset()) << Describe(ReadTree(files, "/out"));
    };
    FailEveryCall(run, fault);
    if (HasFailure()) return;
  }
}

TEST(PackFaultTest, EveryCallOfAMerge) {
  const auto prepare = [] {
    auto files = NewInput();
    for (const std::string part : {"0", "1", "2"}) {
      EXPECT_TRUE(PackFiles(*files, {"/in/d" + part}, "/part" + part, SmallPack()).ok());
    }
    return files;
  };
  const auto merge = [](FileSystem& files) {
    return MergeDatasets(files, {"/part0", "/part1", "/part2"}, "/out").status();
  };
  const auto whole = prepare();
  ASSERT_TRUE(merge(*whole).ok());
  const Tree expected = ReadTree(*whole, "/out");
  for (const Fault& fault : Faults()) {
    FaultRun run;
    run.prepare = prepare;
    run.operate = merge;
    // When a link fails, the shard is copied.
    run.may_succeed = [](const FileSystemCall& call) { return call.operation == "link"; };
    run.check = [&](FileSystem& files, const absl::Status& status) {
      EXPECT_TRUE(NothingOrWhole(files, "/out"));
      if (!status.ok() && Exists(files, "/out/dataset.json")) return;
      if (!status.ok() && !fault.all_following) {
        EXPECT_FALSE(Exists(files, "/out")) << Describe(ReadTree(files, "/out"));
      }
      if (!status.ok()) {
        const absl::Status again = merge(files);
        EXPECT_TRUE(again.ok()) << again;
      }
      EXPECT_TRUE(ReadTree(files, "/out") == expected) << Describe(ReadTree(files, "/out"));
    };
    FailEveryCall(run, fault);
    if (HasFailure()) return;
  }
}

TEST(PackFaultTest, EveryCallOfARebuild) {
  for (const std::string damage : {"none", "index gone", "manifest gone", "manifest damaged"}) {
    for (const Fault& fault : Faults()) {
      FaultRun run;
      run.prepare = [&] {
        auto files = NewMemoryFileSystem();
        WriteTree(*files, "/out", ExpectedDataset());
        if (damage == "index gone") {
          EXPECT_TRUE(files->RemoveFile("/out/dataset.segment").ok());
        }
        if (damage == "manifest gone") {
          EXPECT_TRUE(files->RemoveFile("/out/dataset.json").ok());
        }
        if (damage == "manifest damaged") WriteFile(*files, "/out/dataset.json", "{}");
        return files;
      };
      run.operate = [](FileSystem& files) { return RebuildIndex(files, "/out").status(); };
      run.check = [&](FileSystem& files, const absl::Status&) {
        const Tree expected = ExpectedDataset();
        const Tree left = ReadTree(files, "/out");
        for (const auto& [name, bytes] : expected) {
          if (!name.starts_with("dataset.")) {
            EXPECT_TRUE(left.contains(name) && left.at(name) == bytes) << name;
          }
        }
        if (damage != "manifest damaged" && damage != "index gone") {
          EXPECT_TRUE(NothingOrWhole(files, "/out"));
        }
        const auto again = RebuildIndex(files, "/out");
        EXPECT_TRUE(again.ok()) << again.status();
        EXPECT_TRUE(ReadTree(files, "/out") == expected) << Describe(ReadTree(files, "/out"));
      };
      FailEveryCall(run, fault);
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace shardkit::test
