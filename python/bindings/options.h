// Options by name, from Python's keyword arguments to the library's structs.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "shardkit/dataset_writer.h"
#include "shardkit/select.h"
#include "shardkit/shard.h"

namespace shardkit::bindings {

// Names and what they stand for.
template <typename T>
using Choices = std::initializer_list<std::pair<const char*, T>>;

// What `given` stands for; ValueError, which lists the names, when it is none of them. `option` is the name of the
// option.
template <typename T>
T Choose(const std::string& option, const std::string& given, Choices<T> choices) {
  std::string names;
  for (const auto& [name, choice] : choices) {
    if (given == name) return choice;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  throw nanobind::value_error((option + ": give one of " + names + ", not " + given).c_str());
}

// Whether a value of this type is a number, which Python's True and False are not.
template <typename T>
inline constexpr bool kIsNumber = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;
template <typename T>
inline constexpr bool kIsNumber<std::optional<T>> = kIsNumber<T>;

// Takes one option after another out of the keyword arguments; what is left at the end is a TypeError.
class OptionReader {
 public:
  OptionReader(const nanobind::dict& given, std::string function) : function_(std::move(function)) {
    left_.update(given);
  }

  // Sets `target` where the option is given. ValueError for a value of another type.
  template <typename T>
  void Take(const char* name, T& target) {
    if (!left_.contains(name)) return;
    const nanobind::object value = left_[name];
    if ((kIsNumber<T> && PyBool_Check(value.ptr())) || !nanobind::try_cast(value, target)) {
      const std::string text = nanobind::repr(value).c_str();
      throw nanobind::value_error((function_ + ": " + name + "=" + text + " is not possible").c_str());
    }
    nanobind::del(left_[name]);
  }

  // The same for an option that names a choice.
  template <typename T>
  void TakeChoice(const char* name, T& target, Choices<T> choices) {
    std::optional<std::string> given;
    Take(name, given);
    if (given) target = Choose(name, *given, choices);
  }

  // TypeError when an option is left that nobody took.
  void Finish() const;

 private:
  const std::string function_;
  nanobind::dict left_;
};

// "none" or "zstd"; ValueError for others.
Codec CodecNamed(const std::string& name);
// A type of the format; ValueError for other names.
Type TypeNamed(const std::string& name);
// "auto", "buffered", "mapped" or "direct"; ValueError for others.
ReadMode ModeNamed(const std::string& name);
// "every", "first" or "never"; ValueError for others.
Verify VerifyNamed(const std::string& name);

// The options where, keys, ranges, sample and seed.
SampleSelection TakeSelection(OptionReader& reader);

// The options of DatasetWriterOptions and of its ShardOptions.
void TakeWriterOptions(OptionReader& reader, DatasetWriterOptions& options);

}  // namespace shardkit::bindings
