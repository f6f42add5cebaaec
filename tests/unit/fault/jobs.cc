#include "fault/jobs.h"

#include <map>
#include <optional>

#include "base/named_hash.h"
#include "base/strings.h"
#include "shardkit/change.h"
#include "shardkit/copy.h"
#include "shardkit/history.h"
#include "shardkit/loader.h"
#include "shardkit/repair.h"
#include "shardkit/tar_index.h"
#include "support/read_in_parts.h"

namespace shardkit::test {
namespace {

constexpr size_t kSamples = 12;

// No value is absent, so that every container can store all samples.
std::vector<OwnedSample> JobSamples() {
  std::vector<OwnedSample> samples = MakeSamples(kSamples);
  for (size_t i = 0; i < kSamples; ++i) {
    samples[i].fields = {{&ImageColumn(), "\xff\xd8\xff" + std::string(20 + 7 * i, static_cast<char>('a' + i))},
                         {&TextColumn(), "text " + std::to_string(i)}};
  }
  return samples;
}

void WriteNative(FileSystem& files, const std::string& path) {
  DatasetWriterOptions options = SmallShards(6, 3);
  options.sha256 = NamedHash::Create("sha256").ok();  // not without OpenSSL
  auto writer = DatasetWriter::Create(files, path, MakeSchema({KeyColumn(), ImageColumn(), TextColumn()}), options);
  ASSERT_TRUE(writer.ok()) << writer.status();
  uint64_t position = 0;
  for (const OwnedSample& sample : JobSamples()) ASSERT_TRUE((*writer)->Append(sample.View(), ++position).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
}

// Writes the container to /data. Its input is made elsewhere, so that nothing else is there.
void WriteContainer(FileSystem& files, const std::string& kind, const std::string& path) {
  if (kind.starts_with("shard")) {
    WriteNative(files, path);
    if (kind == "shard-listed") ListShardsApart(files, path);
    return;
  }
  const auto other = NewMemoryFileSystem();
  WriteNative(*other, "/native");
  ConvertOptions options;
  options.to = kind.starts_with("mds") ? Container::kMds : Container::kWebDataset;
  options.mds.shard_samples = options.webdataset.shard_samples = 6;
  if (kind == "mds-zstd") options.mds.compression = "zstd";
  if (kind != "mds-unhashed") options.mds.hashes = {"xxh64"};
  options.lossy = true;
  const auto converted = Convert(*other, "/native", "/data", options);
  EXPECT_TRUE(converted.ok()) << converted.status();
  Tree tree = ReadDataset(*other, "/data");
  std::erase_if(tree, [&](const auto& file) {
    return file.first == "shardkit.json" || (kind == "tar" && file.first.ends_with("idx"));
  });
  WriteTree(files, path, tree);
  if (kind == "tar-indexed") {
    for (const auto& [name, bytes] : tree) {
      if (!name.ends_with(".tar")) continue;
      EXPECT_TRUE(BuildTarIndex(files, JoinPath(path, name)).ok());
    }
  }
}

// Reads every value in every way. Returns the first error.
absl::Status ReadAllWays(FileSystem& files, const std::string& path, std::string* shown) {
  DatasetOptions options;
  options.max_open_shards = 1;
  const auto opened = DatasetReader::Open(files, path, options);
  if (!opened.ok()) return opened.status();
  const DatasetReader& dataset = **opened;
  auto scanner = dataset.Scan({});
  if (!scanner.ok()) return scanner.status();
  while (true) {
    auto block = (*scanner)->Next();
    if (!block.ok()) return block.status();
    if (*block == nullptr) break;
    for (uint32_t i = 0; i < (*block)->view().sample_count(); ++i) {
      for (size_t column = 0; column < dataset.columns().size(); ++column) {
        *shown += std::string((*block)->view().column(column).value(i).value_or("-")) + "|";
      }
    }
  }
  BlockBuffer buffer;
  for (const uint64_t sample : {11, 0, 7}) {
    for (size_t column = 0; column < dataset.columns().size(); ++column) {
      const auto value = dataset.ReadValue(sample, column, &buffer);
      if (!value.ok()) return value.status();
      *shown += std::string(value->value_or("-")) + "|";
      const auto copied = dataset.CopyValue(sample, column, [&](std::string_view piece) {
        *shown += piece;
        return absl::OkStatus();
      });
      if (!copied.ok()) return copied.status();
      const auto parts = test::ReadInParts(dataset.OpenValue(sample, column));
      if (!parts.ok()) return parts.status();
      *shown += parts->value_or("-") + "|";
    }
  }
  if (dataset.summary().schema.key_column()) {
    const auto found = dataset.FindKey(JobSamples()[8].key, &buffer);
    if (!found.ok()) return found.status();
    *shown += found->has_value() ? std::to_string(**found) : "none";
  }
  return dataset.ReadStatistics().status();
}

absl::Status LoadAll(FileSystem& files, const std::string& path, const std::string& column, std::string* shown) {
  LoaderOptions options;
  options.plan = {.seed = 3, .batch_size = 5, .shuffle_buffer_bytes = 8000};
  options.memory_bytes = 4 << 20;
  options.decode_threads = options.read_threads = 2;
  options.columns = {{.name = column}};
  auto loader = Loader::Open(files, {{.path = path}}, options);
  if (!loader.ok()) return loader.status();
  while (true) {
    auto batch = (*loader)->Next();
    if (!batch.ok()) return batch.status();
    if (*batch == nullptr) return absl::OkStatus();
    for (size_t i = 0; i < (*batch)->size(); ++i) *shown += std::to_string((*batch)->samples()[i].ordinal) + " ";
    const auto values = (*batch)->column(0).values;
    shown->append(reinterpret_cast<const char*>(values.data()), values.size());
  }
}

absl::Status ValidateDeep(FileSystem& files, const std::string& path, std::string* shown) {
  ValidateOptions options;
  options.threads = 2;
  const auto report = Validate(files, path, options);
  if (!report.ok()) return report.status();
  // A failure of the device is not damage.
  *shown += std::to_string(report->samples) + " samples, " + std::to_string(report->problem_count) + " problems";
  for (const Problem& problem : report->problems) *shown += "; " + problem.message;
  return absl::OkStatus();
}

absl::Status UnpackAll(FileSystem& files, const std::string& path, std::string* shown) {
  const auto dataset = DatasetReader::Open(files, path);
  if (!dataset.ok()) return dataset.status();
  const auto report = Unpack(files, **dataset, "/files");
  if (!report.ok()) return report.status();
  // The files themselves are compared with those of an undisturbed run.
  *shown += std::to_string(report->files) + " files of " + std::to_string(report->bytes) + " bytes";
  return absl::OkStatus();
}

// Compares what is shown with an undisturbed run.
Job Reading(const std::string& name, std::function<void(FileSystem&)> prepare,
            std::function<absl::Status(FileSystem&, std::string*)> read, bool reads_only = true) {
  const auto files = NewMemoryFileSystem();
  prepare(*files);
  std::string expected;
  const absl::Status status = read(*files, &expected);
  EXPECT_TRUE(status.ok()) << name << ": " << status;
  EXPECT_GT(expected.size(), 10u) << name;
  return {name, prepare,
          [name, read, expected](FileSystem& faulty) -> absl::Status {
            std::string shown;
            const absl::Status done = read(faulty, &shown);
            if (!done.ok()) return done;
            EXPECT_EQ(shown, expected) << name;
            return done;
          },
          reads_only};
}

// A second time there is nothing to remove.
absl::Status RemoveSome(FileSystem& files) {
  SampleSelection selection;
  selection.keys.emplace();
  for (const size_t i : {1, 4, 5, 6, 7}) selection.keys->push_back(JobSamples()[i].key);
  return RemoveSamples(files, "/data", selection).status();
}

// Appends the samples again, under other keys, unless that was done.
absl::Status AppendOnce(FileSystem& files) {
  const auto manifest = ReadManifest(files, "/data");
  if (!manifest.ok()) return manifest.status();
  DatasetWriterOptions options;
  options.shard.max_block_samples = 4;
  options.append = true;
  auto writer = DatasetWriter::Create(files, "/data", manifest->schema, options);
  if (!writer.ok()) return writer.status();
  if (manifest->generation == 1) {
    for (OwnedSample sample : JobSamples()) {
      sample.key += " again";
      if (const absl::Status status = (*writer)->Append(sample.View()); !status.ok()) return status;
    }
  }
  return (*writer)->Finish().status();
}

// The rows take more than the memory that they are given.
absl::Status AddOnce(FileSystem& files) {
  const auto manifest = ReadManifest(files, "/data");
  if (!manifest.ok()) return manifest.status();
  if (manifest->generation > 1) return AppendOnce(files);  // which then changes nothing, but removes what was left
  const auto rows = OpenColumnRows(files, "/rows", {.key = "k"});
  if (!rows.ok()) return rows.status();
  return AddColumns(files, "/data", **rows, {.memory = 200}).status();
}

absl::Status RenameOnce(FileSystem& files) {
  const auto manifest = ReadManifest(files, "/data");
  if (!manifest.ok()) return manifest.status();
  if (manifest->generation > 1) return AppendOnce(files);
  return RenameColumns(files, "/data", {{"text", "words"}}).status();
}

void Damage(FileSystem& files, const std::string& path) {
  std::string bytes = ReadAll(files, path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  bytes.resize(bytes.size() - 100);
  EXPECT_TRUE(files.RemoveFile(path).ok());
  WriteFile(files, path, bytes);
}

}  // namespace

std::vector<Job> ReadingJobs() {
  std::vector<Job> jobs;
  for (const std::string kind : {"shard", "shard-listed", "mds", "mds-zstd", "tar", "tar-indexed"}) {
    const auto prepare = [kind](FileSystem& files) { WriteContainer(files, kind, "/data"); };
    const auto named = [&](const std::string& what) { return what + "_" + kind; };
    jobs.push_back(Reading(named("read"), prepare,
                           [](FileSystem& files, std::string* shown) { return ReadAllWays(files, "/data", shown); }));
    const std::string column = kind.starts_with("tar") ? "image.jpg" : "image";
    jobs.push_back(Reading(named("load"), prepare, [column](FileSystem& files, std::string* shown) {
      return LoadAll(files, "/data", column, shown);
    }));
    jobs.push_back(Reading(named("validate"), prepare,
                           [](FileSystem& files, std::string* shown) { return ValidateDeep(files, "/data", shown); }));
    jobs.push_back(Reading(
        named("unpack"), prepare,
        [](FileSystem& files, std::string* shown) { return UnpackAll(files, "/data", shown); },
        /*reads_only=*/false));
  }
  const auto native = [](FileSystem& files) { WriteContainer(files, "shard", "/data"); };
  jobs.push_back(Reading("read_one_shard", native, [](FileSystem& files, std::string* shown) {
    return ValidateDeep(files, "/data/00000001.shard", shown);
  }));
  const auto appended = [native](FileSystem& files) {
    native(files);
    EXPECT_TRUE(AppendOnce(files).ok());
  };
  // Other shards hold samples of A, so that their values are compared, too.
  const auto two = [appended](FileSystem& files) {
    appended(files);
    DatasetWriterOptions options;
    options.shard_samples = 5;
    EXPECT_TRUE(WriteDataset(files, "/other", JobSamples(), options).ok());
  };
  jobs.push_back(Reading("diff", two, [](FileSystem& files, std::string* shown) {
    const auto diff = DiffDatasets(files, "/data", "/other");
    if (!diff.ok()) return diff.status();
    *shown += StrCat("matched ", diff->matched, ", only ", diff->only_a.count, " and ", diff->only_b.count, ", differ ",
                     diff->columns.size());
    return absl::OkStatus();
  }));
  jobs.push_back(Reading("history", appended, [](FileSystem& files, std::string* shown) {
    const auto history = ReadHistory(files, "/data");
    if (!history.ok()) return history.status();
    for (const DatasetGeneration& each : *history) *shown += StrCat(each.operation.name, " ", each.samples, "; ");
    return absl::OkStatus();
  }));
  return jobs;
}

std::vector<Job> WritingJobs() {
  const auto native = [](FileSystem& files) { WriteNative(files, "/data"); };
  const auto listed = [](FileSystem& files) { WriteContainer(files, "shard-listed", "/data"); };
  const auto tars = [](FileSystem& files) { WriteContainer(files, "tar", "/data"); };
  const auto first_tar = [](FileSystem& files) {
    auto listed = ListTars(files, "/data");
    return listed.ok() && !listed->empty() ? (*listed)[0] : std::string("/data/none.tar");
  };
  // The name is made before any call can fail.
  static const std::string tar = [&] {
    const auto files = NewMemoryFileSystem();
    tars(*files);
    return first_tar(*files);
  }();
  return {
      {"rebuild", native, [](FileSystem& files) { return RebuildIndex(files, "/data").status(); }},
      {"rebuild_of_shards_alone",
       [native](FileSystem& files) {
         native(files);
         EXPECT_TRUE(files.RemoveFile("/data/dataset.json").ok() && files.RemoveFile("/data/dataset.segment").ok());
       },
       [](FileSystem& files) { return RebuildIndex(files, "/data").status(); }},
      {"append", native, AppendOnce},
      {"add_columns",
       [native](FileSystem& files) {
         native(files);
         std::string rows;
         for (const OwnedSample& sample : JobSamples()) rows = StrCat("{\"k\":\"", sample.key, "\",\"v\":1}\n", rows);
         WriteFile(files, "/rows", rows);
       },
       AddOnce},
      {"rename_columns", native, RenameOnce},
      {"compact",
       [native](FileSystem& files) {
         native(files);
         EXPECT_TRUE(AppendOnce(files).ok());
       },
       [](FileSystem& files) { return CompactDataset(files, "/data").status(); }},
      {"remove", native, RemoveSome},
      {"compact_removed",
       [native](FileSystem& files) {
         native(files);
         EXPECT_TRUE(RemoveSome(files).ok());
       },
       [](FileSystem& files) { return CompactDataset(files, "/data", {.least_lost = 0.01}).status(); }},
      // What the publication before keeps for a while is no leftover, so that was done already.
      {"purge",
       [native](FileSystem& files) {
         native(files);
         EXPECT_TRUE(RemoveSome(files).ok());
         EXPECT_TRUE(CompactDataset(files, "/data", {.least_lost = 0.01}).ok());
       },
       [](FileSystem& files) { return CompactDataset(files, "/data", {.purge = true}).status(); }},
      {"rebuild_listed", listed,
       [](FileSystem& files) {
         // The first leaves the list, which the manifest before names; so few shards have none.
         const absl::Status status = RebuildIndex(files, "/data").status();
         return status.ok() ? RebuildIndex(files, "/data").status() : status;
       }},
      {"append_listed", listed, AppendOnce},
      {"compact_listed",
       [native](FileSystem& files) {
         native(files);
         EXPECT_TRUE(AppendOnce(files).ok());
         ListShardsApart(files, "/data");
       },
       [](FileSystem& files) { return CompactDataset(files, "/data").status(); }},
      {"merge_mds",
       [](FileSystem& files) {
         WriteContainer(files, "mds", "/data/a");
         WriteContainer(files, "mds-unhashed", "/data/b");  // nothing says that they hold the same samples
       },
       [](FileSystem& files) {
         return MergeDatasets(files, {"/data/a", "/data/b"}, "/data").status();
       }},
      {"merge_copies",
       [](FileSystem& files) {
         WriteContainer(files, "shard", "/data/a");
         WriteContainer(files, "mds", "/data/b");
       },
       [](FileSystem& files) {
         MergeOptions options;
         options.copy = options.keep_repeated_keys = true;
         options.pack.dataset = SmallShards(0, 3);
         return MergeDatasets(files, {"/data/a", "/data/b"}, "/data/out", options).status();
       }},
      {"filter_by_reference", [](FileSystem& files) { WriteContainer(files, "shard", "/data/a"); },
       [](FileSystem& files) {
         FilterOptions options;
         options.by_reference = true;
         SampleSelection selection;
         selection.ranges = {{1, 5}};
         return Filter(files, "/data/a", "/data/out", selection, options).status();
       }},
      {"tar_index", tars, [](FileSystem& files) { return BuildTarIndex(files, tar).status(); }},
      {"tar_index_anew",
       [tars](FileSystem& files) {
         tars(files);
         WriteFile(files, tar + std::string(kTarIndexSuffix), "an old one");
       },
       [](FileSystem& files) { return BuildTarIndex(files, tar).status(); }},
      {"dali_index", tars, [](FileSystem& files) { return BuildDaliIndex(files, tar).status(); }},
      {"repair_shard",
       [native](FileSystem& files) {
         native(files);
         Damage(files, "/data/00000000.shard");
       },
       [](FileSystem& files) { return RepairShard(files, "/data/00000000.shard", "/data/repaired.shard").status(); }},
      {"repair_dataset",
       [native](FileSystem& files) {
         native(files);
         Damage(files, "/data/00000000.shard");
       },
       [](FileSystem& files) { return RepairDataset(files, "/data", "/out").status(); }},
  };
}

const Tree& InputOf(const Job& job) {
  static std::map<std::string, Tree> trees;
  Tree& tree = trees[job.name];
  if (tree.empty()) {
    const auto files = NewMemoryFileSystem();
    job.prepare(*files);
    tree = ReadTree(*files, "/");
  }
  return tree;
}

const Tree& OutcomeOf(const Job& job) {
  static std::map<std::string, Tree> trees;
  Tree& tree = trees[job.name];
  if (tree.empty()) {
    const auto files = NewMemoryFileSystem();
    WriteTree(*files, "/", InputOf(job));
    const absl::Status status = job.operate(*files);
    EXPECT_TRUE(status.ok()) << job.name << ": " << status;
    tree = ReadTree(*files, "/");
    EXPECT_TRUE(!job.reads_only || tree == InputOf(job)) << job.name;
  }
  return tree;
}

std::string Unexpected(const Job& job, const Tree& now, bool temporaries) {
  const Tree& before = InputOf(job);
  const Tree& after = OutcomeOf(job);
  std::string text;
  for (const auto& [name, bytes] : now) {
    if (temporaries && name.ends_with("/.shardkit/job.json")) continue;  // it is complete only in the end
    const auto old = before.find(name), made = after.find(name);
    if (old == before.end() && made == after.end()) {
      if (!temporaries) text += " left over: " + name;
    } else if ((old == before.end() || old->second != bytes) && (made == after.end() || made->second != bytes)) {
      text += " half done: " + name;
    }
  }
  for (const auto& [name, bytes] : before) {
    if (after.contains(name) && !now.contains(name)) text += " gone: " + name;
  }
  return text;
}

}  // namespace shardkit::test
