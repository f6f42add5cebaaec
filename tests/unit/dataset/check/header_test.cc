// Shards without a header, and what the footer still says about others.
#include <algorithm>

#include "base/checked.h"
#include "base/endian.h"
#include "base/hash.h"
#include "format/constants.h"
#include "format/footer.h"
#include "shardkit/manifest.h"
#include "shardkit/shard.h"
#include "unit/dataset/check/repair_support.h"

namespace shardkit::test {
namespace {

std::string WithoutFront(const Original& original) {
  std::string bytes = original.bytes;
  bytes.replace(0, 64, 64, '\0');
  return bytes;
}

// Without the copy in the footer, too.
std::string WithoutHeader(const Original& original) {
  std::string bytes = WithoutFront(original);
  bytes[original.header_copy_begin + 60] ^= 1;
  return bytes;
}

bool Mentions(const std::vector<std::string>& texts, std::string_view part) {
  return std::ranges::any_of(texts, [&](const std::string& text) { return text.find(part) != text.npos; });
}

// Gives the manifest a segment, whose file nobody needs here.
void AddSegment(Manifest& manifest) {
  manifest.segments = {{.shards = manifest.shard_count,
                        .samples = manifest.sample_count,
                        .blocks = manifest.block_count,
                        .table = {"dataset.segment", 72, 72, 0}}};
}

// A dataset.json in /d that lists the damaged shard, and another at /good that lists the whole shard.
void WriteManifests(FileSystem& files, const Original& original, const Schema& schema) {
  Manifest manifest;
  manifest.schema = schema;
  manifest.metadata = {{"from", "manifest"}};
  manifest.AddShard({"damaged.shard", original.bytes.size(), original.rows.size(), original.blocks.size(), {}});
  AddSegment(manifest);
  WriteWhole(files, "/d/dataset.json", FormatManifest(manifest));
  manifest.shards[0].name = "whole.shard";
  WriteWhole(files, "/good/dataset.json", FormatManifest(manifest));
}

absl::StatusOr<RepairReport> Repair(FileSystem& files, std::string_view damaged, const RepairOptions& options = {}) {
  WriteWhole(files, "/d/damaged.shard", damaged);
  (void)files.RemoveFile("/out.shard");
  return RepairShard(files, "/d/damaged.shard", "/out.shard", options);
}

TEST(RepairHeader, TheCopyInTheFooterTakesItsPlace) {
  for (const Original& original : Kinds()) {
    SCOPED_TRACE(original.name);
    const auto files = NewMemoryFileSystem();
    ASSERT_TRUE(files->CreateDirectory("/d").ok());
    std::string damaged = WithoutFront(original);
    const auto report = Repair(*files, damaged);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(ReadWhole(*files, "/out.shard"), original.bytes);
    EXPECT_TRUE(Mentions(report->notes, "its copy in the footer"));
    // Also without the trailer: the first block tells the id.
    damaged.resize(original.table_end);
    ASSERT_TRUE(Repair(*files, damaged).ok());
    EXPECT_EQ(ReadWhole(*files, "/out.shard"), original.bytes);
    // Bytes that are gone behind the copy, which has not moved.
    damaged = WithoutFront(original);
    damaged.erase(original.directory_begin - 3, 3);
    ASSERT_TRUE(Repair(*files, damaged).ok());
    EXPECT_EQ(ReadWhole(*files, "/out.shard"), original.bytes);
    // Bytes that came behind the blocks.
    damaged = WithoutFront(original);
    damaged.insert(original.block_headers_begin + 1, 1992, 'x');
    ASSERT_TRUE(Repair(*files, damaged).ok());
    EXPECT_EQ(ReadWhole(*files, "/out.shard"), original.bytes);
    // Bytes before the shard, as many as nobody would choose.
    ASSERT_TRUE(Repair(*files, std::string(77, 'x') + original.bytes).ok());
    EXPECT_EQ(ReadWhole(*files, "/out.shard"), original.bytes);
  }
}

// Values may be whole shards, also of a later version. Of the headers in the file only that with the shard's id counts.
TEST(RepairHeader, AShardInAValueIsNotTakenForTheShard) {
  const Original& inner = Kinds()[1];
  std::string later = inner.bytes;
  later[8] = 2;
  StoreLittle(later.data() + inner.header_length - 8, Hash64(later.data(), inner.header_length - 8));
  const Schema schema = *Schema::Create({{.name = "data", .type = Type::kBytes}});
  const std::vector<ShardRow> rows = {{inner.bytes}, {later}, {Kinds()[0].bytes}};
  const auto files = NewMemoryFileSystem();
  ASSERT_TRUE(files->CreateDirectory("/d").ok());
  ASSERT_TRUE(WriteShard(*files, "/s.shard", schema, rows, {.max_block_samples = 1, .alignment = 64}).ok());
  const std::string whole = ReadWhole(*files, "/s.shard");
  std::string damaged = whole;
  damaged.replace(0, 64, 64, '\0');
  for (const size_t length : {damaged.size(), damaged.size() - format::kTrailerBytes}) {
    const auto report = Repair(*files, damaged.substr(0, length));
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(ReadWhole(*files, "/out.shard"), whole);
  }
}

// Trailer and header are lost, and another shard lies over the first block: the copy of the header tells the id.
TEST(RepairHeader, TheCopyCountsMoreThanTheFirstBlock) {
  const Original& original = Kinds()[0];
  const auto files = NewMemoryFileSystem();
  ASSERT_TRUE(files->CreateDirectory("/d").ok());
  const Original& other = Kinds()[1];
  std::string damaged = original.bytes.substr(0, original.table_end);
  damaged.replace(0, 64, 64, '\0');
  damaged.replace(original.blocks[0].offset, other.blocks[0].length, other.bytes, other.blocks[0].offset,
                  other.blocks[0].length);
  const auto report = Repair(*files, damaged);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->samples_recovered, original.rows.size() - original.blocks[0].sample_count);
}

// Headers that each claim the rest of the file are not read again and again.
TEST(RepairHeader, ManyHeadersAreNotAllRead) {
  const uint64_t size = uint64_t{8} << 20;
  std::string bytes(size, '\0');
  for (uint64_t at = 64; at + 64 < size; at += 64) {
    bytes.replace(at, 8, format::kHeaderMagic);
    StoreLittle(bytes.data() + at + 12, static_cast<uint32_t>(size - at));
  }
  const auto files = NewFiles(Kinds()[0]);
  const auto report = Repair(*files, bytes);
  EXPECT_TRUE(absl::IsDataLoss(report.status())) << report.status();
}

TEST(RepairHeader, WithoutAnySourceItIsAnErrorThatSaysHow) {
  const Original& original = Kinds()[0];
  const auto files = NewFiles(original);
  const auto report = Repair(*files, WithoutHeader(original));
  EXPECT_TRUE(absl::IsDataLoss(report.status())) << report.status();
  EXPECT_NE(report.status().message().find("--schema-from"), std::string::npos);
  EXPECT_EQ(report.status().message().find("/d/damaged.shard: "), 0u);
  EXPECT_FALSE(files->Stat("/out.shard").ok());
}

TEST(RepairHeader, TheManifestBesideItIsProvedByTheTrailer) {
  for (const Original& original : Kinds()) {
    if (original.has_dictionary) continue;
    const auto files = NewFiles(original);
    WriteManifests(*files, original, original.schema);
    const auto report = Repair(*files, WithoutHeader(original));
    ASSERT_TRUE(report.ok()) << report.status();
    // The header equals the lost one, including the alignment.
    EXPECT_EQ(ReadWhole(*files, "/out.shard"), original.bytes) << original.name;
    EXPECT_TRUE(report->lossless());
  }
}

TEST(RepairHeader, WithoutATrailerItIsProvedByTheFirstBlock) {
  const Original& original = Kinds()[2];
  const auto files = NewFiles(original);
  WriteManifests(*files, original, original.schema);
  const std::string damaged = WithoutHeader(original).substr(0, original.blocks.back().offset + 64);
  const auto report = Repair(*files, damaged);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->blocks_recovered, original.blocks.size() - 1);
  const auto shard = ShardReader::Open(*files, "/out.shard");
  ASSERT_TRUE(shard.ok()) << shard.status();
  EXPECT_EQ((*shard)->alignment(), original.options.alignment);
  // The manifest has the number of samples, and the metadata of all shards.
  EXPECT_TRUE(report->end_known);
  EXPECT_EQ(report->samples_lost, 1u);
  ASSERT_EQ(report->losses.size(), 1u);
  EXPECT_EQ(report->losses[0].first_block, original.blocks.size() - 1);
  EXPECT_EQ((*shard)->ReadMetadata()->at("from"), "manifest");
}

