// Damage is found and located. Without checksums it still cannot lead a reader outside of its buffer.
#include <gtest/gtest.h>

#include "base/endian.h"
#include "base/hash.h"
#include "base/strings.h"
#include "container/read/native_shard_reader.h"
#include "shardkit/filesystem.h"
#include "shardkit/validate.h"
#include "support/effort.h"
#include "unit/container/shard_maker.h"

namespace shardkit::container {
namespace {

const std::string kDamagedPath = "/s.shard";

Schema Columns() {
  return *Schema::Create({{.name = "key", .type = Type::kUtf8, .codec = Codec::kZstd, .is_key = true},
                          {.name = "blob", .type = Type::kBytes, .nullable = true},
                          {.name = "text", .type = Type::kUtf8, .codec = Codec::kZstd, .nullable = true},
                          {.name = "x", .type = Type::kF32}});
}

std::string MakeShard(FileSystem& file_system, const std::vector<ShardRow>& rows) {
  const ShardOptions options{.max_block_samples = 4, .alignment = 64, .storage = {{"blob", Storage::kBlob}}};
  EXPECT_TRUE(WriteShard(file_system, kDamagedPath, Columns(), rows, options).ok());
  return ReadWhole(file_system, kDamagedPath);
}

// Uses every function of a reader and reads the values, so that a sanitizer notices a view outside its memory.
uint64_t Touch(const ShardReader& shard) {
  uint64_t sum = 0;
  const auto add = [&](std::string_view bytes) {
    for (const char byte : bytes) sum += static_cast<uint8_t>(byte);
    return absl::OkStatus();
  };
  BlockBuffer buffer;
  BlockView view;
  for (size_t k = 0; k < shard.blocks().size(); ++k) {
    for (const std::vector<size_t>& columns : std::vector<std::vector<size_t>>{{}, {1}, {0, 2}}) {
      if (!shard.ReadBlock(k, columns, &buffer, &view).ok()) continue;
      for (size_t c = 0; c < view.column_count(); ++c) {
        for (uint32_t i = 0; i < view.sample_count(); ++i) (void)add(view.column(c).value(i).value_or(""));
      }
    }
  }
  for (uint64_t sample = 0; sample < shard.sample_count(); ++sample) {
    for (size_t c = 0; c < shard.schema().size(); ++c) {
      const auto value = shard.ReadValue(sample, c, &buffer);
      if (value.ok()) (void)add(value->value_or(""));
    }
    (void)shard.CopyValue(sample, 1, add);
  }
  (void)shard.FindKey("sample/3", &buffer);
  (void)shard.ReadMetadata();
  (void)shard.ReadStatistics();
  return sum;
}

// Gives all files one identity.
class NamingFileSystem final : public ForwardingReadableFileSystem {
 public:
  NamingFileSystem(ReadableFileSystem& base, std::string identity)
      : ForwardingReads(base), identity_(std::move(identity)) {}

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> size) override {
    auto file = ForwardingReads::OpenForReading(path, mode, size);
    if (!file.ok()) return file.status();
    return std::make_unique<File>(*std::move(file), identity_);
  }

 private:
  class File final : public ForwardingFile {
   public:
    File(std::unique_ptr<RandomAccessFile> base, std::string identity)
        : ForwardingFile(std::move(base)), identity_(std::move(identity)) {}
    std::string identity() const override { return identity_; }

   private:
    const std::string identity_;
  };

