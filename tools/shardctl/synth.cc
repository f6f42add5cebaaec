// shardctl synth
#include "synth/synth.h"

#include <string>
#include <string_view>

#include "command_line.h"
#include "interrupt.h"
#include "json.h"
#include "numbers.h"
#include "output.h"
#include "progress.h"
#include "report.h"
#include "shardkit/filesystem.h"
#include "verbs.h"

namespace shardctl {
namespace {

// The options of both kinds.
struct Common {
  std::optional<std::string> output;
  uint64_t threads = 0;
  bool json = false;
  SynthProgress last;

  void AddTo(CommandLine* line, uint64_t* count, const std::string& counted, uint64_t* seed, bool* overwrite) {
    line->Text("-o,--output", "DIR", &output, "directory to write to; created with its parents");
    line->Count("--count", "N", count, 0, UINT32_MAX, "number of " + counted + " [" + std::to_string(*count) + "]");
    line->Count("--seed", "S", seed, 0, UINT64_MAX, "what the contents are made from [1]");
    line->Count("-j,--jobs", "N", &threads, 1, 1024,
                "threads; the files are the same for any number [one per processor]");
    line->Flag("--overwrite", overwrite, "replace files that are there");
    line->Flag("--json", &json, "print the summary as one JSON document");
  }

  int Finish(const absl::Status& status, std::string_view noun) const {
    if (absl::IsCancelled(status)) {
      PrintError("shardctl: interrupted; " + *output + " keeps what was finished");
      return kExitEnvironment;
    }
    if (!status.ok()) return Fail(status);
    if (json) {
      PrintJson(Json{{"output", *output}, {"samples", last.samples_done}, {"bytes", last.bytes}});
    } else {
      Stdout().Write("made " + Counted(last.samples_done, noun) + " in " + Printable(*output) + ", " +
                     FormatBytes(last.bytes) + "\n");
    }
    return kExitSuccess;
  }
};

int RunSa1b(int argc, char** argv) {
  CommandLine line("synth sa1b", "make photographs with masks in the form of SA-1B", "[OPTION]... -o DIR");
  SynthSa1bOptions options;
  Common common;
  uint64_t width = options.width;
  uint64_t height = options.height;
  uint64_t min_objects = options.min_objects;
  uint64_t max_objects = options.max_objects;
  uint64_t quality = static_cast<uint64_t>(options.jpeg_quality);
  common.AddTo(&line, &options.count, "pairs sa_N.jpg and sa_N.json", &options.seed, &options.overwrite);
  line.Count("--first-id", "N", &options.first_id, 0, UINT32_MAX, "number of the first pair [1]");
  line.Count("--width", "PIXELS", &width, 0, 16384, "0, with --height, for the sizes SA-1B has [0]");
  line.Count("--height", "PIXELS", &height, 0, 16384, "see --width [0]");
  line.Count("--min-objects", "N", &min_objects, 0, 250, "least annotations of a picture [60]");
  line.Count("--max-objects", "N", &max_objects, 0, 250, "most annotations of a picture [150]");
  line.Count("--quality", "Q", &quality, 1, 100, "of the JPEG files [90]");
  line.Example("shardctl synth sa1b -o pairs --count 200", "200 pairs of the size and with as many masks as SA-1B has");
  line.Example("shardctl synth sa1b -o small --width 320 --height 240", "small ones");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  if (!common.output.has_value()) return line.UsageError("-o DIR is missing");
  options.threads = static_cast<int>(common.threads);
  options.width = static_cast<uint32_t>(width);
  options.height = static_cast<uint32_t>(height);
  options.min_objects = static_cast<uint32_t>(min_objects);
  options.max_objects = static_cast<uint32_t>(max_objects);
  options.jpeg_quality = static_cast<int>(quality);
  absl::Status status;
  {
    Progress progress("pairs");
    status = SynthesizeSa1b(
        *shardkit::PosixFileSystem(), *common.output, options,
        [&](const SynthProgress& now) {
          common.last = now;
          progress.Update(now.samples_done, now.samples, now.bytes);
        },
        CancelOnSignal());
  }
  return common.Finish(status, "pair");
}

int RunFiles(int argc, char** argv) {
  CommandLine line("synth files", "make files of random bytes or of words", "[OPTION]... -o DIR");
  SynthFilesOptions options;
  Common common;
  uint64_t jitter = options.size_jitter_percent;
  size_t content = 0;
  std::optional<std::string> extension;
  common.AddTo(&line, &options.count, "files", &options.seed, &options.overwrite);
  line.Size("--size", &options.size, "bytes per file, with a unit if wanted [100KiB]");
  line.Count("--jitter", "PERCENT", &jitter, 0, 100, "sizes differ by up to this share of --size [0]");
  line.Text("--extension", "EXT", &extension, "of the files' names, without the dot [bin]");
  line.Count("--per-directory", "N", &options.files_per_directory, 0, UINT32_MAX,
             "files in each subdirectory; 0 for none [1000]");
  line.Choice("--content", "KIND", {"random", "text"}, &content,
              "random bytes, which nothing compresses, or lines of made-up words [random]");
  line.Example("shardctl synth files -o small4k --count 50000 --size 4KiB", "many small files, to measure with");
  line.Example("shardctl synth files -o text --content text --extension txt", "files that compress");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  if (!common.output.has_value()) return line.UsageError("-o DIR is missing");
  options.threads = static_cast<int>(common.threads);
  options.size_jitter_percent = static_cast<uint32_t>(jitter);
  options.content = content == 0 ? SynthContent::kRandom : SynthContent::kText;
  if (extension.has_value()) options.extension = *extension;
  absl::Status status;
  {
    Progress progress("files");
    status = SynthesizeFiles(
        *shardkit::PosixFileSystem(), *common.output, options,
        [&](const SynthProgress& now) {
          common.last = now;
          progress.Update(now.samples_done, now.samples, now.bytes);
        },
        CancelOnSignal());
  }
  return common.Finish(status, "file");
}

std::string SynthHelp() {
  return "shardctl synth - make synthetic input, to try things and to measure\n\n"
         "Usage: shardctl synth KIND [OPTION]... -o DIR\n\n"
         "Kinds:\n"
         "  sa1b        photographs with masks in the form of SA-1B\n"
         "  files       files of random bytes or of words\n\n"
         "Options:\n"
         "  -h, --help                  show this help; shardctl synth KIND --help shows the options of a "
         "kind\n\n"
         "The same options give the same bytes on every machine.\n\n"
         "Examples:\n"
         "  # 40 pairs sa_N.jpg and sa_N.json\n"
         "  shardctl synth sa1b -o pairs\n"
         "  # 50,000 files of 4 KiB\n"
         "  shardctl synth files -o small4k --count 50000 --size 4KiB\n";
}

}  // namespace

int RunSynth(int argc, char** argv) {
  const std::string_view kind = argc > 0 ? argv[0] : "";
  if (kind == "sa1b") return RunSa1b(argc - 1, argv + 1);
  if (kind == "files") return RunFiles(argc - 1, argv + 1);
  if (kind == "--help" || kind == "-h") {
    Stdout().Write(SynthHelp());
    return kExitSuccess;
  }
  PrintError(kind.empty() ? "shardctl synth: what to make is missing: sa1b or files"
                          : "shardctl synth: " + Quote(kind) + " is not one of sa1b, files");
  PrintError("shardctl: see shardctl synth --help");
  return kExitUsage;
}

}  // namespace shardctl
