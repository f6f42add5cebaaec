// Zstandard (RFC 8878) for whole chunks, with optional trained dictionaries.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardkit::codec {

inline constexpr int kDefaultZstdLevel = 3;

// The levels that the linked library accepts.
int MinZstdLevel();
int MaxZstdLevel();

// A digested dictionary. Any number of compressors and decompressors, on any thread, may share it.
class ZstdDictionary {
 public:
  // For compressing at `level`, and for decompressing. DataLoss when the bytes are malformed.
  static absl::StatusOr<std::shared_ptr<const ZstdDictionary>> Create(std::string bytes, int level);
  // For decompressing only.
  static absl::StatusOr<std::shared_ptr<const ZstdDictionary>> CreateForReading(std::string bytes);
  ~ZstdDictionary();
  const std::string& bytes() const { return bytes_; }

 private:
  friend class ZstdCompressor;
  friend class ZstdDecompressor;
  ZstdDictionary() = default;
  static absl::StatusOr<std::shared_ptr<ZstdDictionary>> Load(std::string bytes);
  std::string bytes_;
  void* compression_ = nullptr;
  void* decompression_ = nullptr;
};

// One thread at a time. Keeps its context between calls.
class ZstdCompressor {
 public:
  ZstdCompressor();
  ~ZstdCompressor();
  ZstdCompressor(const ZstdCompressor&) = delete;
  ZstdCompressor& operator=(const ZstdCompressor&) = delete;

  // Replaces *out by one frame with its content size and without a checksum. `dictionary` may be null. The same input,
  // level, dictionary and library version give the same bytes.
  absl::Status Compress(std::string_view raw, int level, const ZstdDictionary* dictionary, std::string* out);

 private:
  void* context_ = nullptr;
};

// One thread at a time. Keeps its context between calls.
class ZstdDecompressor {
 public:
  ZstdDecompressor();
  ~ZstdDecompressor();
  ZstdDecompressor(const ZstdDecompressor&) = delete;
  ZstdDecompressor& operator=(const ZstdDecompressor&) = delete;

  // Decompresses exactly one frame of exactly out.size() bytes; DataLoss on anything else.
  absl::Status Decompress(std::string_view compressed, const ZstdDictionary* dictionary, std::span<char> out);

  // Bytes of memory of its context.
  size_t memory() const;

 private:
  void* context_ = nullptr;  // created when first needed
};

// Trains a dictionary of at most `capacity` bytes from `samples`, which are concatenated and have the given lengths.
// Deterministic. NotFound when the samples are too few or do not profit from a dictionary.
absl::StatusOr<std::string> TrainZstdDictionary(std::string_view samples, std::span<const size_t> lengths,
                                                size_t capacity);

}  // namespace shardkit::codec
