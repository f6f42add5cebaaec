// Validation of indexes that have correct checksums and wrong content.
#include <algorithm>

#include "base/endian.h"
#include "base/hash.h"
#include "base/strings.h"
#include "container/read/paged_table_reader.h"
#include "dataset/dataset_support.h"
#include "dataset/write/segment_writer.h"
#include "format/footer.h"
#include "format/index_layout.h"
#include "format/key_table.h"
#include "format/paged_table.h"
#include "unit/container/shard_maker.h"

namespace shardkit::test {
namespace {

constexpr char kSegmentPath[] = "/data/dataset.segment";

class ValidateTest : public testing::Test {
 protected:
  // Shards of nine samples in blocks of four, four and one.
  void SetUp() override {
    const auto summary = WriteDataset(*files_, "/data", MakeSamples(27), SmallShards(9, 4));
    ASSERT_TRUE(summary.ok()) << summary.status();
    manifest_ = summary->manifest;
    ASSERT_EQ(ValidateText(*files_, "/data"), "");
  }

  static std::vector<std::string> Warnings(const ValidateReport& report) {
    std::vector<std::string> messages;
    for (const Problem& warning : report.warnings) messages.push_back(warning.path + ": " + warning.message);
    return messages;
  }

  // Publishes the segment with sections that `change` has changed: the page and the payload of each.
  void ChangeSegment(
      const std::function<void(format::TableKind kind, std::string* page, std::string* payload)>& change) {
    auto file = files_->OpenForReading(kSegmentPath);
    ASSERT_TRUE(file.ok()) << file.status();
    const uint64_t length = (*file)->size();
    const auto sections = container::PagedTable::OpenAll(*std::move(file), {.length = length});
    ASSERT_TRUE(sections.ok()) << sections.status();
    std::string changed;
    format::PagedTableWriter writer([&](std::string_view written) {
      changed += written;
      return absl::OkStatus();
    });
    for (const auto& section : *sections) {
      ASSERT_EQ(section->page_count(), 1u);
      const auto read = section->Page(0);
      ASSERT_TRUE(read.ok()) << read.status();
      std::string page(read->bytes), payload(section->payload());
      change(section->kind(), &page, &payload);
      if (payload.empty()) continue;
      const bool keys = section->kind() == format::TableKind::kKeys;
      ASSERT_TRUE(writer.AddPage(keys ? LoadLittle<uint64_t>(page.data()) : read->first, page).ok());
      ASSERT_TRUE(writer.EndSection(section->kind(), payload).ok());
    }
    const auto written = writer.Finish();
    ASSERT_TRUE(written.ok()) << written.status();
    WriteFile(*files_, kSegmentPath, changed);
    Manifest manifest = manifest_;
    manifest.segments[0].table = dataset::ReferenceTo("dataset.segment", *written);
    WriteFile(*files_, "/data/dataset.json", FormatManifest(manifest));
  }

  // Changes a number in the index's only page, or behind it in the payload of the root, and repairs all checksums.
  void ChangeIndex(uint64_t offset, uint64_t add) {
    ChangeSegment([&](format::TableKind kind, std::string* page, std::string* payload) {
      if (kind != format::TableKind::kOffsetIndex) return;
      char* const at = offset < page->size() ? page->data() + offset : payload->data() + (offset - page->size());
      StoreLittle(at, LoadLittle<uint64_t>(at) + add);
    });
  }

