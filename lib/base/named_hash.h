// Hashes chosen by name, for files that other programs have listed with their digests.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace shardkit {

// One thread at a time.
class NamedHash {
 public:
  virtual ~NamedHash() = default;

  // Names as Python's hashlib and xxhash write them: "xxh32", "xxh64", "xxh3_64", "xxh128" ("xxh3_128"), and with
  // OpenSSL's libcrypto "md5", "sha1", "sha256", "sha3_256", "blake2b" and so on. Unimplemented, naming what is
  // missing, for others.
  static absl::StatusOr<std::unique_ptr<NamedHash>> Create(std::string_view name);

  virtual void Update(std::string_view bytes) = 0;

  // Lower-case hexadecimal digits, as the programs of the same names print them.
  virtual std::string HexDigest() = 0;
};

// Whether the name is one of the xxHash family, which hash as fast as memory is read.
bool IsXxHashName(std::string_view name);

// The digest of bytes in memory.
absl::StatusOr<std::string> HexDigestOf(std::string_view name, std::string_view bytes);

namespace internal {

// Those of libcrypto; a stub where it is not linked.
absl::StatusOr<std::unique_ptr<NamedHash>> NewCryptoHash(std::string_view name);

std::string ToHexDigits(const unsigned char* bytes, size_t size);

}  // namespace internal
}  // namespace shardkit
