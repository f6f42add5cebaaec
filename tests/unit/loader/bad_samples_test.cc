// Samples that cannot be used: the messages, the samples left out, and the others.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "loader/loader_support.h"
#include "shardkit/image.h"

namespace shardkit::test {
namespace {

constexpr size_t kSamples = 96;
constexpr size_t kBlock = 8;

std::string Jpeg(uint32_t number) {
  std::vector<uint8_t> pixels(size_t{24} * 16 * 3);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * (number + 1) + number);
  std::string jpeg;
  EXPECT_TRUE(EncodeJpeg(pixels.data(), 24, 16, {}, &jpeg).ok());
  return jpeg;
}

// One pixel, as in format-spec/golden.
std::string GrayPng() {
  constexpr unsigned char kBytes[] = {0x89, 'P',  'N',  'G',  13,   10,   26,  10,   0,   0,    0,    13,   'I',  'H',
                                      'D',  'R',  0,    0,    0,    1,    0,   0,    0,   1,    8,    0,    0,    0,
                                      0,    0x3a, 0x7e, 0x9b, 0x55, 0,    0,   0,    13,  'I',  'D',  'A',  'T',  0x78,
                                      1,    1,    2,    0,    0xfd, 0xff, 0,   0x80, 0,   0x82, 0,    0x81, 0xc3, 0x6e,
                                      0x25, 0xe0, 0,    0,    0,    0,    'I', 'E',  'N', 'D',  0xae, 0x42, 0x60, 0x82};
  return {std::begin(kBytes), std::end(kBytes)};
}

class BadSamplesTest : public testing::Test {
 protected:
  std::vector<Column> columns_ = {KeyColumn(), {.name = "image", .type = Type::kJpeg}, TextColumn(), LabelColumn()};

  // Shards of 32 samples, blocks of 8.
  void Write() {
    for (uint32_t i = 0; i < kSamples; ++i) {
      const auto bad = images_.find(i);
      rows_.push_back({"k" + std::to_string(i), bad == images_.end() ? Jpeg(i) : bad->second,
                       "text " + std::to_string(i), Bytes<int32_t>(static_cast<int32_t>(i))});
    }
    DatasetWriterOptions options = SmallShards(32, kBlock);
    options.shard.alignment = 4096;
    options.shard.storage = {{"image", Storage::kBlob}};
    WriteRows(*files_, "/data", columns_, rows_, options);
  }

  // Flips a bit of the file of a shard at the first place of `bytes`, plus `offset`.
  void Damage(size_t shard, const std::string& bytes, size_t offset) {
    const auto dataset = DatasetReader::Open(*files_, "/data");
    ASSERT_TRUE(dataset.ok());
    const std::string path = "/data/" + (*dataset)->Shard(shard)->name;
    std::string file = ReadAll(*files_, path);
    const size_t at = bytes.empty() ? 0 : file.find(bytes);
    ASSERT_NE(at, std::string::npos);
    file[at + offset] = static_cast<char>(file[at + offset] ^ 4);
    ASSERT_TRUE(files_->RemoveFile(path).ok());
    WriteFile(*files_, path, file);
  }

  static LoaderOptions Options(bool images, SampleOrder order) {
    LoaderOptions options;
    options.plan = {.seed = 9, .order = order, .batch_size = 6, .shuffle_buffer_bytes = 16000};
    options.memory_bytes = 16 << 20;
    options.decode_threads = options.read_threads = 3;
    options.columns = {{.name = "image", .decode = images ? ColumnDecode::kImage : ColumnDecode::kStored},
                       {.name = "text"},
                       {.name = "label"}};
    options.columns[0].image.strict = true;
    return options;
  }

  // Ordinals in the order of the plan, step by step.
  static std::vector<std::vector<uint64_t>> Planned(const Loader& loader, uint64_t epoch) {
    std::vector<std::vector<uint64_t>> steps;
    const auto order = loader.plan().Epoch(epoch);
    for (uint64_t step = 0; step < loader.plan().StepsFrom(0); ++step) {
      const Step range = loader.plan().StepAt(0, step);
      steps.emplace_back();
      for (uint64_t i = range.begin; i < range.end; ++i) steps.back().push_back(order->At(i).ordinal);
    }
    return steps;
  }

