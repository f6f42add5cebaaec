// Structs of the library as classes of Python that are used like frozen dataclasses.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "bind.h"
#include "status.h"

namespace shardkit::bindings {

// What all records do: they have the names of their attributes as __match_args__.
nanobind::str RecordText(nanobind::handle self);
bool SameRecords(nanobind::handle self, nanobind::handle other);
Any ReduceRecord(nanobind::handle self);

// Attributes are read-only, and copies. Objects are made of values of them, in order or by name, and compared, shown
// and pickled by them. Each T has one Record.
template <typename T>
class Record {
 public:
  Record(nanobind::module_& module, const char* name, const char* doc) : class_(module, name, doc) {
    setters().clear();
    class_.def("__init__", &Make, nanobind::sig("def __init__(self, *values: typing.Any, **named: typing.Any) -> None"))
        .def("__repr__", &RecordText)
        .def("__eq__", &SameRecords, nanobind::sig("def __eq__(self, other: object, /) -> bool"))
        .def("__hash__", [](nanobind::handle self) { return nanobind::hash(ReduceRecord(self)); })
        .def("__reduce__", &ReduceRecord);
  }

  // `member` is a member, or a function that returns a reference to what a T has.
  template <typename Member>
  Record& Field(const char* name, Member member) {
    using Value = std::remove_cvref_t<std::invoke_result_t<Member, T&>>;
    return Field(
        name,
        [member](const T& self) {
          if constexpr (requires(const Value& value) { Text(value); }) {
            return Text(std::invoke(member, self));
          } else {
            return Value(std::invoke(member, self));
          }
        },
        [member](T& self, nanobind::handle value) { std::invoke(member, self) = nanobind::cast<Value>(value); });
  }

  // Of another type in Python; `set` is given the value.
  template <typename Get>
  Record& Field(const char* name, Get get, std::function<void(T& self, nanobind::handle value)> set) {
    class_.def_prop_ro(name, std::move(get));
    setters().emplace_back(name, std::move(set));
    names_.append(name);
    class_.attr("__match_args__") = nanobind::tuple(names_);
    return *this;
  }

  // For what is no attribute of its own.
  nanobind::class_<T>& bound() { return class_; }

 private:
  using Setters = std::vector<std::pair<std::string, std::function<void(T& self, nanobind::handle value)>>>;

  static Setters& setters() {
    static Setters setters;
    return setters;
  }

  static void Make(T* self, const nanobind::args& given, const nanobind::kwargs& named) {
    T made;
    if (given.size() > setters().size()) throw nanobind::type_error("more values than attributes");
    try {
      for (size_t i = 0; i < given.size(); ++i) setters()[i].second(made, given[i]);
      for (const auto& [name, value] : named) {
        const auto setter =
            std::ranges::find(setters(), nanobind::cast<std::string>(name), &Setters::value_type::first);
        if (setter == setters().end()) throw nanobind::type_error("no such attribute");
        setter->second(made, value);
      }
    } catch (const std::bad_cast&) {
      throw nanobind::type_error("a value is of another type than its attribute");
    }
    new (self) T(std::move(made));
  }

  nanobind::class_<T> class_;
  nanobind::list names_;
};

// The value of an enumeration with this name, of those up to `last`.
template <typename Enum>
Enum Named(const std::string& name, Enum last, std::string_view (*name_of)(Enum)) {
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    if (name_of(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  }
  throw nanobind::value_error("no such name");
}

}  // namespace shardkit::bindings
