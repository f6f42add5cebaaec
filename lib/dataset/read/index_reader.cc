#include "dataset/read/index_reader.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "io/publish_file.h"
#include "shardkit/schema.h"

namespace shardkit::dataset {

using format::IndexBlock;

namespace {

constexpr size_t kMissing = SIZE_MAX;

}  // namespace

template <typename... Parts>
absl::Status IndexReader::Damage(size_t segment, const Parts&... what) const {
  return parts_[segment].table->Damage(StrCat(what...));
}

template <typename T>
T IndexReader::Checked(size_t segment, T found) const {
  SHARDKIT_RETURN_IF_ERROR(parts_[segment].table->CheckMapped());
  return found;
}

absl::StatusOr<std::unique_ptr<IndexReader>> IndexReader::Open(ReadableFileSystem& file_system,
                                                               const std::string& directory, const Schema& schema,
                                                               std::span<const Segment> segments) {
  auto opened = OpenSegments(file_system, directory, segments);
  return Open(&opened, schema, segments);
}

absl::StatusOr<std::unique_ptr<IndexReader>> IndexReader::Open(std::vector<absl::StatusOr<SegmentTables>>* opened,
                                                               const Schema& schema,
                                                               std::span<const Segment> segments) {
  std::unique_ptr<IndexReader> reader(new IndexReader(schema));
  size_t shard = 0;
  uint64_t sample = 0;
  for (size_t i = 0; i < segments.size(); ++i) {
    SHARDKIT_RETURN_IF_ERROR((*opened)[i].status());
    SHARDKIT_ASSIGN_OR_RETURN(Part part, reader->OpenPart(std::move((*opened)[i]->index), segments[i]));
    part.first_shard = shard;
    part.first_sample = sample;
    shard += segments[i].shards;
    sample += segments[i].samples;
    reader->parts_.push_back(std::move(part));
  }
  return reader;
}

absl::StatusOr<IndexReader::Part> IndexReader::OpenPart(std::unique_ptr<container::PagedTable> table,
                                                        const Segment& segment) const {
  Part part{.path = table->path(), .table = std::move(table)};
  part.table->set_remedy(StrCat("run shardctl index ", io::ParentDirectory(part.path), " to make it again"));
  const auto other = [&] {
    return DataLoss(part.path, ": the index belongs to other shards: it is not the one that ", kManifestName, " names");
  };
  auto root = format::DecodeIndexRoot(part.table->payload());
  if (!root.ok()) return Annotate(root.status(), part.path);
  part.root = *std::move(root);
  if (part.root.shard_count != segment.shards || part.root.sample_count != segment.samples ||
      part.root.block_count != segment.blocks) {
    return other();
  }
  for (const std::vector<std::string_view>& layout : part.root.layouts) {
    std::vector<size_t>& columns = part.columns.emplace_back();
    for (const std::string_view name : layout) columns.push_back(schema_.Find(name).value_or(kMissing));
  }
  return part;
}

absl::StatusOr<IndexedBlock> IndexReader::Load(size_t segment, const container::TablePage& page, uint32_t i) const {
  const Part& part = parts_[segment];
  IndexedBlock block{.entry = format::LoadIndexBlock(page.bytes, i), .segment = segment, .page = page};
  if (block.entry.reserved != 0) return Damage(segment, "page ", page.number, ": reserved bytes are not zero");
  if (block.entry.shard >= part.root.shard_count || block.entry.layout >= part.root.layouts.size() ||
      block.entry.first_sample > part.root.sample_count) {
    return Damage(segment, "page ", page.number, ": an entry lies past the segment's shards, lists or samples");
  }
  block.shard = part.first_shard + block.entry.shard;
  block.entry.first_sample += part.first_sample;
  return block;
}

absl::StatusOr<std::vector<IndexedBlock>> IndexReader::LoadAll(size_t segment, const container::TablePage& page,
                                                               uint32_t begin, uint64_t end) const {
  const auto load = [&]() -> absl::StatusOr<std::vector<IndexedBlock>> {
    const auto count = format::DecodeIndexPageHead(page.bytes);
    if (!count.ok()) return Damage(segment, "page ", page.number, ": ", ToStd(count.status().message()));
    std::vector<IndexedBlock> blocks;
    for (uint32_t i = begin; i < *count; ++i) {
      SHARDKIT_ASSIGN_OR_RETURN(IndexedBlock block, Load(segment, page, i));
      if (block.entry.first_sample >= end) break;
      blocks.push_back(std::move(block));
    }
    return blocks;
  };
  return Checked(segment, load());  // once for all: it is a call of the system
}

absl::StatusOr<size_t> IndexReader::SegmentOf(uint64_t sample) const {
  const auto behind = std::ranges::upper_bound(parts_, sample, {}, &Part::first_sample);
  if (behind == parts_.begin()) return DataLoss("offset index: no segment holds sample ", sample);
  return static_cast<size_t>(behind - parts_.begin()) - 1;
}

absl::Status IndexReader::Prefetch(std::span<const uint64_t> samples) const {
  std::vector<std::vector<uint64_t>> locals(parts_.size());
  for (const uint64_t sample : samples) {
    SHARDKIT_ASSIGN_OR_RETURN(const size_t segment, SegmentOf(sample));
    locals[segment].push_back(sample - parts_[segment].first_sample);
  }
  std::vector<std::unique_ptr<container::PagedTable::Reading>> readings(parts_.size());
  for (size_t i = 0; i < parts_.size(); ++i) {
    SHARDKIT_ASSIGN_OR_RETURN(readings[i], parts_[i].table->StartPages(locals[i]));
  }
  for (size_t i = 0; i < parts_.size(); ++i) {
    SHARDKIT_RETURN_IF_ERROR(parts_[i].table->FinishPages(std::move(readings[i])));
  }
  return absl::OkStatus();
}

// The last block of a page that begins with the sample or before, else the first.
absl::StatusOr<uint32_t> IndexReader::FindInPage(size_t segment, const container::TablePage& page,
                                                 uint64_t local) const {
  const auto count = format::DecodeIndexPageHead(page.bytes);
  if (!count.ok()) return Damage(segment, "page ", page.number, ": ", ToStd(count.status().message()));
  uint32_t low = 0, high = *count;
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    (format::LoadIndexBlock(page.bytes, middle).first_sample <= local ? low : high) = middle;
  }
  return low;
}

