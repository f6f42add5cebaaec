// Turns runs into masks: first the position after each run, then the masks, tile by tile.
//
// A tile is part of one mask's output, row-major. A thread takes one of the tile's columns (of bytes), finds the run of
// the first row there by binary search, and from there only steps to the next runs: in the stored mask the pixels of a
// column follow one another. Most of a mask is background and costs only the zeros that the tile begins with. The tile
// is made in shared memory, because the threads of a warp write next to each other there, and is stored in wide pieces.
#pragma once

#include <cstdint>

#include "gpu/kernels/block_grid.h"
#include "gpu/kernels/kernels.h"

namespace shardkit::gpu {

// ---- The position after each run ----

inline constexpr uint32_t kRunsPerThread = 4;
inline constexpr uint32_t kRunsPerStep = kBlockThreads * kRunsPerThread;
inline constexpr uint32_t kSumGroup = 16;  // threads whose sums are added up by one of them

struct SumRunsShared {
  uint32_t before[kBlockThreads];  // sum of the runs of the threads before it in its group
  uint32_t group[kBlockThreads / kSumGroup];
  uint32_t carry[2];  // end of the runs of the steps before, used in turn
};

inline GridSize SumRunsGrid(const RasterizeMasks& arguments) { return MakeGrid(arguments.count); }

SHARDKIT_HOST_DEVICE inline void SumOwnRuns(const uint32_t* runs, uint64_t count, uint32_t thread,
                                            SumRunsShared& shared) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < kRunsPerThread; ++i) {
    const uint64_t run = uint64_t{thread} * kRunsPerThread + i;
    if (run < count) sum += runs[run];
  }
  shared.before[thread] = sum;
}

SHARDKIT_HOST_DEVICE inline void SumGroup(uint32_t thread, SumRunsShared& shared) {
  if (thread >= kBlockThreads / kSumGroup) return;
  uint32_t sum = 0;
  for (uint32_t i = thread * kSumGroup; i < (thread + 1) * kSumGroup; ++i) {
    const uint32_t own = shared.before[i];
    shared.before[i] = sum;
    sum += own;
  }
  shared.group[thread] = sum;
}

SHARDKIT_HOST_DEVICE inline void StoreEnds(const uint32_t* runs, uint64_t count, uint32_t thread, uint32_t step,
                                           SumRunsShared& shared, uint32_t* ends) {
  uint32_t end = shared.carry[step % 2] + shared.before[thread];
  for (uint32_t group = 0; group < thread / kSumGroup; ++group) end += shared.group[group];
  for (uint32_t i = 0; i < kRunsPerThread; ++i) {
    const uint64_t run = uint64_t{thread} * kRunsPerThread + i;
    if (run < count) ends[run] = end += runs[run];
  }
  if (thread == kBlockThreads - 1) shared.carry[1 - step % 2] = end;
}

template <typename Threads>
SHARDKIT_HOST_DEVICE void SumRunsBlock(const RasterizeMasks& arguments, const BlockPlace& place, SumRunsShared& shared,
                                       const Threads& threads) {
  for (uint64_t index = place.block.x; index < arguments.count; index += place.grid.x) {
    const RasterizeMask& mask = arguments.masks[index];
    threads([&](uint32_t thread) {
      if (thread == 0) shared.carry[0] = 0;
    });
    uint32_t step = 0;
    for (uint64_t done = 0; done < mask.run_count; done += kRunsPerStep, ++step) {
      const uint32_t* const runs = arguments.runs + mask.runs + done;
      const uint64_t left = mask.run_count - done;
      threads([&](uint32_t thread) { SumOwnRuns(runs, left, thread, shared); });
      threads([&](uint32_t thread) { SumGroup(thread, shared); });
      threads([&](uint32_t thread) { StoreEnds(runs, left, thread, step, shared, arguments.ends + mask.runs + done); });
    }
  }
}

// ---- The masks ----

struct RasterizeShared {
  alignas(16) uint8_t bytes[kMaskTileBytes + 16];

  // About the tile. One thread finds these for all.
  RasterizeMask mask;
  const uint32_t* ends;  // ends of its runs
  uint32_t row_bytes;
  uint32_t first_row;     // of the tile's first byte
  uint32_t last_row;      // of the byte after its last one
  uint32_t first_column;  // in bytes
  uint32_t last_column;
  uint32_t bytes_count;
  uint32_t shift;  // of the tile in `bytes`: its place in memory modulo 16
  uint64_t out;    // bytes from RasterizeMasks::out on
  // Stored columns with foreground, [begin, end).
  uint32_t foreground_begin;
  uint32_t foreground_end;
};

inline GridSize RasterizeGrid(const RasterizeMasks& arguments) { return MakeGrid(arguments.tiles); }