  // Where in the index's page the end of a sample's image lies.
  static uint64_t EndOf(uint64_t sample) {
    // Before it stand the ends of the samples before, and where the records of each block begin.
    const uint64_t begins = sample / 9 * 3 + sample % 9 / 4 + 1;
    return format::kIndexPageHeadBytes + 9 * format::kIndexBlockBytes + 8 * (sample + begins);
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
  Manifest manifest_;
};

TEST_F(ValidateTest, CountsRepeatedKeysOverTheWholeDataset) {
  std::vector<OwnedSample> samples = MakeSamples(100);
  const auto unique = Validate(*files_, "/data");
  ASSERT_TRUE(unique.ok()) << unique.status();
  EXPECT_EQ(unique->repeated_keys, 0u);
  EXPECT_TRUE(unique->warnings.empty());
  samples[99].key = samples[7].key;   // in other shards
  samples[40].key = samples[38].key;  // in one shard
  samples[41].key = samples[38].key;
  ASSERT_TRUE(WriteDataset(*files_, "/keys", samples, SmallShards(9, 4)).ok());
  const auto report = Validate(*files_, "/keys");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->ok());
  EXPECT_EQ(report->repeated_keys, 3u);
  EXPECT_EQ(Warnings(*report),
            (std::vector<std::string>{"/keys: 3 samples have a key that an earlier one has, and cannot be found by it",
                                      "/keys: key \"k1000007\" stands in 2 samples, first in 7 and 99",
                                      "/keys: key \"k1000038\" stands in 3 samples, first in 38 and 40"}));
  // Repeated keys of a damaged shard are not reported: its indexes cannot be trusted.
  std::string bytes = ReadAll(*files_, "/keys/00000003.shard");
  bytes[bytes.size() / 2] ^= 1;
  WriteFile(*files_, "/keys/00000003.shard", bytes);
  EXPECT_TRUE(Validate(*files_, "/keys")->warnings.empty());
}

// More keys than are compared one by one, and more occurrences of one key than are examined, in lists of several
// pieces.
TEST_F(ValidateTest, LooksAtListsOfTexts) {
  const Column key{.name = "key", .type = Type::kUtf8, .is_key = true};
  const Column captions{.name = "captions", .type = Type::kJson, .metadata = {{"items", "utf8"}}};
  const auto problems = [&](const std::string& value) {
    const auto files = NewMemoryFileSystem();
    auto writer = *DatasetWriter::Create(*files, "/texts", MakeSchema({key, captions}), SmallShards(0, 8));
    EXPECT_TRUE(writer->Append({.key = "a", .fields = {{&captions, Value(value)}}}, 1).ok());
    EXPECT_TRUE(writer->Finish().ok());
    EXPECT_EQ(ValidateText(*files, "/texts", /*deep=*/false), "");
    return ValidateText(*files, "/texts", /*deep=*/true);
  };
  for (const char* value : {"[]", " [ ] ", R"(["a"])", R"( [ "a" , "\"]\\" ,"" ] )", R"(["]", "\u005d"])"}) {
    EXPECT_EQ(problems(value), "") << value;
  }
  for (const char* value : {"1", "{}", "null", R"("a")", "[1]", R"(["a", 1])", R"([["a"]])", R"(["\\", {"b": "a"}])",
                            R"(["a", null])", R"({"a": ["b"]})"}) {
    EXPECT_NE(problems(value).find("is no array of strings"), std::string::npos) << value;
  }
}

TEST_F(ValidateTest, CountsManyRepeatedKeys) {
  std::vector<OwnedSample> samples;
  for (const uint64_t keys : {40000, 3000, 1}) {
    for (uint64_t i = 0; i < 40000; ++i) samples.push_back({"key " + std::to_string(i % keys), {}});
  }
  DatasetWriterOptions options;
  options.shard_samples = 50000;
  ASSERT_TRUE(WriteDataset(*files_, "/many", samples, options).ok());
  const auto report = Validate(*files_, "/many");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->repeated_keys, 80000u);
  ASSERT_EQ(report->warnings.size(), 6u);
  EXPECT_TRUE(report->ok());
}

TEST_F(ValidateTest, NamesTheBlockWhosePlacesInTheIndexAreWrong) {
  const std::string good = ReadAll(*files_, kSegmentPath);
  for (uint64_t sample = 0; sample < 27; ++sample) {
    ChangeIndex(EndOf(sample), 1);
    EXPECT_EQ(ValidateText(*files_, "/data"), StrCat(kSegmentPath, ": index: wrong places for block ", sample % 9 / 4,
                                                     " of shard ", sample / 9, "; run shardctl index to rebuild it"));
    WriteFile(*files_, kSegmentPath, good);
  }
}

TEST_F(ValidateTest, NamesTheBlockWhoseEntryInTheIndexIsWrong) {
  const std::string good = ReadAll(*files_, kSegmentPath);
  for (uint64_t block = 0; block < 9; ++block) {
    ChangeIndex(format::kIndexPageHeadBytes + format::kIndexBlockBytes * block, 64);
    EXPECT_EQ(ValidateText(*files_, "/data"), StrCat(kSegmentPath, ": index: wrong entry for block ", block % 3,
                                                     " of shard ", block / 3, "; run shardctl index to rebuild it"));
    WriteFile(*files_, kSegmentPath, good);
  }
}