absl::StatusOr<IndexedBlock> IndexReader::BlockOfSample(uint64_t sample) const {
  SHARDKIT_ASSIGN_OR_RETURN(const size_t segment, SegmentOf(sample));
  const Part& part = parts_[segment];
  const uint64_t local = sample - part.first_sample;
  const auto missing = [&] { return Damage(segment, "no block holds sample ", sample); };
  if (part.table->page_count() == 0) return missing();
  SHARDKIT_ASSIGN_OR_RETURN(const uint64_t number, part.table->FindPage(local));
  SHARDKIT_ASSIGN_OR_RETURN(const container::TablePage page, part.table->Page(number));
  const auto find = [&]() -> absl::StatusOr<IndexedBlock> {
    SHARDKIT_ASSIGN_OR_RETURN(const uint32_t i, FindInPage(segment, page, local));
    SHARDKIT_ASSIGN_OR_RETURN(IndexedBlock block, Load(segment, page, i));
    if (sample < block.entry.first_sample || sample - block.entry.first_sample >= block.entry.sample_count) {
      return missing();
    }
    return block;
  };
  return Checked(segment, find());
}

absl::Status IndexReader::ForEachBlock(const std::function<absl::Status(const IndexedBlock&)>& take) const {
  for (size_t segment = 0; segment < parts_.size(); ++segment) {
    const auto take_page = [&](const container::TablePage& page) -> absl::Status {
      SHARDKIT_ASSIGN_OR_RETURN(const std::vector<IndexedBlock> blocks, LoadAll(segment, page, 0, UINT64_MAX));
      for (const IndexedBlock& block : blocks) SHARDKIT_RETURN_IF_ERROR(take(block));
      return absl::OkStatus();
    };
    SHARDKIT_RETURN_IF_ERROR(parts_[segment].table->ForEachPage(take_page));
  }
  return absl::OkStatus();
}

absl::Status IndexReader::ForEachBlockOf(std::span<const SampleRange> shards,
                                         const std::function<absl::Status(const IndexedBlock&)>& take) const {
  for (size_t i = 0; i < shards.size();) {
    SHARDKIT_ASSIGN_OR_RETURN(const size_t segment, SegmentOf(shards[i].first));
    const size_t begin = i;
    const uint64_t end = segment + 1 < parts_.size() ? parts_[segment + 1].first_sample : UINT64_MAX;
    while (i < shards.size() && shards[i].first < end) ++i;
    SHARDKIT_RETURN_IF_ERROR(parts_[segment].table->LoadFences());
    SHARDKIT_RETURN_IF_ERROR(ForEachBlockIn(segment, shards.subspan(begin, i - begin), take));
  }
  return absl::OkStatus();
}

