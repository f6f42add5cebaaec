#include "bench_options.h"

#include <chrono>
#include <utility>

#include "command_line.h"
#include "numbers.h"

namespace shardctl {
namespace {

constexpr uint64_t kLeastMemory = uint64_t{1} << 20;  // the loader's minimum

// The names of the options among the words, without values.
std::vector<std::string> OptionNames(int argc, char** argv) {
  std::vector<std::string> names;
  for (int i = 0; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with("--") && word.size() > 2) names.push_back(word.substr(0, word.find('=')));
  }
  return names;
}

// "50ms", or "50ms,100MB" for 100 MB/s.
absl::StatusOr<LatencyOptions> ParseLatency(std::string_view text) {
  const size_t comma = text.find(',');
  const absl::StatusOr<double> seconds = ParseTime(text.substr(0, comma));
  if (!seconds.ok()) return seconds.status();
  LatencyOptions options;
  options.latency = std::chrono::nanoseconds(static_cast<int64_t>(*seconds * 1e9));
  if (comma == text.npos) return options;
  const absl::StatusOr<uint64_t> rate = ParseSize(text.substr(comma + 1));
  if (!rate.ok()) return rate.status();
  if (*rate == 0) return absl::InvalidArgumentError("no byte would ever arrive: give the bytes of a second, as 100MB");
  options.bytes_per_second = *rate;
  return options;
}

}  // namespace

std::optional<int> ParseBenchArguments(int argc, char** argv, BenchArguments* arguments) {
  CommandLine line("bench", "read a dataset as a trainer would, and say what bounds it", "[OPTION]... [DATASET]...");
  std::optional<std::string> decode;
  std::vector<std::string> columns;
  double step_milliseconds = 0;
  size_t on_error = 0, verify = 0;
  IoOption io;
  DecompressionOption decompression;
  HashOption hashes;
  line.Arguments("DATASET", 0, SIZE_MAX, &arguments->paths);
  line.Count("--epochs", "N", &arguments->epochs, 1, UINT32_MAX, "epochs to read [1]");
  line.Count("--steps", "N", &arguments->steps, 1, UINT64_MAX, "stop after N batches");
  arguments->order.AddTo(&line, "a third of --memory");
  arguments->order.AddRankTo(&line);
  line.Text("--decode", "WHAT", &decode, "what is decoded, see below [none]");
  line.Suggest({"none", "image", "masks", "tokens"});
  line.Texts("--columns", "A,B,...", &columns, "load these columns [all but the key]; may be repeated");
  line.Count("--context", "N", &arguments->context, 1, UINT32_MAX, "tokens of a row [4096]");
  line.Number("--simulate-step", "MS", &step_milliseconds, 0, 1e7,
              "sleep this long after each batch, as long as a training step would take");
  std::optional<std::string> latency;
  line.Text(
      "--simulate-latency", "TIME[,RATE]", &latency,
      "let each request take this time, as 50ms, and all of them share RATE bytes per second, as 100MB, to see how "
      "the dataset would be read over a network");
  line.Flag("--cold", &arguments->cold,
            "drop the dataset from the page cache first, or say why that may not be done; the first epoch is cold");
  line.Size("--memory", &arguments->memory, "budget of the loader for blocks and batches [768MiB]");
  line.Count("--threads", "N", &arguments->decode_threads, 1, 1024, "decoding threads [found by the loader]");
  line.Count("--read-threads", "N", &arguments->read_threads, 1, 1024, "reading threads [found by the loader]");
  io.AddTo(&line);
  decompression.AddTo(&line);
  hashes.AddTo(&line);
  line.StoreOptions(StoreUse::kRead);
  line.Choice("--verify", "WHICH", {"every", "first", "never"}, &verify,
              "compare the checksums of every read, of the first of each block, or none [every]");
  line.Choice("--on-error", "ACTION", {"fail", "skip"}, &on_error,
              "what to do about a bad sample: fail, or skip it and exit with 4 [fail]");
  line.Text("--trace", "FILE", &arguments->trace, "write what each thread did when, for Perfetto or chrome://tracing");
  arguments->device.AddTo(&line);
  line.Flag("--json", &arguments->json, "print one JSON document");
  line.Notes(
      std::string(kDecodeHelp) +
      "After the run the same machine is measured without the loader: plain reads of the same files with as many\n"
      "threads, memcpy, and libjpeg-turbo when images are decoded. Advice names options of the library; here\n"
      "memory_bytes is --memory, decode_threads is --threads, read.mode is --io, pinned_bytes is --pinned.\n"
      "\n"
      "With --device, three things are measured first: copies of each size to the device (h2d) and from it (d2h),\n"
      "from ordinary and from page-locked memory; the same through the loader's ring of page-locked memory; and\n"
      "what copies and work on the device hide of each other (score 1: all of the shorter one, 0: nothing). A size\n"
      "for which there is not the memory is skipped. A batch counts as waited for until its arrays are on the\n"
      "device. Without a DATASET that is all. In --json it is \"device\".");
  line.Example("shardctl bench photos --decode image:224 --batch-size 64 --simulate-step 94.6",
               "does a training step of 94.6 ms ever wait for photographs?");
  line.Example("shardctl bench photos --decode image:224 --pixels bf16 --simulate-step 94.6 --device cuda:0",
               "the same on a device, which normalises the photographs");
  line.Example("shardctl bench corpus --cold --io direct", "how fast is a shuffled epoch from the device itself?");
  if (const std::optional<int> code = line.Parse(argc, argv)) return code;

  const absl::StatusOr<DecodeWish> wish = ParseDecode(decode.value_or("none"));
  if (!wish.ok()) return line.UsageError("--decode: " + std::string(wish.status().message()));
  arguments->decode = *wish;
  if (const absl::Status status = arguments->device.Finish(OptionNames(argc, argv), !arguments->paths.empty(), *wish);
      !status.ok()) {
    return line.UsageError(std::string(status.message()));
  }
  if (arguments->paths.empty()) return std::nullopt;
  OrderOptions& order = arguments->order;
  if (const absl::Status status = order.Finish(arguments->paths); !status.ok()) {
    return line.UsageError(std::string(status.message()));
  }
  if (!order.shuffle_buffer_given()) order.plan.shuffle_buffer_bytes = arguments->memory / 3;
  if (arguments->memory < kLeastMemory) return line.UsageError("--memory: give at least 1MiB");
  for (const std::string& list : columns) {
    for (const std::string& name : SplitAtCommas(list)) {
      if (name.empty()) return line.UsageError("--columns: a name is empty");
      arguments->columns.push_back(name);
    }
  }
  if (latency.has_value()) {
    const auto parsed = ParseLatency(*latency);
    if (!parsed.ok()) return line.UsageError("--simulate-latency: " + std::string(parsed.status().message()));
    arguments->latency = *parsed;
  }
  arguments->step_seconds = step_milliseconds / 1000;
  arguments->skip_errors = on_error == 1;
  arguments->read.mode = io.mode();
  arguments->read.verify = static_cast<shardkit::Verify>(verify);
  arguments->read.max_decompression = decompression.bytes();
  arguments->read.verify_listed_hashes = hashes.verify();
  return std::nullopt;
}

}  // namespace shardctl
