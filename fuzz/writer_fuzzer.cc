// Random samples and random options, written as a Shardkit dataset, as MDS and as WebDataset, read back and validated.
// While writing, the job may be suspended and resumed.

#include <cstdint>
#include <memory>
#include <string>

#include "shardkit/dataset_writer.h"
#include "shardkit/validate.h"
#include "support/memory_bound.h"
#include "support/require.h"
#include "support/samples.h"

namespace {

using namespace shardkit;
using namespace shardkit::fuzz;

void RequireSound(FileSystem& files) {
  const auto report = Validate(files, "/d");
  RequireOk(report.status(), "validating a dataset that was written");
  for (const Problem& problem : report->problems)
    std::fprintf(stderr, "%s: %s\n", problem.path.c_str(), problem.message.c_str());
  Require(report->ok(), "a dataset that was written is sound");
}

void WriteNative(Input& input) {
  DatasetWriterOptions options;
  options.shard.alignment = 64U << input.Below(7);
  options.shard.block_size = 1 + input.Number(2);
  options.shard.max_block_samples = 1 + input.Below(50);
  options.sync = input.Chance();
  options.shard_size = 1 + input.Number(2);
  options.shard_samples = input.Below(20);
  const bool suspend = input.Chance();
  const Schema schema = TakeSchema(input, Columns::kAny);
  const std::vector<Row> rows = TakeRows(input, schema);
  const auto files = NewMemoryFileSystem();
  {
    const auto writer = DatasetWriter::Create(*files, "/d", schema, options);
    RequireOk(writer.status(), "creating a dataset");
    RequireOk(AppendRows(schema, rows, **writer), "appending samples");
    if (suspend) {
      RequireOk((*writer)->Suspend(), "suspending");
    } else {
      RequireOk((*writer)->Finish().status(), "finishing");
    }
  }
  if (suspend) {
    options.resume = true;
    const auto writer = DatasetWriter::Create(*files, "/d", schema, options);
    RequireOk(writer.status(), "resuming");
    const uint64_t from = (*writer)->resume_position();
    Require(from <= rows.size(), "resuming goes on within the input");
    for (uint64_t i = from; i < rows.size(); ++i) {
      RequireOk(AppendRows(schema, {rows[i]}, **writer), "appending samples after resuming");
    }
    RequireOk((*writer)->Finish().status(), "finishing after resuming");
  }
  RequireRows(*files, "/d", schema, rows);
  RequireSound(*files);
}

void WriteMds(Input& input) {
  MdsWriterOptions options;
  options.shard_size = 256 + input.Number(2);
  options.shard_samples = input.Below(20);
  if (input.Chance()) options.compression = "zstd:" + std::to_string(1 + input.Below(5));
  if (input.Chance()) options.hashes = {"xxh64"};
  const Schema schema = TakeSchema(input, Columns::kAny);
  const std::vector<Row> rows = TakeRows(input, schema);
  const auto files = NewMemoryFileSystem();
  {
    const auto writer = CreateMdsWriter(*files, "/d", schema, options);
    if (!writer.ok()) {
      Require(writer.status().code() == absl::StatusCode::kInvalidArgument,
              "what MDS cannot hold is the caller's mistake");
      return;
    }
    const absl::Status appended = AppendRows(schema, rows, **writer);
    if (!appended.ok()) {
      Require(appended.code() == absl::StatusCode::kInvalidArgument,
              "a value that MDS cannot hold is the caller's mistake");
      return;
    }
    RequireOk((*writer)->Finish().status(), "finishing an MDS dataset");
  }
  RequireSound(*files);
  if (rows.empty()) return;  // MDS has no columns without shards
  RequireRows(*files, "/d", schema, rows);
}

void WriteTars(Input& input) {
  WebDatasetWriterOptions options;
  options.shard_size = 2048 + input.Number(2);
  options.shard_samples = input.Below(20);
  options.index = input.Chance();
  const Schema schema = TakeSchema(input, Columns::kByteStrings);
  std::vector<Row> rows = TakeRows(input, schema);
  const auto files = NewMemoryFileSystem();
  {
    const auto writer = CreateWebDatasetWriter(*files, "/d", schema, options);
    RequireOk(writer.status(), "creating tars");
    const absl::Status appended = AppendRows(schema, rows, **writer);
    if (!appended.ok()) {
      Require(appended.code() == absl::StatusCode::kInvalidArgument,
              "a sample that a tar cannot hold is the caller's mistake");
      return;
    }
    RequireOk((*writer)->Finish().status(), "finishing tars");
  }
  RequireSound(*files);
  if (!rows.empty()) RequireRows(*files, "/d", schema, rows);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryBound bound(size);
  Input input(data, size);
  switch (input.Below(3)) {
    case 0:
      WriteNative(input);
      break;
    case 1:
      WriteMds(input);
      break;
    default:
      WriteTars(input);
  }
  return 0;
}