absl::Status IndexReader::ForEachBlockIn(size_t segment, std::span<const SampleRange> shards,
                                         const std::function<absl::Status(const IndexedBlock&)>& take) const {
  const Part& part = parts_[segment];
  if (part.table->page_count() == 0) return Damage(segment, "no block holds sample ", shards.front().first);
  struct Pages {
    uint64_t first = 0, last = 0;
  };
  std::vector<Pages> pages;
  for (const SampleRange& shard : shards) {
    const uint64_t first = shard.first - part.first_sample;
    Pages& range = pages.emplace_back();
    SHARDKIT_ASSIGN_OR_RETURN(range.first, part.table->FindPage(first));
    SHARDKIT_ASSIGN_OR_RETURN(range.last, part.table->FindPage(first + std::max<uint64_t>(shard.count, 1) - 1));
  }
  // Pages from there on are in memory, with one before and behind those that are asked for.
  uint64_t held = pages.front().first - std::min<uint64_t>(pages.front().first, 1);
  for (size_t i = 0, started = 0; i < shards.size(); ++i) {
    if (i == started) {  // of as many shards as stay in memory, the pages are read at once
      // Most of a page are the places of samples: of many shards they would take gigabytes. What lies between the
      // shards goes, too, because the system maps more than it is asked for.
      part.table->LetGo(std::exchange(held, pages[i].first), pages[i].first);
      std::vector<uint64_t> numbers;
      do {
        for (uint64_t number = pages[started].first; number <= pages[started].last; ++number) numbers.push_back(number);
        part.table->WillNeed(pages[started].first, pages[started].last + 1);
      } while (++started < shards.size() &&
               numbers.size() + (pages[started].last - pages[started].first) < container::PagedTable::kKeptPages);
      SHARDKIT_ASSIGN_OR_RETURN(auto reading, part.table->StartNumbers(std::move(numbers)));
      SHARDKIT_RETURN_IF_ERROR(part.table->FinishPages(std::move(reading)));
    }
    const uint64_t end = shards[i].first + shards[i].count;
    for (uint64_t number = pages[i].first; number <= pages[i].last; ++number) {
      SHARDKIT_ASSIGN_OR_RETURN(const container::TablePage page, part.table->Page(number));
      uint32_t block = 0;
      if (number == pages[i].first) {
        SHARDKIT_ASSIGN_OR_RETURN(block, FindInPage(segment, page, shards[i].first - part.first_sample));
      }
      SHARDKIT_ASSIGN_OR_RETURN(const std::vector<IndexedBlock> blocks, LoadAll(segment, page, block, end));
      for (const IndexedBlock& indexed : blocks) SHARDKIT_RETURN_IF_ERROR(take(indexed));
    }
  }
  part.table->LetGo(held, std::min(pages.back().last + 2, part.table->page_count()));
  return absl::OkStatus();
}

std::vector<std::string> IndexReader::BlobColumns(const IndexedBlock& block) const {
  const auto& layout = parts_[block.segment].root.layouts[block.entry.layout];
  return {layout.begin(), layout.end()};
}

std::optional<uint32_t> IndexReader::FindColumn(const IndexedBlock& block, size_t column) const {
  const std::vector<size_t>& columns = parts_[block.segment].columns[block.entry.layout];
  const auto found = std::ranges::find(columns, column);
  if (found == columns.end()) return std::nullopt;
  return static_cast<uint32_t>(found - columns.begin());
}

// `number` counts the block's places, column after column.
absl::StatusOr<uint64_t> IndexReader::LoadPlace(const IndexedBlock& block, uint64_t number) const {
  if (!RangeWithin(block.entry.places_begin, 8 * (number + 1), block.page.bytes.size())) {
    return Damage(block.segment, "page ", block.page.number, ": places of a block lie past the page");
  }
  return LoadLittle<uint64_t>(block.page.bytes.data() + block.entry.places_begin + 8 * number);
}

absl::StatusOr<std::pair<uint64_t, uint64_t>> IndexReader::Record(const IndexedBlock& block, uint32_t local,
                                                                  uint32_t position) const {
  const auto find = [&]() -> absl::StatusOr<std::pair<uint64_t, uint64_t>> {
    const uint64_t number = position * (uint64_t{block.entry.sample_count} + 1) + local;
    SHARDKIT_ASSIGN_OR_RETURN(const uint64_t begin, LoadPlace(block, number));
    SHARDKIT_ASSIGN_OR_RETURN(const uint64_t end, LoadPlace(block, number + 1));
    if (begin > end) return Damage(block.segment, "a record ends before it begins");
    return std::make_pair(begin, end);
  };
  return Checked(block.segment, find());
}

