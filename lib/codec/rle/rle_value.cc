// The binary form of the `rle` column type (format-spec/values.md, "rle"):
//
//   u32 mask_count; u8 transform; u8 reserved[3]; u32 heights[n]; u32 widths[n]; u32 run_counts[n];
//   then every run of every mask as canonical LEB128.
#include <algorithm>
#include <string>

#include "base/byte_cursor.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "codec/rle/rle_kernels.h"
#include "codec/zstd.h"
#include "shardkit/rle.h"

namespace shardkit {
namespace {

constexpr size_t kHeadBytes = 8;         // mask count, transform, reserved
constexpr size_t kBytesPerMask = 3 * 4;  // height, width, run count
constexpr uint8_t kTransformPlain = 0;   // payload: the runs
constexpr uint8_t kTransformEdge = 1;    // payload: zigzag of the run + the run before - the height
constexpr size_t kSampledRuns = 2048;    // about this many runs decide the transform of a value
constexpr int kTrialLevel = 1;           // zstd level for that decision
constexpr size_t kBatch = 512;           // runs encoded at once

// Calls take(begin, end) with the encoded bytes of one mask, in pieces.
template <typename Take>
void EncodeMask(const RleView& mask, bool edge, bool small, Take take) {
  uint8_t batch[kBatch * codec::kMaxLebBytes + codec::kKernelSlack];
  for (size_t begin = 0; begin < mask.runs.size(); begin += kBatch) {
    take(batch, codec::WriteLeb(mask, begin, std::min(begin + kBatch, mask.runs.size()), edge, small, batch));
  }
}

// For smooth masks, "edge" halves the bytes after zstd. For noisy masks "plain" is better, because their runs repeat
// verbatim in the next columns. The entropy of single bytes does not show this, so every step-th mask is compressed in
// both ways, at the fastest level. When edge alone saves a quarter, as on drawn objects, no trial is needed: on all
// tested masks it then stayed smaller by a quarter.
uint8_t ChooseTransform(const RleList& masks, bool small) {
  thread_local codec::ZstdCompressor compressor;
  const size_t step = masks.runs.size() / kSampledRuns + 1;
  std::string plain, edge, compressed;
  for (size_t i = 0; i < masks.size(); i += step) {
    const auto append_to = [](std::string& out) {
      return [&out](const uint8_t* begin, const uint8_t* end) {
        out.append(reinterpret_cast<const char*>(begin), static_cast<size_t>(end - begin));
      };
    };
    EncodeMask(masks[i], false, small, append_to(plain));
    EncodeMask(masks[i], true, small, append_to(edge));
  }
  if (edge.size() <= plain.size() - plain.size() / 4) return kTransformEdge;
  const auto cost = [&](const std::string& bytes) {
    return compressor.Compress(bytes, kTrialLevel, nullptr, &compressed).ok() ? compressed.size() : bytes.size();
  };
  return cost(plain) < cost(edge) ? kTransformPlain : kTransformEdge;
}

absl::Status CheckList(const RleList& masks) {
  const size_t count = masks.size();
  if (count > UINT32_MAX) return InvalidArgument("a list of ", count, " masks is above the limit of 2^32 - 1");
  bool sound = masks.widths.size() == count && masks.run_begin.size() == count + 1 && masks.run_begin[0] == 0 &&
               masks.run_begin[count] == masks.runs.size();
  for (size_t i = 0; sound && i < count; ++i) {
    sound = masks.run_begin[i] <= masks.run_begin[i + 1] && masks.run_begin[i + 1] <= masks.runs.size();
  }
  if (!sound) return InvalidArgument("the parts of a list of masks do not fit together");
  for (size_t i = 0; i < count; ++i) {
    const RleView mask = masks[i];
    if (mask.runs.size() > UINT32_MAX) return InvalidArgument("mask ", i, " has ", mask.runs.size(), " runs");
    if (absl::Status status = ValidateRle(mask); !status.ok()) {
      return InvalidArgument("mask ", i, ": ", ToStd(status.message()));
    }
  }
  return absl::OkStatus();
}

struct Head {
  uint32_t count;
  uint8_t transform;
};

absl::StatusOr<Head> ParseHead(std::string_view value) {
  if (value.size() < kHeadBytes) {
    return DataLoss("rle value: ", value.size(), " bytes are too few for the head of ", kHeadBytes);
  }
  const Head head{LoadLittle<uint32_t>(value.data()), static_cast<uint8_t>(value[4])};
  if ((value.size() - kHeadBytes) / kBytesPerMask < head.count) {
    return DataLoss("rle value: ", value.size(), " bytes are too few for the sizes of ", head.count, " masks");
  }
  if (head.transform > kTransformEdge) {
    return DataLoss("rle value: unknown transform ", static_cast<int>(head.transform), " at byte 4");
  }
  if (value[5] != 0 || value[6] != 0 || value[7] != 0) {
    return DataLoss("rle value: the reserved bytes 5 to 7 are not zero");
  }
  return head;
}

// Reads sizes and run counts, and checks them against the available bytes before anything is allocated for the runs.
absl::Status ParseSizes(const char* sizes, uint32_t count, size_t payload_bytes, RleList* masks) {
  const auto read = [&](size_t table, size_t i) {
    return LoadLittle<uint32_t>(sizes + (table * count + i) * sizeof(uint32_t));
  };
  masks->heights.resize(count);
  masks->widths.resize(count);
  masks->run_begin.resize(size_t{count} + 1);
  uint64_t run_count = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t height = masks->heights[i] = read(0, i);
    const uint32_t width = masks->widths[i] = read(1, i);
    if (uint64_t{height} * width > kMaxMaskPixels) {
      return DataLoss("rle value: mask ", i, " of ", height, " x ", width, " pixels is above the limit of ",
                      kMaxMaskPixels, " pixels");
    }
    run_count += read(2, i);
    masks->run_begin[i + 1] = run_count;
    if (run_count > payload_bytes) {
      return DataLoss("rle value: masks 0 to ", i, " have ", run_count, " runs, but only ", payload_bytes,
                      " bytes follow");
    }
  }
  return absl::OkStatus();
}

// False when the portable code has to decide.
bool ParsePayload(std::string_view payload, bool edge, RleList* masks) {
  const size_t count = masks->run_begin.back();
  masks->runs.resize(payload.size() + codec::kKernelSlack);
  if (!codec::SplitLeb(payload, count, masks->runs.data())) return false;
  masks->runs.resize(count);
  for (size_t i = 0; i < masks->size(); ++i) {
    const std::span<uint32_t> runs =
        std::span(masks->runs).subspan(masks->run_begin[i], masks->run_begin[i + 1] - masks->run_begin[i]);
    uint64_t sum = 0;
    if (edge) {
      if (!codec::UndoEdge(runs, masks->heights[i], &sum)) return false;
    } else {
      for (const uint32_t run : runs) sum += run;
    }
    if (sum != uint64_t{masks->heights[i]} * masks->widths[i]) return false;
  }
  return true;
}

}  // namespace

