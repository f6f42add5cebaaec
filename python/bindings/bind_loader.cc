// Loaders, and plans.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "batch.h"
#include "bind.h"
#include "job.h"
#include "loader_options.h"
#include "shardkit/device.h"
#include "shardkit/job.h"
#include "shardkit/remote.h"
#include "status.h"

namespace shardkit::bindings {
namespace {

namespace nb = nanobind;

constexpr std::chrono::milliseconds kLookForSignals(50);

class PythonLoader {
 public:
  explicit PythonLoader(std::unique_ptr<Loader> loader) : loader_(std::move(loader)) {}

  PythonLoader(PythonLoader&&) noexcept = default;

  ~PythonLoader() {
    const GilReleased released;  // its threads end first
    loader_.reset();
  }

  // None at the end. A signal's exception leaves the batch for the next call.
  nb::typed<nb::object, PythonBatch> Next() {
    while (true) {
      const bool ready = [&] {
        const GilReleased released;
        return loader_->WaitFor(kLookForSignals);
      }();
      LookForSignals();
      if (ready) break;
    }
    auto batch = WithoutGil([&] { return loader_->Next(); });
    if (batch == nullptr) return nb::none();
    return nb::cast(PythonBatch{std::move(batch)});
  }

  Loader& loader() const { return *loader_; }

 private:
  std::unique_ptr<Loader> loader_;
};

PythonLoader OpenLoader(const DictList& datasets, const Dict& given) {
  const LoaderOptions options = TakeLoaderOptions(given);
  std::vector<LoaderDataset> parts = LoaderDatasets(datasets);
  return PythonLoader(Interruptibly([&] { return Loader::Open(*DefaultFileSystem(), std::move(parts), options); }));
}

nb::dict Stage(const StageTimes& times) {
  nb::dict stage;
  stage["busy"] = times.busy;
  stage["starved"] = times.starved;
  stage["blocked"] = times.blocked;
  stage["threads"] = times.threads;
  return stage;
}

Dict LoaderNumbers(const LoaderReport& report) {
  const Diagnosis diagnosis = Diagnose(report);
  nb::dict result;
  result["read"] = Stage(report.read);
  result["decode"] = Stage(report.decode);
  result["upload"] = Stage(report.upload);
  result["file_seconds"] = report.file_seconds;
  result["seconds"] = report.seconds;
  result["consumer_wait_seconds"] = report.consumer_wait_seconds;
  result["first_batch_seconds"] = report.first_batch_seconds;
  result["step_seconds"] = report.step_seconds;
  result["wait_share"] = report.wait_share();
  result["batches"] = report.batches;
  result["samples"] = report.samples;
  result["bytes"] = report.bytes;
  result["bytes_read"] = report.bytes_read;
  result["bytes_from_cache"] = report.bytes_from_cache;
  result["blocks_read"] = report.blocks_read;
  result["blocks_read_again"] = report.blocks_read_again;
  result["requests"] = report.requests;
  result["bytes_requested"] = report.bytes_requested;
  result["bytes_bridged"] = report.bytes_bridged;
  result["round_trips"] = report.round_trips;
  result["skipped"] = report.skipped;
  result["warned_images"] = report.warned_images;
  result["block_memory"] = report.block_memory;
  result["batch_memory"] = report.batch_memory;
  result["peak_block_memory"] = report.peak_block_memory;
  result["peak_batch_memory"] = report.peak_batch_memory;
  result["memory_wait_seconds"] = report.memory_wait_seconds;
  result["uploaded_bytes"] = report.uploaded_bytes;
  result["staged_bytes"] = report.staged_bytes;
  result["copy_seconds"] = report.copy_seconds;
  result["kernel_seconds"] = report.kernel_seconds;
  result["pinned_memory"] = report.pinned_memory;
  result["peak_pinned_memory"] = report.peak_pinned_memory;
  result["device_memory"] = report.device_memory;
  result["peak_device_memory"] = report.peak_device_memory;
  result["balance_notes"] = report.balance_notes;
  result["clumped_columns"] = report.clumped_columns;
  result["threads_note"] = report.threads_note;
  result["stage"] = diagnosis.stage;
  result["reason"] = diagnosis.reason;
  result["advice"] = diagnosis.advice;
  return result;
}

using SharedPlan = std::shared_ptr<const Plan>;
struct PythonPlan {
  SharedPlan plan;
};

PythonPlan MakePlan(const DictList& datasets, const Dict& given) {
  OptionReader reader(given, "plan");
  PlanOptions options;
  TakePlanOptions(reader, options);
  reader.Finish();
  const std::vector<LoaderDataset> parts = LoaderDatasets(datasets);
  return {Interruptibly([&] { return PlanDatasets(*DefaultFileSystem(), parts, options); })};
}

class PythonEpoch {
 public:
  PythonEpoch(const PythonPlan& plan, uint64_t epoch) : plan_(plan.plan) {
    const GilReleased released;
    order_ = plan_->Epoch(epoch);
  }

