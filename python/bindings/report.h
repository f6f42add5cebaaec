// Results of the library as dicts, which shardkit.reports makes dataclasses of.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "shardkit/dataset_writer.h"
#include "shardkit/manifest.h"

namespace shardkit::bindings {

// Sums over the dataset: shards, samples, blocks, bytes.
inline nanobind::dict ManifestDict(const Manifest& manifest) {
  nanobind::dict result;
  result["shards"] = manifest.shards.size();
  result["samples"] = manifest.samples();
  result["blocks"] = manifest.blocks();
  result["bytes"] = manifest.bytes();
  return result;
}

inline nanobind::list SkippedList(const std::vector<SkippedSample>& skipped) {
  nanobind::list result;
  // Names of files and of members in tars need not be UTF-8.
  const auto text = [](const std::string& bytes) {
    return nanobind::steal(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace"));
  };
  for (const SkippedSample& sample : skipped) {
    result.append(nanobind::make_tuple(sample.position, text(sample.key), text(sample.reason)));
  }
  return result;
}

}  // namespace shardkit::bindings