namespace codec {

absl::Status ParseRlePayloadPortable(std::string_view payload, bool edge, RleList* masks) {
  masks->runs.clear();
  masks->runs.reserve(masks->run_begin.back());
  ByteCursor cursor(payload);
  for (size_t mask = 0; mask < masks->size(); ++mask) {
    const uint64_t first = masks->run_begin[mask];
    const uint64_t count = masks->run_begin[mask + 1] - first;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; ++i) {
      const size_t position = cursor.position();
      uint64_t number;
      if (!cursor.ReadVarint(&number)) {
        return DataLoss("rle value: mask ", mask, ", run ", i, ": no canonical LEB128 number at payload byte ",
                        position);
      }
      if (edge) {
        number = (number >> 1) ^ (0 - (number & 1));
        // Unsigned arithmetic wraps: a run below 0 then exceeds every limit.
        if (i >= 2) number += uint64_t{masks->heights[mask]} - masks->runs[first + i - 1];
      }
      if (number > kMaxMaskPixels) {
        return DataLoss("rle value: mask ", mask, ", run ", i, " at payload byte ", position, " is outside 0 to ",
                        kMaxMaskPixels);
      }
      sum += number;
      masks->runs.push_back(static_cast<uint32_t>(number));
    }
    const uint64_t pixels = uint64_t{masks->heights[mask]} * masks->widths[mask];
    if (sum != pixels) {
      return DataLoss("rle value: the runs of mask ", mask, " sum to ", sum, " instead of ", masks->heights[mask],
                      " x ", masks->widths[mask], " = ", pixels);
    }
  }
  if (cursor.remaining() != 0) {
    return DataLoss("rle value: ", cursor.remaining(), " bytes follow the last run");
  }
  return absl::OkStatus();
}

