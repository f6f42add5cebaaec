#include "shardkit/source.h"

#include <algorithm>

#include "base/errors.h"
#include "base/status_macros.h"
#include "convert/sources/dataset_source.h"
#include "convert/sources/files_source.h"
#include "convert/sources/image_folder_source.h"
#include "convert/sources/sa1b_source.h"
#include "convert/sources/source_detect.h"

namespace shardkit {

namespace {

absl::Status NoTypes(const std::string& path) {
  return InvalidArgument(path, ": --type: its columns have types that do not depend on what values look like");
}

absl::StatusOr<std::unique_ptr<Source>> OpenDatasets(std::string_view container, const std::vector<std::string>& paths,
                                                     const SourceOptions& options) {
  if (paths.empty()) return InvalidArgument("no input given");
  ConvertOptions convert;
  convert.max_decompression = options.max_decompression;
  convert.pack.skip_errors = options.skip_errors;
  convert.verify_listed_hashes = options.verify_listed_hashes;
  std::vector<convert::ConversionInput> inputs;
  for (const std::string& path : paths) {
    SHARDKIT_ASSIGN_OR_RETURN(convert::ConversionInput input,
                              convert::OpenConversionInput(*options.file_system, path, convert));
    if (input.dataset->container() != container) {
      return InvalidArgument(path, ": is a dataset of container ", input.dataset->container(), ", not ", container);
    }
    if (!inputs.empty() && input.plan.form != inputs[0].plan.form) {
      return InvalidArgument(
          path, ": has another origin than the datasets before it: convert them one by one, then merge them");
    }
    inputs.push_back(std::move(input));
  }
  if (!options.types.empty() && inputs[0].plan.form != convert::SampleForm::kGuessed) return NoTypes(paths[0]);
  auto source = std::make_unique<convert::DatasetSource>(std::move(inputs), options.skip_errors, options.types);
  SHARDKIT_RETURN_IF_ERROR(source->Start());
  return source;
}

}  // namespace

std::string_view GroupByName(GroupBy group_by) {
  switch (group_by) {
    case GroupBy::kFirstDot:
      return "first-dot";
    case GroupBy::kLastDot:
      return "last-dot";
    case GroupBy::kNone:
      break;
  }
  return "none";
}

absl::StatusOr<uint64_t> Source::Skip(uint64_t count) {
  constexpr uint64_t kAtOnce = 4096;
  uint64_t passed = 0;
  while (passed < count) {
    SHARDKIT_ASSIGN_OR_RETURN(const std::unique_ptr<WorkUnit> unit, Next(std::min(count - passed, kAtOnce)));
    if (!unit) break;
    passed += unit->sample_count;
  }
  return passed;
}

absl::StatusOr<std::unique_ptr<Source>> OpenSource(std::string_view kind, const std::vector<std::string>& inputs,
                                                   const SourceOptions& options) {
  for (const auto& [name, type] : options.types) {
    if (!IsByteString(type)) {
      return InvalidArgument("--type ", name, "=", TypeName(type), ": files are bytes, utf8, json, jpeg, png or image");
    }
  }
  const auto other = [&](std::string_view found) -> absl::Status {
    const std::string_view input = inputs.empty() ? std::string_view() : inputs[0];
    if (options.group_by && found != "files") {
      return InvalidArgument(input, ": is packed as ", found, ", and names are grouped of files only (--from files)");
    }
    if (options.order && found != "imagefolder") {
      return InvalidArgument(input, ": is packed as ", found, ", and only image folders are listed in another order");
    }
    return absl::OkStatus();
  };
  if (kind == "webdataset" || kind == "mds") {
    SHARDKIT_RETURN_IF_ERROR(other(kind));
    return OpenDatasets(kind, inputs, options);
  }
  if (kind != "auto" && kind != "files" && kind != "imagefolder" && kind != "sa1b") {
    return InvalidArgument("unknown kind of input '", kind,
                           "': it is auto, files, imagefolder, sa1b, webdataset or mds");
  }
  if (inputs.empty()) return InvalidArgument("no input given");
  std::vector<convert::SourceInput> looked_at;
  std::optional<std::vector<std::string>> notes;  // of what was found
  if (kind == "auto") {
    SHARDKIT_ASSIGN_OR_RETURN(convert::DetectedInputs detected, convert::DetectKind(inputs, options));
    kind = detected.kind;
    looked_at = std::move(detected.inputs);
    notes = std::move(detected.notes);
    if (kind == "webdataset" || kind == "mds") {
      SHARDKIT_RETURN_IF_ERROR(other(kind));
      return OpenDatasets(kind, inputs, options);
    }
  } else {
    SHARDKIT_ASSIGN_OR_RETURN(looked_at, convert::LookAtInputs(inputs, options));
  }
  SHARDKIT_RETURN_IF_ERROR(other(kind));
  SHARDKIT_ASSIGN_OR_RETURN(auto source, convert::OpenFileSource(kind, std::move(looked_at), options));
  if (notes) source->SetDetected(*std::move(notes));
  return source;
}

absl::StatusOr<std::unique_ptr<convert::FileSource>> convert::OpenFileSource(std::string_view kind,
                                                                             std::vector<convert::SourceInput> inputs,
                                                                             const SourceOptions& options,
                                                                             const std::vector<std::string>& classes) {
  if (kind == "files") return std::make_unique<convert::FilesSource>(std::move(inputs), options);
  if (kind == "sa1b" && !options.types.empty()) return NoTypes(inputs[0].path);
  if (kind == "sa1b") return std::make_unique<convert::Sa1bSource>(std::move(inputs), options);
  for (const convert::SourceInput& input : inputs) {
    if (!input.tar) continue;
    return InvalidArgument(input.path, ": imagefolder expects a directory; extract the tar first");
  }
  return convert::ImageFolderSource::Open(std::move(inputs), options, classes);
}

}  // namespace shardkit
