#include "container/read/paged_table_reader.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "format/constants.h"
#include "io/read_again.h"

namespace shardkit::container {

using format::Fence;
using format::kFenceBytes;
using format::kFencesOfPage;
using format::kTableTailBytes;

namespace {

constexpr uint64_t kTableTailRead = 65536;
constexpr uint64_t kPagesRead = uint64_t{16} << 20;

}  // namespace

absl::Status PagedTable::Damage(std::string_view what) const {
  return DataLoss(file_->path(), ": ", format::TableName(section_.kind), " at byte ", place_.offset, ": ", what,
                  remedy_.empty() ? "" : "; ", remedy_);
}

absl::StatusOr<std::string> PagedTable::ReadBytes(uint64_t offset, uint64_t length) const {
  std::string bytes(length, '\0');
  SHARDKIT_RETURN_IF_ERROR(file_->ReadAt(place_.offset + offset, {bytes.data(), bytes.size()}));
  return bytes;
}

void PagedTable::Begin(std::shared_ptr<const RandomAccessFile> file, const format::TablePlace& place,
                       const format::TableTail& tail, format::TableSection section) {
  file_ = std::move(file);
  place_ = place;
  tail_ = tail;
  section_ = std::move(section);
  fence_pages_.resize(section_.fence_page_count());
  if (file_->Mapped()) checked_ = std::vector<std::atomic<uint8_t>>(section_.page_count);
}

absl::StatusOr<std::vector<std::unique_ptr<PagedTable>>> PagedTable::OpenAll(
    std::shared_ptr<const RandomAccessFile> file, const format::TablePlace& place, std::string_view name) {
  const auto damage = [&](std::string_view what) {
    return DataLoss(file->path(), ": ", name, " at byte ", place.offset, ": ", what);
  };
  const auto read = [&](uint64_t offset, uint64_t length) -> absl::StatusOr<std::string> {
    std::string bytes(length, '\0');
    SHARDKIT_RETURN_IF_ERROR(file->ReadAt(place.offset + offset, {bytes.data(), bytes.size()}));
    return bytes;
  };
  format::TableTail tail;
  const auto read_root = [&]() -> absl::StatusOr<std::vector<format::TableSection>> {
    const uint64_t wanted = place.root >= kTableTailBytes ? place.root : kTableTailRead;
    const uint64_t length = std::min(place.length, wanted);
    if (length < kTableTailBytes) return damage("is too short");
    SHARDKIT_ASSIGN_OR_RETURN(std::string end, read(place.length - length, length));
    const auto decoded = format::DecodeTableTail(std::string_view(end).substr(length - kTableTailBytes), place.length);
    if (!decoded.ok()) {
      const std::string_view why = ToStd(decoded.status().message());
      return WithMessage(decoded.status(), StrCat(file->path(), ": ", name, why.substr(why.find(':'))));
    }
    tail = *decoded;
    if (tail.root_length + kTableTailBytes > length) {
      SHARDKIT_ASSIGN_OR_RETURN(end, read(tail.root_offset(), tail.root_length + kTableTailBytes));
    }
    const std::string_view root =
        std::string_view(end).substr(end.size() - kTableTailBytes - tail.root_length, tail.root_length);
    if (Hash64(root) != tail.root_checksum) return damage("checksum of the root is wrong");
    auto sections = format::DecodeTableRoot(tail, root);
    if (!sections.ok()) return damage(ToStd(sections.status().message()));
    return sections;
  };
  SHARDKIT_ASSIGN_OR_RETURN(std::vector<format::TableSection> sections, io::RetryIfDamaged(*file, read_root));
  std::vector<std::unique_ptr<PagedTable>> tables;
  for (format::TableSection& section : sections) {
    tables.emplace_back(new PagedTable())->Begin(file, place, tail, std::move(section));
  }
  return tables;
}

absl::StatusOr<std::unique_ptr<PagedTable>> PagedTable::Open(std::shared_ptr<const RandomAccessFile> file,
                                                             const format::TablePlace& place, format::TableKind kind) {
  SHARDKIT_ASSIGN_OR_RETURN(auto sections, OpenAll(std::move(file), place, format::TableName(kind)));
  if (sections.size() == 1 && sections[0]->kind() == kind) return std::move(sections[0]);
  return sections[0]->Damage(StrCat("a table of a ", format::TableName(kind), " alone belongs there"));
}

absl::Status PagedTable::LoadFencePages(uint64_t number, uint64_t end) const {
  uint64_t begin = number * kFencesOfPage;
  const uint64_t count = std::min(kFencesOfPage * (end - number), section_.page_count - begin);
  SHARDKIT_ASSIGN_OR_RETURN(const std::string bytes,
                            ReadBytes(section_.pages_end + kFenceBytes * begin, kFenceBytes * count));
  for (std::string_view rest = bytes; number < end; ++number, begin += kFencesOfPage) {
    const std::string_view page = rest.substr(0, format::kFencePageBytes);
    rest.remove_prefix(page.size());
    const Fence& above = section_.fences[number];
    if (Hash64(page) != above.checksum) return Damage(StrCat("checksum of fence page ", number, " is wrong"));
    auto fences = std::make_shared<const std::vector<Fence>>(format::DecodeFences(page));
    const bool last = number + 1 == section_.fences.size();
    const absl::Status order = format::CheckFences(
        *fences, above.offset, last ? section_.pages_end : section_.fences[number + 1].offset, begin);
    if (!order.ok()) return Damage(ToStd(order.message()));
    if (fences->front().first != above.first || (!last && fences->back().first > section_.fences[number + 1].first)) {
      return Damage(StrCat("fence page ", number, " contradicts the root"));
    }
    std::lock_guard lock(mutex_);
    if (!fence_pages_[number]) fence_pages_[number] = std::move(fences);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const std::vector<Fence>>> PagedTable::FencePage(uint64_t number) const {
  {
    std::lock_guard lock(mutex_);
    if (fence_pages_[number]) return fence_pages_[number];
  }
  SHARDKIT_RETURN_IF_ERROR(io::RetryIfDamaged(*file_, [&] { return LoadFencePages(number, number + 1); }));
  std::lock_guard lock(mutex_);
  return fence_pages_[number];
}

absl::Status PagedTable::LoadFences() const {
  const uint64_t count = section_.fence_page_count();
  {
    std::lock_guard lock(mutex_);
    if (std::ranges::all_of(fence_pages_, [](const auto& page) { return page != nullptr; })) return absl::OkStatus();
  }
  return io::RetryIfDamaged(*file_, [&] { return LoadFencePages(0, count); });
}

absl::StatusOr<uint64_t> PagedTable::FindPage(uint64_t key) const {
  // The first fence with `key` itself, else the last one below it.
  const auto find = [key](const std::vector<Fence>& fences) {
    const auto found = std::ranges::lower_bound(fences, key, {}, &Fence::first);
    const bool equal = found != fences.end() && found->first == key;
    return static_cast<uint64_t>(found - fences.begin()) - (equal || found == fences.begin() ? 0 : 1);
  };
  uint64_t number = find(section_.fences);
  if (section_.fence_page_count() == 0) return number;
  // A run of pages that begin with `key` may start within the fence page before the one that begins with it. Both are
  // read at once.
  if (number > 0 && section_.fences[number].first == key) {
    SHARDKIT_RETURN_IF_ERROR(io::RetryIfDamaged(*file_, [&] { return LoadFencePages(number - 1, number + 1); }));
  }
  while (number > 0 && section_.fences[number].first == key) {
    SHARDKIT_ASSIGN_OR_RETURN(const auto before, FencePage(number - 1));
    if (before->back().first != key) break;
    --number;
  }
  SHARDKIT_ASSIGN_OR_RETURN(const auto fences, FencePage(number));
  return number * kFencesOfPage + find(*fences);
}

absl::StatusOr<PagedTable::PagePlace> PagedTable::PlaceOf(uint64_t number) const {
  PagePlace place{.end = section_.pages_end};
  if (section_.fence_page_count() == 0) {
    place.fence = section_.fences[number];
    if (number + 1 < section_.fences.size()) place.end = section_.fences[number + 1].offset;
    return place;
  }
  SHARDKIT_ASSIGN_OR_RETURN(const auto fences, FencePage(number / kFencesOfPage));
  const uint64_t at = number % kFencesOfPage;
  place.fence = (*fences)[at];
  if (at + 1 < fences->size()) {
    place.end = (*fences)[at + 1].offset;
  } else if (number / kFencesOfPage + 1 < section_.fences.size()) {
    place.end = section_.fences[number / kFencesOfPage + 1].offset;
  }
  return place;
}

absl::Status PagedTable::WrongChecksum(uint64_t number) const {
  return Damage(StrCat("page ", number, ": checksum is wrong"));
}

absl::StatusOr<TablePage> PagedTable::Page(uint64_t number, bool keep) const {
  if (number >= section_.page_count) return Damage(StrCat("there is no page ", number));
  SHARDKIT_ASSIGN_OR_RETURN(const PagePlace place, PlaceOf(number));
  const Fence& fence = place.fence;
  const uint64_t length = place.end - fence.offset;
  TablePage page{.number = number, .first = fence.first};
  if (const auto mapped = file_->Mapped()) {
    page.bytes = mapped->substr(place_.offset + fence.offset, length);
    if (checked_[number].load(std::memory_order_acquire) == 0) {
      const bool right = Hash64(page.bytes) == fence.checksum;
      SHARDKIT_RETURN_IF_ERROR(file_->CheckMapped());
      if (!right) return WrongChecksum(number);
      checked_[number].store(1, std::memory_order_release);
    }
    return page;
  }
  {
    std::lock_guard lock(mutex_);
    if (const auto found = kept_.find(number); found != kept_.end()) return found->second;
  }
  std::string bytes;
  const absl::Status read = io::RetryIfDamaged(*file_, [&]() -> absl::Status {
    SHARDKIT_ASSIGN_OR_RETURN(bytes, ReadBytes(fence.offset, length));
    return Hash64(bytes) == fence.checksum ? absl::OkStatus() : WrongChecksum(number);
  });
  SHARDKIT_RETURN_IF_ERROR(read);
  page.memory = std::make_shared<const std::string>(std::move(bytes));
  page.bytes = *page.memory;
  if (keep) Keep(page);
  return page;
}

void PagedTable::Keep(const TablePage& page) const {
  std::lock_guard lock(mutex_);
  if (!kept_.try_emplace(page.number, page).second) return;
  kept_numbers_.push_back(page.number);
  if (kept_numbers_.size() <= kKeptPages) return;
  kept_.erase(kept_numbers_.front());
  kept_numbers_.pop_front();
}

absl::StatusOr<std::unique_ptr<PagedTable::Reading>> PagedTable::StartPages(std::span<const uint64_t> keys) const {
  if (file_->Mapped() || section_.page_count == 0) return nullptr;
  std::vector<uint64_t> numbers;
  for (const uint64_t key : keys) {
    SHARDKIT_ASSIGN_OR_RETURN(numbers.emplace_back(), FindPage(key));
  }
  return StartNumbers(std::move(numbers));
}

absl::StatusOr<std::unique_ptr<PagedTable::Reading>> PagedTable::StartNumbers(std::vector<uint64_t> wanted) const {
  if (file_->Mapped() || section_.page_count == 0) return nullptr;
  auto reading = std::make_unique<Reading>();
  std::vector<uint64_t>& numbers = reading->numbers = std::move(wanted);
  {
    std::lock_guard lock(mutex_);
    std::erase_if(numbers, [this](uint64_t number) { return kept_.contains(number); });
  }
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  if (numbers.size() > kKeptPages) numbers.resize(kKeptPages);
  if (numbers.empty()) return nullptr;
  std::vector<ReadRequest> requests;
  reading->pages.resize(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    SHARDKIT_ASSIGN_OR_RETURN(const PagePlace place, PlaceOf(numbers[i]));
    reading->fences.push_back(place.fence);
    reading->pages[i].resize(place.end - place.fence.offset);
    requests.push_back({place_.offset + place.fence.offset, reading->pages[i]});
  }
  reading->read.emplace(*file_, requests);
  return reading;
}

absl::Status PagedTable::FinishPages(std::unique_ptr<Reading> reading) const {
  if (reading == nullptr) return absl::OkStatus();
  SHARDKIT_RETURN_IF_ERROR(reading->read->Wait());
  for (size_t i = 0; i < reading->numbers.size(); ++i) {
    if (Hash64(reading->pages[i]) != reading->fences[i].checksum) continue;
    auto memory = std::make_shared<const std::string>(std::move(reading->pages[i]));
    Keep({.number = reading->numbers[i], .first = reading->fences[i].first, .bytes = *memory, .memory = memory});
  }
  return absl::OkStatus();
}

std::pair<uint64_t, uint64_t> PagedTable::MappedRange(uint64_t first, uint64_t end) const {
  if (first >= end || !file_->Mapped()) return {};
  const auto begin = PlaceOf(first), last = PlaceOf(end - 1);
  if (!begin.ok() || !last.ok()) return {};
  return {place_.offset + begin->fence.offset, last->end - begin->fence.offset};
}

void PagedTable::WillNeed(uint64_t first, uint64_t end) const {
  const auto [offset, length] = MappedRange(first, end);
  if (length != 0) file_->WillNeed(offset, length);
}

void PagedTable::LetGo(uint64_t first, uint64_t end) const {
  const auto [offset, length] = MappedRange(first, end);
  if (length != 0) file_->WontNeed(offset, length);
}

absl::Status PagedTable::ForEachPage(const std::function<absl::Status(const TablePage&)>& take) const {
  const auto check_magic = [this](std::string_view magic) {
    return magic == format::kTableMagic ? absl::OkStatus() : Damage("does not begin as one does");
  };
  const bool first = section_.begin == format::kTableMagicBytes;
  if (file_->Mapped() || section_.page_count == 0) {
    if (first) {
      SHARDKIT_ASSIGN_OR_RETURN(const std::string magic, ReadBytes(0, format::kTableMagicBytes));
      SHARDKIT_RETURN_IF_ERROR(check_magic(magic));
    }
    uint64_t held = 0, bytes = 0;  // pages from `held` on
    for (uint64_t number = 0; number < section_.page_count; ++number) {
      SHARDKIT_ASSIGN_OR_RETURN(const TablePage page, Page(number));
      SHARDKIT_RETURN_IF_ERROR(take(page));
      bytes += page.bytes.size();
      if (bytes < kPagesRead && number + 1 < section_.page_count) continue;
      LetGo(std::exchange(held, number + 1), number + 1);
      bytes = 0;
    }
    return absl::OkStatus();
  }
  for (uint64_t number = 0, begin = first ? 0 : section_.begin; number < section_.page_count;) {
    std::vector<PagePlace> places;
    do {
      SHARDKIT_ASSIGN_OR_RETURN(const PagePlace place, PlaceOf(number + places.size()));
      if (!places.empty() && place.end - begin > kPagesRead) break;
      places.push_back(place);
    } while (number + places.size() < section_.page_count);
    const uint64_t end = places.back().end;
    SHARDKIT_ASSIGN_OR_RETURN(std::string bytes, ReadBytes(begin, end - begin));
    const auto memory = std::make_shared<const std::string>(std::move(bytes));
    if (begin == 0)
      SHARDKIT_RETURN_IF_ERROR(check_magic(std::string_view(*memory).substr(0, format::kTableMagicBytes)));
    for (const PagePlace& place : places) {
      TablePage page{.number = number, .first = place.fence.first, .memory = memory};
      page.bytes = std::string_view(*memory).substr(place.fence.offset - begin, place.end - place.fence.offset);
      if (Hash64(page.bytes) != place.fence.checksum) {
        SHARDKIT_ASSIGN_OR_RETURN(page, Page(number, /*keep=*/false));  // it may have been damaged on its way
      }
      SHARDKIT_RETURN_IF_ERROR(take(page));
      ++number;
    }
    begin = end;
  }
  return absl::OkStatus();
}

}  // namespace shardkit::container
