// Columns delivered as stored: every layout, absent values, empty batches of them.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "loader/loader_support.h"
#include "shardkit/rle.h"
#include "shardkit/schema.h"

namespace shardkit::test {
namespace {

LoaderOptions Options(std::vector<LoaderColumn> columns, uint64_t batch_size) {
  LoaderOptions options;
  options.plan = {.seed = 3, .order = SampleOrder::kShuffled, .batch_size = batch_size, .shuffle_buffer_bytes = 4000};
  options.memory_bytes = 8 << 20;
  options.decode_threads = options.read_threads = 2;
  options.columns = std::move(columns);
  return options;
}

class StoredColumnsTest : public testing::Test {
 protected:
  // Calls `expect` for each sample: the column, the place in the batch, and the ordinal.
  template <typename Expect>
  void ForEach(const Column& column, const std::vector<Values>& rows, uint64_t batch_size, Expect expect,
               const LoaderColumn& how = {}) {
    const std::string path = "/data" + std::to_string(++datasets_);
    WriteRows(*files_, path, {KeyColumn(), column}, rows);
    LoaderColumn wanted = how;
    wanted.name = column.name;
    const auto loader = OpenLoader(*files_, Options({wanted}, batch_size), path);
    ASSERT_NE(loader, nullptr);
    size_t seen = 0;
    while (true) {
      const auto batch = loader->Next();
      ASSERT_TRUE(batch.ok()) << batch.status();
      if (*batch == nullptr) break;
      const BatchColumn& got = (*batch)->column(0);
      EXPECT_EQ(got.name, column.name);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(got.values.data()) % 4096, 0u);
      ASSERT_EQ(got.present.size(), column.nullable ? (*batch)->size() : 0);
      for (size_t i = 0; i < (*batch)->size(); ++i, ++seen) {
        const uint64_t ordinal = (*batch)->samples()[i].ordinal;
        EXPECT_EQ((*batch)->key(i), *rows[ordinal][0]);
        if (column.nullable) {
          EXPECT_EQ(got.present[i], rows[ordinal][1].has_value());
        }
        expect(got, i, ordinal, (*batch)->size());
        if (HasFatalFailure()) return;
      }
    }
    EXPECT_EQ(seen, rows.size());
  }

