#include "dataset/read/shard_list_reader.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace shardkit::dataset {

using format::kShardsOfPage;

namespace {

constexpr size_t kKeptPages = 64;

}  // namespace

ShardListReader::ShardListReader(std::vector<ManifestShard> shards) : shard_count_(shards.size()) {
  auto page = std::make_shared<Page>();
  page->first_samples.reserve(shards.size() + 1);
  page->first_samples.push_back(0);
  for (const ManifestShard& shard : shards) page->first_samples.push_back(sample_count_ += shard.samples);
  page->shards = std::move(shards);
  all_ = std::move(page);
}

absl::StatusOr<std::unique_ptr<ShardListReader>> ShardListReader::Open(
    const std::string& directory, Manifest* manifest, std::vector<absl::StatusOr<SegmentTables>>* segments) {
  if (!manifest->shards_in_segments()) return std::make_unique<ShardListReader>(std::move(manifest->shards));
  std::unique_ptr<ShardListReader> reader(new ShardListReader());
  reader->directory_ = directory;
  reader->summary_ = *manifest;
  uint64_t bytes = 0;
  bool fits = true;
  for (size_t i = 0; i < segments->size(); ++i) {
    absl::StatusOr<SegmentTables>& segment = (*segments)[i];
    SHARDKIT_RETURN_IF_ERROR(reader->Advise(segment.status()));
    SHARDKIT_RETURN_IF_ERROR(reader->AddPart(std::move(segment->list), reader->summary_.segments[i]));
    fits = fits && CheckedAdd(bytes, reader->parts_.back().totals.bytes, &bytes);
  }
  if (!fits || bytes != manifest->bytes) {
    return DataLoss(JoinPath(directory, kManifestName), ": manifest: bytes are not the sum over its lists of shards; ",
                    "run shardctl index ", directory, " to make it again");
  }
  return reader;
}

absl::StatusOr<std::unique_ptr<ShardListReader>> ShardListReader::Of(std::unique_ptr<container::PagedTable> list,
                                                                     const Segment& segment) {
  std::unique_ptr<ShardListReader> reader(new ShardListReader());
  SHARDKIT_RETURN_IF_ERROR(reader->AddPart(std::move(list), segment));
  return reader;
}

absl::Status ShardListReader::AddPart(std::unique_ptr<container::PagedTable> list, const Segment& segment) {
  Part part{.path = list->path(), .first_shard = shard_count_, .first_sample = sample_count_};
  part.table = std::move(list);
  const auto totals = format::DecodeShardListTotals(part.table->payload());
  if (!totals.ok()) return Advise(part.table->Damage(ToStd(totals.status().message())));
  part.totals = *totals;
  if (totals->shards != segment.shards || totals->samples != segment.samples || totals->blocks != segment.blocks) {
    return Advise(part.table->Damage("is of other shards: its totals differ from the segment's"));
  }
  const uint64_t pages = part.table->page_count();
  if (pages != segment.shards / kShardsOfPage + (segment.shards % kShardsOfPage > 0 ? 1 : 0)) {
    return Advise(part.table->Damage(StrCat(pages, " pages do not hold ", segment.shards, " shards")));
  }
  SHARDKIT_RETURN_IF_ERROR(part.table->CheckMapped());
  shard_count_ += segment.shards;
  sample_count_ += segment.samples;
  parts_.push_back(std::move(part));
  return absl::OkStatus();
}

// An error of a list, with what to do about it.
absl::Status ShardListReader::Advise(const absl::Status& status) const {
  if (!absl::IsDataLoss(status) && !absl::IsNotFound(status)) return status;
  return WithMessage(status, StrCat(ToStd(status.message()),
                                    "; nothing else lists the shards: copy it again, or, if the dataset was never ",
                                    "changed, shardctl repair ", directory_, " -o OUT takes them by their names"));
}

