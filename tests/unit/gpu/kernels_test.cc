// Number formats and normalisation compared with arithmetic that does not use the tested code.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "base/float_types.h"
#include "gpu_support.h"
#include "support/effort.h"

namespace shardkit::gpu {
namespace {

using test::Guarded;
using test::Random;

// The value of a 16-bit number with `fraction_bits` bits of fraction.
double Value(uint16_t bits, int fraction_bits) {
  const int exponent_bits = 15 - fraction_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits & 0x7fff) >> fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = bits >= 0x8000 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1)
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * INFINITY;
  const int whole = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
  return sign * std::ldexp(whole, std::max(exponent, 1) - bias - fraction_bits);
}

// Compares distances. `below` and `below` + 1 are the numbers around the magnitude.
uint16_t Nearest(float value, int fraction_bits, uint16_t below) {
  const double magnitude = std::fabs(static_cast<double>(value));
  const auto infinity = static_cast<uint16_t>(((1 << (15 - fraction_bits)) - 1) << fraction_bits);
  const uint16_t above = static_cast<uint16_t>(below + 1);
  // After the largest number, the next value is the first of the next exponent.
  const double low = Value(below, fraction_bits);
  const double high = above == infinity ? low + (low - Value(static_cast<uint16_t>(below - 1), fraction_bits))
                                        : Value(above, fraction_bits);
  const double to_low = magnitude - low, to_high = high - magnitude;
  const uint16_t chosen = to_low < to_high || (to_low == to_high && below % 2 == 0) ? below : above;
  return static_cast<uint16_t>(chosen | (std::signbit(value) ? 0x8000 : 0));
}

void ExpectNeighbourhoods(int fraction_bits, uint16_t (*convert)(float)) {
  const auto infinity = static_cast<uint16_t>(((1 << (15 - fraction_bits)) - 1) << fraction_bits);
  for (uint16_t below = 0; below < infinity; ++below) {
    const double low = Value(below, fraction_bits);
    const double step = below == 0              ? Value(1, fraction_bits)
                        : below + 1 == infinity ? low - Value(below - 1, fraction_bits)
                                                : Value(below + 1, fraction_bits) - low;
    for (const double part : {0.0, 0.25, 0.5, 0.75}) {
      const auto center = static_cast<float>(low + part * step);
      if (std::isinf(center)) continue;
      for (float value : {center, std::nextafterf(center, INFINITY), std::nextafterf(center, -INFINITY)}) {
        if (value < low || value >= low + step) continue;
        ASSERT_EQ(convert(value), Nearest(value, fraction_bits, below)) << value;
        ASSERT_EQ(convert(-value), Nearest(-value, fraction_bits, below)) << -value;
      }
    }
  }
  ASSERT_EQ(convert(INFINITY), infinity);
  ASSERT_EQ(convert(-INFINITY), infinity | 0x8000);
  ASSERT_EQ(convert(-0.0f), 0x8000);
  for (const uint32_t bits : {0x7f800001u, 0xff800001u, 0x7fc00000u, 0xffffffffu})
    ASSERT_EQ(convert(std::bit_cast<float>(bits)), kNan16);
}

TEST(FloatTypes, EveryNeighbourhoodOfF16) {
  ExpectNeighbourhoods(10, PortableToF16);
  EXPECT_EQ(PortableToF16(65519.99f), 0x7bff);
  EXPECT_EQ(PortableToF16(65520.0f), 0x7c00);
  EXPECT_EQ(PortableToF16(1e30f), 0x7c00);
}

TEST(FloatTypes, EveryNeighbourhoodOfBf16) { ExpectNeighbourhoods(7, PortableToBf16); }

#ifdef __FLT16_MANT_DIG__
TEST(FloatTypes, AgreesWithTheCompiler) {
  Random random(1);
  for (int i = 0; i < 20'000'000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(random.engine()()));
    if (std::isnan(value)) continue;
    ASSERT_EQ(PortableToF16(value), std::bit_cast<uint16_t>(static_cast<_Float16>(value))) << value;
  }
}
#endif