// The shard was written again after the manifest.
TEST(RepairHeader, AManifestThatTellsOfFewerSamplesIsNotBelieved) {
  const Original& original = Kinds()[0];
  const auto files = NewFiles(original);
  Manifest manifest;
  manifest.schema = original.schema;
  manifest.AddShard({"damaged.shard", 1000, 4, 1, {}});
  AddSegment(manifest);
  WriteWhole(*files, "/d/dataset.json", FormatManifest(manifest));
  const auto report = Repair(*files, original.bytes.substr(0, original.directory_begin));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->samples_recovered, original.rows.size());
  EXPECT_FALSE(report->end_known);
}

// If two columns of one kind were swapped, each would get the values of the other.
TEST(RepairHeader, AManifestThatNothingProvesIsRefused) {
  const Original& original = Kinds()[0];
  const auto files = NewFiles(original);
  std::vector<Column> columns = original.schema.columns();
  columns[1].type = Type::kJpeg;
  WriteManifests(*files, original, *Schema::Create(columns));
  const auto report = Repair(*files, WithoutHeader(original));
  EXPECT_TRUE(absl::IsDataLoss(report.status())) << report.status();
  EXPECT_NE(report.status().message().find("proves"), std::string::npos) << report.status();
  // With an explicit --schema-from, the user takes the responsibility.
  const auto forced = Repair(*files, WithoutHeader(original), {.schema_from = "/d/dataset.json"});
  ASSERT_TRUE(forced.ok()) << forced.status();
  EXPECT_EQ(forced->samples_recovered, original.rows.size());
  EXPECT_TRUE(Mentions(forced->notes, "nothing left of the shard proves"));
}

