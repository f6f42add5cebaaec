#include "convert_options.h"

#include <algorithm>
#include <string_view>

#include "command_line.h"
#include "dataset_access.h"
#include "numbers.h"
#include "pack_options.h"
#include "report.h"

namespace shardctl {
namespace {

// "COLUMN=ENCODING". A column name may contain '=', an encoding name may not.
absl::Status ParseEncoding(const std::string& text, shardkit::MdsWriterOptions* options) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    return absl::InvalidArgumentError(Quote(text) + " is not COLUMN=ENCODING");
  }
  if (!options->encodings.emplace(text.substr(0, equals), text.substr(equals + 1)).second) {
    return absl::InvalidArgumentError("the column " + Quote(text.substr(0, equals)) + " is named twice");
  }
  return absl::OkStatus();
}

// The program has no library for Parquet.
int NoParquet() {
  for (const char* const line : {
           "shardctl convert: --to parquet: these lines of Python write it, a part at a time (docs/recipes.md):",
           "  import pyarrow as pa, pyarrow.parquet as pq, shardkit as sk",
           "  stream = pa.RecordBatchReader.from_stream(sk.open(\"IN\"))  # small columns; columns=[...] names others",
           "  with pq.ParquetWriter(\"OUT.parquet\", stream.schema) as file:",
           "      for batch in stream: file.write_batch(batch)",
       }) {
    PrintError(line);
  }
  return kExitUsage;
}

}  // namespace

