// Documents packed into rows: every token once and in order, and little padding.
#include <gtest/gtest.h>

#include <random>

#include "loader/loader_support.h"
#include "loader/sequence_packing.h"
#include "shardkit/schema.h"

namespace shardkit::test {
namespace {

// Documents whose tokens are all different, as far as the type allows.
template <typename T>
std::vector<std::vector<T>> Documents(const std::vector<uint64_t>& lengths) {
  std::vector<std::vector<T>> documents;
  T token = 0;
  for (const uint64_t length : lengths) {
    std::vector<T>& document = documents.emplace_back(length);
    for (T& t : document) t = ++token;
  }
  return documents;
}

template <typename T>
void Write(FileSystem& files, const std::string& path, Type dtype, const std::vector<std::vector<T>>& documents,
           std::optional<size_t> absent = std::nullopt) {
  std::vector<Values> rows;
  for (const std::vector<T>& document : documents) {
    std::string value;
    const uint64_t shape[1] = {document.size()};
    ASSERT_TRUE(AppendNdarray(dtype, shape,
                              {reinterpret_cast<const char*>(document.data()), document.size() * sizeof(T)}, &value)
                    .ok());
    rows.push_back({std::to_string(rows.size()), value});
    if (absent == rows.size() - 1) rows.back()[1].reset();
  }
  WriteRows(files, path,
            {KeyColumn(),
             {.name = "tokens",
              .type = Type::kNdarray,
              .codec = Codec::kZstd,
              .nullable = absent.has_value(),
              .dtype = dtype}},
            rows, SmallShards(0, 4096));
}

LoaderOptions Options(uint32_t context, int64_t padding, uint64_t batch_size) {
  LoaderOptions options;
  options.plan = {.seed = 8, .batch_size = batch_size};
  options.plan.shuffle_buffer_bytes = 1 << 20;
  options.decode_threads = options.read_threads = 2;
  LoaderColumn tokens{.name = "tokens", .decode = ColumnDecode::kTokens};
  tokens.context = context;
  tokens.padding_token = padding;
  options.columns = {tokens};
  return options;
}

// Every token of every document is in the place that its piece names, pieces do not overlap, and all else is padding.
template <typename T>
void ExpectPacked(const Batch& batch, const std::vector<std::vector<T>>& documents, uint64_t context, T padding) {
  const BatchColumn& column = batch.column(0);
  ASSERT_EQ(column.layout, BatchLayout::kTokens);
  ASSERT_EQ(column.shape.size(), 2u);
  ASSERT_EQ(column.shape[1], context);
  const std::span<const T> values = column.as<T>();
  ASSERT_EQ(values.size(), column.shape[0] * context);
  std::vector<uint8_t> filled(values.size());
  for (size_t i = 0; i < batch.size(); ++i) {
    const std::vector<T>& document = documents[batch.samples()[i].ordinal];
    const bool present = column.present.empty() || column.present[i];
    size_t next = 0;
    for (uint64_t piece = column.offsets[i]; piece < column.offsets[i + 1]; ++piece) {
      const uint64_t row = column.shapes[3 * piece], begin = column.shapes[3 * piece + 1],
                     length = column.shapes[3 * piece + 2];
      ASSERT_LT(row, column.shape[0]);
      ASSERT_LE(begin + length, context);
      // Only a document longer than a row is divided, first into whole rows.
      ASSERT_EQ(length, std::min<uint64_t>(context, document.size() - next));
      for (uint64_t t = 0; t < length; ++t, ++next) {
        ASSERT_FALSE(std::exchange(filled[row * context + begin + t], 1));
        ASSERT_EQ(values[row * context + begin + t], document[next]);
      }
    }
    ASSERT_EQ(next, present ? document.size() : 0);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (!filled[i]) {
      ASSERT_EQ(values[i], padding);
    }
  }
}

template <typename T>
void RoundTrip(Type dtype, T padding) {
  std::mt19937_64 random(sizeof(T));
  for (const uint32_t context : {1u, 7u, 64u, 4096u}) {
    std::vector<uint64_t> lengths;
    for (int i = 0; i < 80; ++i) lengths.push_back(random() % 10 == 0 ? random() % 1000 : random() % 60);
    lengths[3] = 0;
    lengths[4] = context;
    lengths[5] = 2 * context;
    lengths[6] = 2 * context + 1;
    const auto documents = Documents<T>(lengths);
    const auto files = NewMemoryFileSystem();
    Write(*files, "/data", dtype, documents, 11);
    const auto loader = OpenLoader(*files, Options(context, static_cast<int64_t>(padding), 30));
    ASSERT_NE(loader, nullptr);
    uint64_t batches = 0;
    for (auto batch = *loader->Next(); batch != nullptr; batch = *loader->Next(), ++batches) {
      ExpectPacked<T>(*batch, documents, context, padding);
    }
    EXPECT_EQ(batches, 3u);
  }
}

TEST(TokensTest, EveryTokenOnceInEveryType) {
  RoundTrip<uint16_t>(Type::kU16, 65535);
  RoundTrip<int16_t>(Type::kI16, -1);
  RoundTrip<uint32_t>(Type::kU32, 50256);
  RoundTrip<int32_t>(Type::kI32, -100);
  RoundTrip<int64_t>(Type::kI64, INT64_MIN);
  RoundTrip<uint8_t>(Type::kU8, 0);
  RoundTrip<int8_t>(Type::kI8, -128);
  RoundTrip<uint64_t>(Type::kU64, 7);
}

TEST(TokensTest, ShortDocumentsFillTheirRows) {
  std::mt19937_64 random(6);
  std::vector<uint64_t> lengths;
  for (int i = 0; i < 12000; ++i) lengths.push_back(10 + random() % 391);
  const auto documents = Documents<uint32_t>(lengths);
  const auto files = NewMemoryFileSystem();
  Write(*files, "/data", Type::kU32, documents);
  const auto loader = OpenLoader(*files, Options(4096, 0, 4000));
  for (auto batch = *loader->Next(); batch != nullptr; batch = *loader->Next()) {
    ExpectPacked<uint32_t>(*batch, documents, 4096, 0);
  }
  const LoaderReport report = loader->Report();
  EXPECT_EQ(report.tokens, std::accumulate(lengths.begin(), lengths.end(), uint64_t{0}));
  EXPECT_GE(static_cast<double>(report.tokens), 0.995 * static_cast<double>(report.token_positions));
  std::printf("%.3f %% of %lu positions are tokens\n",
              100.0 * static_cast<double>(report.tokens) / static_cast<double>(report.token_positions),
              report.token_positions);
}

TEST(TokensTest, PackingIsFirstFitDecreasing) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 300; ++round) {
    const uint64_t context = 1 + random() % 50;
    std::vector<uint64_t> lengths;
    for (uint64_t i = random() % 60; i > 0; --i) lengths.push_back(random() % (2 * context));
    const loader::Packing packing = loader::PackSequences(lengths, context);
    // The simple way: rows in a list.
    std::vector<std::pair<uint64_t, size_t>> pieces;
    for (size_t i = 0, piece = 0; i < lengths.size(); ++i) {
      for (uint64_t left = lengths[i]; left > 0; left -= std::min(left, context))
        pieces.emplace_back(std::min(left, context), piece++);
    }
    ASSERT_EQ(packing.pieces.size(), pieces.size());
    std::ranges::stable_sort(pieces, std::greater<>(), &std::pair<uint64_t, size_t>::first);
    std::vector<uint64_t> used;
    for (const auto& [length, piece] : pieces) {
      size_t row = 0;
      while (row < used.size() && used[row] + length > context) ++row;
      if (row == used.size()) used.push_back(0);
      ASSERT_EQ(packing.pieces[piece].row, row);
      ASSERT_EQ(packing.pieces[piece].begin, used[row]);
      ASSERT_EQ(packing.pieces[piece].length, length);
      used[row] += length;
    }
    ASSERT_EQ(packing.rows, used.size());
  }
}

