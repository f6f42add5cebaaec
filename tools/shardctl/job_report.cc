#include "job_report.h"

#include <map>
#include <string>

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
  return text + "\ngeneration " + std::to_string(manifest.generation) + ": " +
         Counted(manifest.sample_count, "sample") + " (" + Counted(manifest.schema.size(), "column") + ") in " +
         Counted(manifest.shards.size(), "shard") + ", " + Counted(manifest.block_count, "block") + "\n";
}

int ReportSkipped(const std::vector<shardkit::SkippedSample>& skipped) {
  if (skipped.empty()) return kExitSuccess;
  for (size_t begin = 0, end = 0; begin < skipped.size(); begin = end) {
    const shardkit::SkippedSample& first = skipped[begin];
    // A damaged shard may cost all of its samples, for one reason.
    for (end = begin + 1; end < skipped.size() && skipped[end].reason == first.reason &&
                          skipped[end].position == first.position + (end - begin);) {
      ++end;
    }
    const bool one = end == begin + 1;
    const std::string last = one ? "" : " to " + std::to_string(skipped[end - 1].position);
    const std::string key = !one || first.key.empty() ? "" : " (" + first.key + ")";
    PrintError(std::string("shardctl: skipped sample") + (one ? " " : "s ") + std::to_string(first.position) + last +
               key + ": " + first.reason);
  }
  std::map<std::string, size_t> kinds;
  for (const shardkit::SkippedSample& sample : skipped) ++kinds[sample.kind];
  std::string counts;
  for (const auto& [kind, count] : kinds) {
    counts += (counts.empty() ? ": " : ", ") + std::to_string(count) + " " + kind;
  }
  PrintError("shardctl: " + Counted(skipped.size(), "sample") + " skipped" + counts);
  return kExitSkipped;
}

Json SkippedJson(const std::vector<shardkit::SkippedSample>& skipped) {
  Json list = Json::array();
  for (const shardkit::SkippedSample& sample : skipped) {
    list.push_back(
        {{"position", sample.position}, {"key", sample.key}, {"reason", sample.reason}, {"kind", sample.kind}});
  }
  return list;
}

}  // namespace shardctl
