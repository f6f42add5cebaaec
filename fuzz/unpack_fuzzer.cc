// Hostile keys and column names. Unpacking writes only below its directory, and it writes the stored values.
//
// Input: a byte that chooses the source named in the dataset, then samples. A sample is a byte with the length of the
// key, the key, and in the same way the names of two columns.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "shardkit/pack.h"
#include "support/input.h"
#include "support/memory_bound.h"
#include "support/require.h"

namespace {

using namespace shardkit;
using namespace shardkit::fuzz;

// The number of files below /base/out. A file elsewhere is a finding, except the dataset's files.
uint64_t CountFiles(FileSystem& files, const std::string& directory, bool inside) {
  const auto entries = files.List(directory);
  RequireOk(entries.status(), "listing a directory in memory");
  uint64_t count = 0;
  for (const DirectoryEntry& entry : *entries) {
    const std::string path = JoinPath(directory, entry.name);
    if (path == "/in") continue;
    const bool below = inside || path == "/base/out";
    Require(below || path == "/base", "nothing is written outside");
    if (entry.type == FileType::kDirectory) {
      count += CountFiles(files, path, below);
    } else {
      Require(below, "no file is written outside");
      ++count;
    }
  }
  return count;
}

std::optional<Schema> TakeNames(Input& input) {
  std::vector<Column> columns(1);
  columns[0].name = "key";
  columns[0].type = Type::kUtf8;
  columns[0].is_key = true;
  for (int i = 0; i < 2; ++i) {
    Column& column = columns.emplace_back();
    column.name = input.Bytes(input.Byte());
    column.nullable = true;
  }
  auto schema = Schema::Create(std::move(columns));
  return schema.ok() ? std::optional<Schema>(*std::move(schema)) : std::nullopt;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryBound bound(size);
  Input input(data, size);
  const auto files = NewMemoryFileSystem();
  DatasetWriterOptions options;
  const uint32_t source = input.Below(5);
  if (source > 0) {
    options.shard.metadata["shardkit.source"] = std::array{"files", "webdataset", "imagefolder", "sa1b"}[source - 1];
  }
  const std::optional<Schema> schema = TakeNames(input);
  if (!schema) return 0;
  uint64_t samples = 0;
  {
    const auto writer = DatasetWriter::Create(*files, "/in", *schema, options);
    if (!writer.ok()) return 0;
    while (!input.empty() && samples < 20) {
      const std::string key(input.Bytes(input.Byte()));
      const uint8_t present = input.Byte();
      Sample sample;
      sample.key = key;
      for (size_t i = 0; i < 2; ++i) {
        if ((present >> i & 1) != 0) sample.fields.push_back({&(*schema)[i + 1], Value("content")});
      }
      if ((*writer)->Append(sample, samples + 1).ok()) ++samples;
    }
    RequireOk((*writer)->Finish().status(), "finishing");
  }
  const auto dataset = DatasetReader::Open(*files, "/in");
  RequireOk(dataset.status(), "opening what was written");
  RequireOk(CreateDirectories(*files, "/base"), "creating a directory in memory");
  const auto report = Unpack(*files, **dataset, "/base/out");
  const uint64_t written = CountFiles(*files, "/", false);
  if (report.ok()) Require(report->files == written, "as many files are there as were reported");
  return 0;
}
