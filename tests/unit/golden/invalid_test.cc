// Every invalid golden file gives the error class and the fragments of its NAME.error.json, at the latest at the level
// named there, and the same in every read mode.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "absl/strings/ascii.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "dataset/read/index_reader.h"
#include "shardkit/validate.h"
#include "unit/container/shard_maker.h"
#include "unit/golden/twin.h"

namespace shardkit::dataset {
namespace {

using nlohmann::json;

constexpr std::string_view kLevels[] = {"open", "read", "validate", "deep"};

bool HoldsAll(std::string_view message, const json& fragments) {
  const std::string lower = absl::AsciiStrToLower(ToAbsl(message));
  return std::all_of(fragments.begin(), fragments.end(),
                     [&](const json& fragment) { return lower.find(fragment.get<std::string>()) != lower.npos; });
}

std::string ClassName(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kDataLoss:
      return "DataLoss";
    case absl::StatusCode::kUnimplemented:
      return "Unimplemented";
    case absl::StatusCode::kNotFound:
      return "NotFound";
    case absl::StatusCode::kPermissionDenied:
      return "PermissionDenied";
    default:
      return status.ToString();
  }
}

absl::Status ReadAll(const ShardReader& shard) {
  const auto is_known = [](const Column& column) { return IsKnownCodec(column.codec); };
  if (std::ranges::none_of(shard.schema().columns(), is_known)) return absl::OkStatus();
  BlockBuffer buffer;
  BlockView view;
  const std::vector<size_t> columns = ReadableColumns(shard.schema());
  for (size_t k = 0; k < shard.blocks().size(); ++k) {
    SHARDKIT_RETURN_IF_ERROR(shard.ReadBlock(k, columns, &buffer, &view));
  }
  return absl::OkStatus();
}

// Looks up the place of the first record of every blob column in every block.
absl::Status ReadPlaces(const std::string& directory) {
  SHARDKIT_ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(*PosixFileSystem(), directory));
  const Schema stored = manifest.StoredSchema();
  SHARDKIT_ASSIGN_OR_RETURN(const auto index,
                            IndexReader::Open(*PosixFileSystem(), directory, stored, manifest.segments));
  return index->ForEachBlock([&](const IndexedBlock& block) -> absl::Status {
    for (uint32_t blob = 0; blob < index->BlobColumns(block).size(); ++blob) {
      SHARDKIT_RETURN_IF_ERROR(index->Record(block, 0, blob).status());
    }
    return absl::OkStatus();
  });
}

// Which of kLevels failed first, and how. `status` is OK when none failed. A reader that cannot use the offset index
// works without it. For these files that counts as noticing.
struct Outcome {
  size_t level = 0;
  absl::Status status;
};

Outcome OpenAndRead(const std::string& path, ReadMode mode) {
  if (path.ends_with(".shard")) {
    const auto shard = ShardReader::Open(*PosixFileSystem(), path, {.mode = mode});
    if (!shard.ok()) return {0, shard.status()};
    return {1, ReadAll(**shard)};
  }
  DatasetOptions options;
  options.mode = mode;
  const auto dataset = DatasetReader::Open(*PosixFileSystem(), path, options);
  if (!dataset.ok()) return {0, dataset.status()};
  if (const std::string problem = (*dataset)->index_problem(); !problem.empty()) return {0, DataLoss(problem)};
  for (size_t i = 0; i < (*dataset)->shard_count(); ++i) {
    const auto shard = (*dataset)->OpenShard(i);
    if (!shard.ok()) return {1, shard.status()};
    if (const absl::Status status = ReadAll(**shard); !status.ok()) return {1, status};
    // With the values of column files.
    BlockBuffer buffer;
    BlockView view;
    for (size_t k = 0; k < (*shard)->blocks().size() && !(*dataset)->summary().column_files.empty(); ++k) {
      const absl::Status status = (*dataset)->ReadBlock(i, k, &buffer, &view);
      if (!status.ok()) return {1, status};
    }
  }
  return {1, ReadPlaces(path)};
}

