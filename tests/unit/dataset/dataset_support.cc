#include "dataset/dataset_support.h"

#include <set>
#include <tuple>

#include "base/hash.h"
#include "base/strings.h"
#include "dataset/read/segments.h"

namespace shardkit::test {

void WriteFile(FileSystem& file_system, const std::string& path, std::string_view bytes) {
  const size_t slash = path.rfind('/');
  if (slash != path.npos && slash != 0) {
    const absl::Status made = CreateDirectories(file_system, path.substr(0, slash));
    ASSERT_TRUE(made.ok()) << made;
  }
  (void)file_system.RemoveFile(path);
  auto file = file_system.Create(path);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Append(bytes).ok());
  ASSERT_TRUE((*file)->Close().ok());
}

std::string ReadAll(FileSystem& file_system, const std::string& path) {
  auto bytes = file_system.ReadFile(path, uint64_t{1} << 30);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return bytes.ok() ? *std::move(bytes) : std::string();
}

void WriteTree(FileSystem& file_system, const std::string& directory, const Tree& tree) {
  const absl::Status made = CreateDirectories(file_system, directory);
  ASSERT_TRUE(made.ok()) << made;
  for (const auto& [name, bytes] : tree) {
    if (name.ends_with('/')) {
      ASSERT_TRUE(CreateDirectories(file_system, JoinPath(directory, name)).ok());
    } else {
      WriteFile(file_system, JoinPath(directory, name), bytes);
    }
  }
}

Tree ReadTree(FileSystem& file_system, const std::string& directory) {
  Tree tree;
  std::vector<std::string> left = {""};
  while (!left.empty()) {
    const std::string relative = std::move(left.back());
    left.pop_back();
    const auto entries = file_system.List(relative.empty() ? directory : JoinPath(directory, relative));
    if (!entries.ok()) {
      EXPECT_TRUE(absl::IsNotFound(entries.status())) << entries.status();
      continue;
    }
    for (const DirectoryEntry& entry : *entries) {
      const std::string name = relative + entry.name;
      if (entry.type == FileType::kDirectory) {
        tree[name + "/"] = "";
        left.push_back(name + "/");
      } else {
        tree[name] = ReadAll(file_system, JoinPath(directory, name));
      }
    }
  }
  return tree;
}

Tree ReadDataset(FileSystem& file_system, const std::string& directory) {
  Tree tree = ReadTree(file_system, directory);
  tree.erase(".shardkit/");
  tree.erase(".shardkit/job.json");
  return tree;
}

std::string Describe(const Tree& tree) {
  std::string text;
  for (const auto& [name, bytes] : tree) text += name + " (" + std::to_string(bytes.size()) + ") ";
  return text;
}

std::string DescribeOperation(const DatasetOperation& operation) {
  std::string text = operation.name;
  for (const auto& [name, values] : operation.arguments) {
    for (const std::string& value : values)
      text += StrCat(&value == values.data() ? StrCat(" ", name, "=") : ",", value);
  }
  return text;
}

bool Exists(FileSystem& file_system, const std::string& path) { return file_system.Stat(path).ok(); }

