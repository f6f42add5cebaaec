// The GPU stage: loaders whose batches lie on a device.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "any_loader.h"
#include "batch.h"
#include "bind.h"
#include "job.h"
#include "loader_options.h"
#include "shardkit/gpu/device_loader.h"
#include "shardkit/gpu/dlpack.h"
#include "shardkit/remote.h"
#include "status.h"

namespace shardkit::bindings {
namespace {

namespace nb = nanobind;

using PythonDeviceLoader = PythonLoaderOf<gpu::DeviceLoader, PythonDeviceBatch>;

// `device_options` are those of DeviceLoaderOptions, and the device's name.
PythonDeviceLoader OpenDeviceLoader(const DictList& datasets, const Dict& given, const Dict& device_options) {
  gpu::DeviceLoaderOptions options;
  options.loader = TakeLoaderOptions(given);
  OptionReader reader(device_options, "Loader");
  std::string name;
  reader.Take("device", name);
  reader.Take("device_geometry", options.device_geometry);
  reader.Take("pinned_bytes", options.pinned_bytes);
  reader.Take("device_bytes", options.device_bytes);
  reader.Take("depth", options.depth);
  reader.Finish();
  std::vector<LoaderDataset> parts = LoaderDatasets(datasets);
  return PythonDeviceLoader(Interruptibly([&]() -> absl::StatusOr<std::unique_ptr<gpu::DeviceLoader>> {
    auto device = gpu::OpenDevice(name);
    if (!device.ok()) return device.status();
    return gpu::DeviceLoader::Open(*std::move(device), *DefaultFileSystem(), std::move(parts), options);
  }));
}

Dict DeviceNumbers(const gpu::DeviceReport& report) {
  nb::dict result = ReportDict(report.loader, Diagnose(report));
  result["seconds"] = report.seconds;
  result["consumer_wait_seconds"] = report.consumer_wait_seconds;
  result["first_batch_seconds"] = report.first_batch_seconds;
  result["step_seconds"] = report.step_seconds;
  result["wait_share"] = report.wait_share();
  result["batches"] = report.batches;
  result["samples"] = report.samples;
  result["uploaded_bytes"] = report.uploaded_bytes;
  result["staged_bytes"] = report.staged_bytes;
  result["copy_seconds"] = report.copy_seconds;
  result["kernel_seconds"] = report.kernel_seconds;
  result["pinned_memory"] = report.pinned_memory;
  result["peak_pinned_memory"] = report.peak_pinned_memory;
  result["device_memory"] = report.device_memory;
  result["peak_device_memory"] = report.peak_device_memory;
  return result;
}

const gpu::DeviceColumn& ColumnAt(const PythonDeviceBatch& self, size_t i) {
  if (i >= self.batch->column_count()) throw nb::index_error("no such column");
  return self.batch->column(i);
}

// As of a batch in the host's memory, without the values.
DescribedColumn DescribeDeviceColumn(nb::handle_t<PythonDeviceBatch> self, size_t i) {
  const gpu::DeviceColumn& column = ColumnAt(*nb::inst_ptr<PythonDeviceBatch>(self), i);
  return nb::make_tuple(LayoutName(column.layout), TypeName(column.dtype), nb::none(),
                        Numbers(column.host_offsets, self), Numbers(column.host_item_offsets, self),
                        Shapes(column.host_shapes, column.shape_rank, column.layout, self),
                        Present(column.host_present, self));
}

// A capsule of DLPack. `stream` is an address, as torch.cuda.Stream.cuda_stream; its later work waits for the values.
Any Dlpack(const PythonDeviceBatch& self, size_t i, uint64_t stream) {
  ColumnAt(self, i);
  DLManagedTensor* const tensor = WithoutGil(
      [&] { return gpu::ToDlpack(self.batch, i, gpu::DeviceArray::kValues, reinterpret_cast<gpu::Stream>(stream)); });
  // Whoever takes the tensor gives the capsule another name, and calls the deleter.
  PyObject* const capsule = PyCapsule_New(tensor, "dltensor", [](PyObject* object) {
    if (PyCapsule_IsValid(object, "dltensor") == 0) return;
    gpu::DeleteDlpack(static_cast<DLManagedTensor*>(PyCapsule_GetPointer(object, "dltensor")));
  });
  if (capsule == nullptr) {
    gpu::DeleteDlpack(tensor);
    throw nb::python_error();
  }
  return nb::steal(capsule);
}

}  // namespace

void BindDevice(nb::module_& module) {
  nb::class_<PythonDeviceBatch> batch(module, "DeviceBatch", nb::is_weak_referenceable());
  batch.def("column", &DescribeDeviceColumn, nb::arg("index"))
      .def("dlpack", &Dlpack, nb::arg("index"), nb::arg("stream"))
      .def("synchronize", [](const PythonDeviceBatch& self) { WithoutGil([&] { return self.batch->Synchronize(); }); });
  BindBatchMembers(batch);
  nb::class_<PythonDeviceLoader> loader(module, "DeviceLoader", nb::is_weak_referenceable());
  loader.def(nb::new_(&OpenDeviceLoader), nb::arg("datasets"), nb::arg("options"), nb::arg("device_options"));
  BindReport<gpu::DeviceReport>(module, "DeviceReport", loader, &DeviceNumbers);
  PythonDeviceLoader::Bind(loader);
  // Whether this build has CUDA, and the machine a driver for it.
  module.def("has_cuda", [] {
    const GilReleased released;
    return gpu::CudaDevices().ok();
  });
}

}  // namespace shardkit::bindings