TEST(TokensTest, RefusesWhatIsNoToken) {
  const auto files = NewMemoryFileSystem();
  Write<uint16_t>(*files, "/short", Type::kU16, {{1, 2}});
  Write<float>(*files, "/float", Type::kF32, {{1, 2}});
  const auto status = [&](const std::string& path, int64_t padding, uint32_t context) {
    return Loader::Open(*files, {{.path = path}}, Options(context, padding, 1)).status();
  };
  EXPECT_TRUE(status("/short", 65535, 8).ok());
  for (const int64_t padding : {int64_t{-1}, int64_t{65536}, INT64_MIN}) {
    EXPECT_TRUE(absl::IsInvalidArgument(status("/short", padding, 8))) << padding;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(status("/short", 0, 0)));
  EXPECT_TRUE(absl::IsInvalidArgument(status("/float", 0, 8)));
  // An array of two dimensions is a bad sample.
  std::string square;
  const uint64_t shape[2] = {1, 2};
  ASSERT_TRUE(AppendNdarray(Type::kU16, shape, "abcd", &square).ok());
  WriteRows(*files, "/square", {KeyColumn(), {.name = "tokens", .type = Type::kNdarray, .dtype = Type::kU16}},
            {{"a", square}});
  const auto loader = OpenLoader(*files, Options(8, 0, 1), "/square");
  const auto batch = loader->Next();
  EXPECT_TRUE(absl::IsDataLoss(batch.status()));
  EXPECT_NE(Message(batch.status()).find("2 dimensions"), std::string::npos) << batch.status();
}

}  // namespace
}  // namespace shardkit::test
