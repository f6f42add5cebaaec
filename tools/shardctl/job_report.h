// What the commands that write datasets say at their end.
#pragma once

#include <vector>

#include "json.h"
#include "shardkit/dataset_writer.h"

namespace shardctl {

// After Cancelled: what was left behind depends on how the job was asked to treat an interruption. Returns the exit
// code.
int ReportInterruption(bool dry_run, bool resume);

// Lists them on standard error. Returns the exit code, success when there are none.
int ReportSkipped(const std::vector<shardkit::SkippedSample>& skipped);

Json SkippedJson(const std::vector<shardkit::SkippedSample>& skipped);

}  // namespace shardctl
