// The tables of format-spec/interop.md, "Conversion": data without an exact counterpart, and how --lossy maps it.
#include "unit/operations/copy/containers_support.h"

namespace shardkit::test {
namespace {

using namespace std::string_literals;

// The message contains `cause` and the column's name, and nothing was written.
void ExpectRefused(FileSystem& files, Container to, bool lossy, const std::string& column, const std::string& cause) {
  ConvertOptions options = SmallOptions(to);
  options.lossy = lossy;
  const absl::Status status = ConvertTo(files, "/in", "/out", options);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_NE(Message(status).find("\"" + column + "\""), std::string::npos) << status;
  EXPECT_NE(Message(status).find(cause), std::string::npos) << status;
  EXPECT_EQ(Message(status).find("/in: "), 0u) << status;
  EXPECT_FALSE(Exists(files, "/out"));
}

// The values of the last column after a lossy conversion.
struct Mapped {
  std::string columns;
  std::vector<std::string> values;
};
Mapped MapLossy(FileSystem& files, Container to, const std::string& column) {
  ConvertOptions options = SmallOptions(to);
  options.lossy = true;
  const absl::Status status = ConvertTo(files, "/in", "/out", options);
  EXPECT_TRUE(status.ok()) << status;
  Mapped mapped{.columns = ColumnText(files, "/out"), .values = {}};
  for (const Row& row : ScanRows(files, "/out")) {
    const auto value = row.find(column);
    mapped.values.push_back(value == row.end() ? "absent" : value->second);
  }
  return mapped;
}

TEST(MappingTest, Bf16ToMds) {
  const auto files = NewMemoryFileSystem();
  WriteThree(*files, "/in", {MakeColumn("x", Type::kBf16)}, {{"\x80\x3f", "\x00\xc0"s, "\xc0\x7f"}});
  ExpectRefused(*files, Container::kMds, false, "x", "--lossy stores the same numbers as f32");
  const Mapped mapped = MapLossy(*files, Container::kMds, "x");
  EXPECT_EQ(mapped.columns, "key utf8*, text utf8, x f32");
  EXPECT_EQ(mapped.values, (std::vector<std::string>{Bytes(1.0f), Bytes(-2.0f), "\0\0\xc0\x7f"s}));
  // It keeps the type that it was converted to: f32 again.
  ASSERT_TRUE(ConvertTo(*files, "/out", "/back", Container::kShard).ok());
  EXPECT_EQ(ColumnText(*files, "/back"), "key utf8*, text utf8, x f32");
}

TEST(MappingTest, Bf16ArraysToMds) {
  const auto files = NewMemoryFileSystem();
  WriteThree(*files, "/in", {MakeArrayColumn("a", Type::kBf16, {{2}}), MakeArrayColumn("b", Type::kBf16)},
             {{"\x80\x3f\x00\x40"s}, {ArrayValue(Type::kBf16, {1, 2}, "\x80\x3f\x00\x40"s)}});
  ExpectRefused(*files, Container::kMds, false, "a", "--lossy");
  const Mapped mapped = MapLossy(*files, Container::kMds, "b");
  EXPECT_EQ(mapped.columns, "a ndarray:f32:2, b ndarray:f32, key utf8*, text utf8");
  EXPECT_EQ(mapped.values[1], ArrayValue(Type::kF32, {1, 2}, Bytes(1.0f) + Bytes(2.0f)));
  EXPECT_EQ(ScanRows(*files, "/out")[2].at("a"), Bytes(1.0f) + Bytes(2.0f));
}

TEST(MappingTest, BoolToMds) {
  const auto files = NewMemoryFileSystem();
  WriteThree(*files, "/in", {MakeColumn("x", Type::kBool), MakeArrayColumn("y", Type::kBool)},
             {{"\x01", "\0"s}, {ArrayValue(Type::kBool, {2}, "\x01\0"s)}});
  ExpectRefused(*files, Container::kMds, false, "x", "--lossy stores u8, 0 or 1");
  const Mapped mapped = MapLossy(*files, Container::kMds, "y");
  EXPECT_EQ(mapped.columns, "key utf8*, text utf8, x u8, y ndarray:u8");
  EXPECT_EQ(mapped.values[0], ArrayValue(Type::kU8, {2}, "\x01\0"s));
  EXPECT_EQ(ScanRows(*files, "/out")[1].at("x"), "\0"s);
}

TEST(MappingTest, MasksToEither) {
  for (const Container to : {Container::kMds, Container::kWebDataset}) {
    const auto files = NewMemoryFileSystem();
    WriteThree(*files, "/in", {MakeColumn("m", Type::kRle)}, {{MaskValue(2, 3, 4), MaskValue(2, 3, 6)}});
    ExpectRefused(*files, to, false, "m", "--lossy stores them as COCO's objects in JSON");
    const std::string column = to == Container::kMds ? "m" : "m.json";
    const Mapped mapped = MapLossy(*files, to, column);
    EXPECT_EQ(mapped.values[0], R"([{"counts":"042","size":[2,3]}])");
    EXPECT_EQ(mapped.columns,
              to == Container::kMds ? "key utf8*, m json, text utf8" : "key utf8*, text.txt bytes?, m.json bytes?");
    ASSERT_TRUE(ConvertTo(*files, "/out", "/back", Container::kShard).ok());
    EXPECT_EQ(ScanRows(*files, "/back")[0].at(column), mapped.values[0]);
  }
}

TEST(MappingTest, AbsentValuesToMds) {
  const auto files = NewMemoryFileSystem();
  const std::vector<Column> columns = {KeyColumn(), MakeColumn("t", Type::kUtf8, true),
                                       MakeColumn("n", Type::kI32, true)};
  WriteShards(*files, "/in", columns, {{{"key", "a"}, {"t", "x"}, {"n", "1234"}}, {{"key", "b"}, {"n", "5678"}}});
  ConvertOptions options = SmallOptions(Container::kMds);
  const absl::Status status = ConvertTo(*files, "/in", "/out", options);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(Message(status),
            "/in: sample 1: column \"t\": is absent, and MDS has no absent values; --lossy stores an empty one");
  EXPECT_FALSE(Exists(*files, "/out"));
  EXPECT_EQ(MapLossy(*files, Container::kMds, "t").values, (std::vector<std::string>{"x", ""}));

  // No number can stand for an absent value.
  WriteShards(*files, "/numbers", columns, {{{"key", "a"}, {"t", "x"}}});
  options.lossy = true;
  const absl::Status number = ConvertTo(*files, "/numbers", "/out2", options);
  EXPECT_EQ(Message(number),
            "/numbers: sample 0: column \"n\": is absent, and MDS has no absent values; choose other columns "
            "(--columns)");
}

TEST(MappingTest, ArraysThatMdsCannotHold) {
  for (const std::vector<uint64_t>& shape : {std::vector<uint64_t>{}, {2, 0}}) {
    const std::string elements = shape.empty() ? "abcd" : "";
    const std::string cause =
        shape.empty() ? "MDS has no arrays without dimensions" : "MDS has no arrays without elements";
    const auto files = NewMemoryFileSystem();
    WriteThree(*files, "/in", {MakeArrayColumn("x", Type::kF32, shape)}, {{elements}});
    for (const bool lossy : {false, true}) ExpectRefused(*files, Container::kMds, lossy, "x", cause);
    const auto other = NewMemoryFileSystem();
    WriteThree(*other, "/in", {MakeArrayColumn("x", Type::kF32)}, {{ArrayValue(Type::kF32, shape, elements)}});
    const absl::Status status = ConvertTo(*other, "/in", "/out", Container::kMds);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_NE(Message(status).find(cause), std::string::npos) << status;
    EXPECT_NE(Message(status).find("\"s0\""), std::string::npos) << status;
    EXPECT_FALSE(Exists(*other, "/out"));
    // A tar can hold both.
    EXPECT_TRUE(ConvertTo(*other, "/in", "/tars", Container::kWebDataset).ok());
  }
}

TEST(MappingTest, NamesInTars) {
  const auto files = NewMemoryFileSystem();
  WriteThree(*files, "/in",
             {MakeColumn("a", Type::kJpeg), MakeColumn("b.jpeg", Type::kJpeg), MakeColumn("c", Type::kPng),
              MakeColumn("png", Type::kPng), MakeColumn("d", Type::kJson), MakeColumn("e.json", Type::kJson),
              MakeColumn("f", Type::kBytes), MakeColumn("g.txt", Type::kUtf8), MakeColumn("h", Type::kI8),
              MakeArrayColumn("i", Type::kBf16, {{1}})},
             {{"1"}, {"2"}, {"3"}, {"4"}, {"5"}, {"6"}, {"7"}, {"8"}, {"9"}, {"10"}});
  ASSERT_TRUE(ConvertTo(*files, "/in", "/out", Container::kWebDataset).ok());
  EXPECT_EQ(ColumnText(*files, "/out"),
            "key utf8*, text.txt bytes?, a.jpg jpeg?, b.jpeg jpeg?, c.png png?, png png?, d.json bytes?, "
            "e.json bytes?, f bytes?, "
            "g.txt bytes?, h.npy bytes?, i.npy bytes?");
}

// Columns packed from files or tars have extensions as names.
TEST(MappingTest, NamesThatAreExtensions) {
  const auto files = NewMemoryFileSystem();
  DatasetWriterOptions options;
  options.shard.metadata["shardkit.source"] = "files";
  WriteShards(*files, "/in",
              {KeyColumn(), MakeColumn("cls", Type::kUtf8), MakeColumn("/key", Type::kUtf8),
               MakeColumn("/.", Type::kJson), MakeColumn("n", Type::kU8)},
              {{{"key", "k"}, {"cls", "1"}, {"/key", "2"}, {"/.", "3"}, {"n", "4"}}}, options);
  ASSERT_TRUE(ConvertTo(*files, "/in", "/out", Container::kWebDataset).ok());
  EXPECT_EQ(ColumnText(*files, "/out"), "key utf8*, cls bytes?, /key bytes?, /. bytes?, n.npy bytes?");
  ASSERT_TRUE(ConvertTo(*files, "/out", "/back", Container::kShard).ok());
  EXPECT_TRUE(ColumnsOf(*files, "/back") == ColumnsOf(*files, "/in"));
}

TEST(MappingTest, NamesThatTarsCannotHold) {
  {
    const auto files = NewMemoryFileSystem();
    WriteThree(*files, "/in", {MakeColumn("a/b", Type::kBytes)}, {{"1"}});
    for (const bool lossy : {false, true})
      ExpectRefused(*files, Container::kWebDataset, lossy, "a/b", "is no name of a member");
  }
  {
    const auto files = NewMemoryFileSystem();
    WriteThree(*files, "/in", {MakeColumn("Label", Type::kBytes)}, {{"1"}});
    ExpectRefused(*files, Container::kWebDataset, false, "Label", "read as small ones (\"label\"); --lossy");
    EXPECT_EQ(MapLossy(*files, Container::kWebDataset, "label").values, (std::vector<std::string>{"1", "1", "1"}));
  }
  for (const bool lossy : {false, true}) {
    const auto files = NewMemoryFileSystem();
    WriteThree(*files, "/in", {MakeColumn("a", Type::kJpeg), MakeColumn(lossy ? "A.jpg" : "a.jpg", Type::kJpeg)},
               {{"1"}, {"2"}});
    ExpectRefused(*files, Container::kWebDataset, lossy, "a", "would both be \"a.jpg\"");
  }
}

TEST(MappingTest, KeysThatTarsCannotHold) {
  for (const std::string& key : {""s, "zero\0"s, "../up"s, "/abs"s, "__x__"s}) {
    SCOPED_TRACE(key);
    const auto files = NewMemoryFileSystem();
    // With only this extension, "__x__" becomes a name that readers skip.
    WriteShards(
        *files, "/in", {KeyColumn(), MakeColumn(key == "__x__" ? "y__" : "y", Type::kBytes)},
        {{{"key", "good"}, {key == "__x__" ? "y__" : "y", "1"}}, {{"key", key}, {key == "__x__" ? "y__" : "y", "1"}}});
    const absl::Status status = ConvertTo(*files, "/in", "/out", Container::kWebDataset);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_NE(Message(status).find("\"" + key + "\""), std::string::npos) << status;
    EXPECT_FALSE(Exists(*files, "/out"));
    EXPECT_TRUE(ConvertTo(*files, "/in", "/mds", Container::kMds).ok());
  }
}

TEST(MappingTest, KeysWithDotsComeBack) {
  const auto files = NewMemoryFileSystem();
  std::vector<Row> samples;
  for (const std::string key : {"22.05", "a.b", "d.e/f.g", "50%", "plain", "x%2Ey"})
    samples.push_back({{"key", key}, {"y", key}});
  WriteShards(*files, "/in", {KeyColumn(), MakeColumn("y", Type::kBytes)}, samples);
  ASSERT_TRUE(ConvertTo(*files, "/in", "/mds", Container::kMds).ok());
  for (const std::string from : {"/in", "/mds"}) {
    const std::string tars = from + "-tars", back = from + "-back";
    EXPECT_EQ(ConvertTo(*files, from, tars, Container::kWebDataset), absl::OkStatus());
    EXPECT_TRUE(ScanRows(*files, tars) == ScanRows(*files, "/in"));
    EXPECT_EQ(ConvertTo(*files, tars, back, Container::kShard), absl::OkStatus());
    EXPECT_TRUE(ScanRows(*files, back) == ScanRows(*files, "/in"));
  }
}

TEST(MappingTest, AKeyThatComesAgainBeginsATar) {
  const auto files = NewMemoryFileSystem();
  WriteShards(
      *files, "/in", {KeyColumn(), MakeColumn("y", Type::kBytes)},
      {{{"key", "a"}, {"y", "1"}}, {{"key", "b"}, {"y", "2"}}, {{"key", "b"}, {"y", "3"}}, {{"key", "a"}, {"y", "4"}}});
  // "a b", "b a": in a tar of its own each is a sample of its own.
  const absl::Status status = ConvertTo(*files, "/in", "/out", Container::kWebDataset);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(Exists(*files, "/out/000001.tar"));
  EXPECT_FALSE(Exists(*files, "/out/000002.tar"));
  EXPECT_TRUE(ScanRows(*files, "/out") == ScanRows(*files, "/in"));
}

TEST(MappingTest, SamplesWithoutAnyValue) {
  const auto files = NewMemoryFileSystem();
  WriteShards(*files, "/in", {KeyColumn(), MakeColumn("y", Type::kBytes, true)},
              {{{"key", "a"}, {"y", "1"}}, {{"key", "b"}}});
  const absl::Status status = ConvertTo(*files, "/in", "/out", Container::kWebDataset);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_NE(Message(status).find("\"b\": a sample without values has no place in a tar"), std::string::npos) << status;
}

TEST(MappingTest, TheKey) {
  const auto files = NewMemoryFileSystem();
  WriteShards(*files, "/in", {KeyColumn(), MakeColumn("name", Type::kUtf8, true), MakeColumn("n", Type::kI32)},
              {{{"key", "a"}, {"name", "x"}, {"n", "1234"}}, {{"key", "b"}, {"n", "1234"}}});
  ConvertOptions options = SmallOptions(Container::kWebDataset);
  options.key_column = "name";
  EXPECT_EQ(Message(ConvertTo(*files, "/in", "/out", options)),
            "/in: sample 1: the value that is to be the key is absent: choose another column (--key)");
  options.key_column = "n";
  EXPECT_TRUE(absl::IsInvalidArgument(ConvertTo(*files, "/in", "/out", options)));
  options.key_column = "nothing";
  EXPECT_TRUE(absl::IsOutOfRange(ConvertTo(*files, "/in", "/out", options)));
  options.key_column = "";
  options.columns = {"n"};
  ASSERT_TRUE(ConvertTo(*files, "/in", "/numbers", options).ok());
  EXPECT_EQ(ScanRows(*files, "/numbers")[1].at("key"), "000000000001");
  // Numbers are not a column, but they are kept from tar to tar.
  ASSERT_TRUE(ConvertTo(*files, "/numbers", "/back", Container::kShard).ok());
  EXPECT_EQ(ColumnText(*files, "/back"), "n i32");
  ASSERT_TRUE(ConvertTo(*files, "/numbers", "/tars", Container::kWebDataset).ok());
  EXPECT_TRUE(ReadDataset(*files, "/tars") == ReadDataset(*files, "/numbers"));
}

// The key stays the key among chosen columns. Columns that were not chosen need not be readable.
TEST(MappingTest, ChosenColumns) {
  const auto files = NewMemoryFileSystem();
  WriteThree(*files, "/in", {MakeColumn("x", Type::kBf16), MakeColumn("y", Type::kU8)}, {{"12"}, {"3"}});
  ConvertOptions options = SmallOptions(Container::kMds);
  options.columns = {"y"};
  ASSERT_TRUE(ConvertTo(*files, "/in", "/mds", options).ok());
  EXPECT_EQ(ColumnText(*files, "/mds"), "key utf8*, y u8");
  for (const bool with_origin : {true, false}) {
    if (!with_origin) {
      ASSERT_TRUE(files->RemoveFile("/mds/shardkit.json").ok());
    }
    for (const Container to : {Container::kShard, Container::kWebDataset}) {
      options.to = to;
      ASSERT_TRUE(ConvertTo(*files, "/mds", "/next", options).ok());
      EXPECT_EQ(ScanRows(*files, "/next")[1].at("key"), "s1");
      ASSERT_TRUE(RemoveTree(*files, "/next").ok());
    }
  }
  options.columns = {"nothing"};
  EXPECT_EQ(Message(ConvertTo(*files, "/mds", "/next", options)),
            "/mds: there is no column \"nothing\"; there are: key, y");
}

}  // namespace
}  // namespace shardkit::test
