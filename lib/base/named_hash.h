// Hashes chosen by name, for files whose digests other programs have listed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace shardkit {

// One thread at a time.
class NamedHash {
 public:
  virtual ~NamedHash() = default;

  // Names as in Python's hashlib and xxhash: "xxh32", "xxh64", "xxh3_64", "xxh128" ("xxh3_128"), and with OpenSSL's
  // libcrypto "md5", "sha1", "sha256", "sha3_256", "blake2b" and so on. For other names Unimplemented, saying what is
  // missing.
  static absl::StatusOr<std::unique_ptr<NamedHash>> Create(std::string_view name);

  virtual void Update(std::string_view bytes) = 0;

  // Lower-case hexadecimal digits, like the output of the programs of the same names. Empty when the hash library
  // failed: this equals no listed digest.
  virtual std::string HexDigest() = 0;
};

// Whether the name is of the xxHash family, which hashes at the speed of memory.
bool IsXxHashName(std::string_view name);

// The digest of bytes in memory.
absl::StatusOr<std::string> HexDigestOf(std::string_view name, std::string_view bytes);

// Turns lower-case hexadecimal digits into bytes. False unless there are exactly two digits for each byte.
bool FromHexDigits(std::string_view digits, std::span<uint8_t> bytes);

namespace internal {

// Hashes of libcrypto; returns Unimplemented in builds without it.
absl::StatusOr<std::unique_ptr<NamedHash>> NewCryptoHash(std::string_view name);

std::string ToHexDigits(const unsigned char* bytes, size_t size);

}  // namespace internal
}  // namespace shardkit
