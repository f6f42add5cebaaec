// Replaces brotli.cc where its library is missing.
#include "base/errors.h"
#include "codec/decompress.h"

namespace shardkit::codec {

absl::Status DecompressBrotli(std::string_view, std::span<char>) {
  return Unimplemented("brotli: this build cannot decompress it: install libbrotli-dev and build again");
}

}  // namespace shardkit::codec
