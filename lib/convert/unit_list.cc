#include "convert/unit_list.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "convert/packer.h"
#include "convert/sources/dataset_source.h"

namespace shardkit::convert {
namespace {

constexpr size_t kListedAtOnce = 512;

class UnitLister {
 public:
  UnitLister(const PackOptions& options, const std::function<absl::Status(const PlannedUnit& unit)>& take,
             PackPlan* totals)
      : options_(options), limit_(options.dataset), take_(take), totals_(*totals) {}

  absl::Status ListDatasets(DatasetSource& source) {
    uint64_t position = 0;
    while (true) {
      SHARDKIT_ASSIGN_OR_RETURN(const auto work, source.Next(limit_.samples_left()));
      if (!work) break;
      SHARDKIT_RETURN_IF_ERROR(Check());
      if (unit_.samples == 0) unit_.skip = position;
      position += work->sample_count;
      SHARDKIT_RETURN_IF_ERROR(Count(work->sample_count, source.BytesOf(*work)));
    }
    return EndUnit();
  }

  absl::Status ListFiles(FileSource& source) {
    using Sizes = absl::StatusOr<std::vector<uint64_t>>;
    ThreadPool pool(std::max(options_.dataset.threads, 1));
    OrderedTasks<Sizes, FileSource::Listed> tasks(pool, "listing samples", options_.dataset.cancellation,
                                                  static_cast<size_t>(pool.thread_count()) + 1);
    for (bool more = true; more || !tasks.empty();) {
      while (more && !tasks.full()) {
        SHARDKIT_ASSIGN_OR_RETURN(auto next, source.List(kListedAtOnce));
        more = next.has_value();
        if (!more) break;
        tasks.Add(
            [&source, tree = next->tree, tar = next->tar]() -> Sizes {
              if (tree != nullptr) return source.InputBytes(*tree);
              SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, source.options().file_system->Stat(tar->path));
              return std::vector<uint64_t>{info.size};
            },
            *next);
      }
      if (tasks.empty()) break;
      auto [listed, sizes] = tasks.Take();
      SHARDKIT_RETURN_IF_ERROR(Check());
      SHARDKIT_ASSIGN_OR_RETURN(const std::vector<uint64_t> bytes, std::move(sizes));
      SHARDKIT_RETURN_IF_ERROR(listed.tree ? AddSamples(source, *listed.tree, bytes) : AddTar(*listed.tar, bytes[0]));
    }
    return EndUnit();
  }

 private:
  absl::Status AddSamples(const FileSource& source, const TreeUnit& tree, const std::vector<uint64_t>& bytes) {
    for (size_t i = 0; i < tree.size(); ++i) {
      if (unit_.samples > 0 && input_ != tree.input()) EndList(source);
      input_ = tree.input();
      files_.Add(tree, i);
      unit_source_ = &source;
      SHARDKIT_RETURN_IF_ERROR(Count(1, bytes[i]));
    }
    return absl::OkStatus();
  }

  absl::Status AddTar(const SourceInput& tar, uint64_t bytes) {
    SHARDKIT_RETURN_IF_ERROR(EndUnit());
    has_tars_ = true;
    ++totals_.units;
    totals_.input_bytes += bytes;
    return take_({.samples = UINT64_MAX, .bytes = bytes, .skip = 0, .inputs = {tar}});
  }

  void EndList(const FileSource& source) {
    if (files_.empty()) return;
    unit_.inputs.push_back({.path = source.input(input_).path,
                            .tar = false,
                            .listed = std::make_shared<const std::string>(files_.Take())});
  }

  absl::Status Count(uint64_t samples, uint64_t bytes) {
    unit_.samples += samples;
    unit_.bytes += bytes;
    listed_ += samples;
    return limit_.Add(samples, bytes) ? EndUnit() : absl::OkStatus();
  }

  absl::Status EndUnit() {
    limit_.Reset();
    if (unit_source_ != nullptr) EndList(*unit_source_);
    if (unit_.samples == 0) return absl::OkStatus();
    ++totals_.units;
    totals_.input_bytes += unit_.bytes;
    return take_(std::exchange(unit_, PlannedUnit{.samples = 0, .bytes = 0, .skip = 0, .inputs = {}}));
  }

  absl::Status Check() {
    if (!has_tars_) totals_.samples = listed_;
    if (options_.progress) options_.progress({.samples = listed_, .input_bytes = totals_.input_bytes + unit_.bytes});
    return options_.dataset.cancellation ? options_.dataset.cancellation->Check("listing samples") : absl::OkStatus();
  }

 public:
  void Finish() {
    totals_.samples.reset();
    if (!has_tars_) totals_.samples = listed_;
  }

 private:
  const PackOptions& options_;
  ShardLimit limit_;
  const std::function<absl::Status(const PlannedUnit& unit)>& take_;
  PackPlan& totals_;
  PlannedUnit unit_{.samples = 0, .bytes = 0, .skip = 0, .inputs = {}};
  FileList files_;  // of the unit and input_, not in unit_ yet
  const FileSource* unit_source_ = nullptr;
  size_t input_ = 0;
  uint64_t listed_ = 0;
  bool has_tars_ = false;
};

}  // namespace

absl::Status ListUnits(Source& source, const PackOptions& options,
                       const std::function<absl::Status(const PlannedUnit& unit)>& take, PackPlan* totals) {
  UnitLister lister(options, take, totals);
  if (auto* const datasets = dynamic_cast<DatasetSource*>(&source)) {
    SHARDKIT_RETURN_IF_ERROR(lister.ListDatasets(*datasets));
  } else if (auto* const files = dynamic_cast<FileSource*>(&source)) {
    SHARDKIT_RETURN_IF_ERROR(lister.ListFiles(*files));
  } else {
    return Unimplemented("source ", source.name(), ": cannot be packed in tasks");
  }
  lister.Finish();
  return absl::OkStatus();
}

}  // namespace shardkit::convert
