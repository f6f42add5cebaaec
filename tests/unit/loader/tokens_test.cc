// Documents packed into rows: every token once and in order, in steps of one shape, and little padding.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <numeric>
#include <random>

#include "loader/columns/token_rows.h"
#include "loader/loader_support.h"
#include "shardkit/schema.h"

namespace shardkit::test {
namespace {

template <typename T>
using DocumentList = std::vector<std::vector<T>>;

// Documents whose tokens are all different, as far as the type allows.
template <typename T>
DocumentList<T> Documents(const std::vector<uint64_t>& lengths) {
  DocumentList<T> documents;
  T token = 0;
  for (const uint64_t length : lengths) {
    for (T& t : documents.emplace_back(length)) t = ++token;
  }
  return documents;
}

std::vector<uint64_t> RandomLengths(int count, uint64_t context, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint64_t> lengths;
  for (int i = 0; i < count; ++i) lengths.push_back(random() % 10 == 0 ? random() % 1000 : random() % 60);
  lengths[3] = 0;
  lengths[4] = context;
  lengths[5] = 2 * context;
  lengths[6] = 2 * context + 1;
  return lengths;
}

template <typename T>
std::string Array(Type dtype, const std::vector<T>& document) {
  std::string value;
  const uint64_t shape[1] = {document.size()};
  EXPECT_TRUE(
      AppendNdarray(dtype, shape, {reinterpret_cast<const char*>(document.data()), document.size() * sizeof(T)}, &value)
          .ok());
  return value;
}

// As arrays, or as bytes with Type::kBytes.
template <typename T>
void Write(FileSystem& files, const std::string& path, Type dtype, const DocumentList<T>& documents,
           std::optional<size_t> absent = std::nullopt, Codec codec = Codec::kZstd) {
  std::vector<Values> rows;
  const bool bytes = dtype == Type::kBytes;
  for (const std::vector<T>& document : documents) {
    const std::string raw(reinterpret_cast<const char*>(document.data()), document.size() * sizeof(T));
    rows.push_back({std::to_string(rows.size()), bytes ? raw : Array(dtype, document)});
    if (absent == rows.size() - 1) rows.back()[1].reset();
  }
  Column column{
      .name = "tokens", .type = bytes ? Type::kBytes : Type::kNdarray, .codec = codec, .nullable = absent.has_value()};
  if (!bytes) column.dtype = dtype;
  WriteRows(files, path, {KeyColumn(), column}, rows, SmallShards(0, 16));
}

LoaderOptions Options(uint32_t context, uint64_t batch_size, TokenPacking packing = TokenPacking::kBestFit,
                      int64_t padding = 0) {
  LoaderOptions options;
  options.plan = {.seed = 8, .batch_size = batch_size, .remainder = Remainder::kPad};
  options.plan.shuffle_buffer_bytes = 1 << 20;
  options.decode_threads = options.read_threads = 2;
  LoaderColumn tokens{.name = "tokens", .decode = ColumnDecode::kTokens};
  tokens.context = context;
  tokens.packing = packing;
  tokens.padding_token = padding;
  options.columns = {tokens};
  return options;
}

// The rows of batches as text, by their position in the epoch: tokens and which documents they are of.
using RowsByPosition = std::map<std::pair<uint64_t, uint64_t>, std::string>;

// Checks that pieces are where they say, and all else is padding. Counts how often each token comes, by document.
template <typename T>
void ExpectPacked(const Batch& batch, const DocumentList<T>& documents, uint64_t context, T padding,
                  std::vector<std::vector<int>>* seen, RowsByPosition* rows = nullptr) {
  const BatchColumn& column = batch.column(0);
  ASSERT_EQ(column.layout, BatchLayout::kTokens);
  ASSERT_EQ(column.shape.size(), 2u);
  ASSERT_EQ(column.shape[1], context);
  ASSERT_EQ(column.shapes.size(), 4 * batch.size());
  const std::span<const T> values = column.as<T>();
  ASSERT_EQ(values.size(), column.shape[0] * context);
  std::vector<uint8_t> filled(values.size());
  std::map<uint64_t, std::string> texts;
  std::pair<uint64_t, uint64_t> last;
  for (size_t i = 0; i < batch.size(); ++i) {
    const BatchSample& sample = batch.samples()[i];
    const std::vector<T>& document = documents[sample.ordinal];
    EXPECT_EQ(batch.key(i), std::to_string(sample.ordinal));
    const uint64_t row = column.shapes[4 * i], begin = column.shapes[4 * i + 1], length = column.shapes[4 * i + 2],
                   offset = column.shapes[4 * i + 3];
    if (i > 0) {
      ASSERT_LT(last, std::pair(row, begin)) << "not row by row";
    }
    last = {row, begin};
    ASSERT_LT(row, column.shape[0]);
    ASSERT_GT(length, 0u);
    ASSERT_LE(begin + length, context);
    ASSERT_LE(offset + length, document.size());
    for (uint64_t t = 0; t < length; ++t) {
      ASSERT_FALSE(std::exchange(filled[row * context + begin + t], 1));
      ASSERT_EQ(values[row * context + begin + t], document[offset + t]);
      if (!sample.padding) ++(*seen)[sample.ordinal][offset + t];
    }
    texts[sample.position] += std::to_string(sample.ordinal) + "+" + std::to_string(offset) + "*" +
                              std::to_string(length) + (sample.padding ? "p " : " ");
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (!filled[i]) {
      ASSERT_EQ(values[i], padding);
    }
  }
  if (rows == nullptr) return;
  for (const auto& [position, text] : texts) {
    ASSERT_TRUE(rows->emplace(std::pair(batch.epoch(), position), text).second) << "a row twice";
  }
}

template <typename T>
std::vector<std::vector<int>> NoneOf(const DocumentList<T>& documents) {
  std::vector<std::vector<int>> seen;
  for (const auto& document : documents) seen.emplace_back(document.size());
  return seen;
}

void ExpectAll(const std::vector<std::vector<int>>& seen, int times, std::optional<size_t> but = std::nullopt) {
  for (size_t i = 0; i < seen.size(); ++i) {
    for (const int count : seen[i]) ASSERT_EQ(count, i == but ? 0 : times) << "document " << i;
  }
}

template <typename T>
void RoundTrip(Type dtype, T padding) {
  for (const uint32_t context : {1u, 7u, 64u, 4096u}) {
    for (const TokenPacking packing : {TokenPacking::kBestFit, TokenPacking::kConcat}) {
      for (const SampleOrder order : {SampleOrder::kShuffled, SampleOrder::kSequential, SampleOrder::kWindow}) {
        const auto documents = Documents<T>(RandomLengths(80, context, sizeof(T)));
        const auto files = NewMemoryFileSystem();
        Write(*files, "/data", dtype, documents, 11);
        LoaderOptions options = Options(context, 5, packing, static_cast<int64_t>(padding));
        options.plan.order = order;
        const auto loader = OpenLoader(*files, options);
        ASSERT_NE(loader, nullptr);
        auto seen = NoneOf(documents);
        for (auto batch = *loader->Next(); batch != nullptr; batch = *loader->Next()) {
          ASSERT_EQ(batch->column(0).shape[0], 5u) << "not the same shape in every step";
          ExpectPacked<T>(*batch, documents, context, padding, &seen);
        }
        ExpectAll(seen, 1, 11);
      }
    }
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

// Runs all ranks, each from its cursor, until `steps` steps or the end; returns the cursor of rank 0.
Cursor RunRanks(FileSystem& files, const LoaderOptions& given, uint64_t world_size, std::optional<Cursor> from,
                uint64_t steps, const DocumentList<uint32_t>& documents, std::vector<std::vector<int>>* seen,
                RowsByPosition* rows) {
  Cursor cursor;
  for (uint64_t rank = 0; rank < world_size; ++rank) {
    LoaderOptions options = given;
    options.world_size = world_size;
    options.rank = rank;
    options.cursor = from;
    const auto loader = OpenLoader(files, options);
    for (uint64_t step = 0; step < steps; ++step) {
      const auto batch = *loader->Next();
      if (batch == nullptr) break;
      EXPECT_EQ(batch->column(0).shape[0], options.plan.batch_size / world_size);
      ExpectPacked<uint32_t>(*batch, documents, given.columns[0].context, 0, seen, rows);
    }
    if (rank == 0) cursor = loader->cursor();
  }
  return cursor;
}

TEST(TokensTest, RowsDependOnNeitherRanksNorStops) {
  const auto documents = Documents<uint32_t>(RandomLengths(1500, 50, 3));
  const auto files = NewMemoryFileSystem();
  Write(*files, "/data", Type::kU32, documents);
  for (const TokenPacking packing : {TokenPacking::kBestFit, TokenPacking::kConcat}) {
    LoaderOptions options = Options(50, 12, packing);
    options.epochs = 2;
    auto seen = NoneOf(documents);
    RowsByPosition alone;
    RunRanks(*files, options, 1, std::nullopt, UINT64_MAX, documents, &seen, &alone);
    ExpectAll(seen, 2);
    seen = NoneOf(documents);
    RowsByPosition parts;
    std::optional<Cursor> cursor;
    for (const auto& [world_size, steps] :
         std::vector<std::pair<uint64_t, uint64_t>>{{2, 7}, {1, 1}, {4, 40}, {3, 30}, {12, UINT64_MAX}}) {
      cursor = RunRanks(*files, options, world_size, cursor, steps, documents, &seen, &parts);
      EXPECT_LT(FormatCursor(*cursor).size(), 200u);
    }
    EXPECT_EQ(parts, alone);
    ExpectAll(seen, 2);
    // Another epoch packs other documents together.
    std::set<std::string> first, second;
    for (const auto& [place, text] : alone) {
      if (std::ranges::count(text, ' ') > 1) (place.first == 0 ? first : second).insert(text);
    }
    EXPECT_GT(first.size(), 50u);
    std::vector<std::string> both;
    std::ranges::set_intersection(first, second, std::back_inserter(both));
    EXPECT_LT(both.size(), first.size() / 2);
  }
}

TEST(TokensTest, RowsHaveChosenDocumentsOnly) {
  const auto documents = Documents<uint32_t>(RandomLengths(400, 50, 4));
  const auto files = NewMemoryFileSystem();
  Write(*files, "/data", Type::kU32, documents);
  LoaderDataset dataset{.path = "/data"};
  dataset.selection.ranges = {{10, 20}, {100, 103}, {399, 400}};
  auto loader = Loader::Open(*files, {dataset}, Options(50, 4));
  ASSERT_TRUE(loader.ok()) << loader.status();
  auto seen = NoneOf(documents);
  for (auto batch = *(*loader)->Next(); batch != nullptr; batch = *(*loader)->Next())
    ExpectPacked<uint32_t>(*batch, documents, 50, 0, &seen);
  for (size_t i = 0; i < seen.size(); ++i) {
    const bool chosen = (i >= 10 && i < 20) || (i >= 100 && i < 103) || i == 399;
    for (const int count : seen[i]) ASSERT_EQ(count, chosen ? 1 : 0) << i;
  }
  // A cursor of other rows does not fit.
  const Cursor cursor = (*loader)->plan().Begin(0);
  for (LoaderOptions other : {Options(51, 4), Options(50, 4, TokenPacking::kConcat), Options(50, 4)}) {
    other.cursor = cursor;
    if (other.columns[0].context == 50 && other.columns[0].packing == TokenPacking::kBestFit) {
      dataset.selection.ranges[0] = {11, 20};
    }
    EXPECT_TRUE(absl::IsInvalidArgument(Loader::Open(*files, {dataset}, other).status()));
  }
  dataset.selection.ranges = {{3, 4}};  // a document without tokens
  const absl::Status none = Loader::Open(*files, {dataset}, Options(50, 4)).status();
  EXPECT_NE(Message(none).find("has a token in column \"tokens\""), std::string::npos) << none;
}

TEST(TokensTest, SeveralDatasetsAndRepeats) {
  const auto files = NewMemoryFileSystem();
  const auto first = Documents<uint32_t>(RandomLengths(100, 50, 5)), second = Documents<uint32_t>({30, 40, 50, 60});
  Write(*files, "/first", Type::kU32, first);
  Write(*files, "/second", Type::kU32, second);
  auto loader = Loader::Open(*files, {{.path = "/first"}, {.path = "/second", .repeat = 3}}, Options(50, 4));
  ASSERT_TRUE(loader.ok()) << loader.status();
  std::vector<std::map<uint64_t, uint64_t>> tokens(2);
  for (auto batch = *(*loader)->Next(); batch != nullptr; batch = *(*loader)->Next()) {
    for (size_t i = 0; i < batch->size(); ++i) {
      const BatchSample& sample = batch->samples()[i];
      if (!sample.padding) tokens[sample.dataset][sample.ordinal] += batch->column(0).shapes[4 * i + 2];
    }
  }
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(tokens[0][i], first[i].size());
  for (size_t i = 0; i < second.size(); ++i) EXPECT_EQ(tokens[1][i], 3 * second[i].size());
}

TEST(TokensTest, TokensStoredAsBytes) {
  const auto documents = Documents<uint16_t>(RandomLengths(300, 64, 9));
  for (const Codec codec : {Codec::kZstd, Codec::kNone}) {
    const auto files = NewMemoryFileSystem();
    Write(*files, "/data", Type::kBytes, documents, 20, codec);
    LoaderOptions options = Options(64, 8);
    options.columns[0].dtype = Type::kU16;
    const auto loader = OpenLoader(*files, options);
    auto seen = NoneOf(documents);
    for (auto batch = *loader->Next(); batch != nullptr; batch = *loader->Next()) {
      ASSERT_EQ(batch->column(0).dtype, Type::kU16);
      ExpectPacked<uint16_t>(*batch, documents, 64, 0, &seen);
    }
    ExpectAll(seen, 1, 20);
  }
  // Half a token is a bad sample.
  const auto files = NewMemoryFileSystem();
  WriteRows(*files, "/data", {KeyColumn(), {.name = "tokens", .type = Type::kBytes}}, {{"a", "xyz"}});
  LoaderOptions options = Options(64, 1);
  options.columns[0].dtype = Type::kU16;
  const auto batch = OpenLoader(*files, options)->Next();
  EXPECT_TRUE(absl::IsDataLoss(batch.status()));
  EXPECT_NE(Message(batch.status()).find("3 bytes are no tokens of 2 bytes"), std::string::npos) << batch.status();
}

// Two columns of the same documents, as of tokens and of the weight of each in the loss.
TEST(TokensTest, ColumnsShareTheirRows) {
  const auto documents = Documents<uint32_t>(RandomLengths(200, 32, 6));
  const auto files = NewMemoryFileSystem();
  std::vector<Values> rows;
  for (size_t i = 0; i < documents.size(); ++i) {
    std::vector<int8_t> weights(documents[i].size() + (i == 50 ? 1 : 0));
    for (size_t t = 0; t < documents[i].size(); ++t) weights[t] = static_cast<int8_t>(documents[i][t] % 128);
    rows.push_back({std::to_string(i), Array(Type::kU32, documents[i]), Array(Type::kI8, weights)});
  }
  WriteRows(*files, "/data",
            {KeyColumn(),
             {.name = "tokens", .type = Type::kNdarray, .dtype = Type::kU32},
             {.name = "weights", .type = Type::kNdarray, .dtype = Type::kI8}},
            rows);
  LoaderOptions options = Options(32, 8, TokenPacking::kBestFit, 128);
  LoaderColumn weights = options.columns[0];
  weights.name = "weights";
  weights.padding_token = 0;
  options.columns.push_back(weights);
  options.bad_samples = BadSamples::kSkip;
  const auto loader = OpenLoader(*files, options);
  auto seen = NoneOf(documents);
  std::set<uint64_t> skipped;
  for (auto batch = *loader->Next(); batch != nullptr; batch = *loader->Next()) {
    ASSERT_EQ(batch->column(0).shape[0], 8u);
    ExpectPacked<uint32_t>(*batch, documents, 32, 128, &seen);  // with padding in place of the bad document
    for (size_t i = 0; i < batch->column(1).as<int8_t>().size(); ++i)
      ASSERT_EQ(batch->column(1).as<int8_t>()[i], static_cast<int8_t>(batch->column(0).as<uint32_t>()[i] % 128));
    for (const BadSample& bad : batch->skipped()) skipped.insert(bad.sample.ordinal);
  }
  EXPECT_EQ(skipped, std::set<uint64_t>{50});
  ExpectAll(seen, 1, 50);
  EXPECT_NE(Message(loader->Report().first_skipped.at(0).status)
                .find("column \"weights\": a document of " + std::to_string(documents[50].size() + 1) +
                      " tokens, where the rows are of one of " + std::to_string(documents[50].size())),
            std::string::npos);
  options.columns[1].context = 33;
  const absl::Status other = Loader::Open(*files, {{.path = "/data"}}, options).status();
  EXPECT_NE(Message(other).find("column \"weights\": its context and packing are not those of \"tokens\""),
            std::string::npos)
      << other;
}

TEST(TokensTest, ShortDocumentsFillTheirRows) {
  std::mt19937_64 random(6);
  std::vector<uint64_t> lengths;
  for (int i = 0; i < 12000; ++i) lengths.push_back(10 + random() % 391);
  const auto documents = Documents<uint32_t>(lengths);
  const auto files = NewMemoryFileSystem();
  Write(*files, "/data", Type::kU32, documents);
  for (const TokenPacking packing : {TokenPacking::kBestFit, TokenPacking::kConcat}) {
    LoaderOptions options = Options(4096, 8, packing);
    options.plan.remainder = Remainder::kKeep;
    const auto loader = OpenLoader(*files, options);
    auto seen = NoneOf(documents);
    for (auto batch = *loader->Next(); batch != nullptr; batch = *loader->Next())
      ExpectPacked<uint32_t>(*batch, documents, 4096, 0, &seen);
    ExpectAll(seen, 1);
    const LoaderReport report = loader->Report();
    EXPECT_EQ(report.tokens, std::accumulate(lengths.begin(), lengths.end(), uint64_t{0}));
    EXPECT_GE(static_cast<double>(report.tokens), 0.99 * static_cast<double>(report.token_positions));
    std::printf("%.3f %% of %lu positions are tokens\n",
                100.0 * static_cast<double>(report.tokens) / static_cast<double>(report.token_positions),
                report.token_positions);
  }
}

// The lengths in each row, packed in a simple way: rows in a list.
std::vector<std::vector<uint32_t>> SimpleRows(const std::vector<uint32_t>& lengths, uint32_t context) {
  std::vector<uint32_t> pieces;
  std::vector<std::vector<uint32_t>> rows;
  for (uint32_t left : lengths) {
    for (; left > 0; left -= std::min(left, context)) pieces.push_back(std::min(left, context));
  }
  std::ranges::sort(pieces, std::greater<>());
  for (const uint32_t length : pieces) {
    std::vector<uint32_t>* best = nullptr;
    const auto room = [&](const std::vector<uint32_t>& row) {
      return context - std::accumulate(row.begin(), row.end(), 0u);
    };
    for (auto& row : rows) {
      if (room(row) >= length && (best == nullptr || room(row) < room(*best))) best = &row;
    }
    (best != nullptr ? *best : rows.emplace_back()).push_back(length);
  }
  return rows;
}

TEST(TokensTest, PackingIsBestFitDecreasingOrOneAfterAnother) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 600; ++round) {
    const auto context = static_cast<uint32_t>(1 + random() % 50);
    std::vector<uint32_t> lengths;
    for (uint64_t i = random() % 60; i > 0; --i) lengths.push_back(static_cast<uint32_t>(random() % (2 * context)));
    for (const TokenPacking packing : {TokenPacking::kBestFit, TokenPacking::kConcat}) {
      const std::optional<uint64_t> key = round % 2 == 0 ? std::nullopt : std::optional<uint64_t>(random());
      std::vector<std::vector<uint32_t>> rows;
      std::vector<std::map<uint32_t, uint32_t>> places(lengths.size());  // length by offset, of each document
      std::vector<uint32_t> firsts;
      for (const loader::RowPiece& piece : loader::PackDocuments(lengths, context, packing, key)) {
        if (piece.row == rows.size()) {
          rows.emplace_back();
          firsts.push_back(piece.document);
        }
        ASSERT_EQ(piece.row + 1, rows.size());
        ASSERT_EQ(piece.begin, std::accumulate(rows.back().begin(), rows.back().end(), 0u));
        ASSERT_LE(piece.begin + piece.length, context);
        rows.back().push_back(piece.length);
        ASSERT_TRUE(places[piece.document].emplace(piece.offset, piece.length).second);
      }
      uint64_t all = 0;
      for (uint32_t i = 0; i < lengths.size(); ++i) {
        uint32_t end = 0;
        for (const auto& [offset, length] : places[i]) {
          ASSERT_EQ(offset, end);
          end += length;
        }
        ASSERT_EQ(end, lengths[i]);
        all += lengths[i];
      }
      if (packing == TokenPacking::kConcat) {
        ASSERT_EQ(rows.size(), (all + context - 1) / context);
        continue;
      }
      auto simple = SimpleRows(lengths, context);
      ASSERT_EQ(rows.size(), simple.size());
      if (key) continue;
      ASSERT_TRUE(std::ranges::is_sorted(firsts)) << "rows are not in the order of the documents";
      for (auto* both : {&rows, &simple}) {
        for (auto& row : *both) std::ranges::sort(row);
        std::ranges::sort(*both);
      }
      ASSERT_EQ(rows, simple);
    }
  }
}

// Also where hardly two documents have the same length.
TEST(TokensTest, OtherDocumentsShareARowForAnotherKey) {
  for (const auto& [least, most, context] :
       std::vector<std::array<uint32_t, 3>>{{500, 4000, 8192}, {50, 1500, 2048}, {10, 100, 2048}}) {
    std::mt19937_64 random(least);
    std::vector<uint32_t> lengths;
    for (int i = 0; i < 700; ++i) lengths.push_back(least + static_cast<uint32_t>(random() % (most - least)));
    for (const TokenPacking packing : {TokenPacking::kBestFit, TokenPacking::kConcat}) {
      std::set<std::set<uint32_t>> before;
      for (const uint64_t key : {1, 2}) {
        std::map<uint32_t, std::set<uint32_t>> rows;
        for (const auto& piece : loader::PackDocuments(lengths, context, packing, key))
          rows[piece.row].insert(piece.document);
        std::set<std::set<uint32_t>> together;
        for (const auto& [row, documents] : rows) together.insert(documents);
        std::vector<std::set<uint32_t>> both;
        std::ranges::set_intersection(before, together, std::back_inserter(both));
        EXPECT_LE(both.size(), rows.size() / 5) << least << " to " << most;
        before = std::move(together);
      }
    }
  }
}

// What cannot be read when the lengths are is left out as where it is loaded.
TEST(TokensTest, DamageAtOpening) {
  const auto documents = Documents<uint32_t>(RandomLengths(300, 50, 7));
  const auto files = NewMemoryFileSystem();
  Write(*files, "/data", Type::kU32, documents);
  const std::string path = "/data/" + (*DatasetReader::Open(*files, "/data"))->Shard(0)->name;
  const std::string shard = ReadAll(*files, path);
  const auto reader = *ShardReader::Open(*files, path);
  ASSERT_GT(reader->blocks().size(), 2u);
  const BlockInfo& block = reader->blocks()[1];
  std::string damaged = shard;
  for (uint64_t i = 0; i < 16; ++i)
    damaged[block.offset + block.front_length - 100 + i] =
        static_cast<char>(damaged[block.offset + block.front_length - 100 + i] ^ 0x55);
  ASSERT_TRUE(files->RemoveFile(path).ok());
  WriteFile(*files, path, damaged);
  const absl::Status refused = Loader::Open(*files, {{.path = "/data"}}, Options(50, 4)).status();
  EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
  EXPECT_NE(Message(refused).find("bad_samples=\"skip\""), std::string::npos) << refused;
  LoaderOptions options = Options(50, 4);
  options.bad_samples = BadSamples::kSkip;
  const auto loader = OpenLoader(*files, options);
  ASSERT_NE(loader, nullptr);
  auto seen = NoneOf(documents);
  std::set<uint64_t> skipped;
  for (auto batch = *loader->Next(); batch != nullptr; batch = *loader->Next()) {
    ExpectPacked<uint32_t>(*batch, documents, 50, 0, &seen);
    for (const BadSample& bad : batch->skipped()) skipped.insert(bad.sample.ordinal);
  }
  EXPECT_GE(skipped.size(), block.sample_count);
  for (size_t i = 0; i < documents.size(); ++i) {
    const bool lost = i >= block.first_sample && i < block.first_sample + block.sample_count;
    for (const int count : seen[i]) ASSERT_EQ(count, lost ? 0 : 1) << i;
  }
}

TEST(TokensTest, RefusesWhatIsNoToken) {
  const auto files = NewMemoryFileSystem();
  Write<uint16_t>(*files, "/short", Type::kU16, {{1, 2}});
  Write<float>(*files, "/float", Type::kF32, {{1, 2}});
  Write<float>(*files, "/bytes", Type::kBytes, {{1, 2}});
  const auto status = [&](const LoaderDataset& dataset, int64_t padding, uint32_t context, Type dtype = Type::kU8) {
    LoaderOptions options = Options(context, 1, TokenPacking::kBestFit, padding);
    options.columns[0].dtype = dtype;
    return Loader::Open(*files, {dataset}, options).status();
  };
  EXPECT_TRUE(status({.path = "/short"}, 65535, 8).ok());
  for (const int64_t padding : {int64_t{-1}, int64_t{65536}, INT64_MIN}) {
    EXPECT_TRUE(absl::IsInvalidArgument(status({.path = "/short"}, padding, 8))) << padding;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(status({.path = "/short"}, 0, 0)));
  EXPECT_TRUE(absl::IsInvalidArgument(status({.path = "/float"}, 0, 8)));
  EXPECT_TRUE(status({.path = "/bytes"}, 0, 8).ok());
  for (const Type type : {Type::kF32, Type::kBytes, Type::kJson, Type::kBool}) {
    EXPECT_TRUE(absl::IsInvalidArgument(status({.path = "/bytes"}, 0, 8, type)));
  }
  LoaderDataset weighted{.path = "/short"};
  weighted.weights = std::make_shared<const std::vector<double>>(1, 1.0);
  EXPECT_NE(Message(status(weighted, 0, 8)).find("packs several into a row"), std::string::npos);
  // An array of two dimensions is a bad sample.
  std::string square;
  const uint64_t shape[2] = {1, 2};
  ASSERT_TRUE(AppendNdarray(Type::kU16, shape, "abcd", &square).ok());
  WriteRows(*files, "/square", {KeyColumn(), {.name = "tokens", .type = Type::kNdarray, .dtype = Type::kU16}},
            {{"a", square}});
  const auto loader = OpenLoader(*files, Options(8, 1), "/square");
  const auto batch = loader->Next();
  EXPECT_TRUE(absl::IsDataLoss(batch.status()));
  EXPECT_NE(Message(batch.status()).find("2 dimensions"), std::string::npos) << batch.status();
}

}  // namespace
}  // namespace shardkit::test
