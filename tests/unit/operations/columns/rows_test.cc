// The rows of files: types, values, and what is refused, by its place.
#include <cstring>

#include "dataset/dataset_support.h"
#include "operations/npy.h"
#include "shardkit/change.h"

namespace shardkit::test {
namespace {

// A column's type and its values, or the error.
struct Read {
  std::string columns;  // "NAME TYPE? …", with '?' where values may be absent and '!' behind the key
  std::vector<std::map<std::string, std::string>> rows;
  std::string error;
};

std::string TypeText(const Column& column) {
  std::string text = TypeName(column.type);
  if (column.type == Type::kNdarray) {
    text = TypeName(column.dtype) + "[";
    for (const uint64_t size : *column.shape) text += std::to_string(size) + ",";
    text += "]";
  }
  return column.name + " " + text + (column.nullable ? "?" : "") + (column.is_key ? "!" : "");
}

Read ReadRows(FileSystem& files, const std::string& path, const ColumnRowsOptions& options = {}) {
  Read read;
  auto rows = OpenColumnRows(files, path, options);
  if (!rows.ok()) {
    read.error = Message(rows.status());
    EXPECT_TRUE(absl::IsInvalidArgument(rows.status()) || absl::IsNotFound(rows.status()) ||
                absl::IsOutOfRange(rows.status()))
        << rows.status();
    return read;
  }
  const Schema& schema = (*rows)->schema();
  for (const Column& column : schema.columns()) read.columns += (read.columns.empty() ? "" : ", ") + TypeText(column);
  std::vector<std::optional<std::string_view>> row(schema.size());
  while (true) {
    const auto more = (*rows)->Next(row);
    if (!more.ok()) {
      read.error = Message(more.status());
      break;
    }
    if (!*more) break;
    auto& values = read.rows.emplace_back();
    for (size_t i = 0; i < row.size(); ++i) {
      if (row[i]) values[schema[i].name] = *row[i];
    }
  }
  if (read.error.empty()) {
    EXPECT_EQ((*rows)->count(), read.rows.size());
  }
  return read;
}

Read ReadText(const std::string& text, const ColumnRowsOptions& options = {}) {
  const auto files = NewMemoryFileSystem();
  WriteFile(*files, "/rows.ndjson", text);
  return ReadRows(*files, "/rows.ndjson", options);
}

template <typename T>
std::string Bytes(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

TEST(NdjsonRowsTest, TypesOfValues) {
  const Read read = ReadText(
      "{\"k\": \"a\", \"i\": -1, \"f\": 1, \"b\": true, \"t\": \"\\u00e9\", \"n\": [1, {\"a\": null}], \"u\": 1}\r\n"
      "\n"
      "{\"t\": \"\", \"k\": \"b\", \"i\": 5, \"f\": 2.5, \"b\": false, \"n\": {}, \"u\": 18446744073709551615, \"e\": "
      "1}",
      {.key = "k"});
  EXPECT_EQ(read.error, "");
  EXPECT_EQ(read.columns, "k utf8!, i i64, f f64, b bool, t utf8, n json, u u64, e i64?");
  ASSERT_EQ(read.rows.size(), 2u);
  EXPECT_EQ(read.rows[0].at("k"), "a");
  EXPECT_EQ(read.rows[0].at("i"), Bytes<int64_t>(-1));
  EXPECT_EQ(read.rows[0].at("f"), Bytes(1.0));
  EXPECT_EQ(read.rows[0].at("b"), Bytes(true));
  EXPECT_EQ(read.rows[0].at("t"), "\xc3\xa9");
  EXPECT_EQ(read.rows[0].at("n"), "[1,{\"a\":null}]");
  EXPECT_EQ(read.rows[0].count("e"), 0u);
  EXPECT_EQ(read.rows[1].at("u"), Bytes(UINT64_MAX));
  EXPECT_EQ(read.rows[1].at("t"), "");
  EXPECT_EQ(read.rows[1].at("f"), Bytes(2.5));
}

TEST(NdjsonRowsTest, NullIsAbsentAndKeysMayBeIntegers) {
  const Read read = ReadText("{\"k\":7,\"v\":null,\"w\":1}\n{\"v\":2,\"k\":-8}\n", {.key = "k", .columns = {"v"}});
  EXPECT_EQ(read.columns, "k utf8!, v i64?");
  ASSERT_EQ(read.rows.size(), 2u);
  EXPECT_EQ(read.rows[0], (std::map<std::string, std::string>{{"k", "7"}}));
  EXPECT_EQ(read.rows[1].at("k"), "-8");
}

TEST(NdjsonRowsTest, NamedTypes) {
  const std::string text = "{\"v\":1,\"w\":[1]}\n{\"v\":255,\"w\":\"x\"}\n";
  const Read read = ReadText(text, {.types = {{"v", Type::kU8}, {"w", Type::kJson}}});
  EXPECT_EQ(read.columns, "v u8, w json");
  EXPECT_EQ(read.rows[1].at("v"), "\xff");
  EXPECT_EQ(read.rows[1].at("w"), "\"x\"");
  EXPECT_EQ(ReadText(text, {.columns = {"v"}, .types = {{"v", Type::kI8}}}).error,
            "/rows.ndjson: line 2: column \"v\": is an integer that i8 cannot hold");
  EXPECT_EQ(ReadText("{\"v\":0.1}", {.types = {{"v", Type::kF32}}}).rows[0].at("v"), Bytes(0.1F));
  EXPECT_EQ(
      ReadText("{\"v\":16777217}", {.types = {{"v", Type::kF32}}}).error,
      "/rows.ndjson: line 1: column \"v\": is an integer that f32 cannot hold exactly; name a type, as i64 or json");
  EXPECT_EQ(ReadText("{\"v\":1e300}", {.types = {{"v", Type::kF32}}}).error,
            "/rows.ndjson: line 1: column \"v\": is a number that f32 cannot hold");
  EXPECT_EQ(ReadText("{\"v\":1.5}", {.types = {{"v", Type::kI32}}}).error,
            "/rows.ndjson: line 1: column \"v\": is a number with a fraction, which is no i32");
  EXPECT_EQ(ReadText("{\"v\":1}", {.types = {{"v", Type::kJpeg}}}).error,
            "/rows.ndjson: column \"v\": values of JSON cannot be made jpeg");
}

// An integer beside a number with a fraction is the same number as f64, or refused.
TEST(NdjsonRowsTest, IntegersBesideFractions) {
  const auto read = [](const std::string& number, Type type) {
    return ReadText("{\"v\":" + number + "}\n{\"v\":0.5}\n", {.types = {{"v", type}}});
  };
  EXPECT_EQ(
      ReadText("{\"v\":9007199254740993}\n{\"v\":0.5}\n", {}).error,
      "/rows.ndjson: line 1: column \"v\": is an integer that f64 cannot hold exactly; name a type, as i64 or json");
  for (const char* number : {"9007199254740993", "-9007199254740993", "9223372036854775807", "18446744073709551615"}) {
    EXPECT_NE(read(number, Type::kF64).error, "") << number;
    EXPECT_NE(read(number, Type::kF32).error, "") << number;
  }
  for (const double number : {9007199254740992.0, -9007199254740992.0, 9007199254740994.0, 0x1p62, -0x1p63, 0x1p63}) {
    const std::string text = std::to_string(number).substr(0, std::to_string(number).find('.'));
    EXPECT_EQ(read(text, Type::kF64).rows.at(0).at("v"), Bytes(number)) << text << ": " << read(text, Type::kF64).error;
  }
  EXPECT_EQ(read("16777216", Type::kF32).rows.at(0).at("v"), Bytes(16777216.0F));
  EXPECT_NE(read("16777217", Type::kF32).error, "");
}

TEST(NdjsonRowsTest, Refused) {
  const auto error = [](const std::string& text, const ColumnRowsOptions& options = {}) {
    return ReadText(text, options).error;
  };
  EXPECT_EQ(error("{\"a\":1}\n[1]\n"),
            "/rows.ndjson: line 2: is not an object: each line is one, as {\"key\": \"a\", \"score\": 0.5}");
  EXPECT_EQ(error("{\"a\":1}\n\n{\"a\":\n"),
            "/rows.ndjson: line 3: byte 5: ends within a value: it was cut off; each line is one object, as {\"key\": "
            "\"a\", \"score\": 0.5}");
  // JSON that no column can hold is not called something else.
  EXPECT_NE(error("{\"a\":123456789012345678901234}").find("a number that neither 64 bits nor f64"), std::string::npos);
  EXPECT_NE(error("{\"a\":\"\\ud800\"}").find("\\ud800 without its other half"), std::string::npos);
  EXPECT_EQ(error("{\"a\":1, \"a\":2}"), "/rows.ndjson: line 1: has \"a\" twice");
  EXPECT_EQ(error("{\"a\":1}\n{\"a\":true}"),
            "/rows.ndjson: column \"a\": has values of several kinds; type json takes all of them");
  EXPECT_EQ(error("{\"a\":null}"),
            "/rows.ndjson: column \"a\": has no value in any row; name its type, or leave it out");
  EXPECT_EQ(error("\n"), "/rows.ndjson: has no rows");
  EXPECT_NE(error("{\"a\":1}", {.key = "k"}).find("\"k\""), std::string::npos);
  EXPECT_EQ(error("{\"a\":1,\"k\":\"x\"}\n{\"a\":2}", {.key = "k"}), "/rows.ndjson: line 2: has no key, \"k\"");
  EXPECT_EQ(error("{\"a\":1,\"k\":0.5}", {.key = "k"}), "/rows.ndjson: column \"k\": keys are texts or integers");
  EXPECT_NE(error("{\"a\":1}", {.columns = {"b"}}).find("\"b\""), std::string::npos);
  EXPECT_EQ(error("{\"a\":1,\"k\":\"x\"}", {.key = "k", .types = {{"k", Type::kI64}}}),
            "/rows.ndjson: column \"k\": is the key, whose type is utf8");
  EXPECT_EQ(error("{\"a\":1,\"b\":2}", {.columns = {"a"}, .types = {{"b", Type::kI64}}}),
            "/rows.ndjson: column \"b\": has a type, but is not taken");
  EXPECT_NE(error("{\"a\":NaN}").find("byte 5: NaN, which is no number of JSON: write null"), std::string::npos);
  Cancellation cancelled;
  cancelled.Cancel();
  const auto files = NewMemoryFileSystem();
  WriteFile(*files, "/rows.ndjson", "{\"a\":1}");
  const auto rows = OpenColumnRows(*files, "/rows.ndjson", {.cancellation = &cancelled});
  EXPECT_TRUE(absl::IsCancelled(rows.status())) << rows.status();
}

TEST(NdjsonRowsTest, AByteOrderMarkDoesNotCount) { EXPECT_EQ(ReadText("\xef\xbb\xbf{\"a\":1}\n").columns, "a i64"); }

TEST(NdjsonRowsTest, LinesLongerThanAPiece) {
  std::string text;
  for (size_t i = 0; i < 6; ++i) text += "{\"v\":\"" + std::string(i * 700000, static_cast<char>('a' + i)) + "\"}\n";
  const Read read = ReadText(text);
  ASSERT_EQ(read.rows.size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(read.rows[i].at("v"), std::string(i * 700000, static_cast<char>('a' + i)));
  }
}

TEST(NpyRowsTest, ArraysOfNumbersAndOfArrays) {
  const auto files = NewMemoryFileSystem();
  std::string elements, file;
  for (int i = 0; i < 6; ++i) elements += Bytes(0.5F * static_cast<float>(i));
  ASSERT_TRUE(operations::FormatNpy({Type::kF32, {6}, elements}, &file).ok());
  WriteFile(*files, "/score.npy", file);
  Read read = ReadRows(*files, "/score.npy");
  EXPECT_EQ(read.columns, "score f32");
  ASSERT_EQ(read.rows.size(), 6u);
  EXPECT_EQ(read.rows[5].at("score"), Bytes(2.5F));

  ASSERT_TRUE(operations::FormatNpy({Type::kF32, {2, 3}, elements}, &file).ok());
  WriteFile(*files, "/vectors", file);
  read = ReadRows(*files, "/vectors", {.columns = {"v"}});
  EXPECT_EQ(read.columns, "v f32[3,]");
  EXPECT_EQ(read.rows[1].at("v"), elements.substr(12));

  ASSERT_TRUE(operations::FormatNpy({Type::kF32, {0, 3}, ""}, &file).ok());
  WriteFile(*files, "/none.npy", file);
  EXPECT_TRUE(ReadRows(*files, "/none.npy").rows.empty());
}

TEST(NpyRowsTest, Refused) {
  const auto files = NewMemoryFileSystem();
  const auto error = [&](const std::string& header, const ColumnRowsOptions& options = {}) {
    std::string file("\x93NUMPY\x01\0", 8);
    file += Bytes(static_cast<uint16_t>(header.size())) + header + std::string(24, '\0');
    (void)files->RemoveFile("/a.npy");
    WriteFile(*files, "/a.npy", file);
    return ReadRows(*files, "/a.npy", options).error;
  };
  EXPECT_EQ(error("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }"), "");
  EXPECT_EQ(error("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}"), "");
  EXPECT_NE(error("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }").find("Fortran's order"),
            std::string::npos);
  EXPECT_NE(error("{'descr': '>f4', 'fortran_order': False, 'shape': (6,), }").find("dtype \">f4\""),
            std::string::npos);
  EXPECT_NE(error("{'descr': '|O', 'fortran_order': False, 'shape': (6,), }").find("dtype \"|O\""), std::string::npos);
  EXPECT_NE(error("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,), }").find("structures"),
            std::string::npos);
  EXPECT_NE(error("{'descr': '<f4', 'fortran_order': False, 'shape': (7,), }").find("24 bytes"), std::string::npos);
  EXPECT_NE(error("{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551615, 9), }").find("24 bytes"),
            std::string::npos);
  EXPECT_NE(error("{'descr': '<f4', 'fortran_order': False, 'shape': (), }").find("single number"), std::string::npos);
  EXPECT_NE(error("{'descr': '<f4', 'fortran_order': False, 'shape': (x), }").find("damaged"), std::string::npos);
  EXPECT_NE(error("{'descr': '<f4").find("damaged"), std::string::npos);
  EXPECT_NE(error("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }", {.key = "k"}).find("no column of keys"),
            std::string::npos);
}

TEST(DatasetRowsTest, ColumnsButTheKey) {
  const auto files = NewMemoryFileSystem();
  const std::vector<OwnedSample> samples = MakeSamples(20);
  ASSERT_TRUE(WriteDataset(*files, "/other", samples, SmallShards(7, 3)).ok());
  Read read = ReadRows(*files, "/other", {.key = "key"});
  EXPECT_EQ(read.columns, "image jpeg?, label i32?, text utf8?, key utf8!");
  ASSERT_EQ(read.rows.size(), 20u);
  for (size_t i = 0; i < samples.size(); ++i) EXPECT_EQ(read.rows[i], RowOf(samples[i]));
  read = ReadRows(*files, "/other", {.columns = {"text"}});
  EXPECT_EQ(read.columns, "text utf8?");
  EXPECT_EQ(ReadRows(*files, "/other", {.columns = {"key"}}).error,
            "/other: column \"key\": is the key there; a column of values is no key");
  EXPECT_EQ(ReadRows(*files, "/other", {.key = "label"}).error,
            "/other: column \"label\": keys are of type utf8, not i32");
  EXPECT_NE(ReadRows(*files, "/other", {.columns = {"nothing"}}).error.find("nothing"), std::string::npos);
}

TEST(OpenRowsTest, OtherFiles) {
  const auto files = NewMemoryFileSystem();
  WriteFile(*files, "/a.parquet", "PAR1 and so on");
  WriteFile(*files, "/a.txt", "key,score\na,1\n");
  WriteFile(*files, "/a", " {\"v\":1}");
  EXPECT_EQ(
      ReadRows(*files, "/a.parquet").error,
      "/a.parquet: Parquet is read by the Python package: shardkit.add_columns(DATASET, \"/a.parquet\", key=...)");
  EXPECT_TRUE(ReadRows(*files, "/a.txt").error.starts_with("/a.txt: is neither NDJSON, NPY nor a dataset: "));
  EXPECT_EQ(ReadRows(*files, "/a").columns, "v i64");
  EXPECT_TRUE(absl::IsNotFound(OpenColumnRows(*files, "/missing").status()));
  WriteFile(*files, "/a.gz", "\x1f\x8b\x08 and so on");
  EXPECT_EQ(ReadRows(*files, "/a.gz").error,
            "/a.gz: is compressed by gzip; decompress it, or name it *.jsonl.gz if it has lines of JSON");
  WriteFile(*files, "/b", "");
  EXPECT_EQ(ReadRows(*files, "/b").error, "/b: is empty");
}

}  // namespace
}  // namespace shardkit::test
