#include "loader/engine/page_cache_values.h"

#include <cstring>
#include <utility>

#include "base/endian.h"
#include "base/errors.h"
#include "base/hash.h"
#include "format/constants.h"
#include "io/spare_files.h"

namespace shardkit::loader {
namespace {

using format::kValueChecksumBytes;

// Neighbours are read together, as many as stay in the second-level cache until they are checked and copied. From
// kDirectBytes on, a request of its own costs less than that copy.
constexpr uint64_t kRunBytes = uint64_t{128} << 10;
constexpr uint64_t kDirectBytes = uint64_t{16} << 10;

// Bytes of a value from which a request for it alone costs less than copying it twice, on machines whose system calls
// are slow, too.
constexpr uint64_t kLeastAlone = uint64_t{16} << 10;

// The same for the blocks of the first batch, for which the consumer waits: it needs a few values of each, and memory
// for blocks would be new. Smaller values would delay the batches after it.
constexpr uint64_t kLeastAtFirst = uint64_t{2} << 10;

}  // namespace

PageCacheValues::PageCacheValues(const LoaderOptions& options, const OpenDatasets& datasets,
                                 std::span<const std::unique_ptr<ColumnAssembler>> columns)
    : verify_(options.read.verify == Verify::kEvery),
      neighbours_(options.plan.order == SampleOrder::kSequential && options.world_size == 1),
      taken_(datasets.columns.size()) {
  for (const auto& column : columns) taken_[column->position()] = true;
  for (const auto& column : columns) {
    if (!column->takes_from_page_cache()) taken_[column->position()] = false;
  }
  if (datasets.key_column) taken_[*datasets.key_column] = false;
  for (size_t i = 0; i < taken_.size(); ++i) {
    if (!datasets.columns[i].is_blob()) continue;
    on_ = options.read.mode == ReadMode::kAuto && taken_[i];
    if (!on_) break;
  }
}

bool PageCacheValues::Worthwhile(const BlockEntry& block) {
  if (!on_ || (!block.may_leave && !block.for_first_batch)) return false;
  const uint64_t least = neighbours_ ? 0 : block.for_first_batch ? kLeastAtFirst : kLeastAlone;
  if (block.place.length / block.place.sample_count < least) return false;
  if (io::OpenDescriptors() > io::MostDescriptors()) return false;  // the block would keep its shard open
  uint32_t whole = blocks_whole_.load(std::memory_order_relaxed);
  while (whole > 0 && !blocks_whole_.compare_exchange_weak(whole, whole - 1, std::memory_order_relaxed)) {
  }
  return whole == 0;
}

bool PageCacheValues::Takes(const BlockView& view) const {
  for (size_t i = 0; i < taken_.size(); ++i) {
    if (view.column(i).in_file() && !taken_[i]) return false;
  }
  return true;
}

bool PageCacheValues::Matches(const char* value, size_t length, uint64_t checksum) const {
  return !verify_ || Hash64(value, length) == LoadLittle<uint64_t>(reinterpret_cast<const char*>(&checksum));
}

size_t PageCacheValues::Copy(Assembly& assembly, size_t column, size_t begin, size_t end, char* to, Buffer& scratch) {
  const AssemblySample& first = assembly.samples[begin];
  const ColumnView& view = first.view->column(column);
  const auto [from, first_end] = view.record(first.in_block);
  size_t next = begin + 1;
  uint64_t until = first_end;
  for (; first_end - from < kDirectBytes && next < end && assembly.samples[next].view == first.view; ++next) {
    const auto [record, record_end] = view.record(assembly.samples[next].in_block);
    if (record != until || record_end - from > kRunBytes) break;
    until = record_end;
  }
  if (next == begin + 1) {
    CopyOne(assembly, column, begin, to);
    return next;
  }
  scratch.resize_discard(until - from);
  const std::span<char> run(scratch.data(), scratch.size());
  const bool cached = first.file->ReadCached(from, {&run, 1});
  if (!cached) CountWait();
  const bool read = cached || first.file->ReadAt(from, run).ok();
  for (size_t i = begin; i < next; ++i) {
    const auto [record, record_end] = view.record(assembly.samples[i].in_block);
    if (record == record_end) continue;  // absent
    const char* const value = run.data() + (record - from);
    const size_t length = record_end - record - kValueChecksumBytes;
    uint64_t checksum;
    if (read) std::memcpy(&checksum, value + length, sizeof(checksum));
    if (read && Matches(value, length, checksum)) {
      std::memcpy(to, value, length);
    } else {
      CopyOne(assembly, column, i, to);
    }
    to += length;
  }
  bytes_.fetch_add(until - from, std::memory_order_relaxed);
  return next;
}

void PageCacheValues::CopyOne(Assembly& assembly, size_t column, size_t sample, char* to) {
  const AssemblySample& from = assembly.samples[sample];
  const auto [record, record_end] = from.view->column(column).record(from.in_block);
  if (record == record_end) return;  // absent
  const size_t length = record_end - record - kValueChecksumBytes;
  uint64_t checksum;
  const std::span<char> parts[] = {{to, length}, {reinterpret_cast<char*>(&checksum), sizeof(checksum)}};
  absl::Status status;
  if (!from.file->ReadCached(record, parts)) {
    CountWait();
    status = from.file->ReadAt(record, parts[0]);
    if (status.ok()) status = from.file->ReadAt(record + length, parts[1]);
  }
  if (status.ok() && !Matches(to, length, checksum)) {
    status = DataLoss(from.file->path(), ": byte ", record, ": value checksum is wrong");
  }
  if (!status.ok()) return assembly.Fail(sample, std::move(status), AssemblyFailure::kUnread);
  bytes_.fetch_add(length + sizeof(checksum), std::memory_order_relaxed);
}

}  // namespace shardkit::loader
