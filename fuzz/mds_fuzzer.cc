// An MDS dataset, its index and shards (plain and compressed), any bytes each; and each shard alone.

#include <cstdint>
#include <memory>
#include <string>

#include "mds_files.h"
#include "shardkit/validate.h"
#include "support/file_sections.h"
#include "support/memory_bound.h"
#include "support/require.h"
#include "support/rows.h"

using namespace shardkit;
using namespace shardkit::fuzz;

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
  return 0;
}
