#include "shardkit/copy.h"

#include <memory>
#include <utility>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "convert/conversion.h"
#include "convert/packer.h"
#include "convert/sources/shuffled_source.h"
#include "dataset/dataset_job.h"

namespace shardkit {
namespace {

absl::Status CheckOptions(FileSystem& file_system, const std::string& output, const ReshardOptions& options) {
  if (options.pack.skip_errors) return InvalidArgument("skip_errors: not for resharding; repair the dataset first");
  if (options.pack.dataset.append) return InvalidArgument("append: not for resharding, which makes a new dataset");
  if (options.shuffle && options.scratch.empty() && IsUrl(output)) {
    return InvalidArgument(output, ": temporary files cannot be there: name a local directory for them (--scratch)");
  }
  if (options.shuffle && options.keep_blocks.value_or(false)) {
    return InvalidArgument("keep_blocks: not with shuffle, which makes all blocks anew");
  }
  if (!options.shuffle && !options.scratch.empty()) return InvalidArgument("scratch: only with shuffle");
  if (options.scratch.empty()) return absl::OkStatus();
  // The first file would come after much has been read.
  const absl::StatusOr<FileInfo> scratch = file_system.Stat(options.scratch);
  if (!scratch.ok()) return Annotate(scratch.status(), "scratch");
  if (scratch->type == FileType::kDirectory) return absl::OkStatus();
  return InvalidArgument(options.scratch, ": is no directory for temporary files");
}

absl::StatusOr<PackReport> Shuffle(FileSystem& file_system, convert::DatasetSource& source, const std::string& output,
                                   const ConvertOptions& convert, const ReshardOptions& options) {
  SHARDKIT_ASSIGN_OR_RETURN(const Schema schema, convert::SchemaOf(source, convert.pack));
  SHARDKIT_ASSIGN_OR_RETURN(const DatasetWriterOptions native, convert::NativeOptionsOf(source, convert));
  SHARDKIT_ASSIGN_OR_RETURN(const auto job,
                            dataset::CreateUnitJob(file_system, output, schema, native, dataset::JobKind::kUnits));
  convert::ShuffledSource shuffled(file_system, source, job->threads(),
                                   {.seed = *options.shuffle,
                                    .memory = options.shuffle_memory,
                                    .directory = options.scratch.empty() ? output : options.scratch,
                                    .cancellation = native.cancellation,
                                    .progress = options.spreading});
  return convert::PackInto(shuffled, convert.pack, *job, /*ends_shards=*/true);
}

}  // namespace

absl::StatusOr<PackReport> Reshard(FileSystem& file_system, const std::string& input, const std::string& output,
                                   const ReshardOptions& options) {
  return Guarded("resharding", [&]() -> absl::StatusOr<PackReport> {
    SHARDKIT_RETURN_IF_ERROR(CheckOptions(file_system, output, options));
    ConvertOptions convert{options};
    if (options.shuffle) convert.keep_blocks = false;
    if (options.shuffle) convert.pack.dataset.job += StrCat("\nshuffle ", *options.shuffle);
    SHARDKIT_ASSIGN_OR_RETURN(const auto source, convert::OpenConversion(file_system, {input}, convert));
    return options.shuffle ? Shuffle(file_system, *source, output, convert, options)
                           : convert::ConvertToShards(file_system, *source, output, convert);
  });
}

}  // namespace shardkit
