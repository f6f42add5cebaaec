// Any bytes as an AVIF file, decoded as a whole and in part (image_target.h).
//
// Input: 9 bytes that choose region and channels, then the file.

#include "support/image_target.h"
#include "support/memory_bound.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace shardkit::fuzz;
  const MemoryBound bound(size);
  Input input(data, size);
  const ImagePart part(input);
  TestImage(shardkit::codec::kAvifCodec, input.rest(), part);
  return 0;
}
