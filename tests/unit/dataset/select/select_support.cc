#include "unit/dataset/select/select_support.h"

#include "shardkit/schema.h"

namespace shardkit::test {

Schema SelectSchema() {
  const auto column = [](const std::string& name, Type type, Type dtype = Type::kU8) {
    Column made;
    made.name = name;
    made.type = type;
    made.dtype = dtype;
    made.nullable = name != "u";
    return made;
  };
  return MakeSchema({KeyColumn(), column("i", Type::kI64), column("u", Type::kU64), column("f", Type::kF32),
                     column("h", Type::kF16), column("b", Type::kBool), column("t", Type::kUtf8),
                     column("js", Type::kJson), column("img", Type::kBytes), column("a", Type::kNdarray, Type::kI32),
                     column("d", Type::kNdarray, Type::kF64), column("c", Type::kNdarray, Type::kBool),
                     column("m", Type::kRle)});
}

std::string Array(const std::string& column, const std::vector<uint64_t>& shape, const std::string& elements) {
  const Schema schema = SelectSchema();
  std::string value;
  EXPECT_TRUE(AppendNdarray(schema[*schema.Find(column)].dtype, shape, elements, &value).ok());
  return value;
}

void WriteGiven(FileSystem& files, const std::string& path, const std::vector<Given>& samples,
                const DatasetWriterOptions& options) {
  const Schema schema = SelectSchema();
  auto writer = DatasetWriter::Create(files, path, schema, options);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (size_t i = 0; i < samples.size(); ++i) {
    Given values = samples[i];
    values.emplace("key", "k" + std::to_string(i));
    values.emplace("u", Bytes(uint64_t{0}));
    std::vector<std::optional<Value>> row;
    for (const Column& column : schema.columns()) {
      const auto value = values.find(column.name);
      row.push_back(value == values.end() ? std::nullopt : std::optional(Value(value->second)));
    }
    const absl::Status status = (*writer)->Append(row);
    ASSERT_TRUE(status.ok()) << status;
  }
  const auto summary = (*writer)->Finish();
  ASSERT_TRUE(summary.ok()) << summary.status();
}

std::string Selected(FileSystem& files, const std::string& path, const std::string& predicate, uint64_t* blocks) {
  const auto whole = DatasetReader::Open(files, path);
  if (!whole.ok()) return Message(whole.status());
  const auto parsed = Predicate::Parse(predicate, (*whole)->columns());
  if (!parsed.ok()) return Message(parsed.status());
  DatasetOptions options;
  options.columns = parsed->columns();
  const auto dataset = DatasetReader::Open(files, path, options);
  if (!dataset.ok()) return Message(dataset.status());
  std::string text;
  ScanOptions scan;
  if (blocks != nullptr) scan.where = *parsed;
  auto scanner = (*dataset)->Scan(scan);
  while (scanner.ok()) {
    const auto block = (*scanner)->Next();
    if (!block.ok()) return Message(block.status());
    if (*block == nullptr) break;
    if (blocks != nullptr) ++*blocks;
    std::vector<uint32_t> selected;
    const absl::Status status = parsed->Select((*block)->view(), &selected);
    if (!status.ok()) return Message(status);
    for (const uint32_t i : selected) text += (text.empty() ? "" : " ") + std::to_string((*block)->first_sample() + i);
  }
  return text;
}

}  // namespace shardkit::test
