// The SHA-256 of shards, which a dataset's manifest may list.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/named_hash.h"
#include "shardkit/filesystem.h"
#include "shardkit/shard.h"

namespace shardkit::container {

// Of all bytes that `sha256` was given. Internal when the hash library failed.
absl::StatusOr<Sha256> DigestOf(NamedHash& sha256);

// Of a whole file, which is read in pieces of 4 MiB. `go_on` is called before each piece, and its error ends the
// reading. Unimplemented in builds without OpenSSL.
absl::StatusOr<Sha256> FileSha256(const RandomAccessFile& file, const std::function<absl::Status()>& go_on);

}  // namespace shardkit::container