absl::StatusOr<ShardListReader::Page> ShardListReader::Decode(const Part& part,
                                                              const container::TablePage& bytes) const {
  const auto wrong = [&](std::string_view what) {
    return part.table->Damage(StrCat("page ", bytes.number, ": ", what));
  };
  const auto entries = format::DecodeShardPage(bytes.bytes);
  Page page{.first_shard = part.first_shard + kShardsOfPage * bytes.number};
  if (entries.ok()) {
    for (const format::ShardEntry& entry : *entries) {
      page.shards.push_back(
          {std::string(entry.name), entry.bytes, entry.samples, entry.blocks, entry.content_hash, entry.sha256});
      page.first_samples.push_back(part.first_sample + entry.first_sample);
    }
  }
  // A file that was cut is reported in place of any result: everything read from its map may then be wrong.
  SHARDKIT_RETURN_IF_ERROR(part.table->CheckMapped());
  if (!entries.ok()) return wrong(ToStd(entries.status().message()));
  const uint64_t before = kShardsOfPage * bytes.number;
  if (page.shards.size() != std::min(kShardsOfPage, part.totals.shards - before)) {
    return wrong(StrCat("has ", page.shards.size(), " shards, unlike its place in the list"));
  }
  const uint64_t end = entries->back().first_sample + entries->back().samples;
  const bool last = before + page.shards.size() == part.totals.shards;
  if (entries->front().first_sample != bytes.first || end > part.totals.samples ||
      (last && end != part.totals.samples)) {
    return wrong("the samples of its shards, its fence and the list disagree");
  }
  page.first_samples.push_back(part.first_sample + end);
  for (size_t i = 0; i < page.shards.size(); ++i) {
    if (!IsSafeName(page.shards[i].name)) {
      return wrong(
          StrCat("shard ", before + i, ": its name would lead out of the dataset's directory, or is not UTF-8"));
    }
  }
  return page;
}

std::shared_ptr<const ShardListReader::Page> ShardListReader::FindKept(
    const std::function<bool(const Page&)>& wanted) const {
  std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(kept_, [&](const auto& page) { return wanted(*page); });
  if (found == kept_.end()) return nullptr;
  std::rotate(kept_.begin(), found, found + 1);
  return kept_.front();
}

absl::StatusOr<std::shared_ptr<const ShardListReader::Page>> ShardListReader::Load(const Part& part,
                                                                                   uint64_t number) const {
  // Read outside the lock: two threads may read the same page at once.
  absl::StatusOr<container::TablePage> bytes = part.table->Page(number, /*keep=*/false);
  if (!bytes.ok()) return Advise(bytes.status());
  absl::StatusOr<Page> decoded = Decode(part, *bytes);
  if (!decoded.ok()) return Advise(decoded.status());
  auto page = std::make_shared<const Page>(*std::move(decoded));
  std::lock_guard lock(mutex_);
  kept_.push_front(page);
  if (kept_.size() > kKeptPages) kept_.pop_back();
  return page;
}

absl::StatusOr<std::shared_ptr<const ShardListReader::Page>> ShardListReader::PageOfShard(size_t number) const {
  if (all_) return all_;
  const auto holds = [number](const Page& page) {
    return number >= page.first_shard && number - page.first_shard < page.shards.size();
  };
  if (auto kept = FindKept(holds)) return kept;
  const Part& part = *std::prev(std::ranges::upper_bound(parts_, number, {}, &Part::first_shard));
  return Load(part, (number - part.first_shard) / kShardsOfPage);
}

absl::StatusOr<std::shared_ptr<const ShardListReader::Page>> ShardListReader::PageOfSample(uint64_t sample) const {
  if (all_) return all_;
  const auto holds = [sample](const Page& page) { return page.HoldsSample(sample); };
  if (auto kept = FindKept(holds)) return kept;
  const Part& part = PartOfSample(sample);
  // Of pages that begin with the sample all but the last hold shards without samples.
  auto number = part.table->FindPage(sample - part.first_sample);
  for (; number.ok() && *number < part.table->page_count(); ++*number) {
    SHARDKIT_ASSIGN_OR_RETURN(auto page, Load(part, *number));
    if (holds(*page)) return page;
    if (page->first_samples.front() > sample) break;
  }
  if (!number.ok()) return Advise(number.status());
  return Advise(part.table->Damage(StrCat("no shard holds sample ", sample)));
}

// The last segment that begins with the sample or before: those without samples lie before it.
const ShardListReader::Part& ShardListReader::PartOfSample(uint64_t sample) const {
  return *std::prev(std::ranges::upper_bound(parts_, sample, {}, &Part::first_sample));
}