TEST(RepairHeader, ANeighbourOfTheManifestMayHaveTheNarrowerColumns) {
  const Original& original = Kinds()[0];
  const auto files = NewFiles(original);
  std::vector<Column> columns = original.schema.columns();
  columns.push_back({.name = "later", .type = Type::kBytes, .nullable = true});
  WriteManifests(*files, original, *Schema::Create(columns));
  const auto report = Repair(*files, WithoutHeader(original), {.schema_from = "/good"});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(ReadWhole(*files, "/out.shard"), original.bytes);
}

TEST(RepairHeader, SourcesOfNoUseAreMisuse) {
  const Original& original = Kinds()[0];
  const auto files = NewFiles(original);
  WriteWhole(*files, "/text", "no shard");
  EXPECT_TRUE(absl::IsNotFound(Repair(*files, WithoutHeader(original), {.schema_from = "/missing"}).status()));
  const auto text = Repair(*files, WithoutHeader(original), {.schema_from = "/text"});
  EXPECT_TRUE(absl::IsInvalidArgument(text.status())) << text.status();
  EXPECT_TRUE(absl::IsNotFound(Repair(*files, WithoutHeader(original), {.schema_from = "/good"}).status()));
}

TEST(RepairHeader, WithTheDictionaryGoBlocksThatUseIt) {
  const Original& original = Kinds().back();
  ASSERT_TRUE(original.has_dictionary);
  const RepairReport report =
      ExpectRepair(original, WithoutHeader(original), std::vector<bool>(original.blocks.size()), true);
  EXPECT_FALSE(report.written);
  EXPECT_NE(report.losses[0].reason.find("dictionary"), std::string::npos) << report.losses[0].reason;
}