  const std::string identity_;
};

TEST(Damage, IsComparedOnceForEachIdentity) {
  Random random(301);
  const auto file_system = NewMemoryFileSystem();
  std::vector<ShardRow> rows;
  for (int i = 0; i < 10; ++i)
    rows.push_back({StrCat("sample/", i), StrCat("the value ", i), StrCat("text ", i), random.Bytes(4)});
  const std::string good = MakeShard(*file_system, rows);
  std::string bad = good;
  bad[bad.find("the value 5") + 4] = 'w';

  const auto read = [&](const std::string& identity, Verify verify, const std::vector<size_t>& columns, ReadMode mode) {
    NamingFileSystem named(*file_system, identity);
    const auto shard = ShardReader::Open(named, kDamagedPath, {.verify = verify, .mode = mode});
    if (!shard.ok()) return shard.status();
    BlockBuffer buffer;
    BlockView view;
    for (size_t k = 0; k < (*shard)->blocks().size(); ++k) {
      if (absl::Status status = (*shard)->ReadBlock(k, columns, &buffer, &view); !status.ok()) return status;
    }
    return absl::OkStatus();
  };
  for (const ReadMode mode : kReadModes) {
    const std::string first = StrCat("first ", static_cast<int>(mode)),
                      second = StrCat("second ", static_cast<int>(mode));
    WriteWhole(*file_system, kDamagedPath, good);
    EXPECT_TRUE(read(first, Verify::kFirst, {}, mode).ok());
    EXPECT_TRUE(read(second, Verify::kFirst, {0, 2, 3}, mode).ok());
    WriteWhole(*file_system, kDamagedPath, bad);
    EXPECT_TRUE(read(first, Verify::kFirst, {}, mode).ok()) << "was right the first time";
    EXPECT_TRUE(absl::IsDataLoss(read(first, Verify::kEvery, {}, mode)));
    for (int again = 0; again < 2; ++again) {
      EXPECT_TRUE(absl::IsDataLoss(read(second, Verify::kFirst, {}, mode))) << "another column was";
      EXPECT_TRUE(absl::IsDataLoss(read("", Verify::kFirst, {}, mode)));
    }

    NamingFileSystem named(*file_system, first);
    const auto shard = ShardReader::Open(named, kDamagedPath, {.verify = Verify::kFirst, .mode = mode});
    ASSERT_TRUE(shard.ok()) << shard.status();
    BlockBuffer buffer;
    EXPECT_TRUE(absl::IsDataLoss((*shard)->ReadValue(5, 1, &buffer).status())) << "single values are always compared";
    BlockView view;
    BlockDamage damage;
    ASSERT_TRUE((*shard)->SalvageBlock(1, {}, &buffer, &view, &damage).ok());
    EXPECT_TRUE(damage.Has(1, 1)) << "and what is looked at for damage";
  }
}

TEST(Damage, OfAValueIsLocated) {
  Random random(300);
  const auto file_system = NewMemoryFileSystem();
  std::vector<ShardRow> rows;
  for (int i = 0; i < 10; ++i)
    rows.push_back({StrCat("sample/", i), StrCat("the value ", i), StrCat("text ", i), random.Bytes(4)});
  const std::string good = MakeShard(*file_system, rows);
  for (int i = 0; i < 10; ++i) {
    std::string bad = good;
    const size_t at = bad.find(StrCat("the value ", i));
    ASSERT_NE(at, std::string::npos);
    bad[at + 4] = 'w';
    WriteWhole(*file_system, kDamagedPath, bad);
    for (const ReadMode mode : kReadModes) {
      const auto shard = ShardReader::Open(*file_system, kDamagedPath, {.mode = mode});
      ASSERT_TRUE(shard.ok()) << shard.status();
      BlockBuffer buffer;
      BlockView view;
      const BlockInfo& block = (*shard)->blocks()[i / 4];
      const std::string place = StrCat(kDamagedPath, ": block ", i / 4, " (samples ", block.first_sample, " to ",
                                       block.first_sample + block.sample_count - 1, ") at byte ", block.offset, ": ");
      EXPECT_EQ((*shard)->ReadBlock(i / 4, {}, &buffer, &view).message(),
                StrCat(place, "column 1 \"blob\": values chunk checksum is wrong; sample ", i % 4,
                       " of the block: value checksum is wrong"));
      const auto value = (*shard)->ReadValue(i, 1, &buffer);
      EXPECT_EQ(value.status().message(),
                StrCat("sample ", i, ", column \"blob\": ", kDamagedPath, ": byte ", at, ": value checksum is wrong"));
      EXPECT_EQ((*shard)->CopyValue(i, 1, [](std::string_view) { return absl::OkStatus(); }).status().message(),
                StrCat(place, "sample ", i, ", column \"blob\": value checksum is wrong"));
      // Exactly this value is lost.
      for (int other = 0; other < 10; ++other) {
        const auto intact = (*shard)->ReadValue(other, 1, &buffer);
        EXPECT_EQ(intact.ok(), other != i);
        if (intact.ok()) {
          EXPECT_EQ(**intact, *rows[other][1]);
        }
      }
    }
    const auto report = Validate(*file_system, kDamagedPath);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->problem_count, 1u);
  }
}