absl::StatusOr<ShardListReader::Readings> ShardListReader::StartReading(std::span<const uint64_t> samples) const {
  std::vector<std::vector<uint64_t>> locals(parts_.size());
  for (const uint64_t sample : samples) {
    if (all_ || FindKept([sample](const Page& page) { return page.HoldsSample(sample); })) continue;
    const Part& part = PartOfSample(sample);
    locals[static_cast<size_t>(&part - parts_.data())].push_back(sample - part.first_sample);
  }
  Readings readings(parts_.size());
  for (size_t i = 0; i < parts_.size(); ++i) {
    SHARDKIT_ASSIGN_OR_RETURN(readings[i], parts_[i].table->StartPages(locals[i]));
  }
  return readings;
}

absl::Status ShardListReader::FinishReading(Readings readings) const {
  for (size_t i = 0; i < readings.size(); ++i) {
    SHARDKIT_RETURN_IF_ERROR(parts_[i].table->FinishPages(std::move(readings[i])));
  }
  return absl::OkStatus();
}

absl::StatusOr<PlacedShard> ShardListReader::Get(size_t number) const {
  SHARDKIT_ASSIGN_OR_RETURN(const auto page, PageOfShard(number));
  const size_t i = number - page->first_shard;
  return PlacedShard{number, page->first_samples[i], page->shards[i]};
}

absl::StatusOr<ShardListReader::Place> ShardListReader::Locate(uint64_t sample) const {
  SHARDKIT_ASSIGN_OR_RETURN(const auto page, PageOfSample(sample));
  const auto after = std::ranges::upper_bound(page->first_samples, sample);
  const size_t i = static_cast<size_t>(after - page->first_samples.begin()) - 1;
  return Place{page->first_shard + i, page->first_samples[i]};
}

absl::Status ShardListReader::ForEach(const std::function<absl::Status(const ManifestShard&)>& take) const {
  if (all_) {
    for (const ManifestShard& shard : all_->shards) SHARDKIT_RETURN_IF_ERROR(take(shard));
    return absl::OkStatus();
  }
  for (const Part& part : parts_) {
    format::ShardListTotals sums;
    bool fits = true;
    absl::Status taken;
    const absl::Status read = part.table->ForEachPage([&](const container::TablePage& bytes) -> absl::Status {
      SHARDKIT_ASSIGN_OR_RETURN(Page page, Decode(part, bytes));
      if (page.first_samples.front() != part.first_sample + sums.samples) {
        return part.table->Damage(
            StrCat("page ", bytes.number, ": does not begin with the sample after the page before"));
      }
      for (const ManifestShard& shard : page.shards) {
        ++sums.shards;
        sums.samples += shard.samples;
        fits = fits && CheckedAdd(sums.blocks, shard.blocks, &sums.blocks) &&
               CheckedAdd(sums.bytes, shard.bytes, &sums.bytes);
        taken = take(shard);
        if (!taken.ok()) return taken;
      }
      return absl::OkStatus();
    });
    SHARDKIT_RETURN_IF_ERROR(taken);
    if (!read.ok()) return Advise(read);
    if (!fits || sums != part.totals) {
      return Advise(part.table->Damage("samples, blocks or bytes in its root are not the sums over its shards"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ManifestShard>> ShardListReader::ReadAll() const {
  if (all_) return all_->shards;
  std::vector<ManifestShard> shards;
  SHARDKIT_RETURN_IF_ERROR(ForEach([&](const ManifestShard& shard) {
    shards.push_back(shard);
    return absl::OkStatus();
  }));
  SHARDKIT_RETURN_IF_ERROR(Annotate(CheckNames(shards, summary_), JoinPath(directory_, kManifestName)));
  return shards;
}

absl::Status ReadListedShards(ReadableFileSystem& file_system, const std::string& directory, Manifest* manifest) {
  if (!manifest->shards_in_segments()) return absl::OkStatus();
  auto segments = OpenSegments(file_system, directory, manifest->segments);
  SHARDKIT_ASSIGN_OR_RETURN(const auto reader, ShardListReader::Open(directory, manifest, &segments));
  SHARDKIT_ASSIGN_OR_RETURN(manifest->shards, reader->ReadAll());
  return absl::OkStatus();
}

}  // namespace shardkit::dataset
