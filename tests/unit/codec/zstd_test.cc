#include "codec/zstd.h"

#include <gtest/gtest.h>
#include <zstd.h>

#include <random>

#include "base/strings.h"

namespace shardkit::codec {
namespace {

std::string Sentences(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += StrCat("{\"id\": ", random() % 100000, ", \"label\": \"class-", random() % 40, "\", \"score\": 0.",
                   random() % 1000, "}\n");
  }
  return text;
}

absl::StatusCode Decompress(std::string_view compressed, size_t size, const ZstdDictionary* dictionary = nullptr) {
  std::string out(size, '\0');
  return ZstdDecompressor().Decompress(compressed, dictionary, out).code();
}

TEST(Zstd, RoundTripAtEveryLevel) {
  const std::string raw = Sentences(200, 1);
  ZstdCompressor compressor;
  ZstdDecompressor decompressor;
  EXPECT_LT(MinZstdLevel(), 0);
  EXPECT_GE(MaxZstdLevel(), 19);
  for (const int level : {MinZstdLevel(), -1, 0, 1, kDefaultZstdLevel, 9, MaxZstdLevel()}) {
    std::string compressed = "something else";
    ASSERT_TRUE(compressor.Compress(raw, level, nullptr, &compressed).ok());
    EXPECT_EQ(ZSTD_getFrameContentSize(compressed.data(), compressed.size()), raw.size());
    std::string again(raw.size(), '\0');
    ASSERT_TRUE(decompressor.Decompress(compressed, nullptr, again).ok());
    EXPECT_EQ(again, raw);
    // The same bytes from a context with another history.
    std::string second;
    ASSERT_TRUE(ZstdCompressor().Compress(raw, level, nullptr, &second).ok());
    EXPECT_EQ(second, compressed);
  }
  std::string unused;
  EXPECT_EQ(compressor.Compress(raw, MaxZstdLevel() + 1, nullptr, &unused).code(), absl::StatusCode::kInvalidArgument);
}

TEST(Zstd, Nothing) {
  std::string compressed;
  ASSERT_TRUE(ZstdCompressor().Compress("", 3, nullptr, &compressed).ok());
  EXPECT_TRUE(ZstdDecompressor().Decompress(compressed, nullptr, {}).ok());
  EXPECT_EQ(Decompress(compressed, 1), absl::StatusCode::kDataLoss);
}

TEST(Zstd, ExactlyOneFrameOfTheSizeGiven) {
  const std::string raw = Sentences(50, 2);
  std::string frame;
  ASSERT_TRUE(ZstdCompressor().Compress(raw, 3, nullptr, &frame).ok());
  EXPECT_EQ(Decompress(frame, raw.size()), absl::StatusCode::kOk);
  EXPECT_EQ(Decompress(frame, raw.size() + 1), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Decompress(frame, raw.size() - 1), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Decompress(frame + frame, raw.size()), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Decompress(frame + frame, raw.size() * 2), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Decompress(frame + "x", raw.size()), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Decompress("", 0), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Decompress(std::string("\x50\x2a\x4d\x18\0\0\0\0", 8), 0),
            absl::StatusCode::kDataLoss);  // skippable
  for (size_t length = 0; length < frame.size(); ++length) {
    ASSERT_EQ(Decompress(std::string_view(frame).substr(0, length), raw.size()), absl::StatusCode::kDataLoss);
  }
}

// A frame of one raw block, with the fields that are given, each as its bytes.
std::string FrameByHand(std::string_view raw, uint8_t descriptor, std::string_view fields) {
  std::string frame("\x28\xb5\x2f\xfd");
  frame += static_cast<char>(descriptor);
  frame += fields;
  frame += {static_cast<char>(1 | raw.size() << 3), 0, 0};
  return frame.append(raw);
}

// RFC 8878, section 3.1.1.1: the window descriptor, the dictionary ID, the content size.
TEST(Zstd, WindowAndDictionaryId) {
  constexpr uint8_t kSizeOf4 = 2 << 6, kSingleSegment = 1 << 5, kIdOf1 = 1;
  const std::string raw = "some words", size("\x0a\0\0\0", 4);
  const auto decode = [&](uint8_t descriptor, const std::string& fields, const ZstdDictionary* dictionary = nullptr) {
    return Decompress(FrameByHand(raw, descriptor, fields), raw.size(), dictionary);
  };
  EXPECT_EQ(decode(kSizeOf4 | kSingleSegment, size), absl::StatusCode::kOk);
  for (int descriptor = 0; descriptor < 256; ++descriptor) {
    EXPECT_EQ(decode(kSizeOf4, static_cast<char>(descriptor) + size),
              descriptor <= 17 << 3 ? absl::StatusCode::kOk : absl::StatusCode::kDataLoss)
        << descriptor;
  }
  const auto content = ZstdDictionary::CreateForReading("any bytes are a dictionary").value();
  for (const ZstdDictionary* dictionary : {static_cast<const ZstdDictionary*>(nullptr), content.get()}) {
    EXPECT_EQ(decode(kSizeOf4 | kSingleSegment | kIdOf1, std::string(1, '\0') + size, dictionary),
              absl::StatusCode::kOk);
    EXPECT_EQ(decode(kSizeOf4 | kSingleSegment | kIdOf1, "\x07" + size, dictionary), absl::StatusCode::kDataLoss);
  }
}

TEST(Zstd, DamageNeverCrashes) {
  const std::string raw = Sentences(20, 3);
  std::string frame;
  ASSERT_TRUE(ZstdCompressor().Compress(raw, 3, nullptr, &frame).ok());
  for (size_t i = 0; i < frame.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = frame;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      const absl::StatusCode code = Decompress(bad, raw.size());
      ASSERT_TRUE(code == absl::StatusCode::kOk || code == absl::StatusCode::kDataLoss);
    }
  }
}

