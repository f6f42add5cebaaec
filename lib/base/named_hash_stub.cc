// Replaces named_hash_openssl.cc where libcrypto is missing.
#include "base/errors.h"
#include "base/named_hash.h"

namespace shardkit::internal {

absl::StatusOr<std::unique_ptr<NamedHash>> NewCryptoHash(std::string_view name) {
  return Unimplemented(
      "hash \"", name,
      "\" is not of the xxHash family, and this build has no OpenSSL: install libssl-dev and build again");
}

}  // namespace shardkit::internal