TEST(Damage, OfAPageIsThatOfItsValues) {
  Random random(302);
  const auto file_system = NewMemoryFileSystem();
  const Schema schema = *Schema::Create({{.name = "small", .type = Type::kBytes, .nullable = true}});
  std::vector<ShardRow> rows;
  for (int i = 0; i < 400; ++i) {
    rows.push_back({i % 7 == 3 ? std::nullopt : std::optional(StrCat("value ", i, " ", random.Bytes(500)))});
  }
  ASSERT_TRUE(WriteShard(*file_system, kDamagedPath, schema, rows, {.alignment = 64}).ok());
  const std::string good = ReadWhole(*file_system, kDamagedPath);
  for (const int bad_value : {0, 200, 399}) {
    std::string bad = good;
    bad[bad.find(StrCat("value ", bad_value, " ")) + 9] ^= 1;
    WriteWhole(*file_system, kDamagedPath, bad);
    for (const ReadMode mode : kReadModes) {
      const auto shard = ShardReader::Open(*file_system, kDamagedPath, {.mode = mode});
      ASSERT_TRUE(shard.ok()) << shard.status();
      ASSERT_TRUE((*shard)->schema()[0].is_paged());
      BlockBuffer buffer;
      BlockView view;
      const absl::Status whole = (*shard)->ReadBlock(0, {}, &buffer, &view);
      EXPECT_TRUE(absl::IsDataLoss(whole)) << whole;
      EXPECT_NE(whole.message().find("column 0 \"small\": values chunk checksum is wrong; page "),
                absl::string_view::npos)
          << whole;
      BlockDamage damage;
      ASSERT_TRUE((*shard)->SalvageBlock(0, {}, &buffer, &view, &damage).ok());
      EXPECT_TRUE(damage.columns.empty());
      EXPECT_TRUE(damage.values.contains({bad_value, 0}));
      EXPECT_LT(damage.values.size(), 140u);
      BlockBuffer single;
      for (uint32_t i = 0; i < rows.size(); ++i) {
        const auto value = (*shard)->ReadValue(i, 0, &single);
        std::string copied;
        const auto copy = (*shard)->CopyValue(i, 0, [&](std::string_view bytes) {
          copied += bytes;
          return absl::OkStatus();
        });
        EXPECT_EQ(value.ok(), !damage.values.contains({i, 0})) << i;
        EXPECT_EQ(copy.ok(), value.ok());
        if (!value.ok()) {
          EXPECT_NE(value.status().message().find("page checksum is wrong"), absl::string_view::npos) << value.status();
          EXPECT_TRUE(rows[i][0].has_value()) << "an absent value is not lost";
          continue;
        }
        EXPECT_EQ(*value, rows[i][0]);
        EXPECT_EQ(view.column(0).value(i), rows[i][0]);
        EXPECT_EQ(copied, rows[i][0].value_or(""));
      }
    }
    const auto report = Validate(*file_system, kDamagedPath);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->problem_count, 1u);
  }
}

TEST(Damage, OfAHeadChunkNamesBlockAndColumn) {
  Random random(301);
  const auto file_system = NewMemoryFileSystem();
  const std::string good = MakeShard(*file_system, RandomRows(random, Columns(), 10, 50));
  const auto intact = NativeShardReader::Open(*file_system, kDamagedPath, {});
  ASSERT_TRUE(intact.ok()) << intact.status();
  for (size_t k = 0; k < (*intact)->blocks().size(); ++k) {
    BlockBuffer buffer;
    BlockView view;
    ASSERT_TRUE((*intact)->ReadHeads(k, &buffer, &view).ok());
    for (size_t c = 0; c < 4; ++c) {
      std::string bad = good;
      bad[(*intact)->blocks()[k].offset + buffer.state().header.columns[c].offset] ^= 1;
      WriteWhole(*file_system, "/bad.shard", bad);
      const auto shard = ShardReader::Open(*file_system, "/bad.shard");
      ASSERT_TRUE(shard.ok()) << shard.status();
      BlockBuffer other;
      const absl::Status status = (*shard)->ReadBlock(k, {}, &other, &view);
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;
      const std::string message(ToStd(status.message()));
      EXPECT_TRUE(message.starts_with(StrCat("/bad.shard: block ", k, " ")));
      EXPECT_TRUE(message.ends_with(StrCat(": column ", c, " \"", Columns()[c].name, "\": chunk checksum is wrong")))
          << message;
      // The other columns can be read.
      for (size_t d = 0; d < 4; ++d) {
        const size_t only[] = {d};
        EXPECT_EQ((*shard)->ReadBlock(k, only, &other, &view).ok(), d != c);
      }
    }
  }
}