// With another shard's dictionary, values might decode to something else.
TEST(RepairHeader, ANeighboursDictionaryIsNotTaken) {
  Original original = Kinds().back();
  // Noise, which no dictionary can compress.
  Random random(8);
  for (int i = 0; i < 12; ++i) original.rows.push_back({random.Bytes(300), random.Bytes(4)});
  const auto files = NewFiles(original);
  ASSERT_TRUE(WriteShard(*files, "/s.shard", original.schema, original.rows, original.options).ok());
  std::vector<ShardRow> rows(original.rows.begin() + 10, original.rows.begin() + 60);
  ASSERT_TRUE(WriteShard(*files, "/good/neighbour.shard", original.schema, rows, original.options).ok());
  std::string damaged = ReadWhole(*files, "/s.shard");
  damaged[damaged.rfind(format::kHeaderMagic)] ^= 1;
  damaged.replace(0, 64, 64, '\0');
  const auto report = Repair(*files, damaged, {.schema_from = "/good/neighbour.shard"});
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_TRUE(report->written);
  EXPECT_EQ(report->samples_recovered, 12u);
  const auto shard = ShardReader::Open(*files, "/out.shard");
  ASSERT_TRUE(shard.ok()) << shard.status();
  EXPECT_TRUE((*shard)->dictionary_columns().empty());
  EXPECT_EQ(ReadRows(*files, "/out.shard"), std::vector<ShardRow>(original.rows.begin() + 60, original.rows.end()));
}

TEST(RepairHeader, ALaterVersionIsNotTouched) {
  const Original& original = Kinds()[0];
  const auto files = NewFiles(original);
  std::string bytes = original.bytes;
  bytes[8] = 2;
  StoreLittle(bytes.data() + original.header_length - 8, Hash64(bytes.data(), original.header_length - 8));
  EXPECT_TRUE(absl::IsUnimplemented(Repair(*files, bytes).status()));
}

TEST(RepairFooter, MetadataOutlivesTheTrailerAndTheDirectory) {
  for (const Original& original : Kinds()) {
    const auto files = NewFiles(original);
    for (const uint64_t at : {original.table_end + 90, original.directory_begin + 1}) {
      std::string bytes = original.bytes;
      bytes[at] ^= 1;
      const auto report = Repair(*files, bytes);
      ASSERT_TRUE(report.ok()) << report.status();
      EXPECT_TRUE(report->lossless());
      EXPECT_FALSE(report->problems.empty());
      EXPECT_EQ(ReadWhole(*files, "/out.shard"), original.bytes) << original.name;
    }
  }
}

TEST(RepairFooter, TheTrailerOfAnotherShardIsNotBelieved) {
  const Original& original = Kinds()[0];
  const Original& other = Kinds()[1];
  std::string bytes = original.bytes.substr(0, original.blocks.back().offset);
  const uint64_t begin = other.blocks.back().offset + other.blocks.back().length;
  bytes += other.bytes.substr(begin);
  const RepairReport report = ExpectRepair(original, bytes, BlocksIn(original, bytes), false);
  EXPECT_TRUE(Mentions(report.problems, "trailer: it is that of another shard"));
}

TEST(RepairLosses, NameTheColumnsAndTheKeys) {
  const Original& original = Kinds()[0];
  std::string bytes = original.bytes;
  bytes[original.blocks[2].offset + original.blocks[2].length - 60] ^= 1;
  const RepairReport report = ExpectRepair(original, bytes, {true, true, false, true}, true);
  ASSERT_EQ(report.losses.size(), 1u);
  EXPECT_EQ(report.losses[0].columns, std::vector<std::string>{"blob"});
  EXPECT_EQ(report.losses[0].reason, "damaged column \"blob\"");
  EXPECT_EQ(report.losses[0].keys, (std::vector<std::string>{"sample/8", "sample/9", "sample/10", "sample/11"}));
}

TEST(RepairLosses, KeysAreLimited) {
  const Original& original = Kinds()[0];
  const auto files = NewFiles(original);
  std::string bytes = original.bytes;
  for (const BlockInfo& block : original.blocks) bytes[block.offset + block.length - 60] ^= 1;
  const auto report = Repair(*files, bytes, {.max_keys = 5});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->written);
  ASSERT_EQ(report->losses.size(), 4u);
  EXPECT_EQ(report->losses[0].keys.size() + report->losses[1].keys.size(), 5u);
  EXPECT_TRUE(report->losses[3].keys.empty());
}

