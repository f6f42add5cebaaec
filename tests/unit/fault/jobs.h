// What can be done with datasets of every container, as a table: to be tried on file systems that fail and on
// machines that lose power.
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

  // Does it. When it returns OK, what it gave has been held against what an undisturbed run gives: a wrong
  // answer fails the test.
  std::function<absl::Status(FileSystem&)> operate;

  // It writes nothing that stays.
  bool reads_only = false;
};

// Of the containers "shard", "mds", "mds-zstd", "tar" and "tar-indexed".
std::vector<Job> ReadingJobs();

// Indexes of every kind, merging, repairing.
std::vector<Job> WritingJobs();

// A tree with each job's input, made once.
const Tree& InputOf(const Job& job);

// The whole file system after an undisturbed run.
const Tree& OutcomeOf(const Job& job);

// Files that are neither as before the job nor as after it, and missing ones that were there before and are
// after. Empty when all is as it should be. `temporaries` says that those of an unfinished run may be there.
std::string Unexpected(const Job& job, const Tree& now, bool temporaries);

}  // namespace shardkit::test