  static std::string_view Slice(const BatchColumn& column, uint64_t begin, uint64_t end, size_t size = 1) {
    return {reinterpret_cast<const char*>(column.values.data()) + begin * size, (end - begin) * size};
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
  int datasets_ = 0;
  std::mt19937_64 random_{5};
};

TEST_F(StoredColumnsTest, ScalarsOfEveryTypeAndAbsentOnes) {
  for (const Type type :
       {Type::kI8, Type::kI16, Type::kI32, Type::kI64, Type::kU8, Type::kU16, Type::kU32, Type::kU64, Type::kF16,
        Type::kBf16, Type::kF32, Type::kF64, Type::kBool, Type::kF8E4M3, Type::kComplex64, Type::kTimestampUs}) {
    for (const bool nullable : {false, true}) {
      const size_t size = ScalarSize(type);
      std::vector<Values> rows;
      for (int i = 0; i < 50; ++i) {
        const uint64_t number = type == Type::kBool ? random_() % 2 : random_();
        std::optional<std::string> value = Bytes(number).substr(0, size);
        if (nullable && i % 3 == 0) value.reset();
        rows.push_back({"k" + std::to_string(i), value});
      }
      const Column column{.name = "scalar", .type = type, .nullable = nullable};
      ForEach(column, rows, 7, [&](const BatchColumn& got, size_t i, uint64_t ordinal, size_t n) {
        EXPECT_EQ(got.layout, BatchLayout::kTensor);
        EXPECT_EQ(got.dtype, type);
        EXPECT_EQ(got.shape, std::vector<uint64_t>{n});
        ASSERT_EQ(got.values.size(), n * size);
        EXPECT_EQ(Slice(got, i, i + 1, size), rows[ordinal][1].value_or(std::string(size, '\0')));
      });
    }
  }
}

// Of a type that is not known.
TEST_F(StoredColumnsTest, BytesOfOneSize) {
  const Column column{.name = "later", .type = Type{77}, .storage = Storage::kFixed, .value_size = 3};
  ForEach(column, {{"a", "abc"}, {"b", "def"}}, 2, [&](const BatchColumn& got, size_t i, uint64_t ordinal, size_t n) {
    EXPECT_EQ(got.layout, BatchLayout::kTensor);
    EXPECT_EQ(got.dtype, Type::kU8);
    EXPECT_EQ(got.shape, (std::vector<uint64_t>{n, 3}));
    EXPECT_EQ(Slice(got, i, i + 1, 3), ordinal == 0 ? "abc" : "def");
  });
}

TEST_F(StoredColumnsTest, ArraysOfOneShape) {
  for (const std::vector<uint64_t>& shape : std::vector<std::vector<uint64_t>>{{}, {3}, {2, 3, 4}, {0}, {4, 0, 2}}) {
    for (const bool nullable : {false, true}) {
      uint64_t elements = 1;
      for (const uint64_t size : shape) elements *= size;
      std::vector<Values> rows;
      for (int i = 0; i < 20; ++i) {
        std::string bytes;
        for (uint64_t e = 0; e < elements; ++e)
          bytes += Bytes<float>(static_cast<float>(i * 100 + static_cast<int>(e)));
        rows.push_back({"k" + std::to_string(i), bytes});
        if (nullable && i % 4 == 1) rows.back()[1].reset();
      }
      const Column column{
          .name = "array", .type = Type::kNdarray, .nullable = nullable, .dtype = Type::kF32, .shape = shape};
      if (!Schema::Create({KeyColumn(), column}).ok()) continue;
      ForEach(column, rows, 6, [&](const BatchColumn& got, size_t i, uint64_t ordinal, size_t n) {
        std::vector<uint64_t> expected = shape;
        expected.insert(expected.begin(), n);
        EXPECT_EQ(got.layout, BatchLayout::kTensor);
        EXPECT_EQ(got.dtype, Type::kF32);
        EXPECT_EQ(got.shape, expected);
        EXPECT_EQ(Slice(got, i * elements, (i + 1) * elements, 4),
                  rows[ordinal][1].value_or(std::string(elements * 4, '\0')));
      });
    }
  }
}

TEST_F(StoredColumnsTest, ArraysOfTheirOwnShapes) {
  const std::vector<std::vector<uint64_t>> shapes = {{5}, {2, 3}, {}, {1, 2, 3, 4}, {0}, {3, 0}};
  std::vector<Values> rows;
  std::vector<std::string> data;
  for (size_t i = 0; i < 60; ++i) {
    const std::vector<uint64_t>& shape = shapes[random_() % shapes.size()];
    uint64_t elements = 1;
    for (const uint64_t size : shape) elements *= size;
    data.emplace_back();
    for (uint64_t e = 0; e < elements; ++e) data.back() += Bytes(static_cast<int16_t>(random_()));
    std::string value;
    ASSERT_TRUE(AppendNdarray(Type::kI16, shape, data.back(), &value).ok());
    rows.push_back({"k" + std::to_string(i), value});
    if (i % 7 == 3) {
      rows.back()[1].reset();
      data.back().clear();
    }
  }
  const Column column{.name = "array", .type = Type::kNdarray, .nullable = true, .dtype = Type::kI16};
  ForEach(column, rows, 5, [&](const BatchColumn& got, size_t i, uint64_t ordinal, size_t n) {
    EXPECT_EQ(got.layout, BatchLayout::kRagged);
    EXPECT_EQ(got.dtype, Type::kI16);
    ASSERT_EQ(got.offsets.size(), n + 1);
    ASSERT_EQ(got.shapes.size(), n * got.shape_rank);
    EXPECT_EQ(Slice(got, got.offsets[i], got.offsets[i + 1], 2), data[ordinal]);
    // The product of the shape is the number of elements. The shape is 1s followed by the array's own shape.
    const auto shape = got.shapes.subspan(i * got.shape_rank, got.shape_rank);
    uint64_t product = got.shape_rank == 0 ? got.offsets[i + 1] - got.offsets[i] : 1;
    for (const uint64_t size : shape) product *= size;
    EXPECT_EQ(product, got.offsets[i + 1] - got.offsets[i]);
    if (!rows[ordinal][1]) return;
    const auto array = ParseNdarray(column, *rows[ordinal][1]);
    ASSERT_LE(array->shape.size(), got.shape_rank);
    const size_t ones = got.shape_rank - array->shape.size();
    for (size_t d = 0; d < got.shape_rank; ++d) EXPECT_EQ(shape[d], d < ones ? 1 : array->shape[d - ones]);
  });
}

TEST_F(StoredColumnsTest, ByteStringsEmptyAbsentAndLarge) {
  for (const Type type : {Type::kBytes, Type::kUtf8, Type::kJson, Type::kPng, Type::kImage}) {
    for (const Codec codec : {Codec::kNone, Codec::kZstd}) {
      std::vector<Values> rows;
      for (int i = 0; i < 40; ++i) {
        rows.push_back({"k" + std::to_string(i),
                        std::string(i % 9 == 0 ? 100000 : random_() % 20, static_cast<char>('a' + i % 26))});
        if (i % 5 == 2) rows.back()[1].reset();
        if (type == Type::kJson && rows.back()[1]) rows.back()[1] = "[" + std::to_string(i) + "]";
      }
      const Column column{.name = "bytes", .type = type, .codec = codec, .nullable = true};
      ForEach(column, rows, 3, [&](const BatchColumn& got, size_t i, uint64_t ordinal, size_t n) {
        EXPECT_EQ(got.layout, BatchLayout::kRagged);
        ASSERT_EQ(got.offsets.size(), n + 1);
        EXPECT_EQ(got.offsets[0], 0u);
        EXPECT_EQ(Slice(got, got.offsets[i], got.offsets[i + 1]), rows[ordinal][1].value_or(""));
      });
    }
  }
}

TEST_F(StoredColumnsTest, ABatchInWhichNoSampleHasTheValue) {
  std::vector<Values> rows(30, Values(2));
  for (size_t i = 0; i < rows.size(); ++i) rows[i][0] = "k" + std::to_string(i);
  const auto nothing = [](const BatchColumn& got, size_t i, uint64_t, size_t) {
    EXPECT_FALSE(got.present[i]);
    if (got.layout == BatchLayout::kTensor) {
      for (const uint8_t byte : got.values) EXPECT_EQ(byte, 0);
    } else {
      EXPECT_EQ(got.offsets[i + 1], 0u);
    }
  };
  ForEach({.name = "a", .type = Type::kJpeg, .nullable = true}, rows, 4, nothing);
  ForEach({.name = "b", .type = Type::kJpeg, .nullable = true}, rows, 4, nothing, {.decode = ColumnDecode::kImage});
  ForEach({.name = "c", .type = Type::kF64, .nullable = true}, rows, 4, nothing);
  ForEach({.name = "d", .type = Type::kRle, .codec = Codec::kZstd, .nullable = true}, rows, 4, nothing);
  ForEach({.name = "e", .type = Type::kRle, .codec = Codec::kZstd, .nullable = true}, rows, 4, nothing,
          {.decode = ColumnDecode::kMasks});
  ForEach({.name = "f", .type = Type::kNdarray, .nullable = true, .dtype = Type::kU16}, rows, 4, nothing);
}

TEST_F(StoredColumnsTest, MaskRuns) {
  std::vector<Values> rows;
  std::vector<RleList> lists(40);
  for (size_t i = 0; i < lists.size(); ++i) {
    for (uint64_t mask = random_() % 5; mask > 0; --mask) {
      Rle rle{static_cast<uint32_t>(1 + random_() % 40), static_cast<uint32_t>(1 + random_() % 40), {}};
      uint32_t left = rle.height * rle.width;
      while (left > 0) {
        rle.runs.push_back(1 + static_cast<uint32_t>(random_() % left));
        left -= rle.runs.back();
      }
      lists[i].Append(rle);
    }
    std::string value;
    ASSERT_TRUE(AppendRleValue(lists[i], &value).ok());
    rows.push_back({"k" + std::to_string(i), value});
  }
  ForEach({.name = "masks", .type = Type::kRle, .codec = Codec::kZstd}, rows, 6,
          [&](const BatchColumn& got, size_t i, uint64_t ordinal, size_t n) {
            const RleList& list = lists[ordinal];
            EXPECT_EQ(got.layout, BatchLayout::kMaskRuns);
            ASSERT_EQ(got.offsets.size(), n + 1);
            ASSERT_EQ(got.offsets[i + 1] - got.offsets[i], list.size());
            for (size_t m = 0; m < list.size(); ++m) {
              const uint64_t item = got.offsets[i] + m;
              EXPECT_EQ(got.shapes[2 * item], list.heights[m]);
              EXPECT_EQ(got.shapes[2 * item + 1], list.widths[m]);
              const auto runs = got.as<uint32_t>().subspan(got.item_offsets[item],
                                                           got.item_offsets[item + 1] - got.item_offsets[item]);
              EXPECT_TRUE(std::ranges::equal(runs, list[m].runs));
            }
          });
}

TEST_F(StoredColumnsTest, KeysOfDatasetsOfWhichOneHasNone) {
  WriteRows(*files_, "/with", {KeyColumn(), LabelColumn()}, {{"a", Bytes<int32_t>(1)}, {"b", Bytes<int32_t>(2)}});
  const Column key{.name = "name", .type = Type::kUtf8, .codec = Codec::kZstd, .is_key = true};
  WriteRows(*files_, "/other", {key, LabelColumn()}, {{"c", Bytes<int32_t>(3)}});
  LoaderOptions options = Options({{.name = "label"}}, 3);
  const auto loader = Loader::Open(*files_, {{.path = "/with"}, {.path = "/other"}}, options);
  ASSERT_TRUE(loader.ok()) << loader.status();
  const auto batch = (*loader)->Next();
  ASSERT_TRUE(batch.ok()) << batch.status();
  ASSERT_EQ((*batch)->size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ((*batch)->key(i), "");
}

TEST_F(StoredColumnsTest, SamplesWithoutKeysAreNumbered) {
  WriteRows(*files_, "/a", {LabelColumn()}, {{Bytes<int32_t>(1)}, {Bytes<int32_t>(2)}});
  WriteRows(*files_, "/b", {LabelColumn()}, {{Bytes<int32_t>(3)}});
  WriteRows(*files_, "/key", {KeyColumn(), LabelColumn()}, {{"a", Bytes<int32_t>(4)}});
  const auto keys = [&](const std::vector<LoaderDataset>& datasets, bool wanted) {
    LoaderOptions options = Options({{.name = "label"}}, 3);
    options.keys = wanted;
    const auto loader = Loader::Open(*files_, datasets, options);
    EXPECT_TRUE(loader.ok()) << loader.status();
    const auto batch = (*loader)->Next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    std::set<std::string> keys;
    for (size_t i = 0; i < (*batch)->size(); ++i) keys.emplace((*batch)->key(i));
    return keys;
  };
  EXPECT_EQ(keys({{.path = "/a"}}, true), (std::set<std::string>{"000000000000", "000000000001"}));
  EXPECT_EQ(keys({{.path = "/a"}, {.path = "/b"}}, true), (std::set<std::string>{"000000000000", "000000000001"}));
  EXPECT_EQ(keys({{.path = "/a"}}, false), (std::set<std::string>{""}));
  EXPECT_EQ(keys({{.path = "/a"}, {.path = "/key"}}, true), (std::set<std::string>{""}));
}

}  // namespace
}  // namespace shardkit::test
