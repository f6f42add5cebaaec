// Decoders of a shard's structures. The first byte chooses one; its top bit repairs the checksum first. A decoded
// structure is encoded to the same bytes.

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "format/block_header.h"
#include "format/chunk.h"
#include "format/file_header.h"
#include "format/footer.h"
#include "format/index_layout.h"
#include "format/key_table.h"
#include "format/paged_table.h"
#include "format/shard_list.h"
#include "shardkit/schema.h"
#include "support/input.h"
#include "support/little_endian.h"
#include "support/memory_bound.h"
#include "support/repair_checksums.h"
#include "support/require.h"

namespace {

using namespace shardkit;
using namespace shardkit::fuzz;

// Replaces the last eight bytes by the checksum of the bytes before them.
void Seal(std::string* bytes, bool repair) {
  if (repair && bytes->size() >= 8)
    Store<uint64_t>(bytes, bytes->size() - 8, XXH3_64bits(bytes->data(), bytes->size() - 8));
}

Schema SomeSchema(uint8_t which) {
  std::vector<Column> columns(1 + which % 4);
  for (size_t i = 0; i < columns.size(); ++i) {
    columns[i].name = std::string(1, static_cast<char>('a' + i));
    columns[i].type = std::array{Type::kBytes, Type::kUtf8, Type::kF64, Type::kNdarray}[(which / 4 + i) % 4];
    columns[i].codec = (which >> i & 16) != 0 ? Codec::kZstd : Codec::kNone;
    columns[i].nullable = (which >> i & 32) != 0;
    if ((which >> i & 48) == 48) columns[i].codec = Codec{9};  // of a later version
    if ((which & 128) != 0 && columns[i].codec == Codec::kNone && columns[i].is_blob()) {
      columns[i].storage = Storage::kPaged;
    }
  }
  return Schema::Create(std::move(columns)).value();
}

void CheckHeader(std::string bytes, bool repair) {
  if (bytes.size() >= format::kFileHeaderPrefix) {
    const auto length = format::PeekFileHeaderLength(bytes);
    if (length.ok() && *length <= bytes.size()) bytes.resize(*length);
  }
  Seal(&bytes, repair);
  auto header = format::DecodeFileHeader(bytes);
  if (!header.ok()) return;
  header->minor = Load<uint16_t>(bytes, 10);
  std::string written = format::EncodeFileHeader(*header);
  Require(written == bytes, "a header is encoded as it was");
}

void CheckBlock(Input input, bool repair) {
  const Schema schema = SomeSchema(input.Byte());
  std::string bytes(input.rest());
  if (bytes.size() > format::BlockHeaderLength(schema.size())) bytes.resize(format::BlockHeaderLength(schema.size()));
  Seal(&bytes, repair);
  format::BlockHeader header;
  if (!format::DecodeBlockHeader(schema, bytes, &header).ok()) return;
  RequireOk(format::CheckBlockLayout(schema, header), "the layout of a header that was decoded");
  std::string written;
  format::EncodeBlockHeader(header, &written);
  Require(written == bytes, "a block's header is encoded as it was");
}

void CheckFooter(Input input, bool repair) {
  const bool has_key = input.Chance();
  const uint64_t first_block = 64 * input.Number(1);
  std::string file(input.rest());
  if (file.size() < format::kTrailerBytes) return;
  const uint64_t at = file.size() - format::kTrailerBytes;
  const uint64_t table_length = std::min<uint64_t>(at, format::kSectionEntryBytes * Load<uint32_t>(file, at + 16));
  if (repair) {
    Store<uint64_t>(&file, at + 24, XXH3_64bits(file.data() + at - table_length, table_length));
    Store<uint64_t>(&file, at + 88, XXH3_64bits(file.data() + at, 88));
  }
  const auto trailer = format::DecodeTrailer(std::string_view(file).substr(at), file.size());
  if (!trailer.ok()) return;
  Require(Within(trailer->footer_offset, trailer->footer_length, at), "the footer lies before the trailer");
  const auto sections = format::DecodeSectionTable(
      std::string_view(file).substr(trailer->table_offset(), at - trailer->table_offset()), *trailer, has_key);
  if (!sections.ok()) return;
  for (const format::Section& section : *sections) {
    Require(Within(section.offset, format::PaddedLength(section), at), "a section lies in the footer");
    const std::string_view padded = std::string_view(file).substr(section.offset, format::PaddedLength(section));
    (void)format::CheckSection(section, padded);
    const std::string_view bytes = padded.substr(0, section.length);
    switch (static_cast<format::SectionKind>(section.kind)) {
      case format::SectionKind::kMetadata:
        (void)format::DecodeMetadata(bytes);
        break;
      case format::SectionKind::kBlockDirectory:
        (void)format::DecodeBlockDirectory(bytes, *trailer, first_block, 64);
        break;
      default:
        break;
    }
  }
}

void CheckSections(Input input) {
  const uint8_t which = input.Byte();
  const Schema schema = SomeSchema(input.Byte());
  const std::string_view bytes = input.rest();
  if (which % 4 == 0) {
    const auto metadata = format::DecodeMetadata(bytes);
    if (metadata.ok()) Require(format::EncodeMetadata(*metadata) == bytes, "metadata is encoded as it was");
  } else if (which % 4 == 3) {
    BlockInfo block;
    block.sample_count = 1000;
    const std::vector<BlockInfo> blocks(bytes.size() / 24, block);  // at most one column of these schemas has a range
    const auto ranges = format::DecodeBlockRanges(schema, blocks, bytes);
    if (!ranges.ok()) return;
    std::string written;
    for (const BlockRange& range : ranges->ranges) {
      std::vector<ColumnStatistics> statistics(schema.size());
      ColumnStatistics& column = statistics[ranges->columns[0]];
      column.present_count = range.present_count;
      column.range_kind = range.range_kind;
      column.minimum = range.minimum;
      column.maximum = range.maximum;
      format::AppendBlockRanges(schema, statistics, &written);
    }
    Require(written == bytes, "ranges are encoded as they were");
  } else if (which % 4 == 1) {
    const auto statistics = format::DecodeStatistics(schema, bytes);
    // Of a codec that is not known, the bytes may have a later meaning that is not kept.
    const bool known = std::ranges::all_of(schema.columns(), &IsKnownCodec, &Column::codec);
    if (statistics.ok() && known) {
      Require(format::EncodeStatistics(*statistics) == bytes, "statistics are encoded as they were");
    }
  }
}

// The sections that the root of a table names, when it is one. They fill the table, and are encoded to the same bytes.
std::vector<format::TableSection> TableSections(const format::TableTail& tail, std::string_view root) {
  const auto sections = format::DecodeTableRoot(tail, root);
  if (!sections.ok()) return {};
  Require(sections->size() == tail.section_count, "a table has as many sections as its tail says");
  std::string written;
  uint64_t begin = format::kTableMagicBytes;
  for (size_t i = 0; i < sections->size(); ++i) {
    const format::TableSection& section = (*sections)[i];
    Require(i == 0 || (*sections)[i - 1].kind < section.kind, "the kinds of sections ascend");
    Require(section.begin == begin && section.pages_end >= begin && section.end() >= section.pages_end,
            "a section begins where the one before it ends");
    Require(section.page_count <= format::kMostPages && section.payload.size() <= format::kMaxTablePayload,
            "a section keeps to its limits");
    const uint64_t fences = section.fence_page_count() > 0 ? section.fence_page_count() : section.page_count;
    Require(section.fences.size() == fences, "each page of a section, or each fence page, has a fence");
    RequireOk(format::CheckFences(section.fences, begin, section.pages_end, 0), "the fences of a decoded root");
    std::string header(format::kSectionHeaderBytes, '\0');
    Store<uint32_t>(&header, 0, static_cast<uint32_t>(section.kind));
    Store<uint64_t>(&header, 8, section.page_count);
    Store<uint64_t>(&header, 16, section.pages_end);
    Store<uint64_t>(&header, 24, section.payload.size());
    written += header;
    for (const format::Fence& fence : section.fences) format::AppendFence(fence, &written);
    written += section.payload;
    begin = section.end();
  }
  Require(begin == tail.root_offset(), "the last section of a table ends where the root begins");
  Require(written == root, "the root of a table is encoded as it was");
  return *sections;
}

// The pages by themselves: the reader of tables is of a layer above.
void CheckKeys(std::string_view table, const format::TableSection& section) {
  const uint64_t length = section.pages_end - section.begin;
  const auto count = format::DecodeKeyCount(length, section.payload);
  const std::vector<format::Fence> fences =
      section.fence_page_count() == 0
          ? section.fences
          : format::DecodeFences(table.substr(section.pages_end, format::kFenceBytes * section.page_count));
  if (!count.ok() || !format::CheckFences(fences, section.begin, section.pages_end, 0).ok()) return;
  std::string written;
  format::KeyTableWriter writer([&](uint64_t, std::string_view page) {
    written += page;
    return absl::OkStatus();
  });
  uint64_t entries = 0;
  for (size_t i = 0; i < fences.size(); ++i) {
    const uint64_t end = i + 1 < fences.size() ? fences[i + 1].offset : section.pages_end;
    const std::string_view page = table.substr(fences[i].offset, end - fences[i].offset);
    if (!format::CheckKeyPage(fences[i].first, page).ok()) return;
    for (size_t at = 0; at < page.size(); at += format::kKeyEntryBytes, ++entries) {
      if (!writer.Add(format::LoadKeyEntry(page.data() + at)).ok()) return;  // they do not ascend
    }
  }
  Require(entries == *count, "pages have as many entries as the table");
  const auto again = writer.Finish();
  RequireOk(again.status(), "writing the entries of a table");
  Require(*again == section.payload, "a table of the same entries has the same payload");
  Require(written == table.substr(section.begin, length), "entries are written as they were");
}

void CheckKeyTable(std::string bytes, bool repair) {
  if (bytes.size() < format::kTableTailBytes) return;
  if (repair) RepairTable(&bytes);
  const std::string_view table = bytes;
  const auto tail = format::DecodeTableTail(table.substr(table.size() - format::kTableTailBytes), table.size());
  if (!tail.ok()) return;
  Require(Within(tail->root_offset(), tail->root_length, table.size()), "the root lies in the table");
  for (const auto& section : TableSections(*tail, table.substr(tail->root_offset(), tail->root_length))) {
    if (section.kind == format::TableKind::kKeys) CheckKeys(table, section);
  }
}

void CheckShardList(Input input, bool totals) {
  const std::string bytes(input.rest());
  if (totals) {
    const auto decoded = format::DecodeShardListTotals(bytes);
    if (decoded.ok()) Require(format::EncodeShardListTotals(*decoded) == bytes, "totals are encoded as they were");
    return;
  }
  const auto shards = format::DecodeShardPage(bytes);
  if (shards.ok()) Require(format::EncodeShardPage(*shards) == bytes, "a page of shards is encoded as it was");
}

void CheckIndexRoot(Input input) {
  const std::string bytes(input.rest());
  const auto root = format::DecodeIndexRoot(bytes);
  if (!root.ok()) return;
  Require(format::EncodeIndexRoot(*root) == bytes, "the root of an index is encoded as it was");
}

// A tail and, behind it, a root: of a table of any length, so without the pages. Always repairs the checksum.
void CheckTableTail(Input input) {
  const uint64_t length = input.Number(4);
  std::string bytes(input.Bytes(format::kTableTailBytes));
  if (bytes.size() == format::kTableTailBytes) Store<uint64_t>(&bytes, 48, XXH3_64bits(bytes.data(), 48));
  const auto tail = format::DecodeTableTail(bytes, length);
  if (!tail.ok()) return;
  Require(tail->root_offset() >= format::kTableMagicBytes &&
              tail->root_offset() + tail->root_length + format::kTableTailBytes == length,
          "the parts of a table fill it");
  (void)TableSections(*tail, input.rest());
}

// A head chunk of a paged column, then its pages, whose checksums may be repaired.
void CheckPages(Input input, const Column& column, uint32_t count, bool repair) {
  const uint64_t structure = format::HeadLayout(column, count).values_offset;
  std::string head(input.Bytes(structure + format::kPageEntryBytes * (1 + input.Below(count))));
  if (head.size() < structure) head.resize(structure);
  const std::string values(input.rest());
  const auto table = format::ParsePagedHead(column, count, head, values.size());
  if (!table.ok()) return;
  Buffer pages, entries;
  format::PageBuilder builder(&pages, &entries);
  bool whole = true;
  for (size_t k = 0; k < table->size() && whole; ++k) {
    std::string page = values.substr(table->begin(k), table->length(k));
    Seal(&page, repair);
    std::vector<uint64_t> begins(table->count(k)), ends(table->count(k));
    whole = table->Place(k, page, begins.data(), ends.data()).ok() && format::CheckPageChecksum(page).ok() &&
            (k == 0 || table->CheckFull(k - 1, ends[0] - begins[0]).ok());
    for (uint32_t i = table->first(k); i < table->last(k); ++i) {
      const auto value = table->Value(k, page, i);
      Require(value.ok() || !whole, "a value of a page that is right is found");
      if (value.ok()) builder.Add(*value);
    }
  }
  builder.Finish();
  if (!whole || repair) return;
  Require(pages.view() == values && entries.view() == std::string_view(head).substr(structure),
          "pages are built as they were");
}

void CheckChunk(Input input, bool repair) {
  const Schema schema = SomeSchema(input.Byte());
  const Column& column = schema[0];
  const uint32_t count = 1 + input.Below(40);
  if (column.is_paged()) return CheckPages(input, column, count, repair);
  const bool with_values = input.Chance();
  const format::HeadLayout layout(column, count);
  std::string head(input.Bytes(column.is_blob() ? layout.values_offset : layout.values_offset + input.Byte()));
  if (head.size() < layout.values_offset) head.resize(layout.values_offset);
  if (const auto size = column.fixed_size()) head.resize(layout.values_offset + *size * count);
  const std::string values(input.rest());
  const auto view = format::ParseColumn(column, count, head,
                                        with_values ? std::string_view(values) : std::string_view(), values.size());
  if (!view.ok() || !view->loaded()) return;
  (void)format::CheckAbsentSlots(*view);
  uint64_t bytes = 0, sum = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (column.is_blob() && !with_values) {  // only the ends
      if (view->present(i)) bytes = view->end(i);
      continue;
    }
    const auto value = view->value(i);
    if (!value) continue;
    bytes += value->size();
    for (const char c : *value) sum += static_cast<uint8_t>(c);  // every byte is readable
  }
  Require(bytes <= head.size() + values.size() && sum <= 255 * bytes, "values lie in their chunks");
  if (column.is_blob() && with_values) (void)format::CheckRecords(*view);
}

