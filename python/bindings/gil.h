// Giving up the GIL and taking it again, also on threads that outlive the interpreter.
#pragma once

#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <unistd.h>

#include <utility>

namespace shardkit::bindings {

// Returns function(), which takes the GIL. Where the interpreter is being finalized, Python before 3.14 ends any other
// thread that asks for the GIL by unwinding its stack, which ends the process where a frame is noexcept. As in Python
// 3.14 such a thread sleeps until the process ends.
template <typename Function>
decltype(auto) OrSleepAtExit(Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const abi::__forced_unwind&) {
    while (true) pause();
  }
}

// Returns what function(), a call of Python's C interface that runs code of Python, returns; throws its exception.
// Unlike a call of nanobind's, it has no frame of C++ between the code and OrSleepAtExit.
template <typename Function>
nanobind::object CallPython(Function&& function) {
  PyObject* const result = OrSleepAtExit(std::forward<Function>(function));
  if (result == nullptr) throw nanobind::python_error();
  return nanobind::steal(result);
}

// Throws the exception of a signal that has come. Needs the GIL.
inline void LookForSignals() {
  if (OrSleepAtExit(PyErr_CheckSignals) != 0) throw nanobind::python_error();
}

// The GIL is not held while this lives. Made by a thread that holds it.
class GilReleased {
 public:
  GilReleased() = default;
  ~GilReleased() {
    OrSleepAtExit([this] { PyEval_RestoreThread(thread_); });
  }
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* const thread_ = PyEval_SaveThread();
};

// The GIL is held while this lives, on a thread of the library.
class GilHeld {
 public:
  GilHeld()
      : state_(OrSleepAtExit([] {
          while (Py_IsInitialized() == 0) pause();
          return PyGILState_Ensure();
        })) {}
  ~GilHeld() { PyGILState_Release(state_); }
  GilHeld(const GilHeld&) = delete;
  GilHeld& operator=(const GilHeld&) = delete;

 private:
  const PyGILState_STATE state_;
};

}  // namespace shardkit::bindings
