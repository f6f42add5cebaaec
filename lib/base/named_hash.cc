#include "base/named_hash.h"

#include <xxhash.h>

#include <array>
#include <new>
#include <type_traits>

#include "absl/strings/escaping.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace shardkit {
namespace {

// Most significant digit first, as in xxHash's canonical form.
std::string HexOf(uint32_t number) { return StrCat(absl::Hex(number, absl::kZeroPad8)); }
std::string HexOf(uint64_t number) { return StrCat(absl::Hex(number, absl::kZeroPad16)); }

template <auto kCreate, auto kFree, auto kReset, auto kUpdate, auto kDigest>
class SeededXxHash : public NamedHash {
 public:
  SeededXxHash() : state_(kCreate()) {
    if (!state_) throw std::bad_alloc();
    kReset(state_.get(), 0);
  }
  void Update(std::string_view bytes) override { kUpdate(state_.get(), bytes.data(), bytes.size()); }
  std::string HexDigest() override { return HexOf(kDigest(state_.get())); }

 private:
  struct Free {
    void operator()(auto* state) const { kFree(state); }
  };
  std::unique_ptr<std::remove_pointer_t<decltype(kCreate())>, Free> state_;
};

using XxHash32 = SeededXxHash<XXH32_createState, XXH32_freeState, XXH32_reset, XXH32_update, XXH32_digest>;
using XxHash64 = SeededXxHash<XXH64_createState, XXH64_freeState, XXH64_reset, XXH64_update, XXH64_digest>;

class XxHash3 : public NamedHash {
 public:
  void Update(std::string_view bytes) override { hash_.Update(bytes); }
  std::string HexDigest() override { return HexOf(hash_.Digest()); }

 private:
  StreamingHash hash_;
};

class XxHash128 : public NamedHash {
 public:
  void Update(std::string_view bytes) override { hash_.Update(bytes); }
  std::string HexDigest() override {
    const Hash128Bytes digest = hash_.Digest128();
    return internal::ToHexDigits(digest.data(), digest.size());
  }

 private:
  StreamingHash hash_;
};

}  // namespace

namespace internal {

std::string ToHexDigits(const unsigned char* bytes, size_t size) {
  return absl::BytesToHexString({reinterpret_cast<const char*>(bytes), size});
}

}  // namespace internal

bool IsXxHashName(std::string_view name) {
  return name == "xxh32" || name == "xxh64" || name == "xxh3_64" || name == "xxh128" || name == "xxh3_128";
}

absl::StatusOr<std::unique_ptr<NamedHash>> NamedHash::Create(std::string_view name) {
  if (name == "xxh32") return std::make_unique<XxHash32>();
  if (name == "xxh64") return std::make_unique<XxHash64>();
  if (name == "xxh3_64") return std::make_unique<XxHash3>();
  if (name == "xxh128" || name == "xxh3_128") return std::make_unique<XxHash128>();
  return internal::NewCryptoHash(name);
}

bool FromHexDigits(std::string_view digits, std::span<uint8_t> bytes) {
  // A table, because the processor cannot predict which kind of digit comes next: manifests have many.
  static constexpr auto kValues = [] {
    std::array<int8_t, 256> values;
    values.fill(-1);
    for (int i = 0; i < 16; ++i) values[static_cast<uint8_t>("0123456789abcdef"[i])] = static_cast<int8_t>(i);
    return values;
  }();
  if (digits.size() != 2 * bytes.size()) return false;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int high = kValues[static_cast<uint8_t>(digits[2 * i])];
    const int low = kValues[static_cast<uint8_t>(digits[2 * i + 1])];
    if ((high | low) < 0) return false;
    bytes[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return true;
}

absl::StatusOr<std::string> HexDigestOf(std::string_view name, std::string_view bytes) {
  SHARDKIT_ASSIGN_OR_RETURN(const std::unique_ptr<NamedHash> hash, NamedHash::Create(name));
  hash->Update(bytes);
  return hash->HexDigest();
}

}  // namespace shardkit
