#include "loader/engine/block_fetcher.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "base/exceptions.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace shardkit::loader {

void BlockFetcher::Fetch(BlockEntry& entry) const {
  try {
    ReadOrSalvage(entry);
  } catch (...) {
    entry.buffer = BlockBuffer();
    entry.status = StatusOfException(StrCat(datasets_.readers[entry.key.dataset]->path(), ": shard ", entry.place.shard,
                                            ", block ", entry.place.block, ": reading it"));
  }
}

void BlockFetcher::ReadOrSalvage(BlockEntry& entry) const {
  const DatasetReader& reader = *datasets_.readers[entry.key.dataset];
  const auto read = [&](bool leave) {
    entry.page_cache = {.leave = leave};
    entry.buffer.state().page_cache = &entry.page_cache;
    entry.status = reader.ReadBlock(entry.place.shard, entry.place.block, &entry.buffer, &entry.view);
    entry.buffer.state().page_cache = nullptr;
    if (!entry.status.ok()) return;
    for (const size_t column : datasets_.missing[entry.key.dataset]) entry.view.InsertMissing(column);
  };
  read(left_.Worthwhile(entry));
  if (entry.status.ok() && !left_.Takes(entry.view)) read(false);
  if (entry.status.ok()) {
    BlockBuffer::State& state = entry.buffer.state();
    const bool mapped = state.mapped != nullptr || (state.shown != nullptr && state.shown->Mapped());
    if (!mapped && entry.page_cache.left_bytes == 0) state.Pin(nullptr);  // its shard may be closed
    return;
  }
  // A failed block holds no memory, so that it is never dropped and read again, and its error stays.
  entry.buffer = BlockBuffer();
  if (absl::IsDataLoss(entry.status)) Salvage(entry);
}

// Reads the values of a damaged block one by one, because perhaps only one is bad. So both policies for bad samples
// know which samples are bad. Sets entry.status for an error that is not damage of single values.
void BlockFetcher::Salvage(BlockEntry& entry) const {
  const absl::Status damage = std::exchange(entry.status, absl::OkStatus());
  auto samples = std::make_unique<SalvagedBlock>(entry.place.sample_count);
  for (SalvagedSample& sample : *samples) sample.values.resize(datasets_.columns.size());
  for (size_t column = 0; column < datasets_.columns.size() && entry.status.ok(); ++column) {
    if (std::ranges::binary_search(datasets_.missing[entry.key.dataset], column)) continue;
    entry.status = SalvageColumn(entry, column, *samples);
  }
  const bool found = std::ranges::any_of(*samples, [](const SalvagedSample& sample) { return !sample.status.ok(); });
  // When no value is bad, the damage is in bytes that no value needs, such as padding. Then kSkip has nothing to skip.
  if (entry.status.ok() && !found && bad_samples_ == BadSamples::kFail) {
    entry.status = WithWayOn(damage);
  }
  if (entry.status.ok()) entry.salvage = std::move(samples);
}

absl::Status BlockFetcher::SalvageColumn(const BlockEntry& entry, size_t column, SalvagedBlock& samples) const {
  const DatasetReader& reader = *datasets_.readers[entry.key.dataset];
  const std::vector<size_t>& missing = datasets_.missing[entry.key.dataset];
  // Its position among the columns of the dataset.
  const auto own = column - static_cast<size_t>(std::ranges::lower_bound(missing, column) - missing.begin());
  BlockBuffer buffer;
  absl::Status all;  // the error of all values, in a column that is stored as a whole
  for (uint32_t i = 0; i < entry.place.sample_count; ++i) {
    SHARDKIT_RETURN_IF_ERROR(stopped_.Check("reading a damaged block"));
    SalvagedSample& sample = samples[i];
    if (!sample.status.ok()) continue;
    sample.status = all;
    if (!all.ok()) continue;
    auto value = reader.ReadValue(entry.place.first_sample + i, own, &buffer);
    if (value.ok()) {
      if (*value) sample.values[column] = std::string(**value);
      continue;
    }
    if (!absl::IsDataLoss(value.status())) return value.status();
    sample.status = value.status();
    if (!datasets_.columns[column].has_values_chunk()) all = sample.status;
  }
  return absl::OkStatus();
}

}  // namespace shardkit::loader
