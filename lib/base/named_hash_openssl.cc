// The hashes of OpenSSL's libcrypto.
#include <openssl/evp.h>

#include <algorithm>
#include <cctype>
#include <new>

#include "base/errors.h"
#include "base/named_hash.h"

namespace shardkit::internal {
namespace {

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

class CryptoHash : public NamedHash {
 public:
  // False when the library refuses the algorithm. For example, OpenSSL in FIPS mode refuses md5.
  bool Start(const EVP_MD* algorithm) {
    context_.reset(EVP_MD_CTX_new());
    if (!context_) throw std::bad_alloc();
    return EVP_DigestInit_ex(context_.get(), algorithm, nullptr) == 1;
  }

  void Update(std::string_view bytes) override {
    sound_ = EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1 && sound_;
  }

  std::string HexDigest() override {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    // An empty digest equals no listed one, so a failure of the library shows as a mismatch.
    if (EVP_DigestFinal_ex(context_.get(), digest, &size) != 1 || !sound_) return {};
    return ToHexDigits(digest, size);
  }

 private:
  std::unique_ptr<EVP_MD_CTX, FreeContext> context_;
  bool sound_ = true;
};

// OpenSSL's name of an algorithm of Python's hashlib.
std::string OpenSslName(std::string_view name) {
  if (name == "blake2b") return "BLAKE2B512";
  if (name == "blake2s") return "BLAKE2S256";
  std::string out;
  for (const char c : name) out += c == '_' ? '-' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NamedHash>> NewCryptoHash(std::string_view name) {
  // Some versions of OpenSSL find "sha1 ", and something for "".
  const bool is_name = !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-';
  });
  const EVP_MD* const algorithm = is_name ? EVP_get_digestbyname(OpenSslName(name).c_str()) : nullptr;
  auto hash = std::make_unique<CryptoHash>();
  // Extendable-output functions are refused: their digest length is not known from the name.
  if (algorithm == nullptr || (EVP_MD_flags(algorithm) & EVP_MD_FLAG_XOF) != 0 || !hash->Start(algorithm)) {
    return Unimplemented("hash \"", name, "\" is not known to xxHash or to this machine's OpenSSL");
  }
  return hash;
}

}  // namespace shardkit::internal
