// Any bytes as a PNG, decoded as a whole and in part. A part has exactly the same pixels as in the whole image. A file
// passes the check exactly when it decodes. As a label map it has the numbers whose colors the image has.
//
// Input: 12 bytes that choose region, channels and memory, and whether the chunks' checksums are repaired; then the
// file.

#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

#include "codec/image/png.h"
#include "support/input.h"
#include "support/memory_bound.h"
#include "support/require.h"

namespace {

using namespace shardkit;
using namespace shardkit::fuzz;

// Enough for every path, few enough for thousands of inputs a second.
constexpr uint64_t kMostMemory = uint64_t{4} << 20;

// A chunk is a length, a name, that many bytes, and a CRC-32 of the name and the bytes.
void RepairChecksums(std::string* file) {
  const auto byte = [&](size_t at) { return reinterpret_cast<uint8_t*>(file->data()) + at; };
  for (size_t at = 8; at + 12 <= file->size();) {
    const size_t length = size_t{*byte(at)} << 24 | *byte(at + 1) << 16 | *byte(at + 2) << 8 | *byte(at + 3);
    if (length > file->size() - at - 12) return;
    const auto sum = static_cast<uint32_t>(crc32(0, byte(at + 4), static_cast<uInt>(length + 4)));
    for (size_t i = 0; i < 4; ++i) *byte(at + 8 + length + i) = static_cast<uint8_t>(sum >> (24 - 8 * i));
    at += 12 + length;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryBound bound(size);
  Input input(data, size);
  uint32_t left = static_cast<uint32_t>(input.Number(2));
  uint32_t top = static_cast<uint32_t>(input.Number(2));
  uint32_t width = static_cast<uint32_t>(input.Number(2));
  uint32_t height = static_cast<uint32_t>(input.Number(2));
  const int channels = input.Chance() ? 1 : 3;
  const bool repair = !input.Chance();
  input.Bytes(2);
  std::string file(input.rest());
  if (repair) RepairChecksums(&file);

  const absl::Status checked = codec::CheckPng(file);
  const auto info = codec::ProbePng(file);
  if (!info.ok()) {
    Require(!checked.ok(), "what cannot be probed does not pass the check");
    return 0;
  }
  if (info->width > kMaxImageSide || info->height > kMaxImageSide ||
      uint64_t{info->width} * info->height * 3 > kMostMemory)
    return 0;
  left %= info->width;
  top %= info->height;
  width = 1 + width % (info->width - left);
  height = 1 + height % (info->height - top);
  const auto decode = [&](uint32_t x, uint32_t y, uint32_t across, uint32_t down, std::vector<uint8_t>* pixels) {
    const size_t row_bytes = across * static_cast<size_t>(channels);
    pixels->assign(row_bytes * down, 0);
    return codec::DecodePng(file, *info, x, y, {pixels->data(), across, down, channels, row_bytes});
  };
  std::vector<uint8_t> whole, part;
  const absl::Status in_whole = decode(0, 0, info->width, info->height, &whole);
  Require(checked.ok() == in_whole.ok(), "an image decodes when it passes the check");
  if (info->channels == 1 || info->palette) {
    std::vector<uint8_t> numbers(uint64_t{info->width} * info->height * (info->depth == 16 ? 2 : 1));
    const absl::Status labels = codec::DecodePngNumbers(file, *info, numbers);
    Require(labels.ok() == in_whole.ok(), "a label map decodes when it passes the check");
    const bool gray = labels.ok() && !info->palette && info->depth == 8 && channels == 1;
    Require(!gray || numbers == whole, "gray values of 8 bits are numbers as they are");
  }
  const absl::Status in_part = decode(left, top, width, height, &part);
  if (!in_whole.ok()) return 0;
  RequireOk(in_part, "a part of what can be decoded");
  const auto row_bytes = static_cast<ptrdiff_t>(width * static_cast<uint32_t>(channels));
  for (uint32_t y = 0; y < height; ++y) {
    const auto row = part.begin() + y * row_bytes;
    const auto in_image = whole.begin() + (ptrdiff_t{top + y} * info->width + left) * channels;
    Require(std::equal(row, row + row_bytes, in_image), "a part has the pixels that it has in the whole");
  }
  return 0;
}
