#include "shardkit/change.h"

#include <utility>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "dataset/change/dataset_update.h"
#include "dataset/read/removed_samples.h"
#include "dataset/select/selection.h"

namespace shardkit {

absl::StatusOr<RemoveReport> RemoveSamples(FileSystem& file_system, const std::string& directory,
                                           const SampleSelection& selection, const SelectionOptions& options) {
  return Guarded("removing samples", [&]() -> absl::StatusOr<RemoveReport> {
    if (selection.where.empty() && !selection.keys && selection.ranges.empty()) {
      return InvalidArgument(directory, ": nothing says which samples are to be removed: where, keys or ranges");
    }
    SHARDKIT_ASSIGN_OR_RETURN(const auto update, dataset::BeginChange(file_system, directory));
    Manifest manifest = update->before();
    dataset::RemovedList before;
    if (manifest.removed) {
      SHARDKIT_ASSIGN_OR_RETURN(
          before, dataset::RemovedList::Read(file_system, directory, *manifest.removed, manifest.sample_count));
    }
    SHARDKIT_ASSIGN_OR_RETURN(const dataset::Selected selected,
                              dataset::SelectSamples(file_system, directory, selection, options));
    const dataset::SampleSet& chosen = selected.parts[0];
    RemoveReport report{.selection = selected.report,
                        .removed = before.size() + selected.report.selected,
                        .samples = chosen.samples() - selected.report.selected,
                        .generation = manifest.generation};
    if (selected.report.selected == 0) {
      SHARDKIT_RETURN_IF_ERROR(update->Release());
      return report;
    }
    manifest.BeginGeneration({.name = "remove", .arguments = {{"samples", {StrCat(selected.report.selected)}}}});
    report.generation = manifest.generation;
    SHARDKIT_ASSIGN_OR_RETURN(
        manifest.removed,
        dataset::WriteRemoved(file_system, directory, NameInGeneration(kRemovedName, manifest.generation),
                              before.With([&](uint64_t seen) { return chosen.Has(seen); }, manifest.sample_count)));
    SHARDKIT_RETURN_IF_ERROR(update->Publish(&manifest));
    return report;
  });
}

}  // namespace shardkit
