// A tar, plain and compressed, with optional indexes beside it, each with any bytes. A tar gives the same samples
// without an index, through an index made of it, and compressed; DALI's index can be made of no other.

#include <cstdint>
#include <memory>
#include <string>

#include "shardkit/tar_index.h"
#include "shardkit/validate.h"
#include "support/file_sections.h"
#include "support/gzip.h"
#include "support/memory_bound.h"
#include "support/require.h"
#include "support/rows.h"
#include "tar_files.h"

namespace {

using namespace shardkit;
using namespace shardkit::fuzz;

void ReadAll(FileSystem& files, const std::string& path) {
  const auto rows = ReadRows(files, path, Records::kAny);
  const auto report = Validate(files, path);
  if (report.ok() && report->ok()) Require(rows.has_value(), "what validation passes can be read");
}

void FindKeys(FileSystem& files, const std::vector<Row>& rows) {
  const auto dataset = DatasetReader::Open(files, "/d/x.tar", BoundedOptions());
  RequireOk(dataset.status(), "a tar that was read, opened again");
  const auto key = (*dataset)->summary().schema.key_column();
  BlockBuffer buffer;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto found = (*dataset)->FindKey(*rows[i][*key], &buffer);
    RequireOk(found.status(), "finding a key through an index");
    Require(*found && **found <= i && rows[**found][*key] == rows[i][*key], "a key is found where it stands first");
  }
}

void CompareIndexes(FileSystem& files) {
  // shardkit.json may be damaged, and building an index does not use it.
  for (const std::string_view name : {"x.tar.shardidx", "shardkit.json"}) (void)files.RemoveFile(JoinPath("/d", name));
  const auto rows = ReadRows(files, "/d/x.tar");
  const auto dali = BuildDaliIndex(files, "/d/x.tar");
  Require(!dali.ok() || dali->problem_count > 0 || rows.has_value(),
          "a tar that DALI's index can be made of can be read");
  const auto built = BuildTarIndex(files, "/d/x.tar");
  if (built.ok()) {
    Require(rows.has_value(), "a tar that an index can be made of can be read");
    Require(ReadRows(files, "/d/x.tar") == rows, "a tar says the same through its index");
    FindKeys(files, *rows);
  }
  if (!rows) return;
  // Level 0 is the cheapest. To libarchive it makes no difference that the data is stored.
  WriteWhole(files, "/d/z.tar.gz", Gzip(files.ReadFile("/d/x.tar", uint64_t{1} << 30).value(), /*level=*/0));
  Require(ReadRows(files, "/d/z.tar.gz") == rows, "a tar says the same compressed");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryBound bound(size);
  const std::unique_ptr<FileSystem> files = NewMemoryFileSystem();
  WriteSections(*files, "/d", kTarFiles, {reinterpret_cast<const char*>(data), size});
  for (const std::string_view name : {"x.tar", "y.tar.gz", "y.tar.zst"}) {
    const std::string path = JoinPath("/d", name);
    if (files->Stat(path).ok()) ReadAll(*files, path);
  }
  if (files->Stat("/d/x.tar").ok()) CompareIndexes(*files);
  ReadAll(*files, "/d");
  return 0;
}
