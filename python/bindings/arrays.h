// NumPy arrays over memory of the library.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <span>

#include "shardkit/schema.h"

namespace shardkit::bindings {

// An array over `data`, dense, slowest dimension first, that keeps `owner` alive. Types that NumPy lacks (bf16, f8e4m3,
// f8e5m2) are integers of the same bits, of which shardkit._numbers.numbers makes numbers. Needs the GIL.
nanobind::object MakeArray(const void* data, Type dtype, std::span<const uint64_t> shape, nanobind::handle owner,
                           bool writable);

// The same in memory of its own, not initialized. `*data` is where it lies.
nanobind::object NewArray(Type dtype, std::span<const uint64_t> shape, void** data);

}  // namespace shardkit::bindings