// The index knows the place of each record, but not whether the file there is still the shard.
TEST(InvalidGolden, NoValueThroughTheIndexOfAnotherShard) {
  const auto dataset =
      DatasetReader::Open(*PosixFileSystem(), JoinPath(GoldenFolder(), "invalid/dataset-shard-swapped"));
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ASSERT_EQ((*dataset)->index_problem(), "");
  BlockBuffer buffer;
  const uint64_t samples[] = {0, 1};
  std::string_view values[2];
  for (const absl::Status& status :
       {(*dataset)->ReadValue(0, 0, &buffer).status(), (*dataset)->ReadValues(samples, 0, &buffer, values)}) {
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  }
}

TEST(InvalidGolden, AllColumnsOfAShardAreComparedWhicheverAreWanted) {
  for (const std::string name : {"extra", "shape", "dtype"}) {
    DatasetOptions options;
    options.columns = {"key"};
    const auto dataset = DatasetReader::Open(
        *PosixFileSystem(), JoinPath(GoldenFolder(), StrCat("invalid/dataset-column-", name)), options);
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    EXPECT_TRUE(absl::IsDataLoss((*dataset)->OpenShard(0).status())) << name;
  }
}

// What a malformed dictionary does not concern is read.
TEST(InvalidGolden, AMalformedDictionaryDamagesWhatNeedsIt) {
  for (const std::string name : {"dictionary-malformed", "dictionary-malformed-unused"}) {
    const auto shard =
        ShardReader::Open(*PosixFileSystem(), JoinPath(GoldenFolder(), StrCat("invalid/", name, ".shard")));
    ASSERT_TRUE(shard.ok()) << shard.status();
    EXPECT_EQ(ReadAll(**shard).code(),
              name == "dictionary-malformed" ? absl::StatusCode::kDataLoss : absl::StatusCode::kOk);
  }
}

TEST(InvalidGolden, EachGivesItsError) {
  const std::vector<std::string> names = GoldenNames("invalid", ".error.json");
  ASSERT_GE(names.size(), 175u);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    std::string path = JoinPath(JoinPath(GoldenFolder(), "invalid"), name);
    const json wanted = ParseFile(path + ".error.json");
    if (!PosixFileSystem()->Stat(path).ok()) path += ".shard";
    const size_t latest = std::ranges::find(kLevels, wanted["found_by"].get<std::string>()) - kLevels;
    for (const ReadMode mode : kReadModes) {
      const Outcome outcome = OpenAndRead(path, mode);
      const std::string message(ToStd(outcome.status.message()));
      if (!outcome.status.ok()) {
        EXPECT_LE(outcome.level, latest) << message;
        EXPECT_EQ(ClassName(outcome.status), wanted["class"].get<std::string>()) << message;
        EXPECT_TRUE(HoldsAll(message, wanted["contains"])) << message << "\nlacks some of " << wanted["contains"];
      } else {
        EXPECT_GE(latest, 2u) << "not noticed by reading";
      }
      // Validation finds all of these errors, with the same words.
      const auto report = Validate(*PosixFileSystem(), path, {.deep = latest == 3, .mode = mode});
      // There is no dataset to validate, or it may not be opened.
      if (absl::IsNotFound(report.status()) && wanted["class"] == "NotFound") continue;
      if (absl::IsPermissionDenied(report.status()) && wanted["class"] == "PermissionDenied") continue;
      EXPECT_TRUE(report.ok()) << report.status();
      if (!report.ok()) continue;
      std::string all;
      for (const Problem& problem : report->problems) all += problem.message + "\n";
      EXPECT_TRUE(std::ranges::any_of(report->problems,
                                      [&](const Problem& problem) {
                                        return HoldsAll(problem.message, wanted["contains"]) &&
                                               problem.error_class() == wanted["class"].get<std::string>();
                                      }))
          << all << "lacks some of " << wanted["contains"] << ", or is not " << wanted["class"];
    }
  }
}

}  // namespace
}  // namespace shardkit::dataset
