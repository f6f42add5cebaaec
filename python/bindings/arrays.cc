#include "arrays.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "gil.h"

namespace shardkit::bindings {
namespace {

namespace nb = nanobind;

nb::dlpack::dtype IntegerOfSize(uint32_t bytes) {
  return {static_cast<uint8_t>(nb::dlpack::dtype_code::UInt), static_cast<uint8_t>(8 * bytes), 1};
}

// The type of the elements as NumPy takes it over; that of a type which NumPy lacks is an integer of its size.
nb::dlpack::dtype Elements(Type dtype) {
  switch (dtype) {
    case Type::kI8:
      return nb::dtype<int8_t>();
    case Type::kI16:
      return nb::dtype<int16_t>();
    case Type::kI32:
      return nb::dtype<int32_t>();
    case Type::kI64:
    case Type::kTimestampS:
    case Type::kTimestampMs:
    case Type::kTimestampUs:
    case Type::kTimestampNs:
      return nb::dtype<int64_t>();
    case Type::kBool:
      return nb::dtype<bool>();
    case Type::kF16:
      return {static_cast<uint8_t>(nb::dlpack::dtype_code::Float), 16, 1};
    case Type::kF32:
      return nb::dtype<float>();
    case Type::kF64:
      return nb::dtype<double>();
    case Type::kComplex64:
      return {static_cast<uint8_t>(nb::dlpack::dtype_code::Complex), 64, 1};
    case Type::kComplex128:
      return {static_cast<uint8_t>(nb::dlpack::dtype_code::Complex), 128, 1};
    default:
      return IntegerOfSize(std::max<uint32_t>(1, ScalarSize(dtype)));
  }
}

// Whether NumPy's array has to be seen as another type. It takes integers of 64 bits over as those of long long, which
// torch does not know.
bool NeedsView(Type dtype) {
  switch (dtype) {
    case Type::kI64:
    case Type::kU64:
    case Type::kTimestampS:
    case Type::kTimestampMs:
    case Type::kTimestampUs:
    case Type::kTimestampNs:
      return true;
    default:
      return false;
  }
}

}  // namespace

nb::object MakeArray(const void* data, Type dtype, std::span<const uint64_t> shape, nb::handle owner, bool writable) {
  const std::vector<size_t> sizes(shape.begin(), shape.end());
  void* const memory = const_cast<void*>(data);  // NOLINT: read-only arrays are marked as such
  nb::object array =
      writable ? nb::cast(nb::ndarray<nb::numpy>(memory, sizes.size(), sizes.data(), owner, nullptr, Elements(dtype)))
               : nb::cast(nb::ndarray<nb::numpy, nb::ro>(memory, sizes.size(), sizes.data(), owner, nullptr,
                                                         Elements(dtype)));
  if (!NeedsView(dtype)) return array;
  const nb::object view_as = nb::module_::import_("shardkit._numbers").attr("view_as");
  const nb::tuple arguments = nb::make_tuple(array, TypeName(dtype));
  return CallPython([&] { return PyObject_CallObject(view_as.ptr(), arguments.ptr()); });
}

nb::object NewArray(Type dtype, std::span<const uint64_t> shape, void** data) {
  uint64_t bytes = std::max<uint32_t>(1, ScalarSize(dtype));
  for (const uint64_t size : shape) bytes *= size;
  auto memory = std::make_unique_for_overwrite<std::byte[]>(std::max<uint64_t>(bytes, 1));
  *data = memory.get();
  const nb::capsule owner(memory.get(), [](void* p) noexcept { delete[] static_cast<std::byte*>(p); });
  memory.release();  // NOLINT: the capsule owns it
  return MakeArray(*data, dtype, shape, owner, true);
}

}  // namespace shardkit::bindings
