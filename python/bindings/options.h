// Options by name, from Python's keyword arguments to the library's structs.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "shardkit/dataset_writer.h"
#include "shardkit/shard_reader.h"

namespace shardkit::bindings {

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
    if (!nanobind::try_cast(value, target)) {
      const std::string text = nanobind::repr(value).c_str();
      throw nanobind::value_error((function_ + ": " + name + "=" + text + " is not possible").c_str());
    }
    nanobind::del(left_[name]);
  }

  // TypeError when an option is left that nobody took.
  void Finish() const;

 private:
  const std::string function_;
  nanobind::dict left_;
};

// "none" or "zstd"; ValueError for others.
Codec CodecFromName(const std::string& name);
// "auto", "buffered", "mapped" or "direct"; ValueError for others.
ReadMode ModeFromName(const std::string& name);

// The options of DatasetWriterOptions and of its ShardOptions.
void TakeWriterOptions(OptionReader& reader, DatasetWriterOptions& options);

}  // namespace shardkit::bindings
