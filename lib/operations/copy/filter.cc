#include "shardkit/copy.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "dataset/change/merge_parts.h"
#include "dataset/manifest_text.h"
#include "dataset/patterns.h"
#include "dataset/select/selection.h"
#include "dataset/write/dataset_job.h"
#include "operations/copy/conversion.h"
#include "operations/pack/packer.h"

namespace shardkit {
namespace {

SelectionOptions SelectionOptionsOf(const FilterOptions& options) {
  const DatasetWriterOptions& job = options.pack.dataset;
  return {{job.threads, job.cancellation, options.selecting}, options};
}

absl::Status CheckOptions(const FilterOptions& options) {
  if (!options.pack.skip_errors) return absl::OkStatus();
  return InvalidArgument("skip_errors: not for filtering, which decides on every sample; repair the dataset first");
}

// Copies the samples of the set. `job` says which they are, because a run is resumed only with the same.
absl::StatusOr<PackReport> Copy(FileSystem& file_system, const std::string& input, const std::string& output,
                                const dataset::SampleSet& samples, const std::string& job,
                                const FilterOptions& options) {
  ConvertOptions convert{options};
  convert.pack.dataset.job += job;
  SHARDKIT_ASSIGN_OR_RETURN(const auto source, operations::OpenConversion(file_system, {input}, convert));
  SHARDKIT_RETURN_IF_ERROR(source->Choose(samples));
  return operations::ConvertToShards(file_system, *source, output, convert);
}

// Makes the dataset of the samples of the set by reference. `parts` is the input, read before they were selected.
absl::StatusOr<PackReport> Refer(FileSystem& file_system, const std::vector<dataset::SegmentPart>& parts,
                                 const std::string& output, const dataset::SampleSet& samples,
                                 const FilterOptions& options) {
  dataset::LinkOptions link{.keep_repeated_keys = true,
                            .by_reference = true,
                            .chosen = &samples,
                            .cancellation = options.pack.dataset.cancellation};
  if (options.pack.progress) {
    link.progress = [&](uint64_t done, uint64_t total) {
      options.pack.progress({.samples = done, .total_samples = total});
    };
  }
  PackReport report;
  SHARDKIT_ASSIGN_OR_RETURN(report.manifest, dataset::LinkParts(file_system, parts, output, link));
  report.samples = report.manifest.seen_samples();
  return report;
}

// The input as it is before its samples are selected; nothing unless datasets are made of it by reference.
absl::StatusOr<std::vector<dataset::SegmentPart>> InputParts(FileSystem& file_system, const std::string& input,
                                                             const FilterOptions& options) {
  if (!options.by_reference) return std::vector<dataset::SegmentPart>();
  SHARDKIT_ASSIGN_OR_RETURN(const std::vector<std::string> parts, dataset::ExpandPatterns(file_system, {input}));
  return dataset::ReadParts(file_system, parts);
}

absl::Status CheckUnchanged(FileSystem& file_system, const std::vector<dataset::SegmentPart>& parts) {
  for (const dataset::SegmentPart& part : parts) {
    SHARDKIT_ASSIGN_OR_RETURN(const Manifest now, dataset::ReadManifestText(file_system, part.directory));
    if (now.checksum != part.manifest.checksum) {
      return FailedPrecondition(part.directory, ": has changed while its samples were selected; start again");
    }
  }
  return absl::OkStatus();
}

std::string JobOf(const SampleSelection& selection, uint64_t share) {
  std::string job = StrCat("\nfilter ", share, " ", selection.seed);
  for (const auto& [begin, end] : selection.ranges) job += StrCat(" ", begin, ":", end);
  if (selection.keys) {
    StreamingHash hash;
    for (const std::string& key : *selection.keys) hash.Update(StrCat(key.size(), " ", key));
    job += StrCat(" keys ", hash.Digest());
  }
  return StrCat(job, " where ", selection.where);
}

// Where each part ends, in steps of a share.
absl::StatusOr<std::vector<uint64_t>> EndsOf(const std::vector<SplitPart>& parts) {
  std::vector<uint64_t> ends;
  uint64_t end = 0;
  for (const SplitPart& part : parts) {
    const bool is_name = !part.name.empty() && part.name != "." && part.name != ".." &&
                         part.name.find('/') == std::string::npos && part.name.find('\0') == std::string::npos;
    if (!is_name) return InvalidArgument("part \"", part.name, "\": is no name of a directory");
    for (const SplitPart& other : parts) {
      if (&other == &part) break;
      if (other.name == part.name) return InvalidArgument("part \"", part.name, "\": is named twice");
    }
    SHARDKIT_ASSIGN_OR_RETURN(const uint64_t steps,
                              dataset::ShareSteps(part.share, StrCat("part \"", part.name, "\"")));
    end += steps;
    if (end > dataset::kWholeShare) return InvalidArgument("part \"", part.name, "\": the shares exceed 100% together");
    ends.push_back(end);
  }
  if (ends.empty()) return InvalidArgument("no part is named");
  return ends;
}

}  // namespace

absl::StatusOr<FilterReport> Filter(FileSystem& file_system, const std::string& input, const std::string& output,
                                    const SampleSelection& selection, const FilterOptions& options) {
  return Guarded("filtering", [&]() -> absl::StatusOr<FilterReport> {
    SHARDKIT_RETURN_IF_ERROR(CheckOptions(options));
    SHARDKIT_ASSIGN_OR_RETURN(const uint64_t share, dataset::ShareSteps(selection.share, "sample"));
    SHARDKIT_ASSIGN_OR_RETURN(const auto parts, InputParts(file_system, input, options));
    SHARDKIT_ASSIGN_OR_RETURN(dataset::Selected selected,
                              dataset::SelectSamples(file_system, input, selection, SelectionOptionsOf(options)));
    FilterReport report{.selection = selected.report};
    SHARDKIT_RETURN_IF_ERROR(CheckUnchanged(file_system, parts));
    SHARDKIT_ASSIGN_OR_RETURN(
        report.pack, options.by_reference
                         ? Refer(file_system, parts, output, selected.parts[0], options)
                         : Copy(file_system, input, output, selected.parts[0], JobOf(selection, share), options));
    return report;
  });
}

absl::StatusOr<SplitReport> Split(FileSystem& file_system, const std::string& input, const std::string& output,
                                  const std::vector<SplitPart>& parts, uint64_t seed, const FilterOptions& options) {
  return Guarded("splitting", [&]() -> absl::StatusOr<SplitReport> {
    SHARDKIT_RETURN_IF_ERROR(CheckOptions(options));
    SHARDKIT_ASSIGN_OR_RETURN(const std::vector<uint64_t> ends, EndsOf(parts));
    SHARDKIT_ASSIGN_OR_RETURN(const auto inputs, InputParts(file_system, input, options));
    SampleSelection selection;
    selection.seed = seed;
    SHARDKIT_ASSIGN_OR_RETURN(const dataset::Selected selected,
                              dataset::SelectParts(file_system, input, selection, ends, SelectionOptionsOf(options)));
    SHARDKIT_RETURN_IF_ERROR(CheckUnchanged(file_system, inputs));
    SplitReport report{.selection = selected.report};
    const auto path = [&](size_t part) { return JoinPath(output, parts[part].name); };
    // Found before anything is written, and before what is there could be taken for a part of this run.
    for (size_t i = 0; i < parts.size() && !options.pack.dataset.resume; ++i) {
      if (file_system.Stat(JoinPath(path(i), kManifestName)).ok()) {
        return absl::AlreadyExistsError(StrCat(path(i), ": holds a dataset already"));
      }
    }
    const bool was_there = file_system.Stat(output).ok();
    SHARDKIT_RETURN_IF_ERROR(CreateDirectories(file_system, output));
    for (size_t i = 0; i < parts.size(); ++i) {
      const std::string job = StrCat("\nsplit ", seed, " ", i == 0 ? 0 : ends[i - 1], " ", ends[i]);
      auto done = options.by_reference ? Refer(file_system, inputs, path(i), selected.parts[i], options)
                                       : Copy(file_system, input, path(i), selected.parts[i], job, options);
      if (!done.ok()) {
        // The first error is reported, even when the cleanup fails too.
        for (size_t k = 0; k < i && !options.pack.keep_on_cancel; ++k) (void)RemoveTree(file_system, path(k));
        if (!was_there) (void)file_system.RemoveDirectory(output);  // works only when it is empty
        return done.status();
      }
      report.parts.push_back(*std::move(done));
    }
    return report;
  });
}

}  // namespace shardkit
