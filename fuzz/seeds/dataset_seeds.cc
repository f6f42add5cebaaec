#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "dataset_files.h"
#include "format/block_header.h"
#include "format/footer.h"
#include "format/index_layout.h"
#include "format/paged_table.h"
#include "format/pages.h"
#include "seeds/seeds.h"
#include "shardkit/manifest.h"
#include "shardkit/schema.h"
#include "support/file_sections.h"
#include "support/little_endian.h"
#include "support/require.h"

namespace shardkit::fuzz {
namespace {

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The structures of format_fuzzer, with its numbers.
enum Structure : uint8_t {
  kHeader,
  kBlock,
  kFooter,
  kSections,
  kIndexStructures,
  kChunk,
  kArray,
  kKeyTable,
  kShardList
};

std::string Chosen(Structure structure, std::string_view bytes) {
  return static_cast<char>(structure) + std::string(bytes);
}

// The header, the footer and its sections of a sound shard.
void AddStructures(const std::string& name, const std::string& shard, SeedWriter& seeds) {
  if (shard.size() < 200) return;
  seeds.Add("format", "header-" + name, Chosen(kHeader, shard.substr(0, Load<uint32_t>(shard, 12))));
  if (shard.size() > 4096) return;
  seeds.Add("format", "footer-" + name, Chosen(kFooter, std::string("\1\2", 2) + shard));
  const auto trailer =
      format::DecodeTrailer(std::string_view(shard).substr(shard.size() - format::kTrailerBytes), shard.size());
  if (!trailer.ok()) return;
  for (uint64_t entry = trailer->table_offset(); entry < shard.size() - format::kTrailerBytes;
       entry += format::kSectionEntryBytes) {
    const uint32_t kind = Load<uint32_t>(shard, entry);
    const std::map<uint32_t, char> choices = {{2, 1}, {3, 0}, {6, 3}};
    if (kind == 4) {
      seeds.Add("format", "keys-" + name,
                Chosen(kKeyTable, shard.substr(Load<uint64_t>(shard, entry + 8), Load<uint64_t>(shard, entry + 16))));
    }
    if (!choices.contains(kind)) continue;
    const std::string which = {choices.at(kind), kind == 6 ? '\x08' : '\0'};  // of a column of f64, or of bytes
    seeds.Add(
        "format", "section-" + std::to_string(kind) + "-" + name,
        Chosen(kSections, which + shard.substr(Load<uint64_t>(shard, entry + 8), Load<uint64_t>(shard, entry + 16))));
  }
}

void AddBlocks(SeedWriter& seeds) {
  Column column;
  column.name = "a";
  for (const bool inline_values : {false, true}) {
    column.codec = inline_values ? Codec::kZstd : Codec::kNone;
    const Schema schema = Schema::Create({column}).value();
    format::BlockHeader header;
    header.sample_count = 3;
    header.columns.resize(1);
    header.columns[0].stored_length = header.columns[0].raw_length = inline_values ? 30 : 24;
    if (!inline_values) header.columns[0].values_length = 42;
    format::LayOutBlock(schema, header);
    std::string bytes(1, inline_values ? 16 : 0);
    format::EncodeBlockHeader(header, &bytes);
    seeds.Add("format", inline_values ? "block-inline" : "block-blob", Chosen(kBlock, bytes));
  }
  std::string chunk = {0, 2, 1};
  for (const uint64_t end : {10, 20, 30}) chunk.append(reinterpret_cast<const char*>(&end), 8);
  seeds.Add("format", "chunk-blob", Chosen(kChunk, chunk + std::string(30, 'v')));
  chunk[0] = 16;
  seeds.Add("format", "chunk-inline", Chosen(kChunk, chunk + std::string(30, 'v')));
  Buffer pages, entries;
  format::PageBuilder builder(&pages, &entries);
  for (const char* const value : {"first", "", "third"}) builder.Add(value);
  builder.Finish();
  std::string paged(1, '\x80');
  paged += std::string({2, 0}) + std::string(entries.view()) + std::string(pages.view());
  seeds.Add("format", "chunk-paged", Chosen(kChunk, paged));
  std::string array = {0, 0};
  const std::array<uint64_t, 2> shape = {2, 3};
  if (AppendNdarray(Type::kU8, shape, "abcdef", &array).ok()) seeds.Add("format", "array", Chosen(kArray, array));
  const format::IndexRoot root{.layouts = {{"a", "b"}, {"a"}}};
  seeds.Add("format", "index-root", Chosen(kIndexStructures, format::EncodeIndexRoot(root)));
}

// Three sections, one of them without pages: the length, the tail and the root, in this order.
void AddTableTail(SeedWriter& seeds) {
  std::string table;
  format::PagedTableWriter writer([&](std::string_view bytes) {
    table += bytes;
    return absl::OkStatus();
  });
  RequireOk(writer.AddPage(0, "page one"), "a page of a seed");
  RequireOk(writer.AddPage(7, "page two"), "a page of a seed");
  RequireOk(writer.EndSection(format::TableKind::kOffsetIndex, "payload!"), "a section of a seed");
  RequireOk(writer.EndSection(format::TableKind::kShardList, ""), "a section of a seed");
  RequireOk(writer.AddPage(3, "the last"), "a page of a seed");
  RequireOk(writer.EndSection(format::TableKind::kKeys, ""), "a section of a seed");
  const auto tail = writer.Finish();
  RequireOk(tail.status(), "a table of a seed");
  std::string length(4, '\0');
  Store(&length, 0, static_cast<uint32_t>(tail->table_length));
  std::string chosen = Chosen(kIndexStructures, length + table.substr(table.size() - format::kTableTailBytes) +
                                                    table.substr(tail->root_offset(), tail->root_length));
  chosen[0] = static_cast<char>(chosen[0] | 128);
  seeds.Add("format", "table-tail", chosen);
}

// The first page of the list of shards.
std::string ShardPage(std::string_view segment) {
  const auto tail = format::DecodeTableTail(segment.substr(segment.size() - format::kTableTailBytes), segment.size());
  RequireOk(tail.status(), "the tail of a sound segment");
  const auto sections = format::DecodeTableRoot(*tail, segment.substr(tail->root_offset(), tail->root_length));
  RequireOk(sections.status(), "the root of a sound segment");
  for (const format::TableSection& section : *sections) {
    if (section.kind != format::TableKind::kShardList) continue;
    const uint64_t end = section.fences.size() > 1 ? section.fences[1].offset : section.pages_end;
    return std::string(segment.substr(section.begin, end - section.begin));
  }
  return "";
}

}  // namespace

void AddDatasetSeeds(const std::string& golden, SeedWriter& seeds) {
  const std::filesystem::path valid = std::filesystem::path(golden) / "valid";
  for (const char* kind : {"valid", "invalid"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(std::filesystem::path(golden) / kind)) {
      if (entry.path().extension() != ".shard") continue;
      const std::string shard = ReadFile(entry.path());
      const std::string name = std::string(kind) + "-" + entry.path().stem().string();
      seeds.Add("shard", name, shard);
      seeds.Add("repair", name, shard);
      if (std::string_view(kind) == "valid") AddStructures(name, shard, seeds);
    }
  }
  AddBlocks(seeds);
  AddTableTail(seeds);
  std::vector<std::pair<size_t, std::string>> sections;
  for (const char* name : {"segments", "sha256", "other-order", "shard-list", "two-shards"}) {
    sections.clear();
    for (size_t i = 0; i < kDatasetFiles.size(); ++i) {
      if (const auto path = valid / name / kDatasetFiles[i]; std::filesystem::exists(path)) {
        sections.emplace_back(i, ReadFile(path));
      }
    }
    seeds.Add("dataset", name, JoinSections(sections));
  }
  // A folder of the dataset as a base.
  auto manifest = ParseManifest(sections[kManifest].second);
  RequireOk(manifest.status(), "a golden manifest");
  manifest->bases = {{.name = "part", .location = "../d/part", .generation = 2}};
  auto based = sections;
  based[kManifest].second = FormatManifest(*manifest);
  seeds.Add("dataset", "base", JoinSections(based));
  sections.erase(sections.begin() + kSegment);
  seeds.Add("dataset", "without-segment", JoinSections(sections));
  const std::string segment = ReadFile(valid / "two-shards" / kDatasetFiles[kSegment]);
  seeds.Add("format", "segment", Chosen(kKeyTable, segment));
  seeds.Add("format", "shard-page", Chosen(kShardList, ShardPage(segment)));
  seeds.Add("dataset", "no-shards", JoinSections({{kManifest, ReadFile(valid / "no-shards" / "dataset.json")}}));
}

}  // namespace shardkit::fuzz
