#include <snappy.h>

#include "base/errors.h"
#include "codec/decompress.h"

namespace shardkit::codec {

// The raw form, which begins with the uncompressed length.
absl::Status DecompressSnappy(std::string_view compressed, std::span<char> out) {
  size_t length = 0;
  if (!snappy::GetUncompressedLength(compressed.data(), compressed.size(), &length)) {
    return DataLoss("snappy: the data does not begin with its length");
  }
  if (length != out.size()) return DataLoss("snappy: holds ", length, " bytes instead of ", out.size());
  if (!snappy::RawUncompress(compressed.data(), compressed.size(), out.data()))
    return DataLoss("snappy: the data is damaged");
  return absl::OkStatus();
}

}  // namespace shardkit::codec
