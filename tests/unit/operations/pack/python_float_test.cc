#include "operations/python_float.h"

#include <charconv>
#include <fstream>
#include <limits>

#include "unit/operations/pack/convert_support.h"

namespace shardkit::operations {
namespace {

std::string Format(double value) {
  char text[kMaxPythonFloatBytes];
  return {text, FormatPythonFloat(value, text)};
}

TEST(PythonFloatTest, WritesWhatPythonWrites) {
  std::ifstream file(test::FixtureFolder() + "/python_float_vectors.txt");
  ASSERT_TRUE(file.good());
  std::string line;
  size_t count = 0;
  for (; std::getline(file, line); ++count) {
    double value = 0;
    std::from_chars(line.data(), line.data() + line.size(), value);
    EXPECT_EQ(Format(value), line);
  }
  EXPECT_EQ(count, 2200u);
}

TEST(PythonFloatTest, ChangesNotationWherePythonDoes) {
  EXPECT_EQ(Format(0.0), "0.0");
  EXPECT_EQ(Format(-0.0), "-0.0");
  EXPECT_EQ(Format(1e-4), "0.0001");
  EXPECT_EQ(Format(9.999e-5), "9.999e-05");
  EXPECT_EQ(Format(9999999999999998.0), "9999999999999998.0");
  EXPECT_EQ(Format(1e16), "1e+16");
  EXPECT_EQ(Format(-1.5e300), "-1.5e+300");
  EXPECT_EQ(Format(5e-324), "5e-324");
}

TEST(PythonFloatTest, NamesWhatIsNoNumberAsJsonDumpsDoes) {
  EXPECT_EQ(Format(std::numeric_limits<double>::quiet_NaN()), "NaN");
  EXPECT_EQ(Format(std::numeric_limits<double>::infinity()), "Infinity");
  EXPECT_EQ(Format(-std::numeric_limits<double>::infinity()), "-Infinity");
}

TEST(PythonJsonStringTest, EscapesAsEnsureAsciiDoes) {
  std::string out;
  ASSERT_TRUE(AppendPythonJsonString("a\"\\/\n\r\t\f\b\x01\x7f~", &out));
  EXPECT_EQ(out, R"("a\"\\/\n\r\t\f\b\u0001\u007f~")");
  out.clear();
  ASSERT_TRUE(AppendPythonJsonString("\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80", &out));
  EXPECT_EQ(out, R"("\u00e9\u4e2d\ud83d\ude00")");
}

TEST(PythonJsonStringTest, RefusesWhatIsNotUtf8) {
  for (const std::string_view text :
       {"\x80", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff", "\xe4\xb8"}) {
    std::string out;
    EXPECT_FALSE(AppendPythonJsonString(text, &out)) << testing::PrintToString(text);
  }
}

}  // namespace
}  // namespace shardkit::operations
