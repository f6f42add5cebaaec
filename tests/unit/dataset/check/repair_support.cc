#include "unit/dataset/check/repair_support.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/strings.h"
#include "container/read/native_shard_reader.h"
#include "format/block_header.h"
#include "shardkit/validate.h"

namespace shardkit::test {
namespace {

const std::string kDamaged = "/d/damaged.shard";
const std::string kOutput = "/out.shard";

std::vector<Column> KeyedColumns() {
  return {{.name = "key", .type = Type::kUtf8, .codec = Codec::kZstd, .is_key = true},
          {.name = "blob", .type = Type::kBytes, .nullable = true},
          {.name = "x", .type = Type::kF32, .codec = Codec::kZstd}};
}

std::vector<Column> Sa1bColumns() {
  return {{.name = "key", .type = Type::kUtf8, .is_key = true},
          {.name = "image", .type = Type::kBytes},
          {.name = "image_id", .type = Type::kU64, .codec = Codec::kZstd},
          {.name = "masks", .type = Type::kRle, .codec = Codec::kZstd},
          {.name = "bbox", .type = Type::kNdarray, .codec = Codec::kZstd, .dtype = Type::kF64},
          {.name = "file_name", .type = Type::kUtf8, .codec = Codec::kZstd, .nullable = true},
          {.name = "source_json", .type = Type::kJson, .codec = Codec::kZstd, .nullable = true}};
}

// Of thousands of damaged versions of one shard, most leave the same blocks. Each such result is validated once.
void ExpectValid(FileSystem& files, const std::string& path) {
  static std::set<std::string> valid_shards;
  const std::string bytes = ReadWhole(files, path);
  if (valid_shards.contains(bytes)) return;
  const auto report = Validate(files, path, {});
  EXPECT_TRUE(report.ok() && report->ok())
      << (report.ok() ? report->problems[0].message : std::string(report.status().message()));
  if (report.ok() && report->ok()) valid_shards.insert(bytes);
}

std::vector<bool> LostIn(const RepairReport& report, uint64_t samples) {
  std::vector<bool> lost(samples);
  uint64_t end = 0;
  for (const RepairLoss& loss : report.losses) {
    EXPECT_GE(loss.first_sample, end) << "losses overlap or do not ascend";
    EXPECT_GT(loss.sample_count, 0u);
    EXPECT_FALSE(loss.reason.empty());
    end = loss.first_sample + loss.sample_count;
    EXPECT_LE(end, samples);
    for (uint64_t i = loss.first_sample; i < end && i < samples; ++i) lost[i] = true;
  }
  return lost;
}

// Writes the shard and takes down where its parts are.
void WriteOriginal(Original* original) {
  const auto files = NewMemoryFileSystem();
  EXPECT_TRUE(WriteShard(*files, "/s.shard", original->schema, original->rows, original->options).ok());
  original->bytes = ReadWhole(*files, "/s.shard");
  const auto shard = container::NativeShardReader::Open(*files, "/s.shard", {});
  EXPECT_TRUE(shard.ok()) << shard.status();
  original->schema = (*shard)->schema();  // with the storages that the values have led to
  original->blocks.assign((*shard)->blocks().begin(), (*shard)->blocks().end());
  original->header_length = (*shard)->header().length;
  original->has_dictionary = !(*shard)->header().dictionaries.empty();
  for (const format::Section& section : (*shard)->sections()) {
    const auto kind = static_cast<format::SectionKind>(section.kind);
    if (kind == format::SectionKind::kBlockDirectory) original->directory_begin = section.offset;
    if (kind == format::SectionKind::kBlockHeaders) original->block_headers_begin = section.offset;
    if (kind == format::SectionKind::kHeader) original->header_copy_begin = section.offset;
  }
  original->table_end = original->bytes.size() - format::kTrailerBytes;
}

// Where the shard begins: the first place of its header, if a block lies behind it. Else 0.
uint64_t BaseOf(const Original& original, std::string_view damaged) {
  const size_t base = damaged.find(std::string_view(original.bytes).substr(0, original.header_length));
  const uint64_t first = original.blocks[0].offset;
  if (base == damaged.npos || damaged.size() - base < first) return 0;
  const std::string_view behind = damaged.substr(base + first);
  const uint64_t header_length = format::BlockHeaderLength(original.schema.size());
  const bool block_behind = std::ranges::any_of(original.blocks, [&](const BlockInfo& block) {
    return behind.starts_with(std::string_view(original.bytes).substr(block.offset, header_length));
  });
  return block_behind ? base : 0;
}

}  // namespace

Original MakeOriginal(std::string name, std::vector<Column> columns, size_t rows, size_t longest,
                      ShardOptions options) {
  Original original;
  original.name = std::move(name);
  original.schema = *Schema::Create(std::move(columns));
  options.metadata = {{"colour", "blue"}, {"shardkit.source", "test"}};
  original.options = std::move(options);
  Random random(7);
  original.rows = RandomRows(random, original.schema, rows, longest);
  WriteOriginal(&original);
  return original;
}

const std::vector<Original>& Kinds() {
  static const std::vector<Original> kinds = [] {
    std::vector<Original> made;
    made.push_back(MakeOriginal("keyed", KeyedColumns(), 14, 40,
                                {.max_block_samples = 4, .alignment = 64, .storage = {{"blob", Storage::kBlob}}}));
    made.push_back(MakeOriginal(
        "keyless", {{.name = "a", .type = Type::kBytes}, {.name = "b", .type = Type::kI16, .nullable = true}}, 9, 60,
        {.max_block_samples = 1, .alignment = 64}));
    made.push_back(MakeOriginal("large values",
                                {{.name = "data", .type = Type::kBytes}, {.name = "n", .type = Type::kU8}}, 5, 1500,
                                {.block_size = 64, .alignment = 512, .storage = {{"data", Storage::kBlob}}}));
    made.push_back(MakeOriginal(
        "sa1b", Sa1bColumns(), 4, 200,
        {.max_block_samples = 2, .alignment = 64, .storage = {{"key", Storage::kBlob}, {"image", Storage::kBlob}}}));
    // Similar texts, so that a dictionary helps.
    Original dictionary;
    std::vector<Column> columns = {{.name = "text", .type = Type::kUtf8, .codec = Codec::kZstd},
                                   {.name = "id", .type = Type::kU32}};
    dictionary = MakeOriginal("dictionary", columns, 0, 0, {});
    dictionary.rows.clear();
    for (int i = 0; i < 60; ++i) {
      std::string text;
      for (int word = 0; word < 12; ++word)
        text += StrCat("the same words again and again, number ", (i * 7 + word) % 13, "; ");
      dictionary.rows.push_back({text, std::string(4, static_cast<char>(i))});
    }
    dictionary.options.max_block_samples = 6;
    dictionary.options.alignment = 64;
    dictionary.options.dictionaries = {{"text", 512}};
    WriteOriginal(&dictionary);
    EXPECT_TRUE(dictionary.has_dictionary) << "no dictionary was made";
    made.push_back(std::move(dictionary));
    return made;
  }();
  return kinds;
}

std::vector<bool> BlocksIn(const Original& original, std::string_view damaged) {
  const std::string_view bytes = original.bytes;
  std::vector<bool> whole(original.blocks.size());
  for (size_t k = 0; k < whole.size(); ++k) {
    const std::string_view block = bytes.substr(original.blocks[k].offset, original.blocks[k].length);
    for (uint64_t place = 0; place + block.size() <= damaged.size(); place += original.options.alignment) {
      if (damaged.substr(place, block.size()) == block) whole[k] = true;
    }
  }
  if (!DirectoryIn(original, damaged)) return whole;
  // The directory tells where a block lies that has lost its header alone, and the footer has a copy of the header.
  const bool at_the_end = damaged.ends_with(bytes.substr(original.directory_begin));
  const uint64_t moved = at_the_end ? damaged.size() - bytes.size() : 0;  // modulo 2^64
  const uint64_t base = BaseOf(original, damaged);
  const auto is_at = [&](uint64_t begin, uint64_t length, uint64_t shift) {
    return begin + shift <= damaged.size() && damaged.substr(begin + shift, length) == bytes.substr(begin, length);
  };
  const uint64_t header_length = format::BlockHeaderLength(original.schema.size());
  // Where bytes were removed behind a copy, it has not moved.
  for (size_t k = 0; k < whole.size(); ++k) {
    const BlockInfo& block = original.blocks[k];
    const uint64_t copy = original.block_headers_begin + header_length * k;
    if (!is_at(copy, header_length, 0) && !is_at(copy, header_length, moved)) continue;
    for (const uint64_t shift : {uint64_t{0}, base, moved}) {
      if (is_at(block.offset + header_length, block.length - header_length, shift)) whole[k] = true;
    }
  }
  return whole;
}

bool MayBeRestored(const Original& original, std::string_view damaged, const std::vector<bool>& whole) {
  const uint64_t header_length = format::BlockHeaderLength(original.schema.size());
  for (size_t k = 0; k < whole.size(); ++k) {
    const std::string_view block =
        std::string_view(original.bytes).substr(original.blocks[k].offset, original.blocks[k].length);
    if (!whole[k] && damaged.find(block.substr(0, header_length)) != damaged.npos &&
        damaged.find(block.substr(header_length)) != damaged.npos) {
      return true;
    }
  }
  return false;
}

bool DirectoryIn(const Original& original, std::string_view damaged) {
  const std::string_view bytes = original.bytes;
  if (damaged.ends_with(bytes.substr(original.directory_begin))) return true;
  if (damaged.size() < original.table_end) return false;
  const uint64_t length = original.table_end - original.directory_begin;
  return damaged.substr(original.directory_begin, length) == bytes.substr(original.directory_begin, length);
}

std::vector<ShardRow> ReadRows(FileSystem& file_system, const std::string& path) {
  std::vector<ShardRow> rows;
  const auto shard = ShardReader::Open(file_system, path);
  EXPECT_TRUE(shard.ok()) << shard.status();
  if (!shard.ok()) return rows;
  BlockBuffer buffer;
  BlockView view;
  for (size_t k = 0; k < (*shard)->blocks().size(); ++k) {
    const absl::Status read = (*shard)->ReadBlock(k, {}, &buffer, &view);
    EXPECT_TRUE(read.ok()) << read;
    if (!read.ok()) return rows;
    for (uint32_t i = 0; i < view.sample_count(); ++i) {
      ShardRow& row = rows.emplace_back();
      for (size_t c = 0; c < view.column_count(); ++c) {
        const auto value = view.column(c).value(i);
        row.push_back(value ? std::optional<std::string>(*value) : std::nullopt);
      }
    }
  }
  return rows;
}

std::unique_ptr<FileSystem> NewFiles(const Original& original) {
  auto files = NewMemoryFileSystem();
  EXPECT_TRUE(files->CreateDirectory("/good").ok());
  EXPECT_TRUE(files->CreateDirectory("/d").ok());
  // Thousands of repairs take their columns from the same shard.
  static std::map<std::string, std::string> neighbours;
  std::string& neighbour = neighbours[original.bytes];
  if (neighbour.empty()) {
    std::vector<ShardRow> rows(original.rows.begin(),
                               original.rows.begin() + static_cast<ptrdiff_t>(original.rows.size() / 2 + 1));
    ShardOptions options = original.options;
    options.dictionaries.clear();
    EXPECT_TRUE(WriteShard(*files, "/good/whole.shard", original.schema, rows, options).ok());
    neighbour = ReadWhole(*files, "/good/whole.shard");
  } else {
    WriteWhole(*files, "/good/whole.shard", neighbour);
  }
  return files;
}

RepairReport ExpectRepair(const Original& original, std::string_view damaged, const std::vector<bool>& whole,
                          bool exact, RepairOptions options) {
  const auto files = NewFiles(original);
  WriteWhole(*files, kDamaged, damaged);
  uint64_t progress = 0;
  options.progress = [&](uint64_t done, uint64_t total) {
    EXPECT_GE(done, progress);
    EXPECT_LE(done, total);
    progress = done;
  };
  const absl::StatusOr<RepairReport> report = RepairShard(*files, kDamaged, kOutput, options);
  if (!report.ok()) {
    ADD_FAILURE() << report.status();
    return {};
  }
  EXPECT_EQ(progress, 2 * damaged.size());
  EXPECT_EQ(ReadWhole(*files, kDamaged), damaged) << "the input was changed";
  EXPECT_FALSE(files->Stat(kOutput + ".tmp").ok());

  std::vector<ShardRow> expected;
  std::vector<uint32_t> sample_counts;
  for (size_t k = 0; k < whole.size(); ++k) {
    if (!whole[k]) continue;
    const auto begin = original.rows.begin() + static_cast<ptrdiff_t>(original.blocks[k].first_sample);
    expected.insert(expected.end(), begin, begin + original.blocks[k].sample_count);
    sample_counts.push_back(original.blocks[k].sample_count);
  }
  EXPECT_EQ(report->samples_recovered, expected.size());
  EXPECT_EQ(report->blocks_recovered, sample_counts.size());
  EXPECT_EQ(report->written, !expected.empty());
  EXPECT_EQ(files->Stat(kOutput).ok(), report->written);
  if (report->written) {
    ExpectValid(*files, kOutput);
    EXPECT_EQ(ReadRows(*files, kOutput), expected);
    const auto shard = ShardReader::Open(*files, kOutput);
    if (shard.ok()) {
      std::vector<uint32_t> found;
      for (const BlockInfo& block : (*shard)->blocks()) found.push_back(block.sample_count);
      EXPECT_EQ(found, sample_counts);
      EXPECT_EQ((*shard)->schema(), original.schema);
      EXPECT_EQ((*shard)->content_hash(), report->content_hash);
      EXPECT_EQ((*shard)->file_length(), report->bytes);
    }
  }

  const std::vector<bool> lost = LostIn(*report, original.rows.size());
  EXPECT_EQ(report->samples_lost, static_cast<uint64_t>(std::count(lost.begin(), lost.end(), true)));
  uint64_t lost_blocks = 0;
  for (size_t k = 0; k < whole.size(); ++k) {
    lost_blocks += whole[k] ? 0 : 1;
    for (uint64_t i = 0; i < original.blocks[k].sample_count; ++i) {
      const uint64_t sample = original.blocks[k].first_sample + i;
      if (exact || whole[k]) {
        EXPECT_EQ(lost[sample], !whole[k]) << "sample " << sample;
      }
    }
  }
  if (exact) {
    EXPECT_TRUE(report->end_known);
    EXPECT_EQ(report->blocks_lost, lost_blocks);
    EXPECT_EQ(report->lossless(), lost_blocks == 0);
    for (const RepairLoss& loss : report->losses) {
      if (!loss.first_block || loss.block_count == 0) {
        ADD_FAILURE() << "a loss without its blocks";
        continue;
      }
      EXPECT_EQ(original.blocks[*loss.first_block].first_sample, loss.first_sample);
      const BlockInfo& last = original.blocks[*loss.first_block + loss.block_count - 1];
      EXPECT_EQ(last.first_sample + last.sample_count, loss.first_sample + loss.sample_count);
    }
  }
  for (const RepairLoss& loss : report->losses) {
    if (loss.keys.empty()) continue;
    EXPECT_EQ(loss.keys.size(), loss.sample_count);
    for (size_t i = 0; i < loss.keys.size() && i < loss.sample_count; ++i) {
      EXPECT_EQ(loss.keys[i], original.rows[loss.first_sample + i][*original.schema.key_column()]);
    }
  }
  return *report;
}

}  // namespace shardkit::test
