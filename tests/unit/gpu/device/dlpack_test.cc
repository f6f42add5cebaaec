// DLPack tensors, looked at through the structs that the specification lays out.
#include "shardkit/dlpack.h"

#include <gtest/gtest.h>

#include "loader/device/dlpack_abi.h"
#include "loader/geometry_support.h"
#include "unit/gpu/device/device_loader_support.h"

namespace shardkit::test {
namespace {

static_assert(sizeof(DLTensor) == 48 && sizeof(DLManagedTensor) == 64 && sizeof(DLManagedTensorVersioned) == 80);
static_assert(offsetof(DLTensor, shape) == 24 && offsetof(DLManagedTensorVersioned, dl_tensor) == 32);

TEST(Dlpack, TensorsOfEveryArray) {
  const auto files = NewMemoryFileSystem();
  (void)WriteImagesAndMasks(*files);
  const auto device = TestDevice();
  LoaderOptions options;
  options.plan = {.seed = 1, .batch_size = 16};
  options.geometry = Geometries()[3];
  options.columns = {{.name = "image", .decode = ColumnDecode::kImage},
                     {.name = "masks", .decode = ColumnDecode::kMasks}};
  options.columns[0].output = {.type = Type::kBf16, .planar = true};
  options.pinned_bytes = 8 << 20;
  auto loader = OpenDeviceLoader(device, *files, options);
  std::shared_ptr<const Batch> batch = *loader->Next();
  const std::weak_ptr<const Batch> watched = batch;
  const auto stream = device->CreateStream();
  const BatchColumn images = batch->column(0), masks = batch->column(1);

  const auto tensor = ToDlpack(batch, 0, BatchArray::kValues, *stream);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  const DLTensor& values = (*tensor)->dl_tensor;
  EXPECT_EQ(values.data, images.values.data());
  EXPECT_EQ(values.device.device_type, device->info().cuda ? 2 : 1);
  EXPECT_EQ(values.device.device_id, device->info().index);
  EXPECT_EQ(values.ndim, 4);
  EXPECT_EQ(std::vector<int64_t>(values.shape, values.shape + 4), (std::vector<int64_t>{16, 3, 20, 24}));
  EXPECT_EQ(std::vector<int64_t>(values.strides, values.strides + 4), (std::vector<int64_t>{1440, 480, 24, 1}));
  EXPECT_EQ(values.dtype.code, 4);
  EXPECT_EQ(values.dtype.bits, 16);
  EXPECT_EQ(values.dtype.lanes, 1);
  EXPECT_EQ(values.byte_offset, 0u);

  std::vector<DLManagedTensorVersioned*> versioned;
  for (const auto& [array, data, shape] :
       {std::tuple<BatchArray, const void*, std::vector<int64_t>>{BatchArray::kOffsets, masks.on_device.offsets, {17}},
        {BatchArray::kShapes, masks.on_device.shapes, {static_cast<int64_t>(masks.offsets.back()), 2}},
        {BatchArray::kItemOffsets, masks.on_device.item_offsets, {static_cast<int64_t>(masks.offsets.back()) + 1}}}) {
    const auto made = ToDlpackVersioned(batch, 1, array, *stream);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ((*made)->version.major, 1u);
    EXPECT_EQ((*made)->flags, 0u);
    EXPECT_EQ((*made)->dl_tensor.data, data);
    EXPECT_EQ(std::vector<int64_t>((*made)->dl_tensor.shape, (*made)->dl_tensor.shape + (*made)->dl_tensor.ndim),
              shape);
    EXPECT_EQ((*made)->dl_tensor.dtype.code, 0);
    versioned.push_back(*made);
  }
  EXPECT_TRUE(absl::IsInvalidArgument(ToDlpack(batch, 2, BatchArray::kValues, *stream).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ToDlpack(batch, 0, BatchArray::kOffsets, *stream).status()));

  // The tensors keep the batch alive after the loader's end, but only as long as they exist.
  ASSERT_TRUE(batch->Synchronize().ok());
  const std::vector<uint8_t> before = Fetch(*device, images.values.data(), images.values.size());
  batch.reset();
  loader.reset();
  EXPECT_EQ(Fetch(*device, values.data, before.size()), before);
  EXPECT_FALSE(watched.expired());
  (*tensor)->deleter(*tensor);
  for (DLManagedTensorVersioned* const made : versioned) {
    EXPECT_FALSE(watched.expired());
    made->deleter(made);
  }
  EXPECT_TRUE(watched.expired());
  device->DestroyStream(*stream);
}

TEST(Dlpack, NumbersThatFewProgramsHave) {
  const auto files = NewMemoryFileSystem();
  const Column complex{.name = "complex", .type = Type::kComplex64}, time{.name = "time", .type = Type::kTimestampS};
  const Column small{.name = "small", .type = Type::kF8E4M3};
  const std::string eight(8, '\x01');
  ASSERT_TRUE(
      WriteDataset(*files, "/data", {{"k", {{&complex, eight}, {&time, eight}, {&small, "\x01"}}}}, SmallShards(4, 1))
          .ok());
  LoaderOptions options;
  options.plan = {.seed = 1, .batch_size = 1};
  options.pinned_bytes = 8 << 20;
  const auto loader = OpenDeviceLoader(TestDevice(), *files, options);
  const std::shared_ptr<const Batch> batch = *loader->Next();
  const std::map<std::string, uint8_t, std::less<>> codes = {
      {"complex", loader::kDlpackComplex}, {"time", loader::kDlpackInt}, {"small", 0}};
  size_t found = 0;
  for (size_t c = 0; c < batch->column_count(); ++c) {
    const auto code = codes.find(batch->column(c).name);
    if (code == codes.end()) continue;
    ++found;
    const auto tensor = ToDlpack(batch, c, BatchArray::kValues, nullptr);
    if (code->first == "small") {
      EXPECT_TRUE(absl::IsUnimplemented(tensor.status())) << tensor.status();
      continue;
    }
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_EQ((*tensor)->dl_tensor.dtype.code, code->second);
    EXPECT_EQ((*tensor)->dl_tensor.dtype.bits, 64);
    (*tensor)->deleter(*tensor);
  }
  EXPECT_EQ(found, 3u);
}

TEST(Dlpack, TypesOfStoredColumns) {
  const auto files = NewMemoryFileSystem();
  ASSERT_TRUE(WriteDataset(*files, "/data", MakeSamples(20), SmallShards(20, 5)).ok());
  LoaderOptions options;
  options.plan = {.seed = 1, .batch_size = 20};
  options.pinned_bytes = 8 << 20;
  const auto loader = OpenDeviceLoader(TestDevice(), *files, options);
  const std::shared_ptr<const Batch> batch = *loader->Next();
  for (size_t c = 0; c < batch->column_count(); ++c) {
    const BatchColumn& column = batch->column(c);
    const auto tensor = ToDlpack(batch, c, BatchArray::kValues, nullptr);
    ASSERT_TRUE(tensor.ok());
    const DLTensor& values = (*tensor)->dl_tensor;
    EXPECT_EQ(values.dtype.bits, 8 * ScalarSize(column.dtype));
    uint64_t elements = 1;
    for (int i = 0; i < values.ndim; ++i) elements *= static_cast<uint64_t>(values.shape[i]);
    EXPECT_EQ(elements * ScalarSize(column.dtype), column.values.size()) << column.name;
    (*tensor)->deleter(*tensor);
    if (column.present.empty()) continue;
    const auto present = ToDlpack(batch, c, BatchArray::kPresent, nullptr);
    ASSERT_TRUE(present.ok());
    EXPECT_EQ((*present)->dl_tensor.shape[0], 20);
    (*present)->deleter(*present);
  }
}

}  // namespace
}  // namespace shardkit::test