TEST_F(ValidateTest, NoticesAnIndexThatContradictsItselfOrTheManifest) {
  const std::string good = ReadAll(*files_, kSegmentPath);
  const uint64_t payload = EndOf(26) + 8;
  // Of block 4 of the page: first sample, shard, layout, reserved, where its places begin; then counts and hash in the
  // root.
  const uint64_t entry = format::kIndexPageHeadBytes + 4 * format::kIndexBlockBytes;
  for (const auto& [offset, add] : {std::pair{entry + 24, uint64_t{1}},
                                    {entry + 32, 1},
                                    {entry + 32, uint64_t{1} << 32},
                                    {entry + 32, uint64_t{99} << 32},
                                    {entry + 48, 1},
                                    {entry + 48, uint64_t{1} << 32},
                                    {entry + 56, 8},
                                    {uint64_t{0}, uint64_t{1}},
                                    {payload, 1},
                                    {payload + 8, 1},
                                    {payload + 16, 1},
                                    {payload + 24, 1},
                                    {payload + 32, 1},
                                    {payload + 32, uint64_t{1} << 32}}) {
    ChangeIndex(offset, add);
    const std::string found = ValidateText(*files_, "/data");
    EXPECT_NE(found.find(kSegmentPath), std::string::npos) << offset << " + " << add << ": " << found;
    // Nothing else is damaged.
    const auto dataset = DatasetReader::Open(*files_, "/data");
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    EXPECT_EQ(ScanRows(**dataset), RowsOf(MakeSamples(27)));
    WriteFile(*files_, kSegmentPath, good);
  }
}

TEST_F(ValidateTest, ComparesThePlacesOfABlockWhoseValuesAreDamagedToo) {
  const std::string path = "/data/" + manifest_.shards[1].name;
  std::string shard = ReadAll(*files_, path);
  const size_t value = shard.find("\xff\xd8\xff");
  ASSERT_NE(value, shard.npos);
  shard[value + 3] ^= 1;
  WriteFile(*files_, path, shard);
  ChangeIndex(EndOf(9), 1);
  const auto report = Validate(*files_, "/data", {});
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->problems.size(), 2u);
  EXPECT_NE(report->problems[0].message.find("block 0 (samples 0 to 3)"), std::string::npos)
      << report->problems[0].message;
  EXPECT_EQ(report->problems[1].message, StrCat(kSegmentPath,
                                                ": index: wrong places for block 0 of shard 1; "
                                                "run shardctl index to rebuild it"));
}

TEST_F(ValidateTest, ExpectsNoValuesWhereAShardLacksTheColumn) {
  static const Column late = {.name = "late", .type = Type::kBytes, .nullable = true};
  auto samples = MakeSamples(4);
  samples[3].fields.emplace_back(&late, "here");
  const auto summary = WriteDataset(*files_, "/late", samples, SmallShards(9, 4));
  ASSERT_TRUE(summary.ok()) << summary.status();
  ASSERT_EQ(summary->manifest.shards.size(), 2u);
  EXPECT_EQ(ValidateText(*files_, "/late"), "");
}

// A shard's bytes with another key index. All checksums are correct.
std::string WithKeyIndex(const std::string& shard, const Schema& schema, std::vector<uint64_t> hashes) {
  return WithSections(shard, schema.key_column().has_value(), [&](format::SectionKind kind, std::string_view content) {
    return kind == format::SectionKind::kKeyIndex ? format::EncodeKeyTable(hashes) : std::string(content);
  });
}