  // Tests both policies with some orders and numbers of threads. Exactly these samples are bad. Each message contains
  // `words`.
  void Expect(bool images, const std::set<uint64_t>& bad, const std::vector<std::string>& words,
              absl::StatusCode code = absl::StatusCode::kDataLoss) {
    for (const SampleOrder order : {SampleOrder::kSequential, SampleOrder::kShuffled, SampleOrder::kWindow}) {
      for (const int threads : {1, 4}) {
        LoaderOptions options = Options(images, order);
        options.decode_threads = options.read_threads = threads;
        ExpectFailure(options, bad, words, code);
        ExpectSkips(options, bad, words, code);
      }
    }
  }

  void ExpectFailure(LoaderOptions options, const std::set<uint64_t>& bad, const std::vector<std::string>& words,
                     absl::StatusCode code) {
    const auto loader = OpenLoader(*files_, options);
    for (const std::vector<uint64_t>& step : Planned(*loader, 0)) {
      const auto first = std::ranges::find_if(step, [&](uint64_t ordinal) { return bad.contains(ordinal); });
      const auto batch = loader->Next();
      if (first == step.end()) {
        ASSERT_TRUE(batch.ok()) << batch.status();
        ASSERT_EQ((*batch)->size(), step.size());
        continue;
      }
      ASSERT_FALSE(batch.ok());
      ExpectMessage(batch.status(), *first, words, code);
      EXPECT_NE(Message(batch.status()).find("/data: sample " + std::to_string(*first) + " "), std::string::npos);
      EXPECT_NE(Message(batch.status()).find("; with bad_samples=\"skip\""), std::string::npos) << batch.status();
      EXPECT_EQ(loader->Next().status(), batch.status());
      return;
    }
    EXPECT_TRUE(bad.empty());
    EXPECT_EQ(*loader->Next(), nullptr);
  }

  static void ExpectMessage(const absl::Status& status, uint64_t ordinal, const std::vector<std::string>& words,
                            absl::StatusCode code) {
    EXPECT_EQ(status.code(), code) << status;
    for (std::string word : words) {
      if (const size_t at = word.find('#'); at != std::string::npos) word.replace(at, 1, std::to_string(ordinal));
      EXPECT_NE(Message(status).find(word), std::string::npos) << status << "\nlacks " << word;
    }
  }

  void ExpectSkips(LoaderOptions options, const std::set<uint64_t>& bad, const std::vector<std::string>& words,
                   absl::StatusCode code) {
    options.bad_samples = BadSamples::kSkip;
    options.epochs = 2;
    const auto loader = OpenLoader(*files_, options);
    std::vector<std::tuple<uint64_t, uint64_t>> listed;
    for (uint64_t epoch = 0; epoch < 2; ++epoch) {
      for (const std::vector<uint64_t>& step : Planned(*loader, epoch)) {
        const auto batch = loader->Next();
        ASSERT_TRUE(batch.ok()) << batch.status();
        size_t next = 0, skipped = 0;
        for (const uint64_t ordinal : step) {
          if (!bad.contains(ordinal)) {
            ASSERT_LT(next, (*batch)->size());
            ASSERT_EQ((*batch)->samples()[next].ordinal, ordinal);
            ExpectValues(**batch, next++);
            continue;
          }
          ASSERT_LT(skipped, (*batch)->skipped().size());
          const BadSample& entry = (*batch)->skipped()[skipped++];
          EXPECT_EQ(entry.epoch, epoch);
          EXPECT_EQ(entry.sample.dataset, 0u);
          EXPECT_EQ(entry.sample.ordinal, ordinal);
          EXPECT_EQ(entry.sample.shard, ordinal / 32);
          EXPECT_EQ(entry.block, ordinal % 32 / kBlock);
          std::vector<std::string> said;
          for (const std::string& word : words) {
            if (!word.starts_with("/data: ") && !word.starts_with("(shard")) said.push_back(word);
          }
          ExpectMessage(entry.status, ordinal, said, code);
          listed.emplace_back(epoch, ordinal);
        }
        EXPECT_EQ(next, (*batch)->size());
        EXPECT_EQ(skipped, (*batch)->skipped().size());
      }
    }
    EXPECT_EQ(*loader->Next(), nullptr);
    const LoaderReport report = loader->Report();
    EXPECT_EQ(report.skipped, 2 * bad.size());
    EXPECT_EQ(report.samples, 2 * (kSamples - bad.size()));
    ASSERT_EQ(report.first_skipped.size(), std::min<size_t>(100, 2 * bad.size()));
    for (size_t i = 0; i < report.first_skipped.size(); ++i) {
      EXPECT_EQ(report.first_skipped[i].epoch, std::get<0>(listed[i]));
      EXPECT_EQ(report.first_skipped[i].sample.ordinal, std::get<1>(listed[i]));
    }
  }

