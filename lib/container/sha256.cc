#include "container/sha256.h"

#include <algorithm>
#include <memory>

#include "base/buffer.h"
#include "base/errors.h"
#include "base/status_macros.h"

namespace shardkit::container {
absl::StatusOr<Sha256> DigestOf(NamedHash& sha256) {
  Sha256 digest{};
  if (FromHexDigits(sha256.HexDigest(), digest)) return digest;
  return Internal("OpenSSL failed to compute a SHA-256");
}

absl::StatusOr<Sha256> FileSha256(const RandomAccessFile& file, const std::function<absl::Status()>& go_on) {
  SHARDKIT_ASSIGN_OR_RETURN(const std::unique_ptr<NamedHash> sha256, NamedHash::Create("sha256"));
  Buffer piece;
  for (uint64_t position = 0; position < file.size(); position += piece.size()) {
    SHARDKIT_RETURN_IF_ERROR(go_on());
    piece.resize_discard(std::min(kCopyPiece, file.size() - position));
    SHARDKIT_RETURN_IF_ERROR(file.ReadAt(position, {piece.data(), piece.size()}));
    sha256->Update(piece.view());
  }
  SHARDKIT_RETURN_IF_ERROR(file.CheckMapped());
  return DigestOf(*sha256);
}

}  // namespace shardkit::container
