// What loaders for the host's memory and for a device have in common.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <memory>
#include <utility>

#include "bind.h"
#include "shardkit/loader.h"
#include "status.h"

namespace shardkit::bindings {

inline constexpr std::chrono::milliseconds kLookForSignals(50);

// AnyLoader is Loader or gpu::DeviceLoader. PythonBatch has its batches as `batch`.
template <typename AnyLoader, typename PythonBatch>
class PythonLoaderOf {
 public:
  explicit PythonLoaderOf(std::unique_ptr<AnyLoader> loader) : loader_(std::move(loader)) {}

  PythonLoaderOf(PythonLoaderOf&&) noexcept = default;

  ~PythonLoaderOf() {
    const GilReleased released;  // its threads end first
    loader_.reset();
  }

  // None at the end. A signal's exception leaves the batch for the next call.
  nanobind::typed<nanobind::object, PythonBatch> Next() {
    while (true) {
      const bool ready = [&] {
        const GilReleased released;
        return loader_->WaitFor(kLookForSignals);
      }();
      LookForSignals();
      if (ready) break;
    }
    auto batch = WithoutGil([&] { return loader_->Next(); });
    if (batch == nullptr) return nanobind::none();
    return nanobind::cast(PythonBatch{std::move(batch)});
  }

  AnyLoader& loader() const { return *loader_; }

  // Adds all but the constructor and the report.
  static void Bind(nanobind::class_<PythonLoaderOf>& bound) {
    bound.def("next", &PythonLoaderOf::Next)
        .def("cancel", [](const PythonLoaderOf& self) { self.loader().Cancel(); })
        .def_prop_ro("cursor", [](const PythonLoaderOf& self) { return FormatCursor(self.loader().cursor()); })
        .def_prop_ro("epoch", [](const PythonLoaderOf& self) { return self.loader().cursor().epoch; })
        .def_prop_ro("position", [](const PythonLoaderOf& self) { return self.loader().cursor().position; })
        .def_prop_ro("steps_left", [](const PythonLoaderOf& self) { return self.loader().steps_left(); })
        .def_prop_ro("steps", [](const PythonLoaderOf& self) { return self.loader().plan().StepsFrom(0); })
        .def_prop_ro("samples", [](const PythonLoaderOf& self) { return self.loader().plan().samples_per_epoch(); })
        .def_prop_ro("generations", [](const PythonLoaderOf& self) { return self.loader().plan().Begin().generations; })
        .def_prop_ro("lanes", [](const PythonLoaderOf& self) { return self.loader().plan().lanes(); })
        .def(
            "cursor_at",
            [](const PythonLoaderOf& self, uint64_t epoch, uint64_t position) {
              return FormatCursor(self.loader().plan().At(epoch, position));
            },
            nanobind::arg("epoch"), nanobind::arg("position") = 0)
        .def("trace", [](const PythonLoaderOf& self) { return self.loader().Trace(); });
  }

 private:
  std::unique_ptr<AnyLoader> loader_;
};

// The numbers of a report, with what limits the loader's speed.
nanobind::dict ReportDict(const LoaderReport& report, const Diagnosis& diagnosis);

// Report is LoaderReport or gpu::DeviceReport, a class of Python by that name. Adds report(before), which returns the
// total of what the loaders before it, if there were some, and this one have done.
template <typename Report, typename PythonLoader>
void BindReport(nanobind::module_& module, const char* name, nanobind::class_<PythonLoader>& loader,
                Dict (*numbers)(const Report& report)) {
  nanobind::class_<Report>(module, name).def("numbers", numbers);
  loader.def(
      "report",
      [](const PythonLoader& self, const Report* before) {
        const GilReleased released;
        Report report = self.loader().Report();
        return before == nullptr ? report : Total(*before, report);
      },
      nanobind::arg("before").none());
}

}  // namespace shardkit::bindings