// 64-bit division is slow on the device, and rarely needed.
SHARDKIT_HOST_DEVICE inline uint64_t Divide(uint64_t a, uint64_t b, uint64_t* remainder) {
  if (((a | b) >> 32) == 0) {
    *remainder = static_cast<uint32_t>(a) % static_cast<uint32_t>(b);
    return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
  }
  *remainder = a % b;
  return a / b;
}

// The last mask whose first tile is not after `tile`. Masks without pixels have no tiles and are never returned.
SHARDKIT_HOST_DEVICE inline uint64_t MaskOfTile(const RasterizeMasks& arguments, uint64_t tile) {
  uint64_t begin = 0, end = arguments.count;
  while (end - begin > 1) {
    const uint64_t middle = begin + (end - begin) / 2;
    if (arguments.masks[middle].first_tile <= tile) {
      begin = middle;
    } else {
      end = middle;
    }
  }
  return begin;
}

template <bool kPacked>
SHARDKIT_HOST_DEVICE void FindTile(const RasterizeMasks& arguments, uint64_t tile, RasterizeShared& shared) {
  const RasterizeMask mask = arguments.masks[MaskOfTile(arguments, tile)];
  const uint64_t row_bytes = kPacked ? (uint64_t{mask.width} + 7) / 8 : mask.width;
  const uint64_t all = row_bytes * mask.height;
  const uint64_t begin = (tile - mask.first_tile) * kMaskTileBytes;
  const uint64_t end = Least(begin + kMaskTileBytes, all);
  uint64_t column;
  shared.mask = mask;
  shared.ends = arguments.ends + mask.runs;
  shared.row_bytes = static_cast<uint32_t>(row_bytes);
  shared.first_row = static_cast<uint32_t>(Divide(begin, row_bytes, &column));
  shared.first_column = static_cast<uint32_t>(column);
  shared.last_row = static_cast<uint32_t>(Divide(end, row_bytes, &column));
  shared.last_column = static_cast<uint32_t>(column);
  shared.bytes_count = static_cast<uint32_t>(end - begin);
  shared.out = mask.out + begin;
  shared.shift = MisalignmentOf(arguments.out + shared.out, 16);
  shared.foreground_begin = shared.foreground_end = 0;
  if (mask.run_count >= 2) {
    const uint32_t from = shared.ends[0];
    const uint32_t to = shared.ends[mask.run_count - 1 - mask.run_count % 2];
    if (from < to) {
      shared.foreground_begin = from / mask.stored_height;
      shared.foreground_end = (to - 1) / mask.stored_height + 1;
    }
  }
}

SHARDKIT_HOST_DEVICE inline void ClearTile(uint32_t thread, RasterizeShared& shared) {
  for (uint32_t i = 16 * thread; i < sizeof(shared.bytes); i += 16 * kBlockThreads) {
    *reinterpret_cast<Vector16*>(shared.bytes + i) = Vector16{};
  }
}

// The run that holds `position`: the first one that ends after it. There must be one. The number of steps depends only
// on `run_count`, so that the threads of a warp take the steps together.
SHARDKIT_HOST_DEVICE inline uint32_t RunAt(const uint32_t* ends, uint32_t run_count, uint32_t position) {
  uint32_t begin = 0;
  for (uint32_t length = run_count; length > 1;) {
    const uint32_t half = length / 2;
    if (LoadConstant(ends + begin + half - 1) <= position) begin += half;
    length -= half;
  }
  return begin;
}

// Draws a foreground pixel, which is a whole byte or one bit.
template <bool kPacked>
SHARDKIT_HOST_DEVICE void DrawPixel(uint8_t* to, uint8_t bits) {
  if constexpr (kPacked) {
    *to |= bits;
  } else {
    *to = 1;
  }
}

// Draws the foreground of `rows` rows of one column, without tables. `to` is the byte of the first row, and rows are
// `step` bytes apart. `bits` goes into each byte.
template <bool kPacked>
SHARDKIT_HOST_DEVICE void DrawColumn(const uint32_t* ends, uint32_t run_count, uint32_t position, uint32_t rows,
                                     uint8_t* to, uint32_t step, uint8_t bits) {
  const uint32_t last = position + rows;
  uint32_t run = RunAt(ends, run_count, position);
  while (run < run_count) {
    const uint32_t end = Least(LoadConstant(ends + run), last);
    if (run % 2 != 0) {
      for (; position < end; ++position, to += step) DrawPixel<kPacked>(to, bits);
    } else {
      to += (end - position) * step;
      position = end;
    }
    if (position >= last) return;
    ++run;
  }
}