  void ExpectValues(const Batch& batch, size_t i) {
    const uint64_t ordinal = batch.samples()[i].ordinal;
    EXPECT_EQ(batch.key(i), "k" + std::to_string(ordinal));
    EXPECT_EQ(batch.Find("label")->as<int32_t>()[i], static_cast<int32_t>(ordinal));
    const BatchColumn& text = *batch.Find("text");
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(text.values.data()) + text.offsets[i],
                          text.offsets[i + 1] - text.offsets[i]),
              "text " + std::to_string(ordinal));
    const BatchColumn& image = *batch.Find("image");
    const std::string_view bytes(reinterpret_cast<const char*>(image.values.data()) + image.offsets[i],
                                 image.offsets[i + 1] - image.offsets[i]);
    if (image.shape_rank == 0) {
      EXPECT_EQ(bytes, *rows_[ordinal][1]);
      return;
    }
    DecodedImage decoded;
    if (*rows_[ordinal][1] == GrayPng()) {
      EXPECT_EQ(bytes, "\x80\x80\x80");
      return;
    }
    ASSERT_TRUE(JpegDecoder().Decode(*rows_[ordinal][1], &decoded).ok());
    EXPECT_EQ(bytes, std::string_view(reinterpret_cast<const char*>(decoded.pixels.data()), decoded.pixels.size()));
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
  std::map<uint64_t, std::string> images_;  // in place of good ones
  std::vector<Values> rows_;
};

TEST_F(BadSamplesTest, NoneIsBad) {
  Write();
  Expect(true, {}, {});
}

TEST_F(BadSamplesTest, ImagesThatCannotBeDecoded) {
  images_[3] = "no picture at all";
  images_[17] = Jpeg(17).substr(0, 100);
  images_[18] = Jpeg(18).substr(0, Jpeg(18).size() - 30);
  images_[55] = "";
  std::string damaged = Jpeg(70);
  for (size_t i = damaged.size() - 40; i < damaged.size() - 10; ++i) damaged[i] = '\xff';
  images_[70] = damaged;
  Write();
  Expect(true, {3, 17, 18, 55, 70}, {"column \"image\"", "(shard"});
}

TEST_F(BadSamplesTest, ImagesThatAreNotSupported) {
  std::string lossless = Jpeg(40);
  const size_t frame = lossless.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  lossless[frame + 1] = '\xc3';
  images_[40] = lossless;
  Write();
  Expect(true, {40}, {"column \"image\""}, absl::StatusCode::kUnimplemented);
}

// In any column of files: the column's type does not decide how its images are decoded.
TEST_F(BadSamplesTest, ImagesOfOtherFormats) {
  for (const Type type : {Type::kImage, Type::kJpeg, Type::kPng, Type::kBytes}) {
    files_ = NewMemoryFileSystem();
    rows_.clear();
    columns_[1].type = type;
    images_ = {{5, GrayPng()}, {20, GrayPng()}, {40, "P6\n1 1\n255\nabc"}};
    Write();
    Expect(true, {40},
           {"/data: sample #", "(shard 1, block 1)", "column \"image\"", "image: PNM is not decoded to pixels"},
           absl::StatusCode::kUnimplemented);
    images_[40] = "<!DOCTYPE html>";
    files_ = NewMemoryFileSystem();
    rows_.clear();
    Write();
    Expect(true, {40}, {"/data: sample #", "(shard 1, block 1)", "image: no signature of a known format"});
  }
}

