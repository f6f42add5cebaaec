#include <brotli/decode.h>

#include <memory>
#include <new>

#include "base/errors.h"
#include "codec/decompress.h"

namespace shardkit::codec {
namespace {

struct Destroy {
  void operator()(BrotliDecoderState* state) const { BrotliDecoderDestroyInstance(state); }
};

}  // namespace

absl::Status DecompressBrotli(std::string_view compressed, std::span<char> out) {
  const std::unique_ptr<BrotliDecoderState, Destroy> state(BrotliDecoderCreateInstance(nullptr, nullptr, nullptr));
  if (!state) throw std::bad_alloc();
  size_t left = compressed.size(), room = out.size();
  const auto* next = reinterpret_cast<const uint8_t*>(compressed.data());
  auto* to = reinterpret_cast<uint8_t*>(out.data());
  const BrotliDecoderResult result = BrotliDecoderDecompressStream(state.get(), &left, &next, &room, &to, nullptr);
  switch (result) {
    case BROTLI_DECODER_RESULT_SUCCESS:
      if (room != 0) return DataLoss("brotli: holds ", out.size() - room, " bytes instead of ", out.size());
      if (left != 0) return DataLoss("brotli: ", left, " bytes follow the data");
      return absl::OkStatus();
    case BROTLI_DECODER_RESULT_NEEDS_MORE_INPUT:
      return DataLoss("brotli: the data is cut short after ", compressed.size(), " bytes");
    case BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT:
      return DataLoss("brotli: holds more than ", out.size(), " bytes");
    case BROTLI_DECODER_RESULT_ERROR:
      break;
  }
  return DataLoss("brotli: the data is damaged: ", BrotliDecoderErrorString(BrotliDecoderGetErrorCode(state.get())));
}

}  // namespace shardkit::codec
