// A dataset with columns of all kinds that predicates know.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dataset/dataset_support.h"
#include "shardkit/select.h"

namespace shardkit::test {

// key utf8, i i64?, u u64, f f32?, h f16?, b bool?, t utf8?, js json?, img bytes?, a ndarray i32?, d ndarray f64?,
// c ndarray bool?, m rle?; those with ? may be absent.
Schema SelectSchema();

// One value for each column, by name; the others are absent, or 0.
using Given = std::map<std::string, std::string>;

template <typename T>
std::string Bytes(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

// A value of a column of arrays.
std::string Array(const std::string& column, const std::vector<uint64_t>& shape, const std::string& elements);

template <typename T>
std::string Array(const std::string& column, const std::vector<T>& elements) {
  std::string bytes;
  for (const T element : elements) bytes += Bytes(element);
  return Array(column, {elements.size()}, bytes);
}

// Writes the samples, with keys "k0", "k1", …, where none is given.
void WriteGiven(FileSystem& files, const std::string& path, const std::vector<Given>& samples,
                const DatasetWriterOptions& options = {});

// The ordinals for which the predicate holds, found by reading every block, or with `blocks` those that may have some,
// which are counted; an error is its text.
std::string Selected(FileSystem& files, const std::string& path, const std::string& predicate,
                     uint64_t* blocks = nullptr);

}  // namespace shardkit::test
