// Reading a damaged dataset in every way there is, and comparing what comes out with what was put in.
//
// A damage is right when every way of reading gives the original's data or an error. What the containers of
// others have no checksum for may change instead, and then exactly where the damage is: see tar_test.cc and
// mds_test.cc.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dataset/dataset_support.h"

namespace shardkit::test {

using Values = std::vector<std::vector<std::optional<std::string>>>;  // by sample and column

// Files at /data, and the result that a reader must give.
struct Subject {
  std::string name;
  Tree files;          // relative to /data
  std::string target;  // what is opened: "" for /data itself, or a file of it
  std::vector<Column> columns;
  Values values;
  Metadata metadata;
  std::vector<ColumnStatistics> statistics;
};

// `values` are the expected values. The undamaged files must have these values and be valid. Their columns, metadata
// and statistics are read.
Subject MakeSubject(std::string name, Tree files, std::string target, Values values);

// A value by sample and column.
using Place = std::pair<size_t, size_t>;

// The results of reading a damaged dataset.
struct Observation {
  absl::Status error;  // the first of reading; OK when everything could be read
  // Values that were read without an error but differ from the original.
  std::map<Place, std::optional<std::string>> changed;
  // Other wrong results without an error: "other columns", "two answers for a value", …
  std::vector<std::string> lies;
  bool found = false;  // by Validate
  std::vector<Problem> problems;

  bool unharmed() const { return error.ok() && changed.empty() && lies.empty(); }
};

// Opens, reads in order, at random, by column and by key, copies, and validates deeply. `turn` chooses the column that
// is read alone, so that the eight bits of a byte use several columns.
Observation Observe(FileSystem& files, const Subject& subject, size_t turn);

// Calls `check`, one call at a time, with every bit of one of the subject's files flipped, and with the file truncated
// to every shorter length. Stops after a few failures. Uses all processors.
using Check = std::function<void(uint64_t place, const Observation& observation)>;
void FlipEveryBit(const Subject& subject, const std::string& file, const Check& check);
void CutAtEveryLength(const Subject& subject, const std::string& file, const Check& check);

// There are no lies and only the original's values. Validate always finds the damage. Reading finds it unless it does
// not use the damaged bytes.
void ExpectNothingElse(const Observation& observation);

}  // namespace shardkit::test
