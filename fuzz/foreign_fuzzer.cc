// Structures of other containers: decoders of the format layer, and the decompressors. The first byte chooses one. A
// decoded structure is encoded to the same bytes. Names are split in the same way as by the peers' regular expressions.

#include <array>
#include <cstdint>
#include <regex>
#include <string>
#include <vector>

#include "codec/decompress.h"
#include "foreign/mds/mds_encoding.h"
#include "foreign/mds/mds_index.h"
#include "foreign/mds/mds_layout.h"
#include "foreign/mds/mds_values.h"
#include "foreign/webdataset/dali_index.h"
#include "foreign/webdataset/tar_samples.h"
#include "foreign/webdataset/webdataset_names.h"
#include "shardkit/schema.h"
#include "support/input.h"
#include "support/memory_bound.h"
#include "support/require.h"

namespace {

using namespace shardkit;
using namespace shardkit::fuzz;

void CheckTarIndex(Input input) {
  const Schema schema = foreign::TarIndexSchema({"jpg", "cls"});
  std::vector<BlockInfo> blocks(input.Below(4));
  uint64_t samples = 0;
  for (BlockInfo& block : blocks) {
    block.first_sample = samples;
    samples += block.sample_count = static_cast<uint32_t>(input.Number(2) + 1);
  }
  Metadata metadata{{std::string(foreign::kTarLengthName), std::to_string(input.Number(4))},
                    {std::string(foreign::kTarIdentityName), "0123456789abcdef"}};
  metadata[std::string(foreign::kTarBlocksName)] = std::string(input.rest());
  const auto found = foreign::DecodeTarIndex(schema, metadata, blocks);
  if (!found.ok()) return;
  const auto again = foreign::DecodeTarIndex(schema, foreign::TarIndexMetadata(*found), blocks);
  RequireOk(again.status(), "what an index says of its blocks");
  Require(*again == *found, "what an index says of its blocks comes back");
  for (size_t i = 0; i + 1 < found->blocks.size(); ++i) {
    Require(found->blocks[i].offset <= found->blocks[i + 1].offset, "blocks follow each other");
  }
  Require(found->blocks.back().offset <= found->tar_length, "blocks lie in the tar");
}

void CheckMdsShard(Input input) {
  const uint64_t length = input.Chance() ? input.Number(4) : input.rest().size();
  const std::string_view bytes = input.rest();
  const auto table = foreign::MdsTableLength(bytes, length);
  if (!table.ok() || *table > bytes.size()) return;
  const auto offsets = foreign::DecodeMdsOffsets(bytes.substr(0, *table), length);
  if (!offsets.ok()) return;
  for (size_t i = 0; i < offsets->size(); ++i) {
    Require((*offsets)[i] >= *table && (*offsets)[i] <= length, "an offset lies in the file, behind the table");
    Require(i == 0 || (*offsets)[i - 1] <= (*offsets)[i], "offsets do not descend");
  }
  if (offsets->front() <= bytes.size()) (void)foreign::ParseMdsHeader(bytes.substr(*table, offsets->front() - *table));
}

void CheckMdsSample(Input input) {
  std::vector<foreign::MdsColumn> columns(input.Below(6));
  for (auto& column : columns) {
    if (input.Chance()) column.size = input.Number(1);
  }
  const std::string_view sample = input.rest();
  std::vector<uint64_t> places(columns.size() + 1);
  if (!foreign::SplitMdsSample(columns, sample.substr(0, foreign::MdsHeadLength(columns)), sample.size(), places).ok())
    return;
  for (size_t i = 0; i < columns.size(); ++i) {
    Require(places[i] <= places[i + 1], "values follow each other");
    if (columns[i].size) Require(places[i + 1] - places[i] == *columns[i].size, "a value has its column's size");
  }
  Require(places.back() == sample.size(), "the values fill the sample");
}

void CheckMdsEncoding(Input input) {
  const foreign::MdsEncoding encoding = foreign::DescribeMdsEncoding(input.Bytes(input.Byte()));
  Require(!encoding.refusal.empty() || encoding.known, "an unknown encoding is refused");
  constexpr std::array<std::string_view, 6> kConverted = {"ndarray:int16", "ndarray", "str_int",
                                                          "str_float",     "pil",     "list[pil]"};
  foreign::MdsEncoding how = foreign::DescribeMdsEncoding(kConverted[input.Below(kConverted.size())]);
  const std::string_view stored = input.rest();
  if (how.form == foreign::MdsForm::kTypedArray) {
    how.type = Type::kNdarray;
    how.dtype = foreign::MdsDtypeOf(stored).value_or(Type::kU8);
  }
  std::string value, written, again;
  if (!foreign::AppendFromMds(how, stored, &value).ok()) return;
  Column column;
  column.type = how.type;
  column.dtype = how.dtype;
  if (how.type == Type::kNdarray) RequireOk(ParseNdarray(column, value).status(), "an array of MDS in our form");
  Require(value.size() <= foreign::kMdsListGrowth * stored.size() + foreign::kMdsValueRoom, "growth is bounded");
  // MDSWriter makes no empty arrays, and one text for each number.
  if (!foreign::AppendToMds(column, how.form, value, &written).ok()) return;
  RequireOk(foreign::AppendFromMds(how, written, &again), "a value that was written as MDS");
  Require(again == value, "and it is the same");
}

void CheckNames(std::string_view name) {
  (void)foreign::SplitDaliName(name);
  const auto ours = foreign::SplitWebDatasetName(name);
  const std::string_view member = foreign::MemberName(name);
  if (ours)
    Require(std::string(ours->key) + "." + std::string(ours->extension) == member, "key and extension make the name");
  // The regular expression engine needs stack for every byte.
  if (name.size() > 200 || name.find_first_of(std::string_view("\n\r\0", 3)) != name.npos) return;
  if (std::any_of(name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; })) return;
  static const std::regex webdataset_rule("((?:.*/|)[^.]+)[.]([^/]*)");
  const std::string read(member);
  std::smatch parts;
  const bool matches = std::regex_match(read, parts, webdataset_rule) && !foreign::IsWebDatasetMeta(member);
  Require(matches == ours.has_value(), "a name is a sample's by webdataset's expression");
  if (matches)
    Require(parts[1].str() == ours->key && parts[2].str() == ours->extension, "its parts are those of the expression");
}

void CheckDecompressors(Input input) {
  const auto which = static_cast<codec::Compression>(input.Below(5));
  std::string out(input.Number(2), '\0');
  if (!codec::Decompress(which, input.rest(), out).ok()) return;
  std::string longer(out.size() + 1, '\0');
  Require(!codec::Decompress(which, input.rest(), longer).ok(), "a stream has one size");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryBound bound(size);
  Input input(data, size);
  switch (input.Below(8)) {
    case 0:
      CheckTarIndex(input);
      break;
    case 1:
      CheckMdsShard(input);
      break;
    case 2:
      CheckMdsSample(input);
      break;
    case 3:
      CheckMdsEncoding(input);
      break;
    case 4:
      CheckNames(input.rest());
      break;
    case 5:
      CheckDecompressors(input);
      break;
    case 6:
      (void)foreign::ParseMdsHeader(input.rest());
      break;
    default:
      (void)foreign::ParseMdsIndex(input.rest());
  }
  return 0;
}