void CheckArray(Input input) {
  Column column;
  column.type = Type::kNdarray;
  column.dtype = std::array{Type::kU8, Type::kI16, Type::kF32, Type::kU64}[input.Below(4)];
  if (input.Chance()) column.shape = {input.Below(5), input.Below(5)};
  const auto array = ParseNdarray(column, input.rest());
  if (!array.ok()) return;
  Require(array->data.size() == array->element_count() * ScalarSize(column.dtype), "an array has its elements");
  std::string written;
  RequireOk(AppendNdarray(array->dtype, array->shape, array->data, &written), "an array that was parsed");
  if (!column.shape) Require(written == input.rest(), "an array is encoded as it was");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryBound bound(size);
  Input input(data, size);
  const uint8_t choice = input.Byte();
  const bool repair = (choice & 128) != 0;
  switch ((choice & 127) % 9) {
    case 0:
      CheckHeader(std::string(input.rest()), repair);
      break;
    case 1:
      CheckBlock(input, repair);
      break;
    case 2:
      CheckFooter(input, repair);
      break;
    case 3:
      CheckSections(input);
      break;
    case 4:
      repair ? CheckTableTail(input) : CheckIndexRoot(input);
      break;
    case 5:
      CheckChunk(input, repair);
      break;
    case 6:
      CheckArray(input);
      break;
    case 7:
      CheckKeyTable(std::string(input.rest()), repair);
      break;
    default:
      CheckShardList(input, repair);
  }
  return 0;
}
