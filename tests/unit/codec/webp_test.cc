// WebP files decode to the pixels that were encoded.
#include <webp/encode.h>
#include <webp/mux.h>

#include "image_files.h"

namespace shardkit::testing {
namespace {

using codec::kWebpCodec;

constexpr int kWebpWidth = 37, kWebpHeight = 23;

std::string Taken(uint8_t* bytes, size_t size) {
  std::string file(reinterpret_cast<const char*>(bytes), size);
  WebPFree(bytes);
  return file;
}

std::string Lossless(const std::vector<uint8_t>& rgb, int width = kWebpWidth, int height = kWebpHeight) {
  uint8_t* bytes = nullptr;
  const size_t size = WebPEncodeLosslessRGB(rgb.data(), width, height, 3 * width, &bytes);
  return Taken(bytes, size);
}

std::vector<uint8_t> WebpSmooth() {
  std::vector<uint8_t> rgb;
  for (int y = 0; y < kWebpHeight; ++y) {
    for (int x = 0; x < kWebpWidth; ++x)
      rgb.insert(rgb.end(), {uint8_t(x * 6), uint8_t(y * 9), uint8_t((x * y) % 251)});
  }
  return rgb;
}

std::string WithChunk(const std::string& file, const char* name, std::string_view data) {
  const WebPData input{reinterpret_cast<const uint8_t*>(file.data()), file.size()};
  const WebPData chunk{reinterpret_cast<const uint8_t*>(data.data()), data.size()};
  WebPMux* const mux = WebPMuxCreate(&input, 1);
  EXPECT_EQ(WebPMuxSetChunk(mux, name, &chunk, 1), WEBP_MUX_OK);
  WebPData output;
  EXPECT_EQ(WebPMuxAssemble(mux, &output), WEBP_MUX_OK);
  WebPMuxDelete(mux);
  std::string out(reinterpret_cast<const char*>(output.bytes), output.size);
  WebPDataClear(&output);
  return out;
}

// At (4, 2) of a canvas of 50 x 30 pixels, before a second frame.
std::string Animation(const std::string& frame) {
  WebPMux* const mux = WebPMuxNew();
  WebPMuxFrameInfo info{};
  info.bitstream = {reinterpret_cast<const uint8_t*>(frame.data()), frame.size()};
  info.x_offset = 4;
  info.y_offset = 2;
  info.duration = 100;
  info.id = WEBP_CHUNK_ANMF;
  EXPECT_EQ(WebPMuxPushFrame(mux, &info, 1), WEBP_MUX_OK);
  info.x_offset = 0;
  EXPECT_EQ(WebPMuxPushFrame(mux, &info, 1), WEBP_MUX_OK);
  EXPECT_EQ(WebPMuxSetCanvasSize(mux, 50, 30), WEBP_MUX_OK);
  const WebPMuxAnimParams forever{0, 0};
  EXPECT_EQ(WebPMuxSetAnimationParams(mux, &forever), WEBP_MUX_OK);
  WebPData output;
  EXPECT_EQ(WebPMuxAssemble(mux, &output), WEBP_MUX_OK);
  WebPMuxDelete(mux);
  std::string out(reinterpret_cast<const char*>(output.bytes), output.size);
  WebPDataClear(&output);
  return out;
}

TEST(Webp, LosslessIsExact) {
  const std::vector<uint8_t> rgb = Noise(kWebpWidth * kWebpHeight * 3, 1);
  ExpectPixels(kWebpCodec, Lossless(rgb), rgb);
  const std::vector<uint8_t> one = {1, 2, 3};
  ExpectPixels(kWebpCodec, Lossless(one, 1, 1), one);
  ExpectDamageIsFound(kWebpCodec, Lossless(WebpSmooth()));
}

TEST(Webp, LossyIsNearAndItsPartsAreThoseOfTheWhole) {
  const std::vector<uint8_t> rgb = WebpSmooth();
  for (const float quality : {5.f, 60.f, 95.f}) {
    uint8_t* bytes = nullptr;
    const size_t size = WebPEncodeRGB(rgb.data(), kWebpWidth, kWebpHeight, 3 * kWebpWidth, quality, &bytes);
    const std::string file = Taken(bytes, size);
    const Image whole = DecodeFile(kWebpCodec, file, 3);
    ExpectPixels(kWebpCodec, file, whole.pixels);
    double difference = 0;
    for (size_t i = 0; i < rgb.size(); ++i) difference += std::abs(rgb[i] - whole.pixels[i]);
    EXPECT_LT(difference / static_cast<double>(rgb.size()), 25);
  }
}

// Also where a transparent pixel hides it.
TEST(Webp, TransparencyIsDropped) {
  std::vector<uint8_t> rgb = WebpSmooth(), rgba;
  for (size_t i = 0; i < rgb.size(); i += 3) {
    rgba.insert(rgba.end(), {rgb[i], rgb[i + 1], rgb[i + 2], uint8_t(i % 7 == 0 ? 0 : i)});
  }
  WebPConfig config;
  ASSERT_EQ(WebPConfigInit(&config), 1);
  ASSERT_EQ(WebPConfigLosslessPreset(&config, 3), 1);
  config.exact = 1;
  WebPPicture picture;
  ASSERT_EQ(WebPPictureInit(&picture), 1);
  picture.use_argb = 1;
  picture.width = kWebpWidth;
  picture.height = kWebpHeight;
  ASSERT_EQ(WebPPictureImportRGBA(&picture, rgba.data(), 4 * kWebpWidth), 1);
  WebPMemoryWriter writer;
  WebPMemoryWriterInit(&writer);
  picture.writer = WebPMemoryWrite;
  picture.custom_ptr = &writer;
  ASSERT_EQ(WebPEncode(&config, &picture), 1);
  WebPPictureFree(&picture);
  ExpectPixels(kWebpCodec, Taken(writer.mem, writer.size), rgb);

  uint8_t* bytes = nullptr;
  const size_t size = WebPEncodeRGBA(rgba.data(), kWebpWidth, kWebpHeight, 4 * kWebpWidth, 80, &bytes);
  const std::string lossy = Taken(bytes, size);
  ExpectPixels(kWebpCodec, lossy, DecodeFile(kWebpCodec, lossy, 3).pixels);
  ExpectDamageIsFound(kWebpCodec, lossy);
}

TEST(Webp, OfAnAnimationTheFirstFrameInItsCanvas) {
  const std::vector<uint8_t> rgb = Noise(kWebpWidth * kWebpHeight * 3, 2);
  std::vector<uint8_t> canvas(size_t{50} * 30 * 3);
  for (size_t y = 0; y < kWebpHeight; ++y) {
    std::copy_n(rgb.begin() + static_cast<ptrdiff_t>(y * kWebpWidth * 3), kWebpWidth * 3,
                canvas.begin() + static_cast<ptrdiff_t>(((y + 2) * 50 + 4) * 3));
  }
  ExpectPixels(kWebpCodec, Animation(Lossless(rgb)), canvas);
}

TEST(Webp, Orientation) {
  const std::string file = Lossless(WebpSmooth());
  EXPECT_EQ(kWebpCodec.probe(file)->orientation, 0);
  constexpr std::string_view kTiff("II\x2a\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0", 26);
  EXPECT_EQ(kWebpCodec.probe(WithChunk(file, "EXIF", kTiff))->orientation, 6);
  EXPECT_EQ(kWebpCodec.probe(WithChunk(file, "EXIF", std::string("Exif\0\0", 6) + std::string(kTiff)))->orientation, 6);
  EXPECT_EQ(kWebpCodec.probe(WithChunk(file, "EXIF", "II"))->orientation, 0);
  EXPECT_EQ(ProbeImage(WithChunk(file, "EXIF", kTiff))->orientation, 6);
}

TEST(Webp, MemoryIsLimitedBeforeItIsAllocated) {
  const std::string file = Lossless(WebpSmooth());
  const auto header = kWebpCodec.probe(file);
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->check_bytes, uint64_t{4} * kWebpWidth * kWebpHeight);
  EXPECT_EQ(codec::CheckImage(file, header->check_bytes), absl::OkStatus());
  EXPECT_EQ(codec::CheckImage(file, header->check_bytes - 1),
            absl::ResourceExhaustedError("WebP: decoding 37 x 23 pixels takes more than 3403 bytes of memory"));
}

}  // namespace
}  // namespace shardkit::testing