// Bytes of blocks changed at random, with all checksums either repaired or not checked.
TEST(Damage, StaysInTheBufferWithoutChecksums) {
  Random random(302);
  uint64_t sum = 0;
  for (int round = 0; round < test::Thinned(40); ++round) {
    const auto file_system = NewMemoryFileSystem();
    const std::string good = MakeShard(*file_system, RandomRows(random, Columns(), 10, 50));
    const auto intact = NativeShardReader::Open(*file_system, kDamagedPath, {});
    ASSERT_TRUE(intact.ok()) << intact.status();
    const uint64_t first = (*intact)->blocks()[0].offset, end = (*intact)->trailer().footer_offset;
    for (int change = 0; change < 100; ++change) {
      std::string bad = good;
      for (uint64_t i = 1 + random.Below(4); i-- > 0;) {
        const uint64_t at = first + random.Below(end - first);
        bad[at] = static_cast<char>(random.Chance(2) ? random.Below(3) : random.Next());
      }
      WriteWhole(*file_system, kDamagedPath, bad);
      for (const ReadMode mode : kReadModes) {
        const auto shard = ShardReader::Open(*file_system, kDamagedPath, {.verify = Verify::kNever, .mode = mode});
        ASSERT_TRUE(shard.ok()) << shard.status();
        sum += Touch(**shard);
      }
    }
  }
  EXPECT_GT(sum, 0u);
}

TEST(Misuse, IsRefused) {
  Random random(305);
  const auto file_system = NewMemoryFileSystem();
  MakeShard(*file_system, RandomRows(random, Columns(), 10, 50));
  const auto shard = ShardReader::Open(*file_system, kDamagedPath);
  ASSERT_TRUE(shard.ok()) << shard.status();
  BlockBuffer buffer;
  BlockView view;
  const size_t beyond[] = {4};
  EXPECT_TRUE(absl::IsOutOfRange((*shard)->ReadBlock(3, {}, &buffer, &view)));
  EXPECT_TRUE(absl::IsInvalidArgument((*shard)->ReadBlock(0, beyond, &buffer, &view)));
  EXPECT_TRUE(absl::IsOutOfRange((*shard)->ReadValue(10, 0, &buffer).status()));
  EXPECT_TRUE(absl::IsInvalidArgument((*shard)->ReadValue(0, 4, &buffer).status()));
  EXPECT_TRUE(
      absl::IsOutOfRange((*shard)->CopyValue(10, 1, [](std::string_view) { return absl::OkStatus(); }).status()));
  EXPECT_TRUE(absl::IsNotFound(ShardReader::Open(*file_system, "/none").status()));
  EXPECT_TRUE(absl::IsAlreadyExists(ShardWriter::Create(*file_system, kDamagedPath, Columns()).status()));

  auto writer = ShardWriter::Create(*file_system, "/other", Columns());
  ASSERT_TRUE(writer.ok()) << writer.status();
  const auto append = [&](std::vector<std::optional<Value>> values) { return (*writer)->Append(values); };
  EXPECT_TRUE(absl::IsInvalidArgument(append({Value("k")})));
  EXPECT_TRUE(absl::IsInvalidArgument(append({std::nullopt, std::nullopt, std::nullopt, Value("1234")})));
  EXPECT_TRUE(absl::IsInvalidArgument(append({Value("k"), std::nullopt, std::nullopt, Value("123")})));
  EXPECT_TRUE(absl::IsInvalidArgument(append({Value("\xff"), std::nullopt, std::nullopt, Value("1234")})));
  EXPECT_TRUE(append({Value("k"), std::nullopt, std::nullopt, Value("1234")}).ok());
  EXPECT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ((*ShardReader::Open(*file_system, "/other"))->sample_count(), 1u);
}

}  // namespace
}  // namespace shardkit::container