TEST_F(ValidateTest, NamesTheEntryOfTheKeyIndexThatIsNotThatOfItsSample) {
  const std::string path = "/data/" + manifest_.shards[0].name;
  const std::string good = ReadAll(*files_, path);
  std::vector<uint64_t> hashes;
  for (const OwnedSample& sample : MakeSamples(9)) hashes.push_back(Hash64(sample.key));
  ASSERT_EQ(WithKeyIndex(good, manifest_.schema, hashes), good);
  const auto problem = [&](std::string_view what) {
    const std::string text = ValidateText(*files_, "/data");
    EXPECT_TRUE(text.starts_with(StrCat(path, ": key table at byte "))) << text;
    EXPECT_TRUE(text.ends_with(what)) << text;
  };
  for (size_t sample = 0; sample < hashes.size(); ++sample) {
    std::vector<uint64_t> changed = hashes;
    ++changed[sample];
    WriteFile(*files_, path, WithKeyIndex(good, manifest_.schema, changed));
    const auto entry = std::ranges::count_if(hashes, [&](uint64_t hash) { return hash < hashes[sample]; });
    problem(StrCat(": entry ", entry, " does not have the hash of the key of sample ", sample, " that belongs there"));
  }
  std::swap(hashes[2], hashes[7]);
  WriteFile(*files_, path, WithKeyIndex(good, manifest_.schema, hashes));
  problem(hashes[2] < hashes[7] ? " names sample 2 instead of 7" : " names sample 7 instead of 2");
}

TEST_F(ValidateTest, ComparesTheKeysOfASegmentWithTheShards) {
  const std::string path = kSegmentPath, place = ": key table at byte 0: ";
  const std::string remedy = "; run shardctl index /data to make it again";
  const std::string good = ReadAll(*files_, path);
  std::vector<uint64_t> hashes;
  for (const OwnedSample& sample : MakeSamples(27)) hashes.push_back(Hash64(sample.key));
  const auto publish = [&](const std::vector<uint64_t>& changed) {
    WriteFile(*files_, path, good);
    ChangeSegment([&](format::TableKind kind, std::string* page, std::string*) {
      if (kind != format::TableKind::kKeys) return;
      std::vector<format::KeyEntry> entries(changed.size());
      for (size_t i = 0; i < entries.size(); ++i) entries[i] = {changed[i], i};
      std::ranges::sort(entries);
      page->clear();
      for (const format::KeyEntry& entry : entries) {
        AppendLittle(*page, entry.hash);
        AppendLittle(*page, entry.ordinal);
      }
    });
  };
  publish(hashes);
  EXPECT_EQ(ReadAll(*files_, path), good);
  EXPECT_EQ(ValidateText(*files_, "/data"), "");
  for (const size_t sample : {size_t{0}, size_t{13}, size_t{26}}) {
    std::vector<uint64_t> changed = hashes;
    ++changed[sample];
    publish(changed);
    const auto entry = std::ranges::count_if(hashes, [&](uint64_t hash) { return hash < hashes[sample]; });
    EXPECT_EQ(ValidateText(*files_, "/data"),
              StrCat(path, place, "entry ", entry, " does not have the hash of the key of sample ", sample,
                     " that belongs there", remedy));
  }
  publish(hashes);
  // In the page of the keys, which is the last of all.
  std::string flipped = good;
  format::KeyEntry last;
  for (size_t i = 0; i < hashes.size(); ++i) last = std::max(last, format::KeyEntry{hashes[i], i});
  flipped[good.find(std::string_view(reinterpret_cast<const char*>(&last), 16)) + 9] ^= 1;
  WriteFile(*files_, path, flipped);
  EXPECT_EQ(ValidateText(*files_, "/data"), StrCat(path, place, "page 0: checksum is wrong", remedy));
  ASSERT_TRUE(files_->RemoveFile(path).ok());
  EXPECT_TRUE(ValidateText(*files_, "/data").starts_with(StrCat(path, ": the segment is missing")));
  // A segment may have none.
  WriteFile(*files_, path, good);
  ChangeSegment([&](format::TableKind kind, std::string*, std::string* payload) {
    if (kind == format::TableKind::kKeys) payload->clear();
  });
  EXPECT_EQ(ValidateText(*files_, "/data"), "");
  BlockBuffer buffer;
  const auto dataset = DatasetReader::Open(*files_, "/data");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->index_problem(), "");
  EXPECT_EQ(*(*dataset)->FindKey(MakeSamples(27)[13].key, &buffer), 13u);
}

