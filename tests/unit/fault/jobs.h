// A table of the operations on datasets of every container, for tests with failing file systems and power cuts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fault/fault_support.h"

namespace shardkit::test {

struct Job {
  std::string name;

  // Makes the input.
  std::function<void(FileSystem&)> prepare;

  // Runs the job. When it returns OK, its result was compared with that of an undisturbed run: a wrong result fails the
  // test.
  std::function<absl::Status(FileSystem&)> operate;

  // True when it leaves no new files.
  bool reads_only = false;
};

// For the containers "shard", "shard-listed", "mds", "mds-zstd", "tar" and "tar-indexed".
std::vector<Job> ReadingJobs();

// Indexes of every kind, merging, repairing.
std::vector<Job> WritingJobs();

// A tree with each job's input, made once.
const Tree& InputOf(const Job& job);

// The whole file system after an undisturbed run.
const Tree& OutcomeOf(const Job& job);

// Files that are neither as before the job nor as after it, and missing files that exist both before and after it.
// Empty when everything is right. `temporaries` allows the temporary files of an unfinished run.
std::string Unexpected(const Job& job, const Tree& now, bool temporaries);

}  // namespace shardkit::test
