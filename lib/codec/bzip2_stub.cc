// Replaces bzip2.cc where its library is missing.
#include "base/errors.h"
#include "codec/decompress.h"

namespace shardkit::codec {

absl::Status DecompressBzip2(std::string_view, std::span<char>) {
  return Unimplemented("bzip2: this build cannot decompress it: install libbz2-dev and build again");
}

}  // namespace shardkit::codec
