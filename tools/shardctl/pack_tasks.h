// Packing and converting in tasks: shardctl pack --task and --finish, convert --task.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "pack_options.h"
#include "progress.h"
#include "shardkit/pack.h"

namespace shardctl {

int RunPackTask(const PackArguments& arguments);
int RunPackFinish(const PackArguments& arguments);

// What a task has done, on standard output. `done` is what it did: "packed". Returns the exit code.
int ReportTask(const std::string& output, uint64_t task, uint64_t tasks, const std::string& done,
               const absl::StatusOr<shardkit::PackTaskReport>& report, bool json, Progress* progress);

}  // namespace shardctl
