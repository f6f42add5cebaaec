// NumPy's files: the bytes written, and that only these are converted back; values in other forms.
#include "operations/npy.h"

#include "operations/copy/value_conversion.h"
#include "unit/operations/copy/containers_support.h"

namespace shardkit::test {
namespace {

using namespace std::string_literals;

constexpr std::pair<Type, std::string_view> kElements[] = {
    {Type::kI8, "|i1"},          {Type::kI16, "<i2"},        {Type::kI32, "<i4"},        {Type::kI64, "<i8"},
    {Type::kU8, "|u1"},          {Type::kU16, "<u2"},        {Type::kU32, "<u4"},        {Type::kU64, "<u8"},
    {Type::kF16, "<f2"},         {Type::kBf16, "|V2"},       {Type::kF32, "<f4"},        {Type::kF64, "<f8"},
    {Type::kBool, "|b1"},        {Type::kF8E4M3, "|V1"},     {Type::kF8E5M2, "|V1"},     {Type::kComplex64, "<c8"},
    {Type::kComplex128, "<c16"}, {Type::kTimestampS, "<i8"}, {Type::kTimestampNs, "<i8"}};

std::string Npy(Type dtype, const std::vector<uint64_t>& shape, std::string_view data) {
  std::string file;
  const absl::Status status = operations::FormatNpy({dtype, shape, data}, &file);
  EXPECT_TRUE(status.ok()) << status;
  return file;
}

TEST(NpyTest, TheFile) {
  const std::string file = Npy(Type::kF32, {2, 1}, "abcdefgh");
  EXPECT_EQ(file,
            "\x93NUMPY\x01\0\x76\0"s
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1, ), }" +
                std::string(128 - 10 - 61 - 1, ' ') + "\nabcdefgh");
}

TEST(NpyTest, EveryTypeAndShapeComesBack) {
  for (const auto& [dtype, description] : kElements) {
    for (const std::vector<uint64_t>& shape :
         {std::vector<uint64_t>{}, {1}, {0}, {3, 2}, {2, 0, 5}, {1, 1, 1, 1, 1, 1, 1, 2}, {300}}) {
      uint64_t count = 1;
      for (const uint64_t dimension : shape) count *= dimension;
      const std::string data(count * ScalarSize(dtype), '\x01');
      const std::string file = Npy(dtype, shape, data);
      EXPECT_NE(file.find("'descr': '" + std::string(description) + "'"), file.npos);
      EXPECT_EQ((file.size() - data.size()) % 64, 0u);
      const auto view = operations::ParseNpy(dtype, file);
      ASSERT_TRUE(view.ok()) << view.status();
      EXPECT_EQ(view->shape, shape);
      EXPECT_EQ(view->data, data);
    }
  }
  std::string file;
  EXPECT_TRUE(absl::IsInvalidArgument(operations::FormatNpy({Type::kUtf8, {}, "x"}, &file)));
}

void ExpectRefused(Type dtype, const std::string& file) {
  // Of the exact size, so that a sanitizer notices a read past the end.
  const std::unique_ptr<char[]> copy(new char[file.size()]);
  std::ranges::copy(file, copy.get());
  const auto view = operations::ParseNpy(dtype, {copy.get(), file.size()});
  EXPECT_TRUE(absl::IsDataLoss(view.status())) << view.status();
}

TEST(NpyTest, NothingElseIsTakenBack) {
  const std::string good = Npy(Type::kI16, {2, 3}, "abcdefghijkl");
  for (size_t length = 0; length < good.size(); ++length) ExpectRefused(Type::kI16, good.substr(0, length));
  ExpectRefused(Type::kI16, good + "m");
  ExpectRefused(Type::kU16, good);
  ExpectRefused(Type::kI32, good);
  ExpectRefused(Type::kUtf8, good);
  const size_t header = good.size() - 12;
  for (size_t i = 0; i < header; ++i) {
    for (const int bit : {0, 3, 7}) {
      std::string flipped = good;
      flipped[i] = static_cast<char>(flipped[i] ^ 1 << bit);
      ExpectRefused(Type::kI16, flipped);
    }
  }
  const auto with_shape = [&](const std::string& shape) {
    std::string file = good;
    const size_t begin = file.find('('), end = file.find(')');
    file.replace(begin, end - begin + 1, shape);
    const size_t length = file.find('\n') + 1;
    if (length > 128) return file;
    file.insert(length - 1, std::string(128 - length, ' '));
    return file;
  };
  EXPECT_TRUE(operations::ParseNpy(Type::kI16, with_shape("(2, 3, )")).ok());
  EXPECT_TRUE(operations::ParseNpy(Type::kI16, with_shape("(3, 2, )")).ok());
  for (const std::string shape : {"(2, 3)", "(2,3)", "(02, 3, )", "(+2, 3, )", "(-2, 3, )", "(2, 4, )", "(6, )x", "()",
                                  "(", "(18446744073709551616, )", "(18446744073709551615, 18446744073709551615, )",
                                  "(9223372036854775808, 2, 6, )", "(6, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, )"}) {
    SCOPED_TRACE(shape);
    ExpectRefused(Type::kI16, with_shape(shape));
  }
}

TEST(ValueConversionTest, ArraysOfAnotherShape) {
  ByteArena arena;
  const std::string file = Npy(Type::kU8, {2}, "ab");
  const auto conversion = [&](const Column& column) {
    return operations::ConvertValue(column, operations::ValueConversion::kFromNpy, file, &arena).status();
  };
  EXPECT_TRUE(conversion(MakeArrayColumn("a", Type::kU8)).ok());
  EXPECT_TRUE(conversion(MakeArrayColumn("a", Type::kU8, {{2}})).ok());
  EXPECT_TRUE(absl::IsDataLoss(conversion(MakeArrayColumn("a", Type::kU8, {{1, 2}}))));
  EXPECT_TRUE(absl::IsDataLoss(conversion(MakeColumn("a", Type::kU8))));
  EXPECT_TRUE(absl::IsDataLoss(conversion(MakeArrayColumn("a", Type::kI8))));
}

TEST(ValueConversionTest, ValuesThatAreNotOfTheirColumn) {
  ByteArena arena;
  for (const operations::ValueConversion conversion :
       {operations::ValueConversion::kToNpy, operations::ValueConversion::kBf16ToF32}) {
    EXPECT_TRUE(
        absl::IsDataLoss(operations::ConvertValue(MakeColumn("x", Type::kBf16), conversion, "abc", &arena).status()));
    EXPECT_TRUE(absl::IsDataLoss(
        operations::ConvertValue(MakeArrayColumn("x", Type::kBf16, {{2}}), conversion, "abc", &arena).status()));
    EXPECT_TRUE(absl::IsDataLoss(
        operations::ConvertValue(MakeArrayColumn("x", Type::kBf16), conversion, "abc", &arena).status()));
  }
  EXPECT_FALSE(
      operations::ConvertValue(MakeColumn("x", Type::kRle), operations::ValueConversion::kToCocoJson, "abc", &arena)
          .ok());
}

TEST(ValueConversionTest, Masks) {
  ByteArena arena;
  const Column column = MakeColumn("m", Type::kRle);
  EXPECT_EQ(*operations::ConvertValue(column, operations::ValueConversion::kToCocoJson, MaskValue(480, 640, 480 * 640),
                                      &arena),
            R"([{"counts":"0PP\\9","size":[480,640]}])");
  EXPECT_EQ(operations::ColumnAfter(column, operations::ValueConversion::kToCocoJson), MakeColumn("m", Type::kJson));
}

}  // namespace
}  // namespace shardkit::test
