// Files that hold many samples, each with any bytes, are packed: what is packed is valid, and no sample is lost unsaid.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pack_files.h"
#include "shardkit/pack.h"
#include "shardkit/source.h"
#include "shardkit/validate.h"
#include "support/file_sections.h"
#include "support/memory_bound.h"
#include "support/require.h"
#include "support/rows.h"

namespace {

using namespace shardkit;
using namespace shardkit::fuzz;

absl::StatusOr<PackReport> PackFile(FileSystem& files, const std::vector<std::string>& inputs,
                                    const std::string& output, bool skip_errors) {
  SourceOptions from;
  from.file_system = &files;
  from.skip_errors = skip_errors;
  const auto source = OpenSource("auto", inputs, from);
  if (!source.ok()) return source.status();
  PackOptions to;
  to.skip_errors = skip_errors;
  to.dataset.threads = 1;
  return Pack(files, **source, output, to);
}

void Check(FileSystem& files, const std::vector<std::string>& inputs) {
  const auto packed = PackFile(files, inputs, "/out", /*skip_errors=*/false);
  const auto salvaged = PackFile(files, inputs, "/salvaged", /*skip_errors=*/true);
  if (!salvaged.ok()) {
    Require(!packed.ok(), "what is packed without a failure is packed when failures are skipped");
    return;
  }
  ValidateOptions options;
  options.deep = true;
  const auto report = Validate(files, "/salvaged", options);
  RequireOk(report.status(), "validating what was packed");
  Require(report->ok(), "what was packed is valid");
  const auto rows = ReadRows(files, "/salvaged");
  Require(rows.has_value(), "what was packed can be read");
  if (!packed.ok()) return;
  Require(salvaged->skipped.empty(), "nothing is skipped where nothing fails");
  Require(ReadRows(files, "/out") == rows, "skipping failures changes no sample");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryBound bound(size);
  for (const std::string_view name : std::span(kPackFiles).first(kPackPng)) {
    const std::unique_ptr<FileSystem> files = NewMemoryFileSystem();
    WriteSections(*files, "/d", kPackFiles, {reinterpret_cast<const char*>(data), size});
    const std::string path = JoinPath("/d", name);
    if (!files->Stat(path).ok()) continue;
    std::vector<std::string> inputs = {path};
    if (name == kPackFiles[kPackCoco]) {
      inputs.emplace_back("/images");
      RequireOk(files->CreateDirectory("/images"), "making a folder in memory");
      for (const char* image : {"a.ppm", "b.ppm"}) WriteWhole(*files, JoinPath("/images", image), "P6 1 1 255 abc");
      const std::string_view png = kPackFiles[kPackPng];
      if (const auto bytes = files->ReadFile(JoinPath("/d", png), size); bytes.ok()) {
        WriteWhole(*files, JoinPath("/images", png), *bytes);
      }
    }
    Check(*files, inputs);
  }
  return 0;
}