std::string Message(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

Sample OwnedSample::View() const {
  Sample sample;
  sample.key = key;
  for (const auto& [column, bytes] : fields) sample.fields.push_back({column, Value(bytes)});
  return sample;
}

const Column& KeyColumn() {
  static const Column column = {.name = "key", .type = Type::kUtf8, .codec = Codec::kZstd, .is_key = true};
  return column;
}
const Column& ImageColumn() {
  static const Column column = {.name = "image", .type = Type::kJpeg, .nullable = true};
  return column;
}
const Column& LabelColumn() {
  static const Column column = {.name = "label", .type = Type::kI32, .nullable = true};
  return column;
}
const Column& TextColumn() {
  static const Column column = {.name = "text", .type = Type::kUtf8, .codec = Codec::kZstd, .nullable = true};
  return column;
}

Schema MakeSchema(std::vector<Column> columns) {
  auto schema = Schema::Create(std::move(columns));
  EXPECT_TRUE(schema.ok()) << schema.status();
  return *std::move(schema);
}

std::vector<OwnedSample> MakeSamples(size_t count) {
  std::vector<OwnedSample> samples;
  for (size_t i = 0; i < count; ++i) {
    OwnedSample sample;
    sample.key = "k" + std::to_string(1000000 + i);
    std::string image = "\xff\xd8\xff" + std::to_string(i);
    image.resize(20 + i * 7 % 150, static_cast<char>('a' + i % 26));
    sample.fields.emplace_back(&ImageColumn(), std::move(image));
    if (i % 5 != 3) sample.fields.emplace_back(&TextColumn(), std::string(i % 11, 'x') + std::to_string(i));
    if (i % 3 == 1) {
      const char label[4] = {static_cast<char>(i), static_cast<char>(i >> 8), 0, 0};
      sample.fields.emplace_back(&LabelColumn(), std::string(label, 4));
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

absl::StatusOr<DatasetSummary> WriteDataset(FileSystem& file_system, const std::string& directory,
                                            const std::vector<OwnedSample>& samples,
                                            const DatasetWriterOptions& options) {
  DatasetWriterOptions with_blobs = options;
  // The images are small, but stand for large ones.
  if (!options.codecs.contains(ImageColumn().name)) {
    with_blobs.shard.storage.try_emplace(ImageColumn().name, Storage::kBlob);
  }
  auto writer = DatasetWriter::Create(
      file_system, directory, MakeSchema({KeyColumn(), ImageColumn(), LabelColumn(), TextColumn()}), with_blobs);
  if (!writer.ok()) return writer.status();
  for (uint64_t i = (*writer)->resume_position(); i < samples.size(); ++i) {
    if (absl::Status status = (*writer)->Append(samples[i].View(), i + 1); !status.ok()) return status;
  }
  return (*writer)->Finish();
}

Row RowOf(const OwnedSample& sample) {
  Row row = {{"key", sample.key}};
  for (const auto& [column, bytes] : sample.fields) row[column->name] = bytes;
  return row;
}

std::vector<Row> RowsOf(const std::vector<OwnedSample>& samples) {
  std::vector<Row> rows;
  for (const OwnedSample& sample : samples) rows.push_back(RowOf(sample));
  return rows;
}

std::vector<Row> ScanRows(const DatasetReader& dataset, const ScanOptions& options, uint64_t* first) {
  std::vector<Row> rows;
  auto scanner = dataset.Scan(options);
  EXPECT_TRUE(scanner.ok()) << scanner.status();
  if (!scanner.ok()) return rows;
  std::optional<uint64_t> expected;
  while (true) {
    auto block = (*scanner)->Next();
    EXPECT_TRUE(block.ok()) << block.status();
    if (!block.ok() || *block == nullptr) return rows;
    if (first != nullptr && !expected) *first = (*block)->first_sample();
    if (expected) {
      EXPECT_EQ((*block)->first_sample(), *expected);
    }
    const BlockView& view = (*block)->view();
    expected = (*block)->first_sample() + view.sample_count();
    for (uint32_t i = 0; i < view.sample_count(); ++i) {
      Row row;
      for (size_t column = 0; column < dataset.columns().size(); ++column) {
        if (const auto value = view.column(column).value(i)) row[dataset.columns()[column].name] = *value;
      }
      rows.push_back(std::move(row));
    }
  }
}

std::vector<Row> ScanRows(FileSystem& file_system, const std::string& path) {
  auto dataset = DatasetReader::Open(file_system, path);
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  return dataset.ok() ? ScanRows(**dataset) : std::vector<Row>();
}

void ExpectBlocksOfShards(const DatasetReader& dataset, const std::vector<DatasetBlock>& all) {
  std::set<uint32_t> with_samples;
  for (const DatasetBlock& block : all) {
    if (block.sample_count > 0) with_samples.insert(block.shard);
  }
  for (const uint32_t every : {1, 2, 7}) {
    std::vector<SampleRange> shards;
    std::vector<DatasetBlock> expected, found;
    for (const DatasetBlock& block : all) {
      // A shard whose samples were all removed has no range.
      if (block.shard % every != every - 1 || !with_samples.contains(block.shard)) continue;
      expected.push_back(block);
      if (block.block == 0) shards.push_back({block.first_sample, 0});
      shards.back().count += block.sample_count;
    }
    const absl::Status status = dataset.ForEachBlockOf(shards, [&](const DatasetBlock& block) {
      found.push_back(block);
      return absl::OkStatus();
    });
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      const auto fields = [](const DatasetBlock& block) {
        return std::tuple(block.shard, block.block, block.first_sample, block.sample_count, block.length);
      };
      ASSERT_EQ(fields(found[i]), fields(expected[i])) << i;
    }
  }
}

DatasetWriterOptions SmallShards(uint64_t shard_samples, uint32_t block_samples) {
  DatasetWriterOptions options;
  options.shard_samples = shard_samples;
  options.shard.max_block_samples = block_samples;
  options.shard.alignment = 64;
  return options;
}

void ListShardsApart(FileSystem& file_system, const std::string& directory) {
  const std::string path = JoinPath(directory, kManifestName);
  std::string text = ReadAll(file_system, path);
  const size_t begin = text.find("  \"shards\": [\n"), end = text.find("  \"checksum\": ");
  ASSERT_TRUE(begin < end && end != text.npos);
  text.erase(begin);
  text += StrCat("  \"checksum\": \"", absl::Hex(Hash64(text), absl::kZeroPad16), "\"\n}\n");
  WriteFile(file_system, path, text);
}

absl::StatusOr<PackReport> PackFiles(FileSystem& file_system, const std::vector<std::string>& inputs,
                                     const std::string& output, const PackOptions& options) {
  SourceOptions source_options;
  source_options.file_system = &file_system;
  source_options.allow_empty = true;  // some random trees are
  auto source = OpenSource("files", inputs, source_options);
  if (!source.ok()) return source.status();
  return Pack(file_system, **source, output, options);
}

std::string ValidateText(FileSystem& file_system, const std::string& path, bool deep) {
  ValidateOptions options;
  options.deep = deep;
  const auto report = Validate(file_system, path, options);
  if (!report.ok()) return report.status().ToString();
  if (report->ok()) return "";
  return report->problems.empty() ? "a problem" : report->problems[0].message;
}

}  // namespace shardkit::test
