#include "status.h"

#include <nanobind/stl/string.h>

#include <cerrno>
#include <optional>
#include <string>

#include "shardkit/error_place.h"

namespace shardkit::bindings {
namespace {

namespace nb = nanobind;

// Owned by the module, which is never unloaded.
PyObject* data_loss_error = nullptr;

PyObject* ExceptionClass(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kDataLoss:
      return data_loss_error;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
      return PyExc_ValueError;
    case absl::StatusCode::kNotFound:
      return PyExc_FileNotFoundError;
    case absl::StatusCode::kAlreadyExists:
      return PyExc_FileExistsError;
    case absl::StatusCode::kPermissionDenied:
      return PyExc_PermissionError;
    case absl::StatusCode::kOutOfRange:
      return PyExc_IndexError;
    case absl::StatusCode::kUnimplemented:
      return PyExc_NotImplementedError;
    case absl::StatusCode::kResourceExhausted:
      return PyExc_MemoryError;
    case absl::StatusCode::kCancelled:
      return PyExc_KeyboardInterrupt;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kAborted:
      return PyExc_OSError;
    default:
      return PyExc_RuntimeError;
  }
}

}  // namespace

void BindErrors(nb::module_& module) {
  data_loss_error = PyErr_NewExceptionWithDoc(
      "shardkit.DataLossError",
      "Stored bytes are not what was written: a file is damaged, cut, or of another kind.\n\n"
      "As all exceptions of the library it has path, shard, block, sample and column, None where not known.",
      PyExc_OSError, nullptr);
  if (data_loss_error == nullptr) throw nb::python_error();
  module.attr("DataLossError") = nb::borrow(data_loss_error);
}

nb::str Text(const std::string& bytes) {
  return nb::steal<nb::str>(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace"));
}

nb::typed<nb::list, nb::str> Text(const std::vector<std::string>& texts) {
  nb::list list;
  for (const std::string& text : texts) list.append(Text(text));
  return list;
}

void Raise(const absl::Status& status) {
  if (status.ok()) return;
  const nb::str text = Text(std::string(status.message()));
  nb::object kind = nb::borrow(ExceptionClass(status.code()));
  const int system_error = SystemErrorOf(status);
  // What the system refuses for want of anything but memory is no MemoryError, and so on: the class of its number.
  const bool of_system = system_error != 0 && system_error != ENOMEM;
  if (of_system && PyObject_IsSubclass(kind.ptr(), PyExc_OSError) != 1) {
    kind = nb::borrow(nb::borrow(PyExc_OSError)(system_error, text).type());
  }
  const nb::object exception = kind(text);
  if (of_system) exception.attr("errno") = system_error;
  const ErrorPlace place = PlaceOf(status);
  const auto name = [&exception](const char* attribute, const std::string& value) {
    exception.attr(attribute) = value.empty() ? nb::none() : nb::object(Text(value));
  };
  const auto number = [&exception](const char* attribute, const std::optional<uint64_t>& value) {
    exception.attr(attribute) = value ? nb::cast(*value) : nb::none();
  };
  name("path", place.path);
  number("shard", place.shard);
  number("block", place.block);
  number("sample", place.sample);
  name("column", place.column);
  PyErr_SetObject(kind.ptr(), exception.ptr());
  throw nb::python_error();
}

}  // namespace shardkit::bindings