std::optional<int> ParseConvertArguments(int argc, char** argv, ConvertArguments* arguments) {
  CommandLine line("convert", "turn a dataset into one of another container",
                   "[OPTION]... IN -o OUT --to shard|webdataset|mds");
  shardkit::ConvertOptions& options = arguments->options;
  std::vector<std::string> inputs, columns, codecs, storages, encodings, hashes;
  std::optional<std::string> shard_size, block_size, compression, task;
  uint64_t shard_samples = 0;
  constexpr shardkit::Container kContainers[] = {shardkit::Container::kShard, shardkit::Container::kWebDataset,
                                                 shardkit::Container::kMds};
  size_t to = std::size(kContainers), on_error = 0;
  bool no_index = false;
  JobsOption jobs;
  DecompressionOption decompression;
  HashOption input_hashes;
  AtOption at;
  AppendOption append;
  SyncOption sync;
  line.Arguments("IN", 1, 1, &inputs);
  line.Text("-o,--output", "OUT", &arguments->output,
            "directory of the new dataset; must be empty or missing, but for --append");
  line.Choice("--to", "CONTAINER", {"shard", "webdataset", "mds"}, &to,
              "what to write: shard, webdataset (tars) or mds");
  line.Texts("--columns", "A,B", &columns, "only these columns, and the key");
  line.Text("--key", "COLUMN", &options.key_column,
            "the utf8 column that is the key; '' for none [the key, or of MDS a column \"key\"]",
            /*may_be_empty=*/true);
  line.Flag("--lossy", &options.lossy,
            "map what has no exact counterpart as well as can be, instead of refusing it (format-spec/interop.md)");
  line.Text("--shard-size", "SIZE", &shard_size,
            "to shard: end a shard with the block of IN that reaches this many bytes; else close one before it would "
            "pass this [256MiB; mds 64MiB]");
  line.Count("--shard-samples", "N", &shard_samples, 1, UINT32_MAX, "put at most this many samples in each shard");
  line.Text("--block-size", "SIZE", &block_size,
            "to shard: rewrite all blocks, and close one when it reaches this [whole blocks of shards are copied, the "
            "others get 4MiB]");
  line.Texts("--codec", "COL=CODEC", &codecs, "to shard: codec of a column, none, zstd or zstd:LEVEL; may be repeated");
  line.Texts("--storage", "COL=STORAGE", &storages,
             "to shard: how the values of a column of codec none are stored, paged or blob; may be repeated");
  line.Flag("--sha256", &options.pack.dataset.sha256,
            "to shard: list the SHA-256 of each shard in dataset.json; validate compares it");
  line.Text("--compression", "NAME", &compression, "to mds: none, zstd or zstd:LEVEL [none]");
  line.Texts(
      "--hash", "NAME", &hashes,
      "to mds: hashes of the shards in index.json, as xxh64, xxh3_64, xxh128, sha1, sha256, md5; may be repeated");
  line.Texts("--encoding", "COL=NAME", &encodings,
             "to mds: encoding of a column that is stored as the same bytes, as label=int; may be repeated");
  line.Flag("--no-index", &no_index, "to webdataset: write no X.tar.shardidx beside the tars");
  jobs.AddTo(&line, "threads that read and compress; the output is the same for any number");
  line.Text("--task", "I/N", &task,
            "to shard: convert part I, counted from 0, of N parts; the others may do so meanwhile");
  line.Flag("--finish", &arguments->finish, "to shard: publish the dataset when all tasks have ended");
  append.AddTo(&line, &options.pack.dataset);
  line.Flag("--resume", &options.pack.dataset.resume,
            "go on where an interrupted run with the same options stopped; when interrupted, keep finished shards");
  sync.AddTo(&line);
  line.Choice("--on-error", "ACTION", {"fail", "skip"}, &on_error,
              "what to do about a sample that cannot be read or stored: fail, or skip it and exit with 4 [fail]");
  decompression.AddTo(&line);
  input_hashes.AddTo(&line);
  at.AddTo(&line);
  line.Flag("--dry-run", &arguments->dry_run, "read everything, say what would be converted, write nothing");
  line.StoreOptions(StoreUse::kWrite);
  line.Flag("--json", &arguments->json, "print the summary as one JSON document");
  line.Notes(
      "IN is a dataset of any container. MDS and tars that this command writes also hold shardkit.json, by which they\n"
      "turn into the same columns again.");
  line.Example("shardctl convert old-mds/ -o new/ --to shard", "an MDS dataset becomes one of ours");
  line.Example("shardctl convert new/ -o again/ --to mds --compression zstd --hash xxh64",
               "and back, compressed, with hashes");
  line.Example("shardctl convert tars/ -o new/ --to shard --task 3/100",
               "a part of this, on any machine, perhaps once more; then all the same with --finish");
  line.Example("shardctl convert tars/ -o new/ --to shard --on-error skip",
               "the samples of a directory of tars; damaged ones are listed and left out");
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--to=parquet" || (word == "parquet" && std::string_view(argv[i - 1]) == "--to")) return NoParquet();
  }
  if (const std::optional<int> code = line.Parse(argc, argv)) return code;

  arguments->input = inputs[0];
  if (to == std::size(kContainers)) return line.UsageError("--to is missing: shard, webdataset or mds");
  options.to = kContainers[to];
  const auto only = [&](shardkit::Container container, bool given, const std::string& option) -> std::optional<int> {
    if (!given || options.to == container) return std::nullopt;
    return line.UsageError(option + ": only for --to " + std::string(shardkit::ContainerName(container)));
  };
  using shardkit::Container;
  if (const auto code = only(Container::kShard, task.has_value(), "--task")) return code;
  if (const auto code = only(Container::kShard, arguments->finish, "--finish")) return code;
  if (const auto code = only(Container::kShard, options.pack.dataset.append, "--append")) return code;
  if (const auto code = append.Apply(line)) return code;
  if (options.pack.dataset.append) {
    const bool tasks = task.has_value() || arguments->finish;
    if (tasks) return line.UsageError("--append: not with --task and --finish, which make a new dataset");
    if (arguments->dry_run) return line.UsageError("--dry-run: not with --append");
    if (options.pack.dataset.resume) {
      return line.UsageError("--resume: not with --append: an append that was interrupted starts again");
    }
  }
  if (task.has_value() || arguments->finish) {
    const std::string mode = task.has_value() ? "--task" : "--finish";
    if (task.has_value() && arguments->finish) return line.UsageError("--finish: not with --task");
    if (arguments->dry_run) return line.UsageError("--dry-run: not with " + mode);
    if (options.pack.dataset.resume) return line.UsageError("--resume: not with " + mode + ", which always goes on");
    if (!sync.sync()) return line.UsageError("--no-sync: not with " + mode + ": others take its shards for durable");
  }
  if (task.has_value()) {
    const absl::StatusOr<std::pair<uint64_t, uint64_t>> part = ParsePart(*task);
    if (!part.ok()) return line.UsageError("--task: " + std::string(part.status().message()));
    arguments->task = *part;
  }
  if (const auto code = only(Container::kShard, block_size.has_value(), "--block-size")) return code;
  if (const auto code = only(Container::kShard, !codecs.empty(), "--codec")) return code;
  if (const auto code = only(Container::kShard, !storages.empty(), "--storage")) return code;
  if (options.pack.dataset.sha256 && options.to == Container::kMds) {
    return line.UsageError("--sha256: only for --to shard; for mds there is --hash sha256");
  }
  if (const auto code = only(Container::kShard, options.pack.dataset.sha256, "--sha256")) return code;
  if (const auto code = only(Container::kMds, compression.has_value(), "--compression")) return code;
  if (const auto code = only(Container::kMds, !hashes.empty(), "--hash")) return code;
  if (const auto code = only(Container::kMds, !encodings.empty(), "--encoding")) return code;
  if (const auto code = only(Container::kWebDataset, no_index, "--no-index")) return code;

  shardkit::DatasetWriterOptions& dataset = options.pack.dataset;
  const auto size = [&](const std::optional<std::string>& text, const std::string& option,
                        std::initializer_list<uint64_t*> targets) -> std::optional<int> {
    if (!text.has_value()) return std::nullopt;
    const absl::StatusOr<uint64_t> bytes = ParseSize(*text);
    if (!bytes.ok()) return line.UsageError(option + ": " + std::string(bytes.status().message()));
    if (*bytes == 0) return line.UsageError(option + ": must not be 0");
    for (uint64_t* const target : targets) *target = *bytes;
    return std::nullopt;
  };
  if (const auto code = size(shard_size, "--shard-size",
                             {&dataset.shard_size, &options.mds.shard_size, &options.webdataset.shard_size})) {
    return code;
  }
  if (const auto code = size(block_size, "--block-size", {&dataset.shard.block_size})) return code;
  if (block_size.has_value()) options.keep_blocks = false;
  dataset.shard_samples = options.mds.shard_samples = options.webdataset.shard_samples = shard_samples;
  for (const std::string& codec : codecs) {
    const absl::Status status = ParseCodec(codec, &dataset);
    if (!status.ok()) return line.UsageError("--codec: " + std::string(status.message()));
  }
  for (const std::string& storage : storages) {
    const absl::Status status = ParseStorage(storage, &dataset);
    if (!status.ok()) return line.UsageError("--storage: " + std::string(status.message()));
  }
  for (const std::string& encoding : encodings) {
    const absl::Status status = ParseEncoding(encoding, &options.mds);
    if (!status.ok()) return line.UsageError("--encoding: " + std::string(status.message()));
  }
  if (compression.has_value() && *compression != "none") options.mds.compression = *compression;
  options.mds.hashes = SplitAtCommas(hashes);
  options.columns = SplitAtCommas(columns);
  options.webdataset.index = !no_index;
  options.pack.skip_errors = on_error == 1;
  options.pack.keep_on_cancel = dataset.resume;
  dataset.job = InputText(inputs);
  dataset.sync = sync.sync();
  dataset.threads = jobs.jobs(inputs);
  options.max_decompression = decompression.bytes();
  options.verify_listed_hashes = input_hashes.verify();
  options.generation = at.generation();
  if (!arguments->dry_run && !arguments->output.has_value()) return line.UsageError("-o OUT is missing");
  return std::nullopt;
}

}  // namespace shardctl