// Distance between a number and the next larger one of its type.
double Step(double value, Type type) {
  const int fraction = type == Type::kF32 ? 23 : type == Type::kF16 ? 10 : 7;
  const int least = type == Type::kF16 ? -14 : -126;
  return std::ldexp(1.0, std::max(value == 0 ? least : std::ilogb(value), least) - fraction);
}

double ReadElement(const uint8_t* bytes, Type type, uint64_t index) {
  if (type == Type::kF32) {
    float value;
    std::memcpy(&value, bytes + 4 * index, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, bytes + 2 * index, 2);
  return Value(bits, type == Type::kF16 ? 10 : 7);
}

// Within one step of the exact value, for every pixel value.
TEST(Normalize, IsWithinOneStep) {
  Random random(2);
  for (int round = 0; round < shardkit::test::Thinned(60); ++round) {
    for (const Type type : {Type::kF32, Type::kF16, Type::kBf16}) {
      const int channels = random.Coin() ? 1 : 3;
      float mean[3], deviation[3];
      for (int c = 0; c < 3; ++c) {
        mean[c] = static_cast<float>(random.Real(0, 1));
        deviation[c] = static_cast<float>(random.Real(0.05, 1));
      }
      NormalizeImages arguments;
      arguments.count = 3;
      arguments.height = 16;
      arguments.width = 16;
      arguments.channels = channels;
      arguments.output = NormalizedOutput(type, mean, deviation);
      const uint64_t bytes = 3 * 256 * static_cast<uint64_t>(channels);
      std::vector<uint8_t> pixels = random.Bytes(bytes);
      for (size_t i = 0; i < 256 * static_cast<size_t>(channels); ++i)
        pixels[i] = static_cast<uint8_t>(i / static_cast<size_t>(channels));
      Guarded in(pixels), out(bytes * ScalarSize(type));
      arguments.pixels = in.data();
      arguments.out = out.data();
      NormalizeOnHost(arguments);
      ASSERT_TRUE(out.Untouched());
      for (uint64_t image = 0, i = 0; image < 3; ++image) {
        for (int channel = 0; channel < channels; ++channel) {
          for (uint64_t place = 0; place < 256; ++place, ++i) {
            const uint8_t pixel =
                pixels[(image * 256 + place) * static_cast<uint64_t>(channels) + static_cast<uint64_t>(channel)];
            const long double exact =
                static_cast<long double>(pixel) * arguments.output.scale[channel] + arguments.output.bias[channel];
            const double got = ReadElement(out.data(), type, i);
            ASSERT_LE(std::fabs(static_cast<double>(got - exact)), Step(static_cast<double>(exact), type)) << pixel;
            // Scale and bias themselves are rounded.
            const double wanted = (pixel / 255.0 - mean[channel]) / deviation[channel];
            ASSERT_NEAR(got, wanted, Step(std::max(std::fabs(wanted), 0.001), type) + 1e-5) << pixel;
          }
        }
      }
    }
  }
}

TEST(Normalize, U8IsOnlyMoved) {
  const std::vector<uint8_t> pixels = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  Guarded out(12);
  NormalizeImages arguments;
  arguments.pixels = pixels.data();
  arguments.out = out.data();
  arguments.count = 2;
  arguments.height = 1;
  arguments.width = 2;
  arguments.output.planar = true;
  NormalizeOnHost(arguments);
  EXPECT_TRUE(out.Untouched());
  EXPECT_EQ((std::vector<uint8_t>(out.data(), out.data() + 12)),
            (std::vector<uint8_t>{1, 4, 2, 5, 3, 6, 7, 10, 8, 11, 9, 12}));
}

TEST(Normalize, OutputIsTorchvisions) {
  const PixelOutput output = NormalizedOutput(Type::kBf16, {0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f});
  EXPECT_EQ(output.type, Type::kBf16);
  EXPECT_TRUE(output.planar);
  EXPECT_EQ(output.scale[0], static_cast<float>(1 / (255 * static_cast<double>(0.229f))));
  EXPECT_EQ(output.bias[2], static_cast<float>(-static_cast<double>(0.406f) / static_cast<double>(0.225f)));
}

}  // namespace
}  // namespace shardkit::gpu
