#include "unit/operations/copy/containers_support.h"

#include <array>
#include <numeric>

#include "shardkit/rle.h"
#include "shardkit/schema.h"

namespace shardkit::test {

std::string ArrayValue(Type dtype, const std::vector<uint64_t>& shape, std::string_view elements) {
  std::string value;
  const absl::Status status = AppendNdarray(dtype, shape, elements, &value);
  EXPECT_TRUE(status.ok()) << status;
  return value;
}

std::string MaskValue(uint32_t height, uint32_t width, uint32_t ones) {
  RleList masks;
  std::vector<uint32_t> runs = {0, ones, height * width - ones};
  if (runs.back() == 0) runs.pop_back();
  masks.Append({height, width, runs});
  std::string value;
  const absl::Status status = AppendRleValue(masks, &value);
  EXPECT_TRUE(status.ok()) << status;
  return value;
}

Column MakeColumn(std::string name, Type type, bool nullable) {
  Column column;
  column.name = std::move(name);
  column.type = type;
  column.nullable = nullable;
  return column;
}

Column MakeArrayColumn(std::string name, Type dtype, std::optional<std::vector<uint64_t>> shape) {
  Column column = MakeColumn(std::move(name), Type::kNdarray);
  column.dtype = dtype;
  column.shape = std::move(shape);
  return column;
}

absl::StatusOr<DatasetSummary> WriteSamples(absl::StatusOr<std::unique_ptr<DatasetWriter>> writer,
                                            const Samples& samples) {
  if (!writer.ok()) return writer.status();
  const std::vector<Column> columns = (*writer)->schema().columns();
  for (uint64_t i = (*writer)->resume_position(); i < samples.size(); ++i) {
    Sample sample;
    for (const Column& column : columns) {
      const auto value = samples[i].find(column.name);
      if (value == samples[i].end()) continue;
      if (column.is_key) {
        sample.key = value->second;
      } else {
        sample.fields.push_back({&column, Value(value->second)});
      }
    }
    if (absl::Status status = (*writer)->Append(sample, i + 1); !status.ok()) return status;
  }
  return (*writer)->Finish();
}

void WriteShards(FileSystem& files, const std::string& directory, const std::vector<Column>& columns,
                 const Samples& samples, const DatasetWriterOptions& options) {
  const auto written = WriteSamples(DatasetWriter::Create(files, directory, MakeSchema(columns), options), samples);
  ASSERT_TRUE(written.ok()) << written.status();
}

ConvertOptions SmallOptions(Container to, uint64_t shard_samples) {
  ConvertOptions options;
  options.to = to;
  options.pack.dataset = SmallShards(shard_samples, 3);
  options.mds.shard_samples = options.webdataset.shard_samples = shard_samples;
  return options;
}

absl::Status ConvertTo(FileSystem& files, const std::string& input, const std::string& output,
                       const ConvertOptions& options) {
  return Convert(files, input, output, options).status();
}

absl::Status ConvertTo(FileSystem& files, const std::string& input, const std::string& output, Container to) {
  return ConvertTo(files, input, output, SmallOptions(to));
}

std::vector<Column> ColumnsOf(FileSystem& files, const std::string& path) {
  const auto dataset = DatasetReader::Open(files, path);
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  return dataset.ok() ? (*dataset)->columns() : std::vector<Column>();
}

std::string ColumnText(FileSystem& files, const std::string& path) {
  std::string text;
  for (const Column& column : ColumnsOf(files, path)) {
    text += (text.empty() ? "" : ", ") + column.name + " " + std::string(TypeName(column.type));
    if (column.type == Type::kNdarray) text += ":" + std::string(TypeName(column.dtype));
    for (const uint64_t dimension : column.shape.value_or(std::vector<uint64_t>()))
      text += ":" + std::to_string(dimension);
    if (column.nullable) text += "?";
    if (column.is_key) text += "*";
  }
  return text;
}

void WriteThree(FileSystem& files, const std::string& directory, std::vector<Column> columns,
                const std::vector<std::vector<std::string>>& values) {
  Samples samples;
  for (size_t i = 0; i < 3; ++i) {
    Row row = {{"key", "s" + std::to_string(i)}, {"text", "text " + std::to_string(i)}};
    for (size_t c = 0; c < columns.size(); ++c) row[columns[c].name] = values[c][i % values[c].size()];
    samples.push_back(std::move(row));
  }
  columns.insert(columns.begin(), {KeyColumn(), MakeColumn("text", Type::kUtf8)});
  WriteShards(files, directory, columns, samples);
}

std::string DatasetGenerator::RandomBytes(uint64_t count) {
  std::string bytes;
  for (uint64_t i = 0; i < count; ++i) bytes += static_cast<char>(random_.Next());
  return bytes;
}

Column DatasetGenerator::MakeRandomColumn(std::string name, Target target) {
  static constexpr std::array kTypes = {
      Type::kBytes, Type::kUtf8,   Type::kJson,      Type::kJpeg,       Type::kPng,         Type::kImage,
      Type::kI8,    Type::kI16,    Type::kI32,       Type::kI64,        Type::kU8,          Type::kU16,
      Type::kU32,   Type::kU64,    Type::kF16,       Type::kBf16,       Type::kF32,         Type::kF64,
      Type::kBool,  Type::kF8E4M3, Type::kComplex64, Type::kTimestampS, Type::kTimestampNs, Type::kRle};
  constexpr size_t kFirstScalar = 6;
  const auto suits = [&](Type type) {
    if (type == Type::kRle) return !target.mds && !target.tar;
    return !target.mds ||
           (type != Type::kBf16 && type != Type::kBool && type != Type::kF8E4M3 && type != Type::kComplex64);
  };
  const auto pick = [&](size_t begin, size_t end) {
    while (true) {
      const Type type = kTypes[begin + Below(end - begin)];
      if (suits(type)) return type;
    }
  };
  Column column = MakeColumn(std::move(name), pick(0, kTypes.size()));
  if (Chance(25)) {
    column.type = Type::kNdarray;
    column.dtype = pick(kFirstScalar, kTypes.size() - 1);
    if (Chance(50)) {
      std::vector<uint64_t>& shape = column.shape.emplace();
      for (uint64_t rank = (target.mds ? 1 : 0) + Below(3); rank-- > 0;)
        shape.push_back((target.mds ? 1 : 0) + Below(4));
    }
  }
  column.nullable = Chance(50);
  if (Chance(50)) column.codec = Codec::kZstd;
  return column;
}

std::string DatasetGenerator::MakeRandomValue(const Column& column, Target target) {
  const auto elements = [&](Type type, uint64_t count) {
    std::string bytes = RandomBytes(count * ScalarSize(type));
    if (type == Type::kBool) {
      for (char& c : bytes) c &= 1;
    }
    return bytes;
  };
  switch (column.type) {
    case Type::kUtf8:
      return std::string("t\xc3\xa4xt ") + std::to_string(Below(1000));
    case Type::kJson:
      return "{\"n\": " + std::to_string(Below(1000)) + "}";
    case Type::kRle:
      return MaskValue(3, 4, static_cast<uint32_t>(Below(13)));
    case Type::kNdarray: {
      std::vector<uint64_t> shape;
      if (column.shape) {
        shape = *column.shape;
      } else {
        for (uint64_t rank = (target.mds ? 1 : 0) + Below(3); rank-- > 0;)
          shape.push_back((target.mds ? 1 : 0) + Below(4));
        if (!shape.empty() && Chance(5)) shape[0] = 300;  // dimensions of two bytes
      }
      const uint64_t count = std::accumulate(shape.begin(), shape.end(), uint64_t{1}, std::multiplies<>());
      const std::string bytes = elements(column.dtype, count);
      return column.shape ? bytes : ArrayValue(column.dtype, shape, bytes);
    }
    default:
      return IsByteString(column.type) ? RandomBytes(Below(Chance(5) ? 3000 : 60)) : elements(column.type, 1);
  }
}

void DatasetGenerator::Make(Target target) {
  columns_.clear();
  samples_.clear();
  std::vector<std::string> names = {"b",
                                    "a.c",
                                    "x.npy",
                                    "y.json",
                                    "t.txt",
                                    "image.jpg",
                                    "\xe6\x97\xa5",
                                    "a-b",
                                    "sp ace",
                                    "/key",
                                    "cls",
                                    "jpg",
                                    "json",
                                    "0",
                                    "long" + std::string(120, 'n'),
                                    "e.",
                                    ".f"};
  if (!target.tar) names.insert(names.end(), {"Upper", "a/b", "X.JPG", "/"});
  const bool has_key = Chance(75);
  const std::string key_name = Chance(70) ? "key" : "Name of it";
  if (has_key) columns_.push_back({.name = key_name, .type = Type::kUtf8, .codec = Codec::kZstd, .is_key = true});
  for (uint64_t count = 1 + Below(7); count-- > 0;) {
    const size_t place = Below(names.size());
    Column column = MakeRandomColumn(names[place], target);
    // The name can be an extension only if it stays unchanged.
    if (column.name == "/key") column.type = Type::kBytes, column.dtype = Type::kU8, column.shape.reset();
    columns_.push_back(std::move(column));
    names.erase(names.begin() + static_cast<ptrdiff_t>(place));
  }
  columns_.back().nullable = false;  // a tar has no sample without values
  if (has_key) std::swap(columns_[0], columns_[Below(columns_.size())]);
  // Of a nullable column, some values are absent, or none, or all.
  std::map<std::string, int> absent;
  for (const Column& column : columns_)
    absent[column.name] = !column.nullable || target.mds ? 0 : static_cast<int>(Below(3)) * 50;
  for (uint64_t i = 0, count = Below(40) + 1; i < count; ++i) {
    Row row;
    for (const Column& column : columns_) {
      if (column.is_key) {
        row[column.name] = (Chance(30) ? "d\xc3\xa9/e.f/" : "") + std::string("k") + std::to_string(i * 37 % 100);
      } else if (!Chance(absent[column.name])) {
        row[column.name] = MakeRandomValue(column, target);
      }
    }
    samples_.push_back(std::move(row));
  }
}

DatasetWriterOptions DatasetGenerator::Options() {
  DatasetWriterOptions options = SmallShards(Chance(50) ? 1 + Below(10) : 0, static_cast<uint32_t>(1 + Below(8)));
  // Converting ends shards by bytes of its input, which differ by container, so here numbers of samples alone do.
  options.shard_size = 1 << 20;
  options.shard.metadata["a"] = "b";
  return options;
}

}  // namespace shardkit::test
