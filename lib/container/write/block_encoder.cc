#include "container/write/block_encoder.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "format/chunk.h"
#include "shardkit/shard.h"

namespace shardkit::container {
namespace {

using format::ColumnEntry;
using format::Encoding;

void AppendPresence(const std::vector<uint8_t>& presence, Buffer* out) {
  const size_t bytes = RoundUp((presence.size() + 7) / 8, 8);
  char* const to = out->Extend(bytes);
  std::memset(to, 0, bytes);
  for (size_t i = 0; i < presence.size(); ++i) to[i / 8] = static_cast<char>(to[i / 8] | (presence[i] << (i % 8)));
}

// Pads the chunk that begins at `begin` of `out` to the chunk alignment. Returns the checksum of chunk and padding.
uint64_t PadAndHash(size_t begin, Buffer* out) {
  out->AppendZeros(RoundUp(out->size() - begin, format::kChunkAlignment) - (out->size() - begin));
  return Hash64(out->data() + begin, out->size() - begin);
}

bool IsPresent(const RawColumn& column, uint32_t i) { return column.presence.empty() || column.presence[i] != 0; }

uint64_t EndOf(const RawColumn& column, uint32_t i) { return LoadLittle<uint64_t>(column.ends.data() + 8 * size_t{i}); }

// Computes the statistics of the column, and for blobs writes the checksum after each value.
void VisitValues(const Column& column, uint32_t sample_count, RawColumn& raw, ColumnStatistics* statistics) {
  const uint64_t fixed = column.fixed_size().value_or(0);
  const bool records = column.has_values_chunk(), blob = column.is_blob();
  uint64_t begin = 0;
  for (uint32_t i = 0; i < sample_count; ++i) {
    const uint64_t end = fixed != 0 || column.fixed_size() ? begin + fixed : EndOf(raw, i);
    if (IsPresent(raw, i)) {
      const uint64_t length = end - begin - (records ? format::kValueChecksumBytes : 0);
      if (raw.file) {
        statistics->Add(column, nullptr, length);
      } else {
        char* const value = raw.values.data() + begin;
        statistics->Add(column, value, length);
        if (blob) StoreLittle(value + length, Hash64(value, length));
      }
    }
    begin = end;
  }
}

// Appends the pages of the column to `pages`, and their table to `head`.
void AppendPages(const RawColumn& raw, uint32_t sample_count, Buffer* pages, Buffer* head) {
  format::PageBuilder builder(pages, head);
  uint64_t begin = 0;
  for (uint32_t i = 0; i < sample_count; ++i) {
    const uint64_t end = EndOf(raw, i);
    const uint64_t tail = IsPresent(raw, i) ? format::kValueChecksumBytes : 0;
    builder.Add({raw.values.data() + begin, end - tail - begin});
    begin = end;
  }
  builder.Finish();
}

}  // namespace

absl::StatusOr<EncodedBlock> BlockEncoder::Encode(const BlockEncoding& plan, RawBlock block) {
  const Schema& schema = plan.schema;
  EncodedBlock out;
  out.header.sample_count = block.sample_count;
  out.header.columns.resize(schema.size());
  out.statistics.resize(schema.size());
  uint64_t expansion = 0;  // bytes that decompressing the block will add so far
  for (size_t i = 0; i < schema.size(); ++i) {
    const Column& column = schema[i];
    RawColumn& raw = block.columns[i];
    ColumnEntry& entry = out.header.columns[i];
    if (column.is_key) {
      uint64_t begin = 0;
      for (uint32_t sample = 0; sample < block.sample_count; ++sample) {
        const uint64_t end = EndOf(raw, sample) - (column.has_values_chunk() ? format::kValueChecksumBytes : 0);
        out.key_hashes.push_back(Hash64(raw.values.data() + begin, end - begin));
        begin = EndOf(raw, sample);
      }
    }
    // Behind the records may be the padding that encoding the block before has left.
    if (column.has_values_chunk() && !raw.file) raw.values.resize(EndOf(raw, block.sample_count - 1));
    VisitValues(column, block.sample_count, raw, &out.statistics[i]);

    chunk_.clear();
    if (column.nullable) AppendPresence(raw.presence, &chunk_);
    if (column.is_paged()) {
      Buffer& pages = out.pages.emplace_back();
      if (raw.file) {
        format::AppendPageEntry(raw.file->size() + format::kPageChecksumBytes, 0, &chunk_);
      } else {
        AppendPages(raw, block.sample_count, &pages, &chunk_);
      }
    } else {
      chunk_.Append(raw.ends.view());
      if (!column.is_blob()) chunk_.Append(raw.values.view());
    }
    entry.raw_length = chunk_.size();
    std::string_view stored = chunk_.view();
    if (column.codec == Codec::kZstd) {
      if (chunk_.size() > format::kMaxZstdRawLength) {
        return InvalidArgument("column \"", column.name, "\": a block holds more than 2 GiB of it before compression; ",
                               "use a smaller block size or codec none");
      }
      SHARDKIT_RETURN_IF_ERROR(
          compressor_.Compress(stored, plan.zstd_levels[i], plan.dictionaries[i].get(), &compressed_));
      // By default readers refuse a block that grows by more than kDefaultMaxDecompression: such a chunk is stored raw.
      const uint64_t saved =
          RoundUp(stored.size(), format::kChunkAlignment) - std::min(stored.size(), compressed_.size());
      if (compressed_.size() < stored.size() && format::ZstdLengthsAllowed(compressed_.size(), stored.size()) &&
          saved <= kDefaultMaxDecompression - expansion) {
        expansion += saved;
        stored = compressed_;
        entry.encoding = plan.dictionaries[i] ? Encoding::kZstdDictionary : Encoding::kZstd;
      }
    }
    entry.stored_length = stored.size();
    const size_t begin = out.heads.size();
    out.heads.Append(stored);
    entry.checksum = PadAndHash(begin, &out.heads);

    if (column.has_values_chunk()) {
      Buffer& chunk = column.is_paged() ? out.pages.back() : raw.values;
      if (raw.file) {
        entry.values_length = raw.file->size() + format::kValueChecksumBytes;
      } else {
        entry.values_length = chunk.size();
        entry.values_checksum = PadAndHash(0, &chunk);
      }
    } else if (!plan.provisional) {
      raw = RawColumn();
    }
    out.statistics[i].stored_bytes = entry.stored_length + entry.values_length;
  }
  format::LayOutBlock(schema, out.header);
  out.raw = std::move(block);
  auto pages = out.pages.begin();
  for (const size_t i : schema.values_columns()) {
    out.values.push_back(schema[i].is_paged() ? (pages++)->view() : out.raw.columns[i].values.view());
  }
  return out;
}

}  // namespace shardkit::container