  // (dataset, ordinal) of the samples of a step that belong to the rank: [samples, 2].
  Array<int64_t> Step(uint64_t number, uint64_t rank, uint64_t world_size) {
    if (number >= plan_->StepsFrom(0)) throw nb::index_error("the epoch has fewer steps");
    if (world_size == 0 || rank >= world_size) throw nb::value_error("the rank has to be below the world size");
    const shardkit::Step step = plan_->StepAt(0, number);
    const auto order = WithoutGil([&] { return order_->Covering(step); });
    order_ = order;
    const std::vector<uint64_t> positions = order->RankPositions(step, rank, world_size);
    const uint64_t shape[] = {positions.size(), 2};
    void* data = nullptr;
    nb::object array = NewArray(Type::kI64, shape, &data);
    auto* out = static_cast<int64_t*>(data);
    for (const uint64_t position : positions) {
      const PlannedSample sample = order->At(position % order->size());
      *out++ = sample.dataset;
      *out++ = static_cast<int64_t>(sample.ordinal);
    }
    return array;
  }

 private:
  const SharedPlan plan_;
  std::shared_ptr<const EpochOrder> order_;
};

}  // namespace

void BindLoader(nb::module_& module) {
  nb::class_<PythonLoader> loader(module, "Loader", nb::is_weak_referenceable());
  nb::class_<LoaderReport>(module, "LoaderReport").def("numbers", &LoaderNumbers);
  loader.def(nb::new_(&OpenLoader), nb::arg("datasets"), nb::arg("options"))
      .def("next", &PythonLoader::Next)
      .def("cancel", [](const PythonLoader& self) { self.loader().Cancel(); })
      .def_prop_ro("cursor", [](const PythonLoader& self) { return FormatCursor(self.loader().cursor()); })
      .def_prop_ro("epoch", [](const PythonLoader& self) { return self.loader().cursor().epoch; })
      .def_prop_ro("position", [](const PythonLoader& self) { return self.loader().cursor().position; })
      .def_prop_ro("steps_left", [](const PythonLoader& self) { return self.loader().steps_left(); })
      .def_prop_ro("steps", [](const PythonLoader& self) { return self.loader().plan().StepsFrom(0); })
      .def_prop_ro("samples", [](const PythonLoader& self) { return self.loader().plan().samples_per_epoch(); })
      .def_prop_ro("generations", [](const PythonLoader& self) { return self.loader().plan().Begin().generations; })
      .def_prop_ro("lanes", [](const PythonLoader& self) { return self.loader().plan().lanes(); })
      .def(
          "cursor_at",
          [](const PythonLoader& self, uint64_t epoch, uint64_t position) {
            return FormatCursor(self.loader().plan().At(epoch, position));
          },
          nb::arg("epoch"), nb::arg("position") = 0)
      .def("trace", [](const PythonLoader& self) { return self.loader().Trace(); })
      // The total of what the loaders before it, if there were some, and this one have done.
      .def(
          "report",
          [](const PythonLoader& self, const LoaderReport* before) {
            const GilReleased released;
            LoaderReport report = self.loader().Report();
            return before == nullptr ? report : Total(*before, report);
          },
          nb::arg("before").none());
  nb::class_<PythonPlan>(module, "Plan")
      .def(nb::new_(&MakePlan), nb::arg("datasets"), nb::arg("options"))
      .def_prop_ro("steps", [](const PythonPlan& self) { return self.plan->StepsFrom(0); })
      .def_prop_ro("samples", [](const PythonPlan& self) { return self.plan->samples_per_epoch(); })
      .def_prop_ro("lanes", [](const PythonPlan& self) { return self.plan->lanes(); })
      .def(
          "read_amplification",
          [](const PythonPlan& self, uint64_t epoch, uint64_t world_size) {
            return WithoutGil([&] { return ReadAmplification(*self.plan, epoch, world_size); });
          },
          nb::arg("epoch"), nb::arg("world_size"));
  nb::class_<PythonEpoch>(module, "PlanEpoch")
      .def(nb::init<const PythonPlan&, uint64_t>(), nb::arg("plan"), nb::arg("epoch"))
      .def("step", &PythonEpoch::Step, nb::arg("number"), nb::arg("rank"), nb::arg("world_size"));
  module.def(
      "newest_generations",
      [](const DictList& datasets) {
        const std::vector<LoaderDataset> parts = LoaderDatasets(datasets);
        return Interruptibly([&] { return NewestGenerations(*DefaultFileSystem(), parts); });
      },
      nb::arg("datasets"));
  // Whether this build has CUDA, and the machine a driver for it.
  module.def("has_cuda", [] {
    const GilReleased released;
    return CudaDevices().ok();
  });
  module.def("available_processors", &AvailableProcessors);
  // In a child of a fork: the object's destructor would wait for threads that only the parent has.
  module.def(
      "keep_forever", [](nb::handle object) { object.inc_ref(); }, nb::arg("object"));
}

}  // namespace shardkit::bindings
