// Errors of the library as exceptions of Python.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gil.h"

namespace shardkit::bindings {

// What the library says, which names files and members of tars: these need not be UTF-8. Needs the GIL.
nanobind::str Text(const std::string& bytes);
nanobind::typed<nanobind::list, nanobind::str> Text(const std::vector<std::string>& texts);

// Makes the exception classes of the module.
void BindErrors(nanobind::module_& module);

// Throws the exception that belongs to the error's class, with the error's text. Needs the GIL.
void Raise(const absl::Status& status);

// The value, or the error as an exception. Needs the GIL.
template <typename T>
T ValueOrRaise(absl::StatusOr<T> value) {
  if (!value.ok()) Raise(value.status());
  return *std::move(value);
}

// Runs `function` without the GIL and returns its result; an error becomes an exception.
template <typename Function>
auto WithoutGil(Function&& function) {
  auto result = [&] {
    const GilReleased released;
    return function();
  }();
  if constexpr (std::is_same_v<decltype(result), absl::Status>) {
    Raise(result);
  } else {
    return ValueOrRaise(std::move(result));
  }
}

}  // namespace shardkit::bindings
