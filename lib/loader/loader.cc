// Opening a loader: options, datasets and plan are checked against each other.
#include "shardkit/loader.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "dataset/manifest_text.h"
#include "gpu/backend.h"
#include "gpu/pinned_pool.h"
#include "loader/columns/sample_geometry.h"
#include "loader/device/uploading_loader.h"
#include "loader/engine/engine.h"
#include "loader/open_datasets.h"

namespace shardkit {
namespace loader {
namespace {

// A loader that opens its datasets again, between epochs, when they have changed (LoaderOptions::follow).
class FollowingLoader : public Loader {
 public:
  // Opens a loader that does not follow.
  using OpenFunction = std::function<absl::StatusOr<std::unique_ptr<Loader>>(
      ReadableFileSystem& file_system, const std::vector<LoaderDataset>& datasets, const LoaderOptions& options)>;

  static absl::StatusOr<std::unique_ptr<Loader>> Open(ReadableFileSystem& file_system,
                                                      std::vector<LoaderDataset> datasets, const LoaderOptions& options,
                                                      OpenFunction open);

  absl::StatusOr<std::shared_ptr<const Batch>> Next() override;
  bool WaitFor(std::chrono::steady_clock::duration timeout) override;
  void Cancel() override;
  Cursor cursor() const override { return cursor_; }
  const Plan& plan() const override { return *plan_; }
  uint64_t steps_left() const override { return steps_left_; }
  LoaderReport Report() const override;
  std::string Trace() const override;
  void AddTraceEvent(const char* name, std::string_view lane, std::chrono::steady_clock::time_point begin,
                     std::chrono::steady_clock::time_point end, uint64_t number) override;
  std::string fallback_reason() const override;

 private:
  FollowingLoader(ReadableFileSystem& file_system, std::vector<LoaderDataset> datasets, const LoaderOptions& options,
                  OpenFunction open)
      : file_system_(file_system), datasets_(std::move(datasets)), options_(options), open_(std::move(open)) {}

  absl::Status Start(const std::vector<uint64_t>& generations);
  absl::Status Look();
  void Remember(const Loader& loader);
  std::shared_ptr<Loader> Current() const;

  ReadableFileSystem& file_system_;
  std::vector<LoaderDataset> datasets_;
  LoaderOptions options_;
  const OpenFunction open_;

  mutable std::mutex mutex_;
  std::shared_ptr<Loader> loader_;  // null while the datasets are opened again, and after that has failed
  LoaderReport earlier_;            // of the loaders before
  bool cancelled_ = false;

  // Used by the consumer's thread only.
  absl::Status failure_;
  Cursor cursor_;
  std::shared_ptr<const Plan> plan_;
  uint64_t steps_left_ = 0;
};

absl::StatusOr<std::unique_ptr<Loader>> FollowingLoader::Open(ReadableFileSystem& file_system,
                                                              std::vector<LoaderDataset> datasets,
                                                              const LoaderOptions& options, OpenFunction open) {
  for (const LoaderDataset& dataset : datasets) {
    if (dataset.generation == 0) continue;
    return InvalidArgument("loader: follow takes the newest generation of ", dataset.path, ", not generation ",
                           dataset.generation, "; give one of the two");
  }
  std::vector<uint64_t> generations(datasets.size(), 0);
  const bool inside = options.cursor && options.cursor->position > 0;
  if (inside && options.cursor->generations.size() == datasets.size()) generations = options.cursor->generations;
  auto loader =
      std::unique_ptr<FollowingLoader>(new FollowingLoader(file_system, std::move(datasets), options, std::move(open)));
  if (options.cursor && !inside) {
    loader->options_.first_epoch = options.cursor->epoch;
    loader->options_.cursor.reset();
  }
  SHARDKIT_RETURN_IF_ERROR(loader->Start(generations));
  return loader;
}

absl::Status FollowingLoader::Start(const std::vector<uint64_t>& generations) {
  for (size_t i = 0; i < datasets_.size(); ++i) datasets_[i].generation = generations[i];
  SHARDKIT_ASSIGN_OR_RETURN(std::shared_ptr<Loader> opened, open_(file_system_, datasets_, options_));
  options_.cursor.reset();
  Remember(*opened);
  std::lock_guard lock(mutex_);
  if (cancelled_) opened->Cancel();
  loader_ = std::move(opened);
  return absl::OkStatus();
}

// Between epochs: opens the datasets again when one is newer. One that has an earlier generation was rebuilt, and
// stays as it was opened.
absl::Status FollowingLoader::Look() {
  SHARDKIT_ASSIGN_OR_RETURN(std::vector<uint64_t> generations, NewestGenerations(file_system_, datasets_));
  bool newer = false;
  for (size_t i = 0; i < generations.size(); ++i) {
    const uint64_t opened = plan_->datasets()[i].generation;
    newer |= generations[i] > opened;
    generations[i] = std::max(generations[i], opened);
  }
  if (!newer) return absl::OkStatus();
  LoaderReport report = Report();
  std::shared_ptr<Loader> before;
  {
    std::lock_guard lock(mutex_);
    earlier_ = std::move(report);
    before = std::exchange(loader_, nullptr);
  }
  before.reset();  // its memory and threads, before there are others
  options_.first_epoch = cursor_.epoch;
  return Start(generations);
}

absl::StatusOr<std::shared_ptr<const Batch>> FollowingLoader::Next() {
  if (!failure_.ok()) return failure_;
  std::shared_ptr<Loader> loader = Current();
  auto batch = loader->Next();
  const uint64_t epoch = cursor_.epoch;
  Remember(*loader);
  if (!batch.ok() || *batch == nullptr || cursor_.epoch == epoch) return batch;
  loader.reset();  // so that looking can end it
  if (options_.epochs == 0 || cursor_.epoch < options_.epochs) {
    failure_ = Guarded("loader: opening the datasets again", [this] { return Look(); });
  }
  return batch;
}

bool FollowingLoader::WaitFor(std::chrono::steady_clock::duration timeout) {
  return !failure_.ok() || Current()->WaitFor(timeout);
}

void FollowingLoader::Cancel() {
  std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (loader_ != nullptr) loader_->Cancel();
}

LoaderReport FollowingLoader::Report() const {
  std::shared_ptr<Loader> loader;
  LoaderReport earlier;
  {
    std::lock_guard lock(mutex_);
    loader = loader_;
    earlier = earlier_;
  }
  return loader != nullptr ? Total(earlier, loader->Report()) : earlier;
}

std::string FollowingLoader::Trace() const {
  const auto loader = Current();
  return loader != nullptr ? loader->Trace() : std::string();
}

void FollowingLoader::AddTraceEvent(const char* name, std::string_view lane,
                                    std::chrono::steady_clock::time_point begin,
                                    std::chrono::steady_clock::time_point end, uint64_t number) {
  if (const auto loader = Current()) loader->AddTraceEvent(name, lane, begin, end, number);
}

std::string FollowingLoader::fallback_reason() const {
  const auto loader = Current();
  return loader != nullptr ? loader->fallback_reason() : std::string();
}

void FollowingLoader::Remember(const Loader& loader) {
  cursor_ = loader.cursor();
  steps_left_ = loader.steps_left();
  plan_ = loader.plan().shared_from_this();
}

std::shared_ptr<Loader> FollowingLoader::Current() const {
  std::lock_guard lock(mutex_);
  return loader_;
}

}  // namespace
}  // namespace loader

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
