// COCO compressed strings. Each number is written in groups of 5 bits, least significant first, as the character 48 +
// group. 0x20 in a group means that another follows; 0x10 in the last one is the sign. The first three numbers are
// runs; each later one is the difference from the run two before.
#include "base/errors.h"
#include "codec/rle/rle_kernels.h"
#include "shardkit/rle.h"

namespace shardkit {
namespace codec {
namespace {

constexpr size_t kMaxGroups = 12;  // 60 bits: longer than any writer makes, and no shift below can overflow

}  // namespace

absl::Status RunsFromCocoTextPortable(std::string_view text, std::vector<uint32_t>* runs) {
  const size_t first = runs->size();
  size_t position = 0;
  while (position < text.size()) {
    const size_t start = position;
    int64_t value = 0;
    unsigned shift = 0;
    unsigned group;
    do {
      if (position == text.size()) {
        return DataLoss("COCO RLE text: the number at position ", start, " is cut short by the end");
      }
      group = static_cast<unsigned>(static_cast<unsigned char>(text[position])) - 48;
      if (group > 63) {
        return DataLoss("COCO RLE text: character code ", static_cast<int>(static_cast<unsigned char>(text[position])),
                        " at position ", position, " is outside '0' to 'o'");
      }
      if (shift == kMaxGroups * 5) {
        return DataLoss("COCO RLE text: the number at position ", start, " has more than ", kMaxGroups, " characters");
      }
      value |= static_cast<int64_t>(group & 31) << shift;
      shift += 5;
      ++position;
    } while ((group & 32) != 0);
    if ((group & 16) != 0) value -= int64_t{1} << shift;
    const size_t index = runs->size() - first;
    if (index > 2) value += (*runs)[runs->size() - 2];
    if (value < 0 || value > UINT32_MAX) {
      return DataLoss("COCO RLE text: run ", index, " at position ", start, " is ", value, ", outside 0 to 4294967295");
    }
    runs->push_back(static_cast<uint32_t>(value));
  }
  return absl::OkStatus();
}

}  // namespace codec

absl::Status RunsFromCocoText(std::string_view text, std::vector<uint32_t>* runs) {
  const size_t first = runs->size();
  size_t count = 0;
  runs->resize(first + text.size() + codec::kKernelSlack);
  const bool done = codec::RunsFromCocoText(text, runs->data() + first, &count);
  runs->resize(first + (done ? count : 0));
  if (done) return absl::OkStatus();
  absl::Status status = codec::RunsFromCocoTextPortable(text, runs);
  if (!status.ok()) runs->resize(first);
  return status;
}

void AppendCocoText(std::span<const uint32_t> runs, std::string* text) {
  uint32_t all = 0;
  for (const uint32_t run : runs) all |= run;
  const bool small = all < 0x80000000u;
  constexpr size_t kBatch = 256;
  char batch[kBatch * codec::kMaxCocoCharacters + codec::kKernelSlack];
  for (size_t begin = 0; begin < runs.size(); begin += kBatch) {
    const size_t end = begin + kBatch < runs.size() ? begin + kBatch : runs.size();
    text->append(batch, static_cast<size_t>(codec::WriteCoco(runs, begin, end, small, batch) - batch));
  }
}

}  // namespace shardkit