// Each problem is found by one task, and what there is once by the first.
TEST_F(ValidateTest, TasksTogetherCheckEverything) {
  const auto check = [&](uint64_t tasks) {
    ValidateReport all;
    for (uint64_t task = 0; task < tasks; ++task) {
      const auto report = Validate(*files_, "/data", {.task = task, .tasks = tasks});
      EXPECT_TRUE(report.ok()) << report.status();
      all.shards += report->shards;
      all.samples += report->samples;
      all.bytes += report->bytes;
      all.problem_count += report->problem_count;
      all.repeated_keys += report->repeated_keys;
      for (const Problem& problem : report->problems) all.problems.push_back(problem);
    }
    return all;
  };
  for (const uint64_t tasks : {1, 2, 3, 5}) {
    const ValidateReport sound = check(tasks);
    EXPECT_EQ(sound.shards, 3u);
    EXPECT_EQ(sound.samples, 27u);
    EXPECT_EQ(sound.bytes, manifest_.bytes);
    EXPECT_EQ(sound.problem_count, 0u);
  }
  EXPECT_TRUE(absl::IsInvalidArgument(Validate(*files_, "/data", {.task = 2, .tasks = 2}).status()));
  std::string damaged = ReadAll(*files_, "/data/" + manifest_.shards[2].name);
  damaged[damaged.find("BLK") + 8] ^= 1;
  WriteFile(*files_, "/data/" + manifest_.shards[2].name, damaged);
  const std::string index = ReadAll(*files_, kSegmentPath);
  WriteFile(*files_, kSegmentPath, index.substr(0, index.size() - 1));
  const ValidateReport whole = check(1);
  EXPECT_GE(whole.problem_count, 2u);
  for (const uint64_t tasks : {2, 3, 5}) {
    const ValidateReport report = check(tasks);
    EXPECT_EQ(report.problem_count, whole.problem_count);
    for (const Problem& problem : whole.problems) {
      EXPECT_EQ(std::ranges::count(report.problems, problem.message, &Problem::message), 1) << problem.message;
    }
  }
}

// A key of two shards that different tasks check.
TEST_F(ValidateTest, TheFirstTaskFindsKeysThatAreRepeatedAnywhere) {
  std::vector<OwnedSample> samples = MakeSamples(27);
  samples[25].key = samples[1].key;
  ASSERT_TRUE(RemoveTree(*files_, "/data").ok());
  ASSERT_TRUE(WriteDataset(*files_, "/data", samples, SmallShards(9, 4)).ok());
  for (uint64_t task = 0; task < 3; ++task) {
    const auto report = Validate(*files_, "/data", {.task = task, .tasks = 3});
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->repeated_keys, task == 0 ? 1u : 0u);
  }
}

// The entries of blocks that cannot be read are not known; that each sample has one is.
TEST_F(ValidateTest, ChecksTheKeyIndexOfAShardWithADamagedBlockByItself) {
  const std::string path = "/data/" + manifest_.shards[0].name;
  std::string good = ReadAll(*files_, path);
  good[good.find("BLK") + 8] ^= 1;
  const auto with = [&](std::vector<uint64_t> ordinals) {
    std::string table;
    format::PagedTableWriter pages([&](std::string_view bytes) {
      table += bytes;
      return absl::OkStatus();
    });
    format::KeyTableWriter writer([&](uint64_t first, std::string_view page) { return pages.AddPage(first, page); });
    for (size_t i = 0; i < ordinals.size(); ++i) EXPECT_TRUE(writer.Add({10 * i, ordinals[i]}).ok());
    EXPECT_TRUE(pages.EndSection(format::TableKind::kKeys, *writer.Finish()).ok());
    EXPECT_TRUE(pages.Finish().ok());
    WriteFile(*files_, path, WithSections(good, true, [&](format::SectionKind kind, std::string_view content) {
      return kind == format::SectionKind::kKeyIndex ? table : std::string(content);
    }));
    const auto report = Validate(*files_, path, {});
    EXPECT_TRUE(report.ok()) << report.status();
    EXPECT_NE(report->problems[0].message.find("block 0"), std::string::npos) << report->problems[0].message;
    return report->problems.size() == 1 ? "" : report->problems[1].message;
  };
  EXPECT_EQ(with({8, 7, 6, 5, 4, 3, 2, 1, 0}), "");
  EXPECT_TRUE(with({8, 7, 6, 5, 4, 3, 2, 2, 0}).ends_with("sample 2 occurs twice"));
  EXPECT_TRUE(with({8, 7, 6, 9, 4, 3, 2, 1, 0}).ends_with("ordinal 9 of entry 3 is past the last sample"));
}

}  // namespace
}  // namespace shardkit::test