TEST_F(BadSamplesTest, ABitFlippedInOneBlobLosesOneSample) {
  Write();
  Damage(1, *rows_[45][1], 60);
  Expect(false, {45}, {"/data: sample #", "column \"image\"", "(shard 1, block 1)"});
}

TEST_F(BadSamplesTest, SeveralBlobsOfABlock) {
  Write();
  Damage(2, *rows_[64][1], 60);
  Damage(2, *rows_[71][1], 0);
  Damage(2, *rows_[72][1], 10);
  Expect(false, {64, 71, 72}, {"column \"image\""});
}

TEST_F(BadSamplesTest, ACompressedChunkLosesItsBlock) {
  Write();
  const auto dataset = DatasetReader::Open(*files_, "/data");
  const auto shard = (*dataset)->OpenShard(0);
  ASSERT_TRUE(shard.ok());
  // The compressed texts stand in the front, after the header and the keys.
  const BlockInfo& block = (*shard)->blocks()[2];
  const std::string file = ReadAll(*files_, (*shard)->path());
  const std::string_view magic("\x28\xb5\x2f\xfd", 4);
  const size_t keys = file.find(magic, block.offset);
  const size_t texts = file.find(magic, keys + 4);
  ASSERT_LT(texts, block.offset + block.front_length);
  Damage(0, "", texts + 6);
  std::set<uint64_t> bad;
  for (uint64_t i = 16; i < 24; ++i) bad.insert(i);
  Expect(false, bad, {"(shard 0, block 2)", "column 2 \"text\""});
}

TEST_F(BadSamplesTest, ABlockHeaderLosesItsBlock) {
  Write();
  const auto dataset = DatasetReader::Open(*files_, "/data");
  const auto shard = (*dataset)->OpenShard(1);
  ASSERT_TRUE(shard.ok());
  Damage(1, "", (*shard)->blocks()[3].offset + 20);
  std::set<uint64_t> bad;
  for (uint64_t i = 56; i < 64; ++i) bad.insert(i);
  Expect(false, bad, {"(shard 1, block 3)", "block 3 (samples 24 to 31)"});
}

TEST_F(BadSamplesTest, PaddingIsNobodysValue) {
  Write();
  const auto dataset = DatasetReader::Open(*files_, "/data");
  const auto shard = (*dataset)->OpenShard(1);
  const BlockInfo& block = (*shard)->blocks()[0];
  ASSERT_LT(block.offset + block.length, (*shard)->blocks()[1].offset);
  Damage(1, "", block.offset + block.length);
  for (const SampleOrder order : {SampleOrder::kSequential, SampleOrder::kShuffled}) {
    ExpectSkips(Options(false, order), {}, {}, absl::StatusCode::kDataLoss);
  }
  LoaderOptions options = Options(false, SampleOrder::kSequential);
  const auto loader = OpenLoader(*files_, options);
  for (int step = 0; step < 5; ++step) ASSERT_TRUE(loader->Next().ok());
  EXPECT_TRUE(absl::IsDataLoss(loader->Next().status()));  // samples 30 to 35; the shard begins at 32
}

TEST_F(BadSamplesTest, AMissingShardIsAnErrorUnderEitherPolicy) {
  Write();
  const auto dataset = DatasetReader::Open(*files_, "/data");
  const std::string path = "/data/" + (*dataset)->Shard(1)->name;
  ASSERT_TRUE(files_->RemoveFile(path).ok());
  for (const BadSamples policy : {BadSamples::kFail, BadSamples::kSkip}) {
    LoaderOptions options = Options(false, SampleOrder::kSequential);
    options.bad_samples = policy;
    const auto loader = OpenLoader(*files_, options);
    for (int step = 0; step < 5; ++step) ASSERT_TRUE(loader->Next().ok());
    const absl::Status status = loader->Next().status();
    EXPECT_TRUE(absl::IsNotFound(status)) << status;
    EXPECT_NE(Message(status).find(path), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace shardkit::test
