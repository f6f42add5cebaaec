// Opening a loader: options, datasets and plan are checked against each other.
#include "shardkit/loader.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "dataset/manifest_text.h"
#include "gpu/backend.h"
#include "gpu/pinned_pool.h"
#include "loader/device/uploading_loader.h"
#include "loader/engine.h"
#include "loader/following_loader.h"
#include "loader/open_datasets.h"
#include "loader/sample_geometry.h"

namespace shardkit {
namespace {

constexpr uint64_t kLeastMemory = uint64_t{1} << 20;
constexpr uint64_t kLeastPinned = uint64_t{4} << 20;
constexpr int kMostThreads = 1024;

absl::Status CheckOptions(const LoaderOptions& options) {
  if (options.world_size == 0 || options.rank >= options.world_size) {
    return InvalidArgument("loader: rank ", options.rank, " of ", options.world_size, "; ranks count from 0");
  }
  if (options.memory_bytes < kLeastMemory) {
    return InvalidArgument("loader: memory_bytes is ", options.memory_bytes, "; give at least ", kLeastMemory);
  }
  for (const int threads : {options.decode_threads, options.read_threads}) {
    if (threads < 0 || threads > kMostThreads) {
      return InvalidArgument("loader: ", threads, " threads; give 1 to ", kMostThreads, ", or 0 for auto");
    }
  }
  const bool pinned = options.device != "host" || options.pin_memory;
  if (pinned && options.pinned_bytes < kLeastPinned) {
    return InvalidArgument("loader: pinned_bytes is ", options.pinned_bytes, "; give at least ", kLeastPinned);
  }
  if (options.device == "host" && options.device_geometry) {
    return InvalidArgument("loader: device_geometry is for a device; on the host, decoding threads do it");
  }
  if (options.follow && options.world_size > 1) {
    return InvalidArgument("loader: follow is for one rank: ", options.world_size,
                           " ranks look at different moments, and their epochs would differ; let one rank ask ",
                           "NewestGenerations between epochs, and open all loaders with that generation");
  }
  absl::flat_hash_set<std::string> names;
  for (const LoaderColumn& column : options.columns) {
    if (!names.insert(column.name).second)
      return InvalidArgument("loader: column \"", column.name, "\" is named twice");
    const bool image = column.decode == ColumnDecode::kImage;
    const bool masks = column.decode == ColumnDecode::kMasks || column.decode == ColumnDecode::kPackedMasks;
    if (column.deferred && !image && !masks) {
      return InvalidArgument("loader: column \"", column.name,
                             "\": only images and masks have a geometry that can be deferred");
    }
    const bool boxes = column.decode == ColumnDecode::kBoxes;
    if (column.most > 0 && ((!masks && !boxes) || !column.along.empty())) {
      return InvalidArgument("loader: column \"", column.name,
                             "\": `most` is for boxes and masks that go along with no other column");
    }
    if (column.choose != ItemChoice::kFirst && column.most == 0) {
      return InvalidArgument("loader: column \"", column.name, "\": without `most` there is nothing to choose");
    }
    if (!column.along.empty() && !masks && !boxes && column.decode != ColumnDecode::kPoints &&
        column.decode != ColumnDecode::kItems) {
      return InvalidArgument("loader: column \"", column.name, "\": only boxes, points, items and masks go along");
    }
    if (!image && (column.output.planar || column.output.type != Type::kU8)) {
      return InvalidArgument("loader: column \"", column.name, "\": only images have an output");
    }
    if (!column.geometry) continue;
    if (!image) {
      return InvalidArgument("loader: column \"", column.name, "\": only images have geometries of their own");
    }
    if (absl::Status status = loader::CheckGeometryOptions(*column.geometry); !status.ok()) {
      return Annotate(status, StrCat("loader: column \"", column.name, "\""));
    }
  }
  return loader::CheckGeometryOptions(options.geometry);
}

// The column whose documents make rows, or null.
absl::StatusOr<const LoaderColumn*> TokensOf(const LoaderOptions& options) {
  const LoaderColumn* tokens = nullptr;
  for (const LoaderColumn& column : options.columns) {
    if (column.decode != ColumnDecode::kTokens) continue;
    if (tokens != nullptr && (column.context != tokens->context || column.packing != tokens->packing)) {
      return InvalidArgument("column \"", column.name, "\": its context and packing are not those of \"", tokens->name,
                             "\": rows of tokens have the same documents in all columns");
    }
    if (tokens == nullptr) tokens = &column;
  }
  return tokens;
}

// The share of the shuffle buffer that this rank holds.
uint64_t ShuffleBytes(const Plan& plan, const LoaderOptions& options) {
  if (options.plan.order == SampleOrder::kSequential) return 0;
  const uint64_t lanes = plan.lanes();
  const uint64_t own = options.world_size < lanes ? (lanes + options.world_size - 1) / options.world_size : 1;
  uint64_t all = 0;  // no buffer is larger than the data
  for (const PlanDataset& dataset : plan.datasets()) all += dataset.bytes();
  return std::min(all, options.plan.shuffle_buffer_bytes / lanes * own);
}

absl::StatusOr<std::vector<std::unique_ptr<loader::ColumnAssembler>>> MakeColumns(const loader::OpenDatasets& datasets,
                                                                                  const LoaderOptions& options) {
  std::vector<LoaderColumn> wanted = options.columns;
  if (wanted.empty()) {
    for (size_t i = 0; i < datasets.columns.size(); ++i) {
      if (i == datasets.key_column || datasets.columns[i].is_key) continue;
      wanted.emplace_back().name = datasets.columns[i].name;
    }
  }
  const auto position = [&](const LoaderColumn& column) {
    return static_cast<size_t>(std::ranges::find(datasets.columns, loader::SourceOf(column), &Column::name) -
                               datasets.columns.begin());
  };
  std::vector<loader::SampleContext> contexts;
  std::map<std::string, std::shared_ptr<const loader::ItemsOfSamples>> items;
  for (const LoaderColumn& column : wanted) {
    SHARDKIT_ASSIGN_OR_RETURN(const LoaderColumn* const image, loader::ImageOf(column, wanted));
    loader::SampleContext& context = contexts.emplace_back();
    context.geometry = image != nullptr && image->geometry ? *image->geometry : options.geometry;
    if (image != nullptr) context.image = {position(*image), datasets.columns[position(*image)]};
    const size_t at = position(column);
    if (!column.along.empty()) continue;
    auto made = column.decode == ColumnDecode::kBoxes
                    ? loader::NewItemsOfBoxes(at, datasets.columns[at], column, context)
                    : loader::NewItemsOfMasks(at, datasets.columns[at], column);
    if (made != nullptr) items[column.name] = std::move(made);
  }
  std::vector<std::unique_ptr<loader::ColumnAssembler>> columns;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const size_t at = position(wanted[i]);
    contexts[i].items = items;
    SHARDKIT_ASSIGN_OR_RETURN(auto made, loader::NewColumnAssembler(at, datasets.columns[at], wanted[i], contexts[i]));
    columns.push_back(std::move(made));
  }
  return columns;
}

std::vector<std::string> Names(const LoaderOptions& options) {
  std::vector<std::string> names;
  for (const LoaderColumn& column : options.columns) {
    if (std::ranges::find(names, loader::SourceOf(column)) == names.end()) names.push_back(loader::SourceOf(column));
  }
  return names;
}

absl::StatusOr<std::unique_ptr<Loader>> OpenEngine(ReadableFileSystem& file_system,
                                                   const std::vector<LoaderDataset>& datasets,
                                                   const LoaderOptions& options,
                                                   std::shared_ptr<gpu::PinnedPool> pinned) {
  LoaderOptions complete = options;
  complete.read.max_block_memory = std::min(options.read.max_block_memory, options.memory_bytes);
  SHARDKIT_ASSIGN_OR_RETURN(const LoaderColumn* const tokens, TokensOf(options));
  SHARDKIT_ASSIGN_OR_RETURN(loader::OpenDatasets open,
                            loader::OpenAll(file_system, datasets, Names(options), complete, tokens));
  SHARDKIT_ASSIGN_OR_RETURN(auto columns, MakeColumns(open, options));
  SHARDKIT_ASSIGN_OR_RETURN(const auto plan, Plan::Create(std::move(open.shapes), options.plan));
  if (plan->StepsFrom(0) == 0) {
    return InvalidArgument("loader: an epoch has ", plan->samples_per_epoch(), " samples, fewer than one batch of ",
                           options.plan.batch_size, ", and they would be dropped; keep or pad the remainder");
  }
  if (const uint64_t bytes = ShuffleBytes(*plan, options); bytes > options.memory_bytes / 2) {
    return InvalidArgument("loader: this rank's share of the shuffle buffer, ", bytes,
                           " bytes, is more than half of memory_bytes, ", options.memory_bytes,
                           "; lower shuffle_buffer_bytes or raise memory_bytes");
  }
  if (!complete.cursor) complete.cursor = plan->Begin(complete.first_epoch);
  SHARDKIT_RETURN_IF_ERROR(plan->CheckCursor(*complete.cursor));
  if (!options.empty_batches) {
    SHARDKIT_RETURN_IF_ERROR(plan->CheckRanks(complete.cursor->position, options.world_size));
  }
  if (plan->StepsFrom(complete.cursor->position) == 0) complete.cursor = plan->Begin(complete.cursor->epoch + 1);
  return Guarded("loader: opening", [&]() -> absl::StatusOr<std::unique_ptr<Loader>> {
    auto engine =
        std::make_unique<loader::Engine>(std::move(open), plan, std::move(columns), complete, std::move(pinned));
    SHARDKIT_RETURN_IF_ERROR(engine->Start());
    return engine;
  });
}

// On a device, or on the host.
absl::StatusOr<std::unique_ptr<Loader>> OpenAnywhere(ReadableFileSystem& file_system,
                                                     const std::vector<LoaderDataset>& datasets,
                                                     const LoaderOptions& options) {
  if (options.device != "host") {
    SHARDKIT_ASSIGN_OR_RETURN(auto backend, gpu::OpenDevice(options.device));
    return loader::OpenOnDevice(std::move(backend), file_system, datasets, options);
  }
  if (!options.pin_memory) return OpenEngine(file_system, datasets, options, nullptr);
  SHARDKIT_ASSIGN_OR_RETURN(auto backend, gpu::OpenDevice("cuda"));
  SHARDKIT_ASSIGN_OR_RETURN(auto pinned, gpu::PinnedPool::Create(std::move(backend), {.bytes = options.pinned_bytes}));
  return OpenEngine(file_system, datasets, options, std::move(pinned));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Loader>> loader::OpenOnDevice(std::shared_ptr<gpu::Backend> backend,
                                                             ReadableFileSystem& file_system,
                                                             const std::vector<LoaderDataset>& datasets,
                                                             const LoaderOptions& options) {
  LoaderOptions here = options;
  here.device = backend->info().name;
  SHARDKIT_RETURN_IF_ERROR(CheckOptions(here));
  return UploadingLoader::Open(std::move(backend), here,
                               [&](const LoaderOptions& own, std::shared_ptr<gpu::PinnedPool> pinned) {
                                 return OpenEngine(file_system, datasets, own, std::move(pinned));
                               });
}

const DeviceInfo& Batch::device() const {
  static const DeviceInfo* const host = new DeviceInfo{.description = "host memory"};
  return *host;
}

absl::StatusOr<std::unique_ptr<Loader>> Loader::Open(ReadableFileSystem& file_system,
                                                     std::vector<LoaderDataset> datasets,
                                                     const LoaderOptions& options) {
  SHARDKIT_RETURN_IF_ERROR(CheckOptions(options));
  if (!options.follow) return OpenAnywhere(file_system, datasets, options);
  return loader::FollowingLoader::Open(file_system, std::move(datasets), options, OpenAnywhere);
}

absl::StatusOr<std::vector<uint64_t>> NewestGenerations(ReadableFileSystem& file_system,
                                                        std::span<const LoaderDataset> datasets) {
  std::vector<uint64_t> generations;
  for (const LoaderDataset& dataset : datasets) {
    const auto manifest = dataset::ReadManifestText(file_system, dataset.path);
    if (!manifest.ok() && !absl::IsNotFound(manifest.status())) return manifest.status();
    generations.push_back(manifest.ok() ? manifest->generation : 0);
  }
  return generations;
}

absl::StatusOr<std::shared_ptr<const Plan>> PlanDatasets(ReadableFileSystem& file_system,
                                                         std::span<const LoaderDataset> datasets,
                                                         const PlanOptions& options) {
  // Does not compare the datasets' columns: only loading needs equal columns, and only of those that are loaded.
  std::vector<PlanDataset> shapes;
  for (size_t i = 0; i < datasets.size(); ++i) {
    DatasetOptions open;
    open.generation = datasets[i].generation;
    auto reader = DatasetReader::Open(file_system, datasets[i].path, open);
    if (!reader.ok()) return i == 0 ? reader.status() : Annotate(reader.status(), StrCat("loader: dataset ", i));
    SHARDKIT_ASSIGN_OR_RETURN(loader::Shape shape, loader::ReadShape(file_system, *std::move(reader), datasets[i],
                                                                     datasets.size() == 1, options, {}, nullptr));
    shapes.push_back(std::move(shape.dataset));
  }
  return Plan::Create(std::move(shapes), options);
}

}  // namespace shardkit
