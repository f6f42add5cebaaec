// Any bytes as a PNG, decoded as a whole and in part, and as a label map (image_target.h).
//
// Input: 12 bytes that choose region, channels and memory, and whether the chunks' checksums are repaired; then the
// file.

#include <zlib.h>

#include <cstdint>
#include <string>

#include "support/image_target.h"
#include "support/memory_bound.h"

namespace {

using namespace shardkit;
using namespace shardkit::fuzz;

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
  const ImagePart part(input);
  const bool repair = !input.Chance();
  input.Bytes(2);
  std::string file(input.rest());
  if (repair) RepairChecksums(&file);
  TestImage(codec::kPngCodec, file, part);
  return 0;
}