TEST(RepairPaths, NothingIsEverWrittenOver) {
  const Original& original = Kinds()[0];
  const auto files = NewFiles(original);
  WriteWhole(*files, "/d/damaged.shard", original.bytes);
  const auto repair = [&](const std::string& from, const std::string& to) {
    return RepairShard(*files, from, to).status();
  };
  EXPECT_TRUE(absl::IsInvalidArgument(repair("/d/damaged.shard", "/d/damaged.shard")));
  EXPECT_TRUE(absl::IsAlreadyExists(repair("/d/damaged.shard", "/good/whole.shard")));
  EXPECT_TRUE(absl::IsNotFound(repair("/d/missing.shard", "/out.shard")));
  EXPECT_TRUE(absl::IsNotFound(repair("/d/damaged.shard", "/missing/out.shard")));
  EXPECT_TRUE(absl::IsInvalidArgument(repair("/d", "/out.shard")));
  // The temporary file's name is the same as the input's.
  WriteWhole(*files, "/d/x.shard.tmp", original.bytes);
  EXPECT_TRUE(absl::IsInvalidArgument(repair("/d/x.shard.tmp", "/d/x.shard")));
  WriteWhole(*files, "/d/y.shard.tmp", "of another repair");
  EXPECT_TRUE(absl::IsAlreadyExists(repair("/d/damaged.shard", "/d/y.shard")));
  EXPECT_EQ(ReadWhole(*files, "/d/damaged.shard"), original.bytes);
  EXPECT_EQ(ReadWhole(*files, "/d/y.shard.tmp"), "of another repair");
}

TEST(RepairCancelled, LeavesNothing) {
  const Original& original = Kinds()[1];
  uint64_t calls = 0;
  const auto run = [&](uint64_t cancel_at) {
    const auto files = NewFiles(original);
    Cancellation cancellation;
    uint64_t call = 0, last = 0;
    RepairOptions options;
    options.cancellation = &cancellation;
    options.progress = [&](uint64_t done, uint64_t total) {
      EXPECT_GE(done, last);
      EXPECT_LE(done, total);
      last = done;
      if (++call == cancel_at) cancellation.Cancel();
    };
    const auto report = Repair(*files, original.bytes, options);
    calls = std::max(calls, call);
    if (!report.ok()) {
      EXPECT_TRUE(absl::IsCancelled(report.status())) << report.status();
      EXPECT_FALSE(files->Stat("/out.shard").ok());
      EXPECT_FALSE(files->Stat("/out.shard.tmp").ok());
    }
    return report.ok();
  };
  EXPECT_TRUE(run(0));
  EXPECT_GT(calls, original.blocks.size());
  for (uint64_t at = 1; at + 2 < calls; ++at) EXPECT_FALSE(run(at)) << at;
}

// Block headers with correct checksums everywhere. Each claims the rest of the file.
TEST(RepairHostile, OverlappingBlocksAreNotReadAgainAndAgain) {
  const Original original = MakeOriginal("one", {{.name = "data", .type = Type::kBytes}}, 1, 10, {.alignment = 64});
  std::string bytes = original.bytes.substr(0, original.blocks[0].offset);
  const uint64_t size = uint64_t{4} << 20, header_length = 128;
  while (bytes.size() + 2 * header_length < size) {
    std::string header = original.bytes.substr(original.blocks[0].offset, header_length);
    const uint64_t length = size - bytes.size();
    StoreLittle(header.data() + 16, length);
    StoreLittle(header.data() + 56 + 40, length - LoadLittle<uint64_t>(header.data() + 24));
    StoreLittle(header.data() + header_length - 8, Hash64(header.data(), header_length - 8));
    bytes += header;
  }
  bytes.resize(size, '\0');
  const auto files = NewFiles(original);
  const auto report = Repair(*files, bytes);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->written);
  EXPECT_TRUE(Mentions(report->notes, "pretends"));
}

}  // namespace
}  // namespace shardkit::test
