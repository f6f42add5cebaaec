#include "job_report.h"

#include "numbers.h"
#include "report.h"

namespace shardctl {

int ReportInterruption(bool dry_run, const shardkit::DatasetWriterOptions& options) {
  if (dry_run) {
    PrintError("shardctl: interrupted");
  } else if (options.append) {
    PrintError("shardctl: interrupted; the dataset is as it was");
  } else if (options.resume) {
    PrintError("shardctl: interrupted; finished shards are kept, run again with --resume");
  } else {
    PrintError("shardctl: interrupted; nothing was left behind");
  }
  return kExitEnvironment;
}

std::string AppendedText(const shardkit::PackReport& report, std::string_view source) {
  const shardkit::Manifest& manifest = report.manifest;
  std::string text = "appended " + Counted(report.samples, "sample") + " from " + std::string(source);
  if (report.existing > 0) text += ", left out " + Counted(report.existing, "sample") + " whose keys are there already";
  return text + "\ngeneration " + std::to_string(manifest.generation) + ": " + Counted(manifest.samples(), "sample") +
         " (" + Counted(manifest.schema.size(), "column") + ") in " + Counted(manifest.shards.size(), "shard") + ", " +
         Counted(manifest.blocks(), "block") + "\n";
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
