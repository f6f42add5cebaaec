// Decompresses whole files that other programs have compressed.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "absl/status/status.h"

namespace shardkit::codec {

enum class Compression { kZstd, kGzip, kBzip2, kBrotli, kSnappy };

// From the name, which is also such files' extension: "zstd", "gz", "bz2", "br", "snappy"; empty for others.
std::optional<Compression> CompressionFromName(std::string_view name);

// Fills `out`, whose size the caller knows. DataLoss when the data is damaged or holds fewer or more bytes.
// Unimplemented, naming the package, when its library was missing at build time.
absl::Status Decompress(Compression compression, std::string_view compressed, std::span<char> out);

// Each is a stub where its library is missing.
absl::Status DecompressBrotli(std::string_view compressed, std::span<char> out);
absl::Status DecompressSnappy(std::string_view compressed, std::span<char> out);

}  // namespace shardkit::codec
