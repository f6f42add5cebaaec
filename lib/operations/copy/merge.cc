#include "shardkit/copy.h"

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "dataset/change/merge_parts.h"
#include "dataset/foreign/mds_merge.h"
#include "dataset/patterns.h"
#include "dataset/write/dataset_job.h"
#include "operations/copy/conversion.h"
#include "operations/pack/packer.h"

namespace shardkit {
namespace {

absl::Status CheckOptions(const MergeOptions& options) {
  if (options.pack.skip_errors) return InvalidArgument("skip_errors: not for merging; repair the datasets first");
  if (options.pack.dataset.append) return InvalidArgument("append: not for merging, which makes a new dataset");
  if (options.copy && options.by_reference) return InvalidArgument("by_reference: not with copy");
  return absl::OkStatus();
}

absl::StatusOr<Manifest> Link(FileSystem& file_system, const std::vector<std::string>& inputs,
                              const std::string& output, const MergeOptions& options) {
  SHARDKIT_ASSIGN_OR_RETURN(const bool mds, dataset::AreMdsParts(file_system, inputs));
  if (mds && !options.by_reference) return dataset::MergeMdsIndexes(file_system, inputs, output);
  SHARDKIT_ASSIGN_OR_RETURN(std::vector<dataset::SegmentPart> parts, dataset::ReadParts(file_system, inputs));
  dataset::LinkOptions link{.keep_repeated_keys = options.keep_repeated_keys,
                            .by_reference = options.by_reference,
                            .cancellation = options.pack.dataset.cancellation};
  if (options.pack.progress) {
    link.progress = [&](uint64_t done, uint64_t total) {
      options.pack.progress({.samples = done, .total_samples = total});
    };
  }
  return dataset::LinkParts(file_system, std::move(parts), output, link);
}

// So that nobody waits for a copy that is refused in the end.
absl::Status CheckInputs(FileSystem& file_system, const operations::DatasetSource& source,
                         const Cancellation* cancellation) {
  std::vector<dataset::SegmentPart> parts;
  std::set<std::string> paths;
  bool tables = true;
  for (const operations::ConversionInput* const input : source.inputs()) {
    const std::string& path = input->dataset->path();
    if (!paths.insert(std::filesystem::path(path + "/").lexically_normal()).second) {
      return InvalidArgument(path,
                             ": is there twice: give each dataset once, or keep repeated keys (--repeated-keys keep)");
    }
    const bool native = input->dataset->container() == "shard";
    // The tables have the keys of removed samples, too.
    tables = tables && native && input->plan.key && input->dataset->plain();
    if (!native) continue;
    SHARDKIT_ASSIGN_OR_RETURN(Manifest manifest, input->dataset->ReadManifest());
    parts.push_back({path, std::move(manifest)});
  }
  SHARDKIT_RETURN_IF_ERROR(dataset::CheckShardsDiffer(parts));
  return tables ? dataset::CheckKeysOfParts(file_system, parts, cancellation) : absl::OkStatus();
}

absl::StatusOr<Manifest> Copy(FileSystem& file_system, const std::vector<std::string>& inputs,
                              const std::string& output, const MergeOptions& options) {
  ConvertOptions convert{options};
  convert.pack.dataset.job += options.keep_repeated_keys ? "\nmerge keep" : "\nmerge";
  SHARDKIT_ASSIGN_OR_RETURN(const auto source, operations::OpenConversion(file_system, inputs, convert));
  dataset::DuplicateKeyCheck check;
  absl::Status refused;
  if (!options.keep_repeated_keys) {
    SHARDKIT_RETURN_IF_ERROR(CheckInputs(file_system, *source, options.pack.dataset.cancellation));
    check.ends = source->ends();
    check.take = [&](const dataset::DuplicateKey& found) {
      return refused = dataset::DuplicateAcrossInputs(found, inputs, check.ends);
    };
  }
  const auto report = operations::ConvertToShards(file_system, *source, output, convert, check);
  if (!refused.ok()) return refused;
  SHARDKIT_RETURN_IF_ERROR(report.status());
  return report->manifest;
}

}  // namespace

absl::StatusOr<Manifest> MergeDatasets(FileSystem& file_system, const std::vector<std::string>& inputs,
                                       const std::string& output, const MergeOptions& options) {
  return Guarded("merging", [&]() -> absl::StatusOr<Manifest> {
    if (inputs.empty()) return InvalidArgument(output, ": no datasets to merge were given");
    SHARDKIT_RETURN_IF_ERROR(CheckOptions(options));
    SHARDKIT_ASSIGN_OR_RETURN(const std::vector<std::string> parts, dataset::ExpandPatterns(file_system, inputs));
    return options.copy ? Copy(file_system, parts, output, options) : Link(file_system, parts, output, options);
  });
}

}  // namespace shardkit
