// What the MDS writer accepts, and what it refuses before or during writing.
#include "unit/operations/copy/containers_support.h"

namespace shardkit::test {
namespace {

// A file of any size that must never be read.
class HugeFile final : public RandomAccessFile {
 public:
  explicit HugeFile(uint64_t size) : size_(size) {}
  const std::string& path() const override { return path_; }
  uint64_t size() const override { return size_; }
  absl::Status ReadAt(uint64_t, std::span<char>) const override {
    ADD_FAILURE() << "read";
    return absl::InternalError("read");
  }

 private:
  const std::string path_ = "/huge";
  const uint64_t size_;
};

Value FileValue(std::shared_ptr<const RandomAccessFile> file) {
  Value value;
  value.file = std::move(file);
  return value;
}

absl::Status Create(const std::vector<Column>& columns, const MdsWriterOptions& options) {
  const auto files = NewMemoryFileSystem();
  const absl::Status status = CreateMdsWriter(*files, "/out", MakeSchema(columns), options).status();
  EXPECT_FALSE(Exists(*files, "/out"));
  return status;
}

// Expects InvalidArgument with a message that contains `what`.
void ExpectRefused(const absl::Status& status, const std::string& what) {
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_NE(Message(status).find(what), std::string::npos) << status;
}

TEST(MdsWriterTest, Encodings) {
  const std::vector<Column> columns = {MakeColumn("bytes", Type::kBytes),
                                       MakeColumn("text", Type::kUtf8),
                                       MakeColumn("i64", Type::kI64),
                                       MakeColumn("i32", Type::kI32),
                                       MakeArrayColumn("array", Type::kF32, {{2}}),
                                       MakeArrayColumn("any", Type::kF32)};
  const auto refused = [&](const std::string& column, const std::string& encoding, const std::string& what) {
    SCOPED_TRACE(column + "=" + encoding);
    MdsWriterOptions options;
    options.encodings = {{column, encoding}};
    ExpectRefused(Create(columns, options), what);
    ExpectRefused(Create(columns, options), "\"" + column + "\"");
  };
  refused("bytes", "pkl", "is pickled, which is never written");
  refused("bytes", "nothing", "is not one of MDS");
  refused("bytes", "", "is not one of MDS");
  refused("bytes", "int", "stores values of another type");
  refused("bytes", "ndarray:uint8:2", "stores values of another type");
  refused("i64", "str", "stores values of another type");
  refused("i64", "uint64", "stores values of another type");
  refused("i32", "int", "stores values of another type");
  refused("i32", "str_int", "stores values of another type");
  refused("i64", "str_float", "stores values of another type");
  refused("array", "ndarray", "stores values of another type");
  refused("array", "ndarray:float32", "stores values of another type");
  refused("array", "ndarray:float32:3", "stores values of another type");
  refused("array", "ndarray:int32:2", "stores values of another type");
  refused("any", "ndarray:float32:2", "stores values of another type");
  refused("none", "str", "there is no such column");
  const std::map<std::string, std::vector<std::string>> accepted = {
      {"bytes", {"bytes", "str", "json", "jpeg", "png", "pil", "jpeg_array", "list[pil]", "str_int", "ndarray"}},
      {"text", {"str", "str_int", "str_float", "str_decimal", "json"}},
      {"i64", {"int", "int64", "str_int"}},
      {"i32", {"int32"}},
      {"array", {"ndarray:float32:2"}},
      {"any", {"ndarray:float32", "ndarray"}}};
  for (const auto& [column, encodings] : accepted) {
    for (const std::string& encoding : encodings) {
      SCOPED_TRACE(column + "=" + encoding);
      MdsWriterOptions options;
      options.encodings = {{column, encoding}};
      EXPECT_TRUE(Create(columns, options).ok()) << Create(columns, options);
    }
  }
}

TEST(MdsWriterTest, Types) {
  ExpectRefused(Create({MakeColumn("x", Type::kBf16)}, {}), "column \"x\": MDS has no type bf16");
  ExpectRefused(Create({MakeColumn("x", Type::kBool)}, {}), "column \"x\": MDS has no type bool");
  ExpectRefused(Create({MakeColumn("x", Type::kRle)}, {}), "column \"x\": MDS has no masks as run lengths");
  ExpectRefused(Create({MakeArrayColumn("x", Type::kBool)}, {}), "column \"x\": MDS has no arrays of bool");
}

TEST(MdsWriterTest, Settings) {
  const std::vector<Column> columns = {MakeColumn("x", Type::kBytes)};
  for (const std::string compression :
       {"gz", "zstd:", "zstd:0", "zstd:99", "zstd:5x", "zstd:-1", "ZSTD", "zstd7", "br:3"}) {
    MdsWriterOptions options;
    options.compression = compression;
    ExpectRefused(Create(columns, options), "compression \"" + compression + "\"");
  }
  for (const std::string hash : {"", "crc", "XXH64", "sha1 "}) {
    MdsWriterOptions options;
    options.hashes = {"md5", hash};
    ExpectRefused(Create(columns, options), "\"" + hash + "\"");
  }
  MdsWriterOptions options;
  options.shard_size = 0;
  ExpectRefused(Create(columns, options), "shard size 0");
  options.shard_size = uint64_t{1} << 32;
  ExpectRefused(Create(columns, options), "at most 4294967295");
  options.shard_size = UINT32_MAX;
  EXPECT_TRUE(Create(columns, options).ok());
}

// Offsets have 32 bits. A sample that is too large is refused before any of it is read.
TEST(MdsWriterTest, SamplesOfFourGibibytes) {
  const auto files = NewMemoryFileSystem();
  const Column one = MakeColumn("one", Type::kBytes), two = MakeColumn("two", Type::kBytes);
  auto writer = CreateMdsWriter(*files, "/out", MakeSchema({one, two}));
  ASSERT_TRUE(writer.ok()) << writer.status();
  const auto append = [&](uint64_t first, uint64_t second) {
    Sample sample;
    sample.fields = {{&one, FileValue(std::make_shared<HugeFile>(first))},
                     {&two, FileValue(std::make_shared<HugeFile>(second))}};
    return (*writer)->Append(sample, 1);
  };
  ExpectRefused(append(uint64_t{1} << 32, 0), "column \"one\": a value of 4294967296 bytes");
  ExpectRefused(append(uint64_t{3} << 30, uint64_t{3} << 30), "column \"two\": a value of 3221225472 bytes");
  ExpectRefused(append(UINT64_MAX, UINT64_MAX), "column \"one\"");
  // Refused samples leave no trace.
  Sample sample;
  sample.fields = {{&one, Value("a")}, {&two, Value("b")}};
  ASSERT_TRUE((*writer)->Append(sample, 1).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_TRUE(ScanRows(*files, "/out") == std::vector<Row>({{{"one", "a"}, {"two", "b"}}}));
}

TEST(MdsWriterTest, ValuesThatAreFiles) {
  const auto files = NewMemoryFileSystem();
  const std::string array = ArrayValue(Type::kU8, {3}, "xyz");
  WriteFile(*files, "/bytes", "file's bytes");
  WriteFile(*files, "/array", array);
  WriteFile(*files, "/short", "1234");
  const auto file = [&](const std::string& path) { return FileValue(*files->OpenForReading(path)); };
  const Column b = MakeColumn("b", Type::kBytes), a = MakeArrayColumn("a", Type::kU8), n = MakeColumn("n", Type::kI32);
  auto writer = CreateMdsWriter(*files, "/out", MakeSchema({b, a, n}));
  ASSERT_TRUE(writer.ok()) << writer.status();
  Sample sample;
  sample.fields = {{&b, file("/bytes")}, {&a, file("/array")}, {&n, file("/short")}};
  ASSERT_TRUE((*writer)->Append(sample, 1).ok());
  sample.fields = {{&b, file("/bytes")}, {&a, file("/array")}, {&n, file("/bytes")}};
  ExpectRefused((*writer)->Append(sample, 2), "column \"n\": a value of 12 bytes");
  sample.fields = {{&b, file("/bytes")}, {&a, file("/short")}, {&n, file("/short")}};
  ExpectRefused((*writer)->Append(sample, 2), "column \"a\"");
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_TRUE(ScanRows(*files, "/out") == std::vector<Row>({{{"a", array}, {"b", "file's bytes"}, {"n", "1234"}}}));
}

TEST(MdsWriterTest, SamplesThatDoNotFit) {
  const auto files = NewMemoryFileSystem();
  const Column n = MakeColumn("n", Type::kI32), other = MakeColumn("other", Type::kBytes),
               text = MakeColumn("n", Type::kUtf8);
  auto writer = CreateMdsWriter(*files, "/out", MakeSchema({n}));
  ASSERT_TRUE(writer.ok()) << writer.status();
  Sample sample;
  ExpectRefused((*writer)->Append(sample, 1), "column \"n\": is absent");
  sample.fields = {{&n, Value("123")}};
  ExpectRefused((*writer)->Append(sample, 1), "column \"n\": a value of 3 bytes; those of encoding int32 have 4");
  sample.fields = {{&n, Value("1234")}, {&other, Value("x")}};
  ExpectRefused((*writer)->Append(sample, 1), "column \"other\": the dataset has no such column");
  sample.fields = {{&text, Value("1234")}};
  ExpectRefused((*writer)->Append(sample, 1), "a value of type utf8 does not fit the column of type i32");
  writer->reset();  // without finishing: leaves nothing behind
  EXPECT_FALSE(Exists(*files, "/out"));
}

TEST(MdsWriterTest, Directories) {
  const auto files = NewMemoryFileSystem();
  const Schema schema = MakeSchema({MakeColumn("x", Type::kBytes)});
  const auto create = [&](const std::string& directory) { return CreateMdsWriter(*files, directory, schema).status(); };
  WriteFile(*files, "/foreign/shard.1.mds", "not ours: five digits are missing");
  EXPECT_TRUE(absl::IsAlreadyExists(create("/foreign")));
  // A foreign file is not removed either when the directory has an unfinished job.
  WriteFile(*files, "/foreign/.shardkit/job.json",
            "{\n  \"format\": \"shardkit-job 2\",\n  \"fingerprint\": \"0123456789abcdef\"\n}\n");
  const absl::Status status = create("/foreign");
  EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
  EXPECT_TRUE(Exists(*files, "/foreign/shard.1.mds"));
  WriteFile(*files, "/done/index.json", "{}");
  EXPECT_TRUE(absl::IsAlreadyExists(create("/done")));
  const auto first = CreateMdsWriter(*files, "/busy", schema);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(absl::IsUnavailable(create("/busy")));
}

TEST(MdsWriterTest, NothingFollowsTheEnd) {
  const auto files = NewMemoryFileSystem();
  const Column x = MakeColumn("x", Type::kBytes);
  auto writer = CreateMdsWriter(*files, "/out", MakeSchema({x}));
  ASSERT_TRUE(writer.ok()) << writer.status();
  Sample sample;
  sample.fields = {{&x, Value("1")}};
  ASSERT_TRUE((*writer)->Append(sample, 1).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_TRUE(absl::IsFailedPrecondition((*writer)->Append(sample, 2)));
  EXPECT_TRUE(absl::IsFailedPrecondition((*writer)->Finish().status()));
  EXPECT_TRUE((*writer)->Abort().ok());  // too late to undo it
  EXPECT_EQ(ScanRows(*files, "/out").size(), 1u);
}

}  // namespace
}  // namespace shardkit::test
