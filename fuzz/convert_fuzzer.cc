// Converts a small random dataset through MDS and tars and back. Every step gives the same samples, or a clean error.

#include <cstdint>
#include <memory>
#include <string>

#include "shardkit/copy.h"
#include "shardkit/validate.h"
#include "support/memory_bound.h"
#include "support/require.h"
#include "support/samples.h"

namespace {

using namespace shardkit;
using namespace shardkit::fuzz;

// True when the conversion succeeded. A failed conversion must leave nothing behind.
bool ConvertTo(FileSystem& files, const std::string& from, const std::string& to, const ConvertOptions& options) {
  const auto report = Convert(files, from, to, options);
  if (report.ok()) return true;
  const absl::StatusCode code = report.status().code();
  if (code != absl::StatusCode::kInvalidArgument)
    RequireOk(report.status(), "a sound dataset converts, or cannot be mapped");
  Require(!files.Stat(JoinPath(to, "dataset.json")).ok() && !files.Stat(JoinPath(to, "index.json")).ok(),
          "a conversion that failed leaves no dataset");
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryBound bound(size);
  Input input(data, size);
  ConvertOptions options;
  options.mds.shard_size = 256 + input.Number(2);
  options.mds.compression = input.Chance() ? "zstd" : "";
  options.webdataset.shard_samples = input.Below(20);
  options.webdataset.index = input.Chance();
  options.pack.dataset.shard.block_size = 1 + input.Number(2);
  const uint32_t first = input.Below(2);
  const Schema schema = TakeSchema(input, input.Chance() ? Columns::kAny : Columns::kByteStrings);
  const std::vector<Row> rows = TakeRows(input, schema);
  const auto files = NewMemoryFileSystem();
  {
    const auto writer = DatasetWriter::Create(*files, "/0", schema, options.pack.dataset);
    RequireOk(writer.status(), "creating a dataset");
    RequireOk(AppendRows(schema, rows, **writer), "appending samples");
    RequireOk((*writer)->Finish().status(), "finishing");
  }
  // Through both foreign containers, in either order, and back to shards.
  const Container path[] = {first == 0 ? Container::kMds : Container::kWebDataset,
                            first == 0 ? Container::kWebDataset : Container::kMds, Container::kShard};
  std::string at = "/0";
  for (const Container container : path) {
    const std::string to = at + "x";
    options.to = container;
    if (!ConvertTo(*files, at, to, options)) return 0;
    const auto report = Validate(*files, to);
    RequireOk(report.status(), "validating what was converted");
    Require(report->ok(), "what was converted is sound");
    at = to;
  }
  RequireRows(*files, at, schema, rows);
  return 0;
}
