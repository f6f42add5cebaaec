#include "job_report.h"

#include <string>

#include "numbers.h"
#include "report.h"

namespace shardctl {

int ReportInterruption(bool dry_run, bool resume) {
  if (dry_run) {
    PrintError("shardctl: interrupted");
  } else if (resume) {
    PrintError("shardctl: interrupted; finished shards are kept, run again with --resume");
  } else {
    PrintError("shardctl: interrupted; nothing was left behind");
  }
  return kExitEnvironment;
}

int ReportSkipped(const std::vector<shardkit::SkippedSample>& skipped) {
  if (skipped.empty()) return kExitSuccess;
  for (const shardkit::SkippedSample& sample : skipped) {
    const std::string key = sample.key.empty() ? "" : " (" + sample.key + ")";
    PrintError("shardctl: skipped sample " + std::to_string(sample.position) + key + ": " + sample.reason);
  }
  PrintError("shardctl: " + Counted(skipped.size(), "sample") + " skipped");
  return kExitSkipped;
}

Json SkippedJson(const std::vector<shardkit::SkippedSample>& skipped) {
  Json list = Json::array();
  for (const shardkit::SkippedSample& sample : skipped) {
    list.push_back({{"position", sample.position}, {"key", sample.key}, {"reason", sample.reason}});
  }
  return list;
}

}  // namespace shardctl
