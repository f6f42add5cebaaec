#include <bzlib.h>

#include <algorithm>
#include <new>

#include "base/errors.h"
#include "codec/decompress.h"

namespace shardkit::codec {
namespace {

// The decoder counts its input and output in 32 bits.
constexpr size_t kBzip2Piece = size_t{1} << 30;

class Decoder {
 public:
  Decoder() { Start(); }
  ~Decoder() { BZ2_bzDecompressEnd(&stream_); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  void Restart() {
    BZ2_bzDecompressEnd(&stream_);
    Start();
  }
  bz_stream& stream() { return stream_; }

 private:
  void Start() {
    stream_ = {};
    if (BZ2_bzDecompressInit(&stream_, 0, 0) != BZ_OK) throw std::bad_alloc();
  }

  bz_stream stream_{};
};

}  // namespace

absl::Status DecompressBzip2(std::string_view compressed, std::span<char> out) {
  Decoder decoder;
  size_t read = 0, written = 0;
  char spare;  // receives a byte that does not fit in `out`
  while (true) {
    bz_stream& stream = decoder.stream();
    const size_t piece = std::min(kBzip2Piece, compressed.size() - read),
                 room = std::min(kBzip2Piece, out.size() - written);
    stream.next_in = const_cast<char*>(compressed.data() + read);
    stream.avail_in = static_cast<unsigned>(piece);
    stream.next_out = room == 0 ? &spare : out.data() + written;
    stream.avail_out = static_cast<unsigned>(room == 0 ? 1 : room);
    const int result = BZ2_bzDecompress(&stream);
    const size_t produced = (room == 0 ? 1 : room) - stream.avail_out, consumed = piece - stream.avail_in;
    read += consumed;
    if (room == 0 && produced != 0) return DataLoss("bzip2: holds more than ", out.size(), " bytes");
    written += produced;
    if (result == BZ_STREAM_END) {
      if (read == compressed.size()) break;
      decoder.Restart();  // several streams may follow one another
    } else if (result == BZ_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (result != BZ_OK) {
      return DataLoss("bzip2: the data is damaged");
    } else if (produced == 0 && consumed == 0) {
      return DataLoss("bzip2: the data is cut short after ", compressed.size(), " bytes");
    }
  }
  if (written != out.size()) return DataLoss("bzip2: holds ", written, " bytes instead of ", out.size());
  return absl::OkStatus();
}

}  // namespace shardkit::codec
