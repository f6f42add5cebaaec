#include "codec/decompress.h"

#include <zlib.h>

#include <algorithm>
#include <climits>
#include <new>

#include "base/errors.h"
#include "codec/zstd.h"

namespace shardkit::codec {
namespace {

// The decoder counts its input and output in 32 bits.
constexpr size_t kPiece = size_t{1} << 30;

class Inflater {
 public:
  Inflater() {
    // 16 adds a gzip header and trailer, whose checksum and length are verified.
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  z_stream& stream() { return stream_; }

 private:
  z_stream stream_{};
};

absl::Status DecompressGzip(std::string_view compressed, std::span<char> out) {
  Inflater inflater;
  z_stream& stream = inflater.stream();
  size_t read = 0, written = 0;
  char spare;  // receives a byte that does not fit in `out`
  bool ended = false;
  while (true) {
    const size_t piece = std::min(kPiece, compressed.size() - read), room = std::min(kPiece, out.size() - written);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(compressed.data() + read));
    stream.avail_in = static_cast<uInt>(piece);
    stream.next_out = reinterpret_cast<Bytef*>(room == 0 ? &spare : out.data() + written);
    stream.avail_out = static_cast<uInt>(room == 0 ? 1 : room);
    const int result = inflate(&stream, Z_NO_FLUSH);
    const size_t produced = (room == 0 ? 1 : room) - stream.avail_out;
    read += piece - stream.avail_in;
    if (room == 0 && produced != 0) return DataLoss("gzip: holds more than ", out.size(), " bytes");
    written += produced;
    if (result == Z_STREAM_END) {
      // Several streams may follow one another.
      ended = true;
      if (read == compressed.size()) break;
      if (inflateReset(&stream) != Z_OK) return DataLoss("gzip: the data is damaged");
      ended = false;
    } else if (result == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (result == Z_BUF_ERROR || (result == Z_OK && read == compressed.size() && produced == 0)) {
      break;  // no input is left
    } else if (result != Z_OK) {
      return DataLoss("gzip: the data is damaged", stream.msg == nullptr ? "" : StrCat(": ", stream.msg));
    }
  }
  if (!ended) return DataLoss("gzip: the data is cut short after ", compressed.size(), " bytes");
  if (written != out.size()) return DataLoss("gzip: holds ", written, " bytes instead of ", out.size());
  return absl::OkStatus();
}

}  // namespace

std::optional<Compression> CompressionFromName(std::string_view name) {
  if (name == "zstd") return Compression::kZstd;
  if (name == "gz") return Compression::kGzip;
  if (name == "bz2") return Compression::kBzip2;
  if (name == "br") return Compression::kBrotli;
  if (name == "snappy") return Compression::kSnappy;
  return std::nullopt;
}

absl::Status Decompress(Compression compression, std::string_view compressed, std::span<char> out) {
  switch (compression) {
    case Compression::kZstd: {
      ZstdDecompressor decompressor;
      return decompressor.Decompress(compressed, nullptr, out);
    }
    case Compression::kGzip:
      return DecompressGzip(compressed, out);
    case Compression::kBzip2:
      return DecompressBzip2(compressed, out);
    case Compression::kBrotli:
      return DecompressBrotli(compressed, out);
    case Compression::kSnappy:
      return DecompressSnappy(compressed, out);
  }
  return InvalidArgument("decompress: no such compression");
}

}  // namespace shardkit::codec
