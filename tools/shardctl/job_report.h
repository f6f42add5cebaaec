// The final messages of the commands that write datasets.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "json.h"
#include "shardkit/dataset_writer.h"
#include "shardkit/pack.h"

namespace shardctl {

// Call it after Cancelled. Says what the job left behind, which depends on its options. Returns the exit code.
int ReportInterruption(bool dry_run, const shardkit::DatasetWriterOptions& options);

// Says what an append has done; one line.
std::string AppendedText(const shardkit::PackReport& report, std::string_view source);

// Lists the skipped samples on standard error. Returns the exit code: success when there are none.
int ReportSkipped(const std::vector<shardkit::SkippedSample>& skipped);

Json SkippedJson(const std::vector<shardkit::SkippedSample>& skipped);

}  // namespace shardctl
