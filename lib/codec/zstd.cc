#include "codec/zstd.h"

#include <zdict.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <new>
#include <utility>

#include "base/endian.h"
#include "base/errors.h"
#include "base/status_macros.h"

namespace shardkit::codec {
namespace {

// The window of a frame, which a decoder may need as memory, is limited (spec.md, "Limits"). A frame of a single
// segment has no field for it, because its window is its content (RFC 8878, section 3.1.1.1).
constexpr uint8_t kSingleSegmentFlag = 1 << 5;
constexpr uint8_t kMaxWindowDescriptor = 17 << 3;  // 2^(10 + 17) bytes

bool WindowPassesLimit(std::string_view frame) {
  return (static_cast<uint8_t>(frame[4]) & kSingleSegmentFlag) == 0 &&
         static_cast<uint8_t>(frame[5]) > kMaxWindowDescriptor;
}

ZSTD_CCtx* AsCompression(void* context) { return static_cast<ZSTD_CCtx*>(context); }
ZSTD_DCtx* AsDecompression(void* context) { return static_cast<ZSTD_DCtx*>(context); }

absl::Status MalformedDictionary(const std::string& bytes) {
  return DataLoss("zstd dictionary: its ", bytes.size(), " bytes are malformed");
}

}  // namespace

int MinZstdLevel() { return ZSTD_minCLevel(); }
int MaxZstdLevel() { return ZSTD_maxCLevel(); }

absl::StatusOr<std::shared_ptr<ZstdDictionary>> ZstdDictionary::Load(std::string bytes) {
  if (bytes.empty()) return DataLoss("zstd dictionary: it is empty");
  std::shared_ptr<ZstdDictionary> dictionary(new ZstdDictionary);
  dictionary->bytes_ = std::move(bytes);
  const std::string& content = dictionary->bytes_;
  dictionary->decompression_ = ZSTD_createDDict(content.data(), content.size());
  if (dictionary->decompression_ == nullptr) return MalformedDictionary(content);
  return dictionary;
}

absl::StatusOr<std::shared_ptr<const ZstdDictionary>> ZstdDictionary::CreateForReading(std::string bytes) {
  return Load(std::move(bytes));
}

absl::StatusOr<std::shared_ptr<const ZstdDictionary>> ZstdDictionary::Create(std::string bytes, int level) {
  if (level < MinZstdLevel() || level > MaxZstdLevel()) {
    return InvalidArgument("zstd level ", level, " is outside ", MinZstdLevel(), " to ", MaxZstdLevel());
  }
  SHARDKIT_ASSIGN_OR_RETURN(const std::shared_ptr<ZstdDictionary> dictionary, Load(std::move(bytes)));
  const std::string& content = dictionary->bytes_;
  dictionary->compression_ = ZSTD_createCDict(content.data(), content.size(), level);
  if (dictionary->compression_ == nullptr) return MalformedDictionary(content);
  return dictionary;
}

ZstdDictionary::~ZstdDictionary() {
  ZSTD_freeCDict(static_cast<ZSTD_CDict*>(compression_));
  ZSTD_freeDDict(static_cast<ZSTD_DDict*>(decompression_));
}

ZstdCompressor::ZstdCompressor() : context_(ZSTD_createCCtx()) {
  if (context_ == nullptr) throw std::bad_alloc();
}
ZstdCompressor::~ZstdCompressor() { ZSTD_freeCCtx(AsCompression(context_)); }

absl::Status ZstdCompressor::Compress(std::string_view raw, int level, const ZstdDictionary* dictionary,
                                      std::string* out) {
  if (level < MinZstdLevel() || level > MaxZstdLevel()) {
    return InvalidArgument("zstd level ", level, " is outside ", MinZstdLevel(), " to ", MaxZstdLevel());
  }
  ZSTD_CCtx* const context = AsCompression(context_);
  const auto* const digest = dictionary == nullptr ? nullptr : static_cast<ZSTD_CDict*>(dictionary->compression_);
  // These are zstd's defaults: content size on, checksum off. They are set explicitly because the bytes of a shard
  // depend on them.
  for (const size_t code :
       {ZSTD_CCtx_reset(context, ZSTD_reset_session_and_parameters),
        ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level),
        ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 1),
        ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 0), ZSTD_CCtx_refCDict(context, digest)}) {
    if (ZSTD_isError(code)) return absl::InternalError(ZSTD_getErrorName(code));
  }
  const size_t bound = ZSTD_compressBound(raw.size());
  if (ZSTD_isError(bound)) return InvalidArgument("zstd cannot compress ", raw.size(), " bytes in one frame");
  out->resize(bound);
  const size_t size = ZSTD_compress2(context, out->data(), out->size(), raw.data(), raw.size());
  if (ZSTD_isError(size)) {
    out->clear();
    if (ZSTD_getErrorCode(size) == ZSTD_error_memory_allocation) throw std::bad_alloc();
    return absl::InternalError(ZSTD_getErrorName(size));
  }
  out->resize(size);
  return absl::OkStatus();
}

