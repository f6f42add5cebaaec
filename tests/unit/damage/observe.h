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

// Files at /data, and what a reader must make of them.
struct Subject {
  std::string name;
  Tree files;          // relative to /data
  std::string target;  // what is opened: "" for /data itself, or a file of it
  std::vector<Column> columns;
  Values values;
  Metadata metadata;
  std::vector<ColumnStatistics> statistics;
};

// Columns, metadata and statistics as they are read of the undamaged files, whose values must be these, and
// which must be valid.
Subject MakeSubject(std::string name, Tree files, std::string target, Values values);

// A value by sample and column.
using Place = std::pair<size_t, size_t>;

// What came out of a damaged dataset.
struct Observation {
  absl::Status error;  // the first of reading; OK when everything could be read
  // Values that were read without an error and are not the original's.
  std::map<Place, std::optional<std::string>> changed;
  // What else was said without an error and is not so: "other columns", "two answers for a value", …
  std::vector<std::string> lies;
  bool found = false;  // by Validate
  std::vector<Problem> problems;

  bool unharmed() const { return error.ok() && changed.empty() && lies.empty(); }
};

// Opens, reads in order, at random, by column and by key, copies, and validates deeply. `turn` chooses the
// column that is read alone, so that the eight bits of a byte have several.
Observation Observe(FileSystem& files, const Subject& subject, size_t turn);

// Calls `check`, one call at a time, for every bit of a file of the subject flipped, and for every length
// below its own that it is cut to. Stops after a few failures. Uses all processors.
using Check = std::function<void(uint64_t place, const Observation& observation)>;
void FlipEveryBit(const Subject& subject, const std::string& file, const Check& check);
void CutAtEveryLength(const Subject& subject, const std::string& file, const Check& check);

// No lies and no values but the original's, and the damage found: by Validate in any case, by reading unless
// what was damaged means nothing to it.
void ExpectNothingElse(const Observation& observation);

}  // namespace shardkit::test
