#include "codec/decompress.h"

#include <archive.h>
#include <zlib.h>

#include <algorithm>
#include <climits>
#include <memory>
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

// Not libarchive's filter, which compares neither the checksum nor the length.
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

absl::Status DecompressBzip2(std::string_view compressed, std::span<char> out) {
  const std::unique_ptr<archive, decltype(&archive_read_free)> reader(archive_read_new(), &archive_read_free);
  archive* const a = reader.get();
  if (a == nullptr) throw std::bad_alloc();
  archive_read_support_format_raw(a);
  // Once, whatever the data looks like. Anything but OK: a program would do it.
  if (archive_read_append_filter(a, ARCHIVE_FILTER_BZIP2) != ARCHIVE_OK) {
    return Unimplemented("bzip2: libarchive was built without it");
  }
  archive_entry* entry = nullptr;
  int result = archive_read_open_memory(a, compressed.data(), compressed.size());
  if (result == ARCHIVE_OK) result = archive_read_next_header(a, &entry);
  size_t written = 0;
  char spare;  // receives a byte that does not fit in `out`
  while (result == ARCHIVE_OK) {
    const bool full = written == out.size();
    const la_ssize_t produced =
        archive_read_data(a, full ? &spare : out.data() + written, full ? 1 : out.size() - written);
    if (produced > 0 && full) return DataLoss("bzip2: holds more than ", out.size(), " bytes");
    if (produced > 0) written += static_cast<size_t>(produced);
    if (produced <= 0) result = produced == 0 ? ARCHIVE_EOF : ARCHIVE_FATAL;
  }
  // The filter passes over what follows the last stream.
  if (result != ARCHIVE_EOF || archive_filter_bytes(a, -1) != static_cast<int64_t>(compressed.size())) {
    return DataLoss("bzip2: the data is damaged or cut short, or something follows its end");
  }
  if (written != out.size()) return DataLoss("bzip2: holds ", written, " bytes instead of ", out.size());
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