ZstdDecompressor::ZstdDecompressor() = default;
ZstdDecompressor::~ZstdDecompressor() { ZSTD_freeDCtx(AsDecompression(context_)); }

size_t ZstdDecompressor::memory() const {
  return context_ == nullptr ? 0 : ZSTD_sizeof_DCtx(AsDecompression(context_));
}

absl::Status ZstdDecompressor::Decompress(std::string_view compressed, const ZstdDictionary* dictionary,
                                          std::span<char> out) {
  // ZSTD_decompressDCtx would also accept several frames, skippable ones and old formats.
  if (compressed.size() < sizeof(uint32_t) || LoadLittle<uint32_t>(compressed.data()) != ZSTD_MAGICNUMBER) {
    return DataLoss("zstd: ", compressed.size(), " bytes that do not begin with a frame");
  }
  const size_t frame = ZSTD_findFrameCompressedSize(compressed.data(), compressed.size());
  if (ZSTD_isError(frame)) return DataLoss("zstd: the frame is damaged: ", ZSTD_getErrorName(frame));
  if (frame != compressed.size()) {
    return DataLoss("zstd: ", compressed.size() - frame, " bytes follow the frame of ", frame);
  }
  if (WindowPassesLimit(compressed)) return DataLoss("zstd: the frame's window passes 128 MiB");
  const unsigned long long content = ZSTD_getFrameContentSize(compressed.data(), compressed.size());
  if (content == ZSTD_CONTENTSIZE_UNKNOWN) return DataLoss("zstd: the frame does not say its content size");
  if (content != out.size()) {
    return DataLoss("zstd: the frame holds ", static_cast<uint64_t>(content), " bytes instead of ", out.size());
  }
  if (context_ == nullptr) context_ = ZSTD_createDCtx();
  if (context_ == nullptr) throw std::bad_alloc();
  ZSTD_DCtx* const context = AsDecompression(context_);
  const size_t size =
      dictionary == nullptr
          ? ZSTD_decompressDCtx(context, out.data(), out.size(), compressed.data(), compressed.size())
          : ZSTD_decompress_usingDDict(context, out.data(), out.size(), compressed.data(), compressed.size(),
                                       static_cast<const ZSTD_DDict*>(dictionary->decompression_));
  if (ZSTD_isError(size)) {
    if (ZSTD_getErrorCode(size) == ZSTD_error_memory_allocation) throw std::bad_alloc();
    return DataLoss("zstd: the frame is damaged: ", ZSTD_getErrorName(size));
  }
  if (size != out.size()) return DataLoss("zstd: the frame holds ", size, " bytes instead of ", out.size());
  return absl::OkStatus();
}

absl::StatusOr<std::string> TrainZstdDictionary(std::string_view samples, std::span<const size_t> lengths,
                                                size_t capacity) {
  size_t total = 0;
  for (const size_t length : lengths) {
    if (__builtin_add_overflow(total, length, &total)) return InvalidArgument("sample lengths that overflow");
  }
  if (total != samples.size() || lengths.size() > UINT32_MAX) {
    return InvalidArgument("the lengths of ", lengths.size(), " samples sum to ", total, " instead of ",
                           samples.size());
  }
  if (samples.empty()) return NotFound("zstd dictionary: there are no samples");
  // libzstd trains on the first three quarters of the samples. When those have fewer than 8 bytes together, it reads
  // past its memory (seen with 1.5.4). It is enough to require more in the first half.
  size_t first_half = 0;
  for (const size_t length : lengths.first(lengths.size() / 2)) first_half += length;
  if (first_half < 64) return NotFound("zstd dictionary: ", lengths.size(), " samples of ", total, " bytes give none");
  std::string dictionary(capacity, '\0');
  const size_t size = ZDICT_trainFromBuffer(dictionary.data(), dictionary.size(), samples.data(), lengths.data(),
                                            static_cast<unsigned>(lengths.size()));
  if (ZDICT_isError(size)) {
    return NotFound("zstd dictionary: ", lengths.size(), " samples of ", samples.size(),
                    " bytes give none: ", ZDICT_getErrorName(size));
  }
  dictionary.resize(size);
  return dictionary;
}

}  // namespace shardkit::codec