absl::StatusOr<std::vector<uint64_t>> IndexReader::Places(const IndexedBlock& block) const {
  const size_t columns = parts_[block.segment].columns[block.entry.layout].size();
  std::vector<uint64_t> places(columns * (uint64_t{block.entry.sample_count} + 1));
  if (places.empty()) return places;
  SHARDKIT_RETURN_IF_ERROR(Checked(block.segment, LoadPlace(block, places.size() - 1)).status());  // the last one
  std::memcpy(places.data(), block.page.bytes.data() + block.entry.places_begin, 8 * places.size());
  return Checked(block.segment, absl::StatusOr<std::vector<uint64_t>>(std::move(places)));
}

absl::Status IndexReader::CheckPart(size_t segment, std::span<const ManifestShard> all) const {
  const Part& part = parts_[segment];
  SHARDKIT_RETURN_IF_ERROR(part.table->CheckAll());
  const auto shards = all.subspan(part.first_shard, part.root.shard_count);
  uint32_t layouts = 0;  // they stand in the order in which the blocks need them
  uint64_t sample = 0;
  size_t shard = 0;
  uint64_t blocks = 0, samples = 0;  // of that shard
  const auto end_shard = [&] {
    const bool right = shards[shard].blocks == blocks && shards[shard].samples == samples;
    blocks = samples = 0;
    ++shard;
    return right;
  };
  std::optional<IndexBlock> before;
  for (uint64_t number = 0; number < part.table->page_count(); ++number) {
    SHARDKIT_ASSIGN_OR_RETURN(const container::TablePage page, part.table->Page(number));
    const auto count = format::DecodeIndexPageHead(page.bytes);
    if (!count.ok()) return Damage(segment, "page ", number, ": ", ToStd(count.status().message()));
    const auto wrong = [&](uint32_t i, std::string_view what) {
      return Damage(segment, "page ", number, ": block ", i, ": ", what);
    };
    uint64_t places = format::kIndexPageHeadBytes + format::kIndexBlockBytes * *count;
    for (uint32_t i = 0; i < *count; ++i) {
      const IndexBlock block = format::LoadIndexBlock(page.bytes, i);
      if (block.reserved != 0) return wrong(i, "reserved bytes are not zero");
      if (block.shard >= shards.size() || block.first_sample != sample || block.sample_count == 0 ||
          (i == 0 && page.first != sample)) {
        return wrong(i, "its entry does not follow from the one before");
      }
      while (shard < block.shard) {
        if (!end_shard()) return wrong(i, "the shard before has other blocks or samples than the manifest says");
      }
      if (shard != block.shard) return wrong(i, "its entry does not follow from the one before");
      const bool first = blocks == 0;
      if (!first && block.layout != before->layout) {
        return wrong(i, "its columns differ from the previous block's in its shard");
      }
      if (block.layout > layouts || block.layout >= part.root.layouts.size()) {
        return wrong(i, "its list of columns is not the next one");
      }
      if (block.layout == layouts) ++layouts;
      const uint64_t place_count = part.root.layouts[block.layout].size() * (uint64_t{block.sample_count} + 1);
      if (block.places_begin != (place_count == 0 ? 0 : places) || place_count > (page.bytes.size() - places) / 8) {
        return wrong(i, "its places do not follow the previous block's");
      }
      places += 8 * place_count;
      ++blocks;
      samples += block.sample_count;
      sample += block.sample_count;
      before = block;
    }
    if (places != page.bytes.size()) return Damage(segment, "page ", number, ": bytes after the last places");
  }
  while (shard < shards.size()) {
    if (!end_shard()) return Damage(segment, "a shard has other blocks or samples than the manifest says");
  }
  if (layouts != part.root.layouts.size()) return Damage(segment, "has lists of columns that no block needs");
  std::vector<std::vector<std::string_view>> lists = part.root.layouts;
  std::ranges::sort(lists);
  if (std::ranges::adjacent_find(lists) != lists.end()) return Damage(segment, "has a list of columns twice");
  return absl::OkStatus();
}

absl::Status IndexReader::CheckShards(std::span<const ManifestShard> shards) const {
  for (size_t segment = 0; segment < parts_.size(); ++segment) {
    const Part& part = parts_[segment];
    if (part.root.dataset_hash != HashShards(shards.subspan(part.first_shard, part.root.shard_count))) {
      return Damage(segment, "is of other shards, or of these in another order");
    }
  }
  return absl::OkStatus();
}

absl::Status IndexReader::CheckAll(std::span<const ManifestShard> shards) const {
  SHARDKIT_RETURN_IF_ERROR(CheckShards(shards));
  for (size_t segment = 0; segment < parts_.size(); ++segment) {
    SHARDKIT_RETURN_IF_ERROR(Checked(segment, CheckPart(segment, shards)));
  }
  return absl::OkStatus();
}

}  // namespace shardkit::dataset