TEST(Zstd, Dictionary) {
  std::string samples;
  std::vector<size_t> lengths;
  for (uint64_t i = 0; i < 2000; ++i) {
    const std::string sample = Sentences(2, i);
    samples += sample;
    lengths.push_back(sample.size());
  }
  const auto trained = TrainZstdDictionary(samples, lengths, 4096);
  ASSERT_TRUE(trained.ok()) << trained.status();
  EXPECT_LE(trained->size(), 4096u);
  EXPECT_EQ(TrainZstdDictionary(samples, lengths, 4096).value(), *trained);
  const auto dictionary = ZstdDictionary::Create(*trained, 3).value();
  EXPECT_EQ(dictionary->bytes(), *trained);

  const std::string raw = Sentences(3, 99999);
  std::string with, without;
  ZstdCompressor compressor;
  ASSERT_TRUE(compressor.Compress(raw, 3, dictionary.get(), &with).ok());
  ASSERT_TRUE(compressor.Compress(raw, 3, nullptr, &without).ok());
  EXPECT_LT(with.size(), without.size());
  EXPECT_EQ(Decompress(with, raw.size(), dictionary.get()), absl::StatusCode::kOk);
  EXPECT_EQ(Decompress(with, raw.size()), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Decompress(without, raw.size(), dictionary.get()), absl::StatusCode::kOk);
}

TEST(Zstd, DictionariesRefused) {
  EXPECT_EQ(ZstdDictionary::Create("", 3).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ZstdDictionary::CreateForReading("").status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ZstdDictionary::Create("abc", 1000).status().code(), absl::StatusCode::kInvalidArgument);
  // The magic of a dictionary, followed by invalid bytes.
  const std::string malformed = "\x37\xa4\x30\xec" + std::string(100, '\xff');
  EXPECT_EQ(ZstdDictionary::Create(malformed, 3).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ZstdDictionary::CreateForReading(malformed).status().code(), absl::StatusCode::kDataLoss);
  // Too short for a header: any bytes, though it begins as one with tables does.
  EXPECT_TRUE(ZstdDictionary::CreateForReading(malformed.substr(0, 7)).ok());
  const size_t one[] = {5};
  EXPECT_EQ(TrainZstdDictionary("abcde", one, 1024).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(TrainZstdDictionary("", {}, 1024).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(TrainZstdDictionary("abcdef", one, 1024).status().code(), absl::StatusCode::kInvalidArgument);
  const size_t overflowing[] = {SIZE_MAX, 7};
  EXPECT_EQ(TrainZstdDictionary("abcdef", overflowing, 1024).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace shardkit::codec
