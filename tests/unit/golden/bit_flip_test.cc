// No bit of a shard, an offset index or a manifest can change without Validate saying so, and saying where.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "base/strings.h"
#include "shardkit/dataset_writer.h"
#include "shardkit/validate.h"
#include "unit/container/shard_maker.h"
#include "unit/golden/twin.h"

namespace shardkit {
namespace {

using Files = std::vector<std::pair<std::string, std::string>>;  // path and content

constexpr std::string_view kPlaces[] = {"header",          "block",      "trailer",   "section table",
                                        "block directory", "statistics", "key index", "metadata",
                                        "manifest",        "index"};

bool NamesAPlace(const Problem& problem, const std::string& path) {
  return problem.message.starts_with(path) && std::ranges::any_of(kPlaces, [&](std::string_view place) {
           return problem.message.find(place, path.size()) != std::string::npos;
         });
}

// Flips every `stride`-th bit of files[0] from `first` on, each time validating `target`.
void FlipBits(const Files& files, const std::string& target, uint64_t first, uint64_t stride) {
  const auto file_system = NewMemoryFileSystem();
  ASSERT_TRUE(CreateDirectories(*file_system, "/data").ok());
  for (const auto& [path, content] : files) WriteWhole(*file_system, path, content);
  const auto& [path, content] = files[0];
  const auto file = file_system->OpenForAppending(path);
  ASSERT_TRUE(file.ok()) << file.status();
  int failures = 0;
  for (uint64_t bit = first; bit < 8 * content.size() && failures < 20; bit += stride) {
    const char flipped = static_cast<char>(content[bit / 8] ^ (1 << bit % 8));
    ASSERT_TRUE((*file)->WriteAt(bit / 8, {&flipped, 1}).ok());
    const auto report = Validate(*file_system, target);
    ASSERT_TRUE(report.ok()) << report.status() << " at bit " << bit % 8 << " of byte " << bit / 8;
    const bool named = std::ranges::any_of(report->problems, [&](const Problem& problem) {
      return problem.path == path && NamesAPlace(problem, path);
    });
    if (!named) {
      ++failures;
      ADD_FAILURE() << "bit " << bit % 8 << " of byte " << bit / 8 << " of " << path << ": "
                    << report->problem_count
                    << " problems; first: " << (report->problems.empty() ? "" : report->problems[0].message);
    }
    ASSERT_TRUE((*file)->WriteAt(bit / 8, {&content[bit / 8], 1}).ok());
  }
  const auto report = Validate(*file_system, target);
  ASSERT_TRUE(report.ok() && report->ok());
}

void FlipEveryBit(const Files& files, const std::string& target) {
  const unsigned threads = std::clamp(std::thread::hardware_concurrency(), 1u, 16u);
  std::vector<std::thread> workers;
  for (unsigned i = 0; i < threads; ++i) workers.emplace_back(FlipBits, files, target, i, threads);
  for (std::thread& worker : workers) worker.join();
}

const std::vector<Column>& Columns() {
  static const std::vector<Column> kColumns = {
      {.name = "key", .type = Type::kUtf8, .codec = Codec::kZstd, .is_key = true},
      {.name = "blob", .type = Type::kBytes, .nullable = true},
      {.name = "label", .type = Type::kI32, .nullable = true},
      {.name = "text", .type = Type::kUtf8, .codec = Codec::kZstd}};
  return kColumns;
}

std::vector<Row> Rows() {
  std::vector<Row> rows;
  for (int i = 0; i < 5; ++i) {
    rows.push_back({StrCat("sample/", i), std::nullopt, std::nullopt, std::string(10 + 20 * i, 'x')});
    if (i % 2 == 0) rows.back()[1] = StrCat("value ", i);
    if (i % 3 == 0) rows.back()[2] = std::string("\1\0\0\0", 4);
  }
  return rows;
}

std::string MakeShard(uint32_t alignment) {
  const auto file_system = NewMemoryFileSystem();
  const auto written =
      WriteShard(*file_system, "/s.shard", *Schema::Create(Columns()), Rows(),
                 {.max_block_samples = 3, .alignment = alignment, .metadata = {{"made", "here"}}});
  EXPECT_TRUE(written.ok()) << written.status();
  return ReadWhole(*file_system, "/s.shard");
}

TEST(BitFlip, GoldenShard) {
  const std::string bytes = ReadWhole(*PosixFileSystem(), GoldenFolder() + "/valid/one-sample.shard");
  FlipEveryBit({{"/data/a.shard", bytes}}, "/data/a.shard");
}

TEST(BitFlip, DenselyPackedShard) { FlipEveryBit({{"/data/a.shard", MakeShard(64)}}, "/data/a.shard"); }

// Nearly all of the file is padding here.
TEST(BitFlip, PageAlignedShard) { FlipEveryBit({{"/data/a.shard", MakeShard(4096)}}, "/data/a.shard"); }

class DatasetFlip : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Files, DatasetFlip, testing::Values("dataset.json", "dataset.idx"),
                         [](const testing::TestParamInfo<std::string>& file) {
                           return file.param.substr(8);
                         });

TEST_P(DatasetFlip, EveryBit) {
  const auto file_system = NewMemoryFileSystem();
  DatasetWriterOptions options;
  options.shard.alignment = 64;
  options.shard.metadata = {{"made", "here"}};
  options.shard_samples = 2;
  auto writer = DatasetWriter::Create(*file_system, "/data", *Schema::Create(Columns()), options);
  ASSERT_TRUE(writer.ok()) << writer.status();
  const std::vector<Row> rows = Rows();
  for (size_t i = 0; i < rows.size(); ++i) {
    Sample sample{.key = *rows[i][0], .fields = {}};
    for (size_t c = 1; c < Columns().size(); ++c) {
      if (rows[i][c]) sample.fields.push_back({&Columns()[c], Value(*rows[i][c])});
    }
    const absl::Status status = (*writer)->Append(sample, i + 1);
    ASSERT_TRUE(status.ok()) << status;
  }
  const auto summary = (*writer)->Finish();
  ASSERT_TRUE(summary.ok()) << summary.status();
  ASSERT_EQ(summary->manifest.shards.size(), 3u);

  Files files = {{"/data/" + GetParam(), ReadWhole(*file_system, "/data/" + GetParam())}};
  const auto entries = file_system->List("/data");
  ASSERT_TRUE(entries.ok()) << entries.status();
  for (const DirectoryEntry& entry : *entries) {
    if (entry.type != FileType::kRegular || entry.name == GetParam()) continue;
    files.emplace_back("/data/" + entry.name, ReadWhole(*file_system, "/data/" + entry.name));
  }
  FlipEveryBit(files, "/data");
}

}  // namespace
}  // namespace shardkit
