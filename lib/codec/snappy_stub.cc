// Replaces snappy.cc where its library is missing.
#include "base/errors.h"
#include "codec/decompress.h"

namespace shardkit::codec {

absl::Status DecompressSnappy(std::string_view, std::span<char>) {
  return Unimplemented("snappy: this build cannot decompress it: install libsnappy-dev and build again");
}

}  // namespace shardkit::codec
