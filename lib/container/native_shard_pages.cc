// Reading paged columns.
#include <utility>

#include "base/checked.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "container/decompression_limit.h"
#include "container/native_shard_reader.h"
#include "container/record_reader.h"
#include "format/chunk.h"
#include "io/read_again.h"

namespace shardkit::container {

// Makes the view of a paged column: without the values if only its head was wanted. With `damage`, what a damaged page
// held is recorded there.
absl::StatusOr<ColumnView> NativeShardReader::PlacePages(size_t i, const char* base, BlockBuffer::State& state,
                                                         BlockDamage* damage) const {
  const format::ColumnEntry& entry = state.header.columns[i];
  const uint64_t padded_length = RoundUp(entry.values_length, format::kChunkAlignment);
  const format::PageTable& table = state.paged[i].table;
  const uint32_t sample_count = state.header.sample_count;
  const char* const presence = table.presence();
  if (static_cast<Part>(state.wanted[i]) != Part::kAll) {
    return ColumnView(sample_count, presence, nullptr, nullptr, 0, 0);
  }
  const auto damaged = [&](const absl::Status& status) {
    return Annotate(status, StrCat("column ", i, " \"", header_.schema[i].name, "\""));
  };
  SHARDKIT_ASSIGN_OR_RETURN(const bool whole, CheckValues(i, base, state, damage));
  const std::string_view padding(base + entry.values_offset + entry.values_length, padded_length - entry.values_length);
  if (whole && !format::AllZero(padding)) return damaged(DataLoss("padding after the values chunk is not zero"));

  const size_t place = state.places.size();
  state.places.resize(place + 2 * size_t{sample_count});
  uint64_t* const begins = state.places.data() + place;
  uint64_t* const ends = begins + sample_count;
  for (size_t k = 0; k < table.size(); ++k) {
    const uint32_t first = table.first(k);
    const std::string_view page = state.paged[i].values.substr(table.begin(k), table.length(k));
    absl::Status status = whole ? absl::OkStatus() : format::CheckPageChecksum(page);
    if (status.ok()) status = table.Place(k, page, begins + first, ends + first);
    if (status.ok()) continue;
    const std::string chunk_is = whole || damage != nullptr ? "" : "values chunk checksum is wrong; ";
    status = damaged(Annotate(status, StrCat(chunk_is, table.Describe(k))));
    if (damage == nullptr) return status;
    for (uint32_t sample = first; sample < table.last(k); ++sample) {
      begins[sample] = ends[sample] = 0;
      if (table.present(sample)) damage->values[{sample, i}] = status;
    }
  }
  if (!whole && damage == nullptr) return damaged(DataLoss("values chunk checksum is wrong"));
  return ColumnView::Scattered(sample_count, presence, reinterpret_cast<const char*>(begins),
                               reinterpret_cast<const char*>(ends), state.paged[i].values.data());
}

// Reads the page of a paged column that lies at these bytes of the file, which the block's header has shown to lie in
// it, and checks its checksum.
absl::StatusOr<std::string_view> NativeShardReader::ReadPage(uint64_t begin, uint64_t end,
                                                             BlockBuffer::State& state) const {
  const bool known = state.page_owner == identity_ && state.page_begin == begin;
  state.page_owner = 0;
  std::string_view page;
  const auto read = [&]() -> absl::Status {
    if (const auto mapped = file_->Mapped()) {
      page = mapped->substr(begin, end - begin);
    } else {
      if (!known) {
        SHARDKIT_RETURN_IF_ERROR(CheckBlockMemory(options_, end - begin, "the page has"));
        state.page.resize_discard(end - begin);
        SHARDKIT_RETURN_IF_ERROR(ReadOfListed(file_->ReadAt(begin, {state.page.data(), state.page.size()})));
      }
      page = state.page.view();
    }
    return known || options_.verify == Verify::kNever ? absl::OkStatus() : format::CheckPageChecksum(page);
  };
  SHARDKIT_RETURN_IF_ERROR(io::ReadAgainIfDamaged(*file_, read));
  state.page_owner = identity_;
  state.page_begin = begin;
  return page;
}

}  // namespace shardkit::container
