// Damages a dataset, and checks what must be left of it.
#include <algorithm>
#include <set>

#include "base/endian.h"
#include "base/strings.h"
#include "shardkit/repair.h"
#include "unit/soak/soak.h"

namespace shardkit::test {
namespace {

struct WrittenShard {
  std::string name;
  uint64_t first_sample = 0;
  std::vector<BlockInfo> blocks;
};

std::vector<WrittenShard> ShardsOf(FileSystem& files) {
  std::vector<WrittenShard> shards;
  const auto dataset = DatasetReader::Open(files, "/data");
  if (!dataset.ok()) return shards;
  uint64_t first = 0;
  for (size_t i = 0; i < (*dataset)->shard_count(); ++i) {
    const auto listed = (*dataset)->Shard(i);
    if (!listed.ok()) return {};
    const auto shard = (*dataset)->OpenShard(i);
    if (!shard.ok()) return {};
    shards.push_back({listed->name, first, {(*shard)->blocks().begin(), (*shard)->blocks().end()}});
    first += listed->samples;
  }
  return shards;
}

void Damage(DatasetGenerator& random, std::string* bytes) {
  const uint64_t place = random.Below(bytes->size());
  const uint64_t length = std::min<uint64_t>(1 + random.Below(random.Chance(30) ? 2000 : 64), bytes->size() - place);
  switch (random.Below(4)) {
    case 0:
      (*bytes)[place] = static_cast<char>((*bytes)[place] ^ (1 << random.Below(8)));
      break;
    case 1:
      bytes->replace(place, length, length, '\0');
      break;
    case 2:
      for (uint64_t i = 0; i < length; ++i) (*bytes)[place + i] = static_cast<char>(random.Below(256));
      break;
    default:
      bytes->resize(place);
  }
}

bool SameBytes(std::string_view a, std::string_view b, uint64_t begin, uint64_t end) {
  return a.size() >= end && b.size() >= end && a.substr(begin, end - begin) == b.substr(begin, end - begin);
}

}  // namespace

void SoakRound::ReadDamaged() {
  const auto dataset = DatasetReader::Open(*files_, "/damaged");
  if (!dataset.ok()) return;
  const Samples& samples = generator_.samples();
  BlockBuffer buffer;
  BlockView view;
  const auto blocks = (*dataset)->ReadBlockDirectory();
  if (!blocks.ok()) return;
  for (const DatasetBlock& block : *blocks) {
    BlockDamage damage;
    const bool whole = (*dataset)->ReadBlock(block.shard, block.block, &buffer, &view).ok();
    const bool read = (*dataset)->SalvageBlock(block.shard, block.block, &buffer, &view, &damage).ok();
    Expect(!whole || (read && damage.columns.empty() && damage.values.empty()), "damage was found in a whole block");
    if (!read) continue;
    for (uint32_t i = 0; i < view.sample_count(); ++i) {
      if (!damage.OfSample(i).ok()) continue;
      Row row;
      for (size_t c = 0; c < view.column_count(); ++c) {
        if (const auto value = view.column(c).value(i)) row[(*dataset)->columns()[c].name] = std::string(*value);
      }
      Expect(block.first_sample + i < samples.size() && row == samples[block.first_sample + i],
             StrCat("a damaged dataset gives another sample ", block.first_sample + i));
    }
  }
}

void SoakRound::DamageAndRepair() {
  const std::vector<WrittenShard> shards = ShardsOf(*files_);
  Expect(!shards.empty(), "cannot be opened again");
  if (shards.empty()) return;
  const Tree original = ReadDataset(*files_, "/data");
  Tree damaged = original;
  std::set<std::string> touched;
  for (uint64_t n = 1 + generator_.Below(3); n > 0; --n) {
    const uint64_t which = generator_.Below(shards.size() + 1);
    const std::string name = which < shards.size()   ? shards[which].name
                             : generator_.Chance(50) ? "dataset.json"
                                                     : "dataset.segment";
    if (!original.contains(name) || damaged[name].empty()) continue;
    Damage(generator_, &damaged[name]);
  }
  // One change may undo another one.
  for (const auto& [name, bytes] : damaged) {
    if (bytes != original.at(name)) touched.insert(name);
  }
  if (touched.empty()) return;
  counts_.damages += touched.size();
  (void)RemoveTree(*files_, "/damaged");
  (void)RemoveTree(*files_, "/repaired");
  WriteTree(*files_, "/damaged", damaged);

  const auto report = Validate(*files_, "/damaged");
  std::set<std::string> found;
  if (report.ok()) {
    for (const Problem& problem : report->problems) found.insert(problem.path);
  }
  // Without its manifest, a directory is not a dataset.
  const bool manifest_damaged = touched.contains("dataset.json");
  if (!report.ok() || manifest_damaged) {
    Expect(!report.ok() || !report->ok(), "damage was not found");
    counts_.found += touched.size();
  } else {
    for (const std::string& name : touched) {
      Expect(found.contains("/damaged/" + name), "damage was not found in " + name);
      ++counts_.found;
    }
  }
  if (!manifest_damaged) ReadDamaged();

  // All whole blocks of each shard, or nothing, when neither its header nor the proof for a new header is left.
  bool header_lost = false;
  // Where the footer is whole, also blocks that have lost their header alone; where it is damaged, perhaps these.
  std::vector<Samples> parts, parts_with_copies;
  std::vector<bool> has_footer;
  std::vector<bool> may_be_gone;
  for (const WrittenShard& shard : shards) {
    const std::string& before = original.at(shard.name);
    const std::string& after = damaged.at(shard.name);
    Samples& rows = parts.emplace_back();
    Samples& rows_with_copies = parts_with_copies.emplace_back();
    for (const BlockInfo& block : shard.blocks) {
      const uint64_t end = block.offset + block.length;
      const auto header_length = LoadLittle<uint32_t>(before.data() + block.offset + 8);
      if (!SameBytes(before, after, block.offset + header_length, end)) continue;
      const bool whole = SameBytes(before, after, block.offset, end);
      for (uint32_t i = 0; i < block.sample_count; ++i) {
        const auto& row = generator_.samples()[shard.first_sample + block.first_sample + i];
        rows_with_copies.push_back(row);
        if (whole) rows.push_back(row);
      }
    }
    const uint64_t footer = shard.blocks.empty() ? 0 : shard.blocks.back().offset + shard.blocks.back().length;
    has_footer.push_back(before.size() == after.size() && SameBytes(before, after, footer, before.size()));
    const bool header = shard.blocks.empty() || SameBytes(before, after, 0, shard.blocks[0].offset);
    header_lost = header_lost || !header;
    may_be_gone.push_back(!header);
  }
  const auto repaired = RepairDataset(*files_, "/damaged", "/repaired");
  if (!repaired.ok()) {
    // A damaged version number looks like a later version, which repair does not change.
    Expect(absl::IsUnimplemented(repaired.status())
               ? header_lost || manifest_damaged
               : header_lost && (absl::IsDataLoss(repaired.status()) || absl::IsInvalidArgument(repaired.status())),
           "repairing: " + Message(repaired.status()));
    return;
  }
  const Samples rows = repaired->written ? ScanRows(*files_, "/repaired") : Samples();
  Expect(repaired->shards.size() == parts.size(), "repair speaks of another number of shards");
  if (!contradiction_.empty()) return;
  size_t next = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const uint64_t recovered = repaired->shards[i].samples_recovered;
    if (recovered == 0 && may_be_gone[i]) continue;
    if (has_footer[i] || recovered == parts_with_copies[i].size()) parts[i] = std::move(parts_with_copies[i]);
    Expect(recovered == parts[i].size() && next + parts[i].size() <= rows.size() &&
               std::equal(parts[i].begin(), parts[i].end(), rows.begin() + static_cast<ptrdiff_t>(next)),
           StrCat("not what is whole came back of shard ", i));
    next += parts[i].size();
  }
  Expect(next == rows.size(), "more came back than is whole");
  Expect(next == repaired->samples_recovered(), "repair counts other samples than it recovered");
  for (const RepairReport& shard : repaired->shards) {
    counts_.blocks_recovered += shard.blocks_recovered;
    counts_.blocks_lost += shard.blocks_lost;
    counts_.samples_lost += shard.samples_lost;
  }
  if (!repaired->written) return;
  const std::string problem = ValidateText(*files_, "/repaired");
  Expect(problem.empty(), "a repaired dataset is not valid: " + problem);
}

}  // namespace shardkit::test