// The same through tables. Neighbours in the output are often neighbours in the mask, so the run found last is tried
// first.
template <bool kPacked>
SHARDKIT_HOST_DEVICE void DrawColumnThroughTables(const RasterizeMasks& arguments, const RasterizeShared& shared,
                                                  uint32_t x, uint32_t y, uint32_t rows, uint8_t* to, uint32_t step,
                                                  uint8_t bits) {
  const RasterizeMask& mask = shared.mask;
  const uint32_t* const ends = shared.ends;
  const auto run_count = static_cast<uint32_t>(mask.run_count);
  const uint32_t* const table = arguments.tables + mask.rows;
  const uint32_t across = LoadConstant(arguments.tables + mask.columns + x);
  uint32_t run_begin = 0, run_end = 0;  // of the run found last
  bool foreground = false;
  for (uint32_t i = 0; i < rows; ++i, to += step) {
    const uint32_t along = LoadConstant(table + y + i);
    const uint32_t position =
        mask.transpose != 0 ? along * mask.stored_height + across : across * mask.stored_height + along;
    if (position - run_begin >= run_end - run_begin) {
      const uint32_t run = RunAt(ends, run_count, position);
      run_begin = run == 0 ? 0 : LoadConstant(ends + run - 1);
      run_end = LoadConstant(ends + run);
      foreground = run % 2 != 0;
    }
    if (foreground) DrawPixel<kPacked>(to, bits);
  }
}

// Draws one column of bytes of the tile, in part `part` of its rows, which are divided into `parts`.
template <bool kPacked>
SHARDKIT_HOST_DEVICE void DrawByteColumn(const RasterizeMasks& arguments, uint32_t column, uint32_t part,
                                         uint32_t parts, RasterizeShared& shared) {
  constexpr uint32_t kPixels = kPacked ? 8 : 1;
  const RasterizeMask& mask = shared.mask;
  const bool tables = mask.columns != UINT64_MAX;
  // In the output.
  uint32_t first = Most(column * kPixels, mask.content_left);
  uint32_t last = Least((column + 1) * kPixels, mask.content_left + mask.content_width);
  if (!tables) {
    last = Least(last, mask.content_left + shared.foreground_end);
    first = Most(first, mask.content_left + shared.foreground_begin);
  }
  if (first >= last) return;
  const uint32_t top = shared.first_row + (column < shared.first_column);
  const uint32_t bottom = shared.last_row + (column < shared.last_column);
  uint32_t begin = top;
  uint32_t end = Least(bottom, mask.content_top + mask.content_height);
  if (parts > 1) {
    const uint32_t rows = DivideUp(bottom - top, parts);
    begin = top + part * rows;
    end = Least(end, begin + rows);
  }
  begin = Most(begin, mask.content_top);
  if (begin >= end) return;
  // Modulo 2^32, like all places in a tile.
  uint8_t* const to =
      shared.bytes + shared.shift + ((begin - shared.first_row) * shared.row_bytes + column - shared.first_column);
  for (uint32_t x = first; x < last; ++x) {
    const auto bits = static_cast<uint8_t>(1u << (x % kPixels));
    const uint32_t across = x - mask.content_left, down = begin - mask.content_top;
    if (tables) {
      DrawColumnThroughTables<kPacked>(arguments, shared, across, down, end - begin, to, shared.row_bytes, bits);
    } else {
      DrawColumn<kPacked>(shared.ends, static_cast<uint32_t>(mask.run_count), across * mask.stored_height + down,
                          end - begin, to, shared.row_bytes, bits);
    }
  }
}

template <bool kPacked>
SHARDKIT_HOST_DEVICE void DrawTile(const RasterizeMasks& arguments, uint32_t thread, RasterizeShared& shared) {
  if (shared.foreground_begin == shared.foreground_end) return;
  const uint32_t columns = Least(shared.row_bytes, shared.bytes_count);
  // Narrow masks have fewer columns than there are threads, which then share the rows.
  const uint32_t parts = columns < kBlockThreads ? kBlockThreads / columns : 1;
  // The first byte of the tile may be anywhere in its row.
  const uint32_t until_wrap = shared.row_bytes - shared.first_column;
  for (uint32_t item = thread; item < columns * parts; item += kBlockThreads) {
    const uint32_t part = parts == 1 ? 0 : item / columns;
    const uint32_t i = item - part * columns;
    DrawByteColumn<kPacked>(arguments, i < until_wrap ? shared.first_column + i : i - until_wrap, part, parts, shared);
  }
}

// `kPacked` is RasterizeMasks::packed.
template <bool kPacked, typename Threads>
SHARDKIT_HOST_DEVICE void RasterizeBlock(const RasterizeMasks& arguments, const BlockPlace& place,
                                         RasterizeShared& shared, const Threads& threads) {
  for (uint64_t tile = place.block.x; tile < arguments.tiles; tile += place.grid.x) {
    threads([&](uint32_t thread) {
      if (thread == 0) FindTile<kPacked>(arguments, tile, shared);
      ClearTile(thread, shared);
    });
    threads([&](uint32_t thread) { DrawTile<kPacked>(arguments, thread, shared); });
    threads(
        [&](uint32_t thread) { StoreShifted(shared.bytes, shared.bytes_count, thread, arguments.out + shared.out); });
  }
}

}  // namespace shardkit::gpu
