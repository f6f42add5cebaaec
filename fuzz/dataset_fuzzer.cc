// A dataset's manifest, its segments and two shards, each with any bytes. When the dataset passes validation, reads
// through the index give the same as reads without it. A readable manifest is readable again after it is written.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "dataset_files.h"
#include "shardkit/dataset_writer.h"
#include "shardkit/validate.h"
#include "support/file_sections.h"
#include "support/memory_bound.h"
#include "support/require.h"
#include "support/rows.h"

namespace {

using namespace shardkit;
using namespace shardkit::fuzz;

void CheckManifest(FileSystem& files) {
  const auto manifest = ReadManifest(files, "/d");
  if (!manifest.ok()) return;
  const std::string text = FormatManifest(*manifest);
  const std::string before = *files.ReadFile("/d/dataset.json", UINT64_MAX);
  WriteWhole(files, "/d/dataset.json", text);
  const auto again = ReadManifest(files, "/d");
  WriteWhole(files, "/d/dataset.json", before);
  RequireOk(again.status(), "a manifest that was formatted");
  Require(again->shards == manifest->shards, "a manifest has its shards when it was formatted");
  Require(FormatManifest(*again) == text, "a manifest is formatted as it was parsed");
}

// Where only the segments list the shards, nothing can be read without them: the manifest lists them before.
void RemoveSegment(FileSystem& files) {
  if (const auto manifest = ReadManifest(files, "/d"); manifest.ok()) {
    WriteWhole(files, "/d/dataset.json", FormatManifest(*manifest));
  }
  (void)files.RemoveFile("/d/dataset.segment");
}

// Whether all columns can be read: validation passes those of unknown codecs, too.
bool CodecsAreKnown(FileSystem& files) {
  const auto manifest = ReadManifest(files, "/d");
  return manifest.ok() && std::ranges::all_of(manifest->schema.columns(),
                                              [](const Column& column) { return IsKnownCodec(column.codec); });
}

// Reads values in many ways and allows errors. Does not compare the results: they agree only when the index is sound.
void ReadValues(const DatasetReader& dataset) {
  BlockBuffer buffer;
  for (uint64_t sample = 0; sample < dataset.sample_count() && sample < kMostRows; ++sample) {
    for (size_t column = 0; column < dataset.columns().size(); ++column)
      (void)dataset.ReadValue(sample, column, &buffer);
  }
  for (size_t shard = 0; shard < dataset.shard_count() && shard < kMostRows; ++shard) (void)dataset.Shard(shard);
  const auto manifest = dataset.ReadManifest();
  for (size_t shard = 0; manifest.ok() && shard < manifest->shards.size() && shard < kMostRows; ++shard) {
    const auto listed = dataset.Shard(shard);
    RequireOk(listed.status(), "a shard of a list that was read whole");
    Require(*listed == manifest->shards[shard], "a shard is the same alone and among all");
  }
  (void)dataset.FindKey("key", &buffer);
  (void)dataset.ReadStatistics();
  const auto blocks = dataset.ReadBlockDirectory();
  if (!blocks.ok()) return;
  BlockView view;
  for (const DatasetBlock& block : *blocks) (void)dataset.ReadBlock(block.shard, block.block, &buffer, &view);
}

// Where the keys of the first samples are found.
std::vector<uint64_t> FindKeys(const DatasetReader& dataset) {
  std::vector<uint64_t> found;
  const std::optional<size_t> column = dataset.summary().schema.key_column();
  if (!column) return found;
  BlockBuffer buffer;
  for (uint64_t sample = 0; sample < dataset.sample_count() && sample < kMostRows; ++sample) {
    const auto value = dataset.ReadValue(sample, *column, &buffer);
    RequireOk(value.status(), "reading the key of a sound sample");
    const std::string key(value->value_or(""));
    const auto place = dataset.FindKey(key, &buffer);
    RequireOk(place.status(), "looking for a key");
    Require(place->has_value() && **place <= sample, "a key that is there is found");
    found.push_back(**place);
  }
  return found;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryBound bound(size);
  const std::unique_ptr<FileSystem> files = NewMemoryFileSystem();
  WriteSections(*files, "/d", kDatasetFiles, {reinterpret_cast<const char*>(data), size});
  CheckManifest(*files);
  const auto report = Validate(*files, "/d");
  const bool sound = report.ok() && report->ok() && CodecsAreKnown(*files);
  std::optional<std::vector<Row>> indexed;
  std::vector<uint64_t> found;
  {
    const auto dataset = DatasetReader::Open(*files, "/d", BoundedOptions());
    Require(dataset.ok() || !sound, "what validation passes can be opened");
    if (!dataset.ok()) return 0;
    ReadValues(**dataset);
    if (sound) indexed = ReadRows(**dataset);
    if (sound) found = FindKeys(**dataset);
    Require(!sound || indexed.has_value(), "what validation passes can be read");
  }
  RemoveSegment(*files);
  const auto rows = ReadRows(*files, "/d", sound ? Records::kSound : Records::kAny);
  if (sound) Require(rows == indexed, "a dataset that validation passes reads alike with its index and without");
  if (sound) {
    const auto dataset = DatasetReader::Open(*files, "/d", BoundedOptions());
    RequireOk(dataset.status(), "opening a dataset without its segment");
    Require(FindKeys(**dataset) == found, "keys are found alike with the keys of the segment and without");
  }
  if (!RebuildIndex(*files, "/d").ok()) return 0;
  const auto rebuilt = Validate(*files, "/d");
  RequireOk(rebuilt.status(), "validating a dataset whose index was rebuilt");
  Require(rebuilt->ok() || !sound, "a sound dataset is sound when its index was rebuilt");
  if (rebuilt->ok() && CodecsAreKnown(*files))
    Require(ReadRows(*files, "/d").has_value(), "a dataset with a rebuilt index can be read");
  return 0;
}
