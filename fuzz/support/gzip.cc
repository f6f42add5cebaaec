#include "support/gzip.h"

#include <zlib.h>

#include "support/require.h"

namespace shardkit::fuzz {

std::string Gzip(const std::string& bytes, int level) {
  z_stream stream{};
  Require(deflateInit2(&stream, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK, "zlib begins");
  std::string out(deflateBound(&stream, bytes.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  Require(deflate(&stream, Z_FINISH) == Z_STREAM_END, "zlib ends");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace shardkit::fuzz