absl::Status ParseRleValue(std::string_view value, bool allow_kernels, RleList* masks) {
  masks->Clear();
  const auto parse = [&]() -> absl::Status {
    SHARDKIT_ASSIGN_OR_RETURN(const Head head, ParseHead(value));
    const std::string_view payload = value.substr(kHeadBytes + size_t{head.count} * kBytesPerMask);
    SHARDKIT_RETURN_IF_ERROR(ParseSizes(value.data() + kHeadBytes, head.count, payload.size(), masks));
    const bool edge = head.transform == kTransformEdge;
    if (allow_kernels && ParsePayload(payload, edge, masks)) return absl::OkStatus();
    return ParseRlePayloadPortable(payload, edge, masks);
  };
  absl::Status status = parse();
  if (!status.ok()) masks->Clear();
  return status;
}

}  // namespace codec

absl::Status AppendRleValue(const RleList& masks, std::string* out) {
  SHARDKIT_RETURN_IF_ERROR(CheckList(masks));
  uint32_t runs = 0;
  for (const uint32_t run : masks.runs) runs |= run;
  uint32_t heights = 0;
  for (const uint32_t height : masks.heights) heights |= height;
  const bool small = runs <= codec::kMaxSmallRun && heights <= codec::kMaxSmallHeight;
  const uint8_t transform = ChooseTransform(masks, small);

  AppendLittle(*out, static_cast<uint32_t>(masks.size()));
  out->push_back(static_cast<char>(transform));
  out->append(3, '\0');
  for (const uint32_t height : masks.heights) AppendLittle(*out, height);
  for (const uint32_t width : masks.widths) AppendLittle(*out, width);
  for (size_t i = 0; i < masks.size(); ++i) {
    AppendLittle(*out, static_cast<uint32_t>(masks.run_begin[i + 1] - masks.run_begin[i]));
  }
  for (size_t i = 0; i < masks.size(); ++i) {
    EncodeMask(masks[i], transform == kTransformEdge, small, [&](const uint8_t* begin, const uint8_t* end) {
      out->append(reinterpret_cast<const char*>(begin), static_cast<size_t>(end - begin));
    });
  }
  return absl::OkStatus();
}

absl::Status ParseRleValue(std::string_view value, RleList* masks) { return codec::ParseRleValue(value, true, masks); }

absl::Status ParseRleSizes(std::string_view value, RleList* masks) {
  masks->Clear();
  SHARDKIT_ASSIGN_OR_RETURN(const Head head, ParseHead(value));
  const size_t payload_bytes = value.size() - kHeadBytes - size_t{head.count} * kBytesPerMask;
  absl::Status status = ParseSizes(value.data() + kHeadBytes, head.count, payload_bytes, masks);
  if (!status.ok()) masks->Clear();
  return status;
}

absl::StatusOr<uint32_t> RleValueCount(std::string_view value) {
  SHARDKIT_ASSIGN_OR_RETURN(const Head head, ParseHead(value));
  return head.count;
}

}  // namespace shardkit
