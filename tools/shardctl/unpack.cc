// shardctl unpack
#include <string>
#include <vector>

#include "command_line.h"
#include "dataset_access.h"
#include "interrupt.h"
#include "job_report.h"
#include "json.h"
#include "numbers.h"
#include "output.h"
#include "progress.h"
#include "report.h"
#include "shardkit/pack.h"
#include "shardkit/remote.h"
#include "verbs.h"

namespace shardctl {

int RunUnpack(int argc, char** argv) {
  CommandLine line("unpack", "turn a dataset back into the files it was packed from", "[OPTION]... PATH -o DIR");
  std::vector<std::string> paths;
  std::optional<std::string> output;
  std::optional<std::string> range;
  bool by_shard = false;
  bool json = false;
  JobsOption jobs;
  DecompressionOption decompression;
  HashOption hashes;
  AtOption at;
  size_t on_error = 0;
  line.Arguments("PATH", 1, 1, &paths);
  line.Text("-o,--output", "DIR", &output, "directory to write to; must be empty or missing");
  jobs.AddTo(&line, "threads that read, check and write");
  line.Text("--samples", "A:B", &range, "only samples A up to but not including B; either may be left out");
  line.Flag("--by-shard", &by_shard, "the files of each shard in a folder of their own, 00000000 and so on");
  line.Choice("--on-error", "ACTION", {"fail", "skip"}, &on_error,
              "what to do about a sample that cannot be read, or whose files an earlier one has: fail, or leave it out "
              "and exit with 4 [fail]");
  decompression.AddTo(&line);
  hashes.AddTo(&line);
  at.AddTo(&line);
  line.StoreOptions(StoreUse::kRead);
  line.Flag("--json", &json, "print the summary as one JSON document");
  line.Notes(
      "Files come back byte for byte. A dataset that was not packed from files gives KEY.COLUMN for byte strings,\n"
      "KEY.COLUMN.npy for arrays and KEY.COLUMN.json for the rest. Nothing is written outside of DIR and nothing over "
      "a file: a name that would is an error, after which nothing is left behind.");
  line.Example("shardctl unpack photos -o again", "all files, as they were");
  line.Example("shardctl unpack sa1b -o few --samples :10", "the files of the first ten samples");
  line.Example("shardctl unpack damaged -o rest --on-error skip", "what can be read of it; the rest is listed");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  if (!output.has_value()) return line.UsageError("-o DIR is missing");

  if (const absl::Status apart = CheckApart(*output, paths); !apart.ok()) return Fail(apart);

  shardkit::UnpackOptions options;
  if (range.has_value()) {
    const absl::StatusOr<std::pair<uint64_t, uint64_t>> samples = ParseRange(*range);
    if (!samples.ok()) return line.UsageError("--samples: " + std::string(samples.status().message()));
    std::tie(options.first_sample, options.end_sample) = *samples;
  }
  options.threads = jobs.jobs(paths);
  options.skip_errors = on_error == 1;
  options.by_shard = by_shard;
  options.cancellation = CancelOnSignal();
  shardkit::DatasetOptions dataset_options;
  dataset_options.max_decompression = decompression.bytes();
  dataset_options.verify_listed_hashes = hashes.verify();
  dataset_options.generation = at.generation();
  dataset_options.skip_lost_samples = options.skip_errors;
  shardkit::FileSystem& file_system = *shardkit::DefaultFileSystem();
  const absl::StatusOr<std::unique_ptr<shardkit::DatasetReader>> dataset =
      shardkit::DatasetReader::Open(file_system, paths[0], dataset_options);
  if (!dataset.ok()) return Fail(dataset.status());
  if (const uint64_t count = (*dataset)->sample_count(); options.first_sample > count) {
    SampleOption first;
    first.sample = options.first_sample;
    return Fail(first.Find(**dataset).status());
  }

  Progress progress("samples");
  const uint64_t stored = (*dataset)->summary().bytes;
  const uint64_t samples = std::max<uint64_t>((*dataset)->sample_count(), 1);
  options.progress = [&](uint64_t done, uint64_t total) {
    // The number of bytes written is not known until the end. An equal share of the stored bytes is a good estimate.
    progress.Update(
        done, total,
        static_cast<uint64_t>(static_cast<double>(stored) / static_cast<double>(samples) * static_cast<double>(done)));
  };
  const absl::StatusOr<shardkit::UnpackReport> report = shardkit::Unpack(file_system, **dataset, *output, options);
  progress.Clear();
  if (absl::IsCancelled(report.status())) {
    PrintError("shardctl: interrupted; nothing was left behind");
    return kExitEnvironment;
  }
  if (!report.ok()) return Fail(report.status());
  if (json) {
    PrintJson(Json{{"path", paths[0]},
                   {"output", *output},
                   {"samples", report->samples},
                   {"files", report->files},
                   {"bytes", report->bytes},
                   {"warnings", report->warnings},
                   {"skipped", SkippedJson(report->skipped)}});
  } else {
    Stdout().Write("unpacked " + Counted(report->samples, "sample") + " into " + Counted(report->files, "file") + ", " +
                   FormatBytes(report->bytes) + "\n");
  }
  Stdout().Flush();
  for (const std::string& warning : report->warnings) PrintError("shardctl: warning: " + warning);
  return ReportSkipped(report->skipped);
}

}  // namespace shardctl
