// An MDS dataset: its index and its shards (plain and compressed), each with any bytes. Also reads each shard alone,
// and merges indexes.

#include <cstdint>
#include <memory>
#include <string>

#include "mds_files.h"
#include "shardkit/copy.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/validate.h"
#include "support/file_sections.h"
#include "support/memory_bound.h"
#include "support/require.h"
#include "support/rows.h"

using namespace shardkit;
using namespace shardkit::fuzz;

namespace {

// Puts the dataset's files into two folders and merges them. The result lists the samples of both.
void CheckMerge(FileSystem& files, std::string_view input) {
  WriteSections(files, "/m/a", kMdsFiles, input);
  WriteSections(files, "/m/b", kMdsFiles, input);
  const auto merged = MergeDatasets(files, {"/m/a", "/m/b"}, "/m");
  if (!merged.ok()) {
    Require(!files.Stat("/m/index.json").ok(), "a merge that failed leaves no index");
    return;
  }
  (void)files.RemoveFile("/m/a/shardkit.json");  // may be damaged; the merged dataset does not have it
  const auto part = DatasetReader::Open(files, "/m/a"), both = DatasetReader::Open(files, "/m");
  Require(part.ok() == both.ok(), "a merged index is read as its parts are");
  if (!part.ok()) return;
  Require((*both)->sample_count() == 2 * (*part)->sample_count(), "a merged index has the samples of its parts");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryBound bound(size);
  const std::unique_ptr<FileSystem> files = NewMemoryFileSystem();
  WriteSections(*files, "/d", kMdsFiles, {reinterpret_cast<const char*>(data), size});
  for (const std::string_view path : {"/d", "/d/shard.00000.mds", "/d/folder", "/d/folder/shard.00000.mds"}) {
    if (!files->Stat(std::string(path)).ok()) continue;
    const auto rows = ReadRows(*files, std::string(path));
    const auto report = Validate(*files, std::string(path));
    if (report.ok() && report->ok()) Require(rows.has_value(), "what validation passes can be read");
  }
  CheckMerge(*files, {reinterpret_cast<const char*>(data), size});
  return 0;
}
