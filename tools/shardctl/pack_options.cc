#include "pack_options.h"

#include <filesystem>
#include <iostream>
#include <iterator>
#include <utility>

#include "absl/strings/str_split.h"
#include "command_line.h"
#include "dataset_access.h"
#include "json.h"
#include "numbers.h"
#include "report.h"
#include "shardkit/remote.h"

namespace shardctl {
namespace {

// The default of zstd's own trainer.
constexpr uint32_t kDefaultDictionaryBytes = 112 << 10;
constexpr uint64_t kMaxDictionaryBytes = 1 << 20;  // format-spec/spec.md, section 1
constexpr uint64_t kMostListBytes = uint64_t{16} << 30;

absl::Status ParseDictionary(const std::string& text, shardkit::DatasetWriterOptions* options) {
  const size_t equals = text.rfind('=');
  const std::string column = text.substr(0, equals);
  if (column.empty()) return absl::InvalidArgumentError(Quote(text) + " is not COLUMN or COLUMN=SIZE");
  uint64_t bytes = kDefaultDictionaryBytes;
  if (equals != std::string::npos) {
    const absl::StatusOr<uint64_t> size = ParseSize(text.substr(equals + 1));
    if (!size.ok()) return size.status();
    if (*size == 0 || *size > kMaxDictionaryBytes) {
      return absl::InvalidArgumentError(Quote(text) + ": a dictionary has 1 B to 1 MiB");
    }
    bytes = *size;
  }
  if (!options->shard.dictionaries.emplace(column, static_cast<uint32_t>(bytes)).second) {
    return absl::InvalidArgumentError("the column " + Quote(column) + " is named twice");
  }
  return absl::OkStatus();
}

absl::Status ParseType(const std::string& text, std::map<std::string, shardkit::Type>* types) {
  const size_t equals = text.rfind('=');
  const absl::Status wrong = absl::InvalidArgumentError(Quote(text) +
                                                        " is not COLUMN=TYPE with a type of bytes, utf8, json, jpeg, "
                                                        "png, image, or for rows i64 and other numbers");
  if (equals == std::string::npos || equals == 0) return wrong;
  const std::optional<shardkit::Type> type = shardkit::TypeFromName(text.substr(equals + 1));
  if (!type.has_value()) return wrong;
  const std::string column = text.substr(0, equals);
  if (types->emplace(column, *type).second) return absl::OkStatus();
  return absl::InvalidArgumentError("the column " + Quote(column) + " is named twice");
}

absl::Status ParseMetadata(const std::string& text, shardkit::Metadata* metadata) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return absl::InvalidArgumentError(Quote(text) + " is not NAME=TEXT");
  const std::string name = text.substr(0, equals);
  if (name.starts_with("shardkit.")) {
    return absl::InvalidArgumentError(Quote(name) + ": names that begin with shardkit. are given by Shardkit");
  }
  if (metadata->emplace(name, text.substr(equals + 1)).second) return absl::OkStatus();
  return absl::InvalidArgumentError(Quote(name) + " is named twice");
}

// The names in a list, without empty ones. Lines may end in CR LF.
absl::StatusOr<std::vector<std::string>> ReadNames(const std::string& list, char end) {
  std::string text;
  if (list == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
  } else {
    absl::StatusOr<std::string> read = shardkit::DefaultFileSystem()->ReadFile(list, kMostListBytes);
    if (!read.ok()) return read.status();
    text = *std::move(read);
  }
  std::vector<std::string> names = absl::StrSplit(text, end, absl::SkipEmpty());
  for (std::string& name : names) {
    if (end == '\n' && name.ends_with('\r')) name.pop_back();
  }
  return names;
}

}  // namespace

absl::Status ParseCodec(const std::string& text, shardkit::DatasetWriterOptions* options) {
  // A column name may contain '=', a codec name may not.
  const size_t equals = text.rfind('=');
  const absl::Status wrong = absl::InvalidArgumentError(Quote(text) + " is not COLUMN=none or COLUMN=zstd[:LEVEL]");
  if (equals == std::string::npos || equals == 0) return wrong;
  const std::string column = text.substr(0, equals);
  const std::string codec = text.substr(equals + 1);
  if (options->codecs.contains(column)) {
    return absl::InvalidArgumentError("the column " + Quote(column) + " is named twice");
  }
  if (codec == "none") {
    options->codecs[column] = shardkit::Codec::kNone;
  } else if (codec == "zstd") {
    options->codecs[column] = shardkit::Codec::kZstd;
  } else if (codec.starts_with("zstd:")) {
    const absl::StatusOr<uint64_t> level = ParseCount(codec.substr(5), 1, 22);
    if (!level.ok()) return absl::InvalidArgumentError("the level: " + std::string(level.status().message()));
    options->codecs[column] = shardkit::Codec::kZstd;
    options->shard.zstd_levels[column] = static_cast<int>(*level);
  } else {
    return wrong;
  }
  return absl::OkStatus();
}

absl::Status ParseStorage(const std::string& text, shardkit::DatasetWriterOptions* options) {
  const size_t equals = text.rfind('=');
  const std::string storage = equals == std::string::npos ? "" : text.substr(equals + 1);
  if (equals == 0 || (storage != "paged" && storage != "blob")) {
    return absl::InvalidArgumentError(Quote(text) + " is not COLUMN=paged or COLUMN=blob");
  }
  const std::string column = text.substr(0, equals);
  const auto chosen = storage == "paged" ? shardkit::Storage::kPaged : shardkit::Storage::kBlob;
  if (options->shard.storage.emplace(column, chosen).second) return absl::OkStatus();
  return absl::InvalidArgumentError("the column " + Quote(column) + " is named twice");
}

void AppendOption::AddTo(CommandLine* line, shardkit::DatasetWriterOptions* options) {
  options_ = options;
  line->Flag("--append", &options->append,
             "append to the dataset in OUT, in one step: open readers keep what they opened; it keeps its codecs, "
             "and gets the new columns");
  line->Choice("--existing-keys", "ACTION", {"refuse", "skip", "add"}, &existing_keys_,
               "with --append, what to do about samples whose key is there already: refuse all, skip them, or add them "
               "[refuse]");
}

std::optional<int> AppendOption::Apply(CommandLine& line) {
  using shardkit::ExistingKeys;
  constexpr ExistingKeys kActions[] = {ExistingKeys::kRefuse, ExistingKeys::kSkip, ExistingKeys::kAdd};
  if (existing_keys_ < std::size(kActions)) {
    if (!options_->append) return line.UsageError("--existing-keys: only with --append");
    options_->existing_keys = kActions[existing_keys_];
  }
  return std::nullopt;
}

std::string InputText(const std::vector<std::string>& inputs) {
  Json paths = Json::array();
  for (const std::string& input : inputs) {
    std::error_code error;
    std::string path = std::filesystem::absolute(input, error).lexically_normal().string();
    if (error) path = input;
    if (path.size() > 1 && path.ends_with('/')) path.pop_back();
    paths.push_back(std::move(path));
  }
  return FormatJson(paths);
}

shardkit::SourceOptions SourceOptionsOf(const PackArguments& arguments) {
  shardkit::SourceOptions options;
  options.file_system = shardkit::DefaultFileSystem();
  options.max_decompression = arguments.max_decompression;
  options.group_by = arguments.group_by;
  options.order = arguments.order;
  options.skip_errors = arguments.skip_errors;
  options.types = arguments.types;
  options.key = arguments.key;
  options.names = arguments.names;
  options.file = arguments.file;
  options.root = arguments.root;
  options.include = arguments.include;
  options.exclude = arguments.exclude;
  options.files = arguments.files;
  options.allow_empty = arguments.allow_empty;
  options.keep_hidden = arguments.keep_hidden;
  options.follow_links = !arguments.no_follow;
  options.verify_listed_hashes = arguments.verify_listed_hashes;
  return options;
}

shardkit::PackOptions PackOptionsOf(const PackArguments& arguments) {
  shardkit::PackOptions options;
  options.dataset = arguments.dataset;
  options.dataset.threads = arguments.jobs;
  options.dataset.resume = arguments.resume;
  options.dataset.job = InputText(arguments.inputs);
  options.skip_errors = arguments.skip_errors;
  options.limit = arguments.limit;
  options.keep_on_cancel = arguments.resume;
  options.note = Note;
  return options;
}

std::optional<int> ParsePackArguments(int argc, char** argv, bool plan, PackArguments* arguments) {
  CommandLine line(
      plan ? "plan-pack" : "pack",
      plan ? "divide packing into tasks, for any number of machines" : "pack files into a dataset of shards",
      plan ? "[OPTION]... INPUT... -o OUT --tasks N" : "[OPTION]... INPUT... -o OUT");
  const std::vector<std::string> sources = {"auto",  "files", "imagefolder", "sa1b", "coco",
                                            "jsonl", "table", "webdataset",  "mds"};
  constexpr shardkit::GroupBy kGroupings[] = {shardkit::GroupBy::kFirstDot, shardkit::GroupBy::kLastDot,
                                              shardkit::GroupBy::kNone};
  size_t source = 0, group_by = std::size(kGroupings);
  constexpr shardkit::FolderOrder kOrders[] = {shardkit::FolderOrder::kRandom, shardkit::FolderOrder::kPath};
  size_t order = std::size(kOrders);
  size_t on_error = 0;
  std::vector<std::string> codecs;
  std::vector<std::string> dictionaries;
  std::vector<std::string> storages, metadata;
  std::vector<std::string> types;
  JobsOption jobs;
  DecompressionOption decompression;
  HashOption hashes;
  std::optional<std::string> task, files_from, key, names, root;
  bool null = false;
  uint64_t limit = 0;
  AppendOption append;
  SyncOption sync;
  line.Arguments("INPUT", plan ? 1 : 0, SIZE_MAX, &arguments->inputs);
  line.Choice("--from", "KIND", sources, &source,
              "what the inputs are: files (those named alike up to the first dot are a sample, what follows "
              "it is the column), "
              "imagefolder (class directories), sa1b (pairs sa_N.jpg and sa_N.json, or tars of them), "
              "coco (an annotation file instances_*.json and the place of its images, for panoptic_*.json also that of "
              "its PNGs), "
              "jsonl (files *.jsonl, perhaps compressed: each line is a sample, its members are the columns), "
              "table (rows of *.csv, *.tsv and *.jsonl, and with --file the files that they name), "
              "webdataset or mds (datasets of these, as convert reads them), or auto, which looks "
              "[auto]");
  line.Choice("--group-by", "DOT", {"first-dot", "last-dot", "none"}, &group_by,
              "where the names of files are divided into key and column: at their first or last dot, or nowhere, so "
              "that every file is a sample with the one column file [first-dot]");
  line.Choice(
      "--order", "ORDER", {"random", "path"}, &order,
      "in which order the images of class directories are stored: mixed, always in the same way, or by path, one "
      "class after the other [random]");
  line.Text("--key", "NAME", &key,
            "of lines of JSON and tables: the column that is the key [key, or else the path of the file that the row "
            "names, or the place of the row]");
  line.Texts("--file", "COL[=NAME]", &arguments->file,
             "of tables: column COL names a file, whose bytes take the place of the name, or go into a column NAME; "
             "may be repeated");
  line.Text("--root", "DIR", &root, "folder, zip or tar of the files that --file is about [the folder of the table]");
  line.Text("--names", "ENCODING", &names,
            "of names of files that are not UTF-8: their encoding, as gbk, euc-jp, koi8-r, latin1 (iconv -l lists "
            "them), or escape, which keeps such bytes as %XX; unpack gives the bytes back");
  line.Texts(
      "--include", "GLOB", &arguments->include,
      "pack only files that match: *.jpg at any depth, train/ a folder, /a/*.jpg or a/**/b.jpg a whole path below "
      "INPUT, as in .gitignore; may be repeated");
  line.Texts("--exclude", "GLOB", &arguments->exclude, "leave out files and folders that match; may be repeated");
  line.Text(
      "--files-from", "LIST", &files_from,
      "pack the files named in LIST (- is standard input), one a line and relative to the one INPUT, in this order");
  line.Flag("-0,--null", &null, "names in LIST end in a zero byte");
  if (!plan) {
    line.Count("--limit", "N", &limit, 1, UINT32_MAX, "stop after N samples, to try");
  }
  line.Text("-o,--output", "OUT", &arguments->output,
            plan ? "directory of the dataset; must be empty or missing"
                 : "directory of the dataset; must be empty or missing, but for --append");
  if (plan) {
    line.Count("--tasks", "N", &arguments->tasks, 1, UINT32_MAX,
               "how many tasks are meant, to say how much each has to do; any other number works, too");
  }
  line.Size("--shard-size", &arguments->dataset.shard_size,
            "end a shard with the sample that reaches this many bytes of input; a tar always ends one [256MiB]");
  line.Count("--shard-samples", "N", &arguments->dataset.shard_samples, 1, UINT32_MAX,
             "put this many samples in each shard");
  line.Size("--block-size", &arguments->dataset.shard.block_size, "close a block when it reaches this [4MiB]");
  line.Texts("--type", "COL=TYPE", &types,
             "type of a column whatever its values look like: bytes takes anything, image all images, utf8, json, jpeg "
             "and png what is one; may be repeated");
  line.Texts("--codec", "COL=CODEC", &codecs,
             "codec of a column: none, zstd or zstd:LEVEL with a level from 1 to 22 [rle 1, others 3]; may be "
             "repeated");
  line.Texts("--dictionary", "COL[=SIZE]", &dictionaries,
             "train a dictionary of at most SIZE [112KiB] for a column of codec zstd; may be repeated");
  line.Texts("--storage", "COL=STORAGE", &storages,
             "how the values of a column of codec none are stored: paged, many in a page with one checksum, or blob, "
             "each with its own [paged where those of a shard's first block have less than 1 KiB on average]; may be "
             "repeated");
  line.Texts("--metadata", "NAME=TEXT", &metadata,
             "what the dataset says of itself, such as license=CC-BY-4.0, creator=, citation= or source=; copies keep "
             "it; may be repeated");
  jobs.AddTo(&line, plan ? "threads that ask for the sizes of files"
                         : "threads that read, check and compress; the output is the same for any number");
  line.Flag(
      "--sha256", &arguments->dataset.sha256,
      "list the SHA-256 of each shard in dataset.json; validate compares it, and a signed dataset.json then stands "
      "for every byte of the shards");
  if (!plan) {
    line.Text("--task", "I/N", &task,
              "pack part I, counted from 0, of N parts of the plan in OUT, which has the inputs and the options");
    line.Flag("--finish", &arguments->finish, "publish the dataset in OUT when all tasks of its plan have ended");
    append.AddTo(&line, &arguments->dataset);
    line.Flag("--resume", &arguments->resume,
              "go on where an interrupted run with the same options stopped; when interrupted, keep finished shards");
    sync.AddTo(&line);
  }
  line.Choice("--on-error", "ACTION", {"fail", "skip"}, &on_error,
              "what to do about a sample that cannot be read: fail, or skip it and exit with 4 [fail]");
  decompression.AddTo(&line);
  hashes.AddTo(&line);
  line.Flag("--allow-empty", &arguments->allow_empty,
            "pack an input directory without files as no samples, instead of taking it for a missing mount");
  line.Flag("--keep-hidden", &arguments->keep_hidden,
            "pack also what macOS, Windows and notebooks leave (.DS_Store, Thumbs.db and such), and in image folders "
            "names that begin with a dot; else they are passed over");
  line.Flag("--no-follow", &arguments->no_follow,
            "refuse symbolic links; else they are followed, wherever they lead, and counted");
  if (!plan) line.Flag("--dry-run", &arguments->dry_run, "read everything, say what would be packed, write nothing");
  line.StoreOptions(StoreUse::kWrite);
  line.Flag("--json", &arguments->json, "print the summary as one JSON document");
  const std::string sizes =
      "SIZE is a number of bytes, or has a unit: KB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (of 1024).";
  if (plan) {
    line.Notes(
        "Tasks, and --finish, see the inputs and OUT by the same paths. Tasks may run at the same time, again, and "
        "twice at once: what a killed one has not finished, its next run packs. The dataset is byte for byte the one "
        "that "
        "shardctl pack makes at once. " +
        sizes);
  } else {
    line.Notes(
        "The same input and options give the same bytes, whatever the number of threads. On failure nothing is left "
        "behind, except with --resume. A directory of nothing but tars, or of shards of MDS, stands for the samples "
        "in them; --from files packs them as files. Datasets of shards are for shardctl convert.\n" +
        sizes);
  }
  if (plan) {
    line.Example("shardctl plan-pack corpus/ -o corpus --tasks 100 --codec txt=zstd:6",
                 "then, anywhere and in any order: shardctl pack --task 0/100 -o corpus … 99/100");
    line.Example("shardctl pack --finish -o corpus", "when they have ended");
  } else {
    line.Example("shardctl pack photos/ -o photos.shards", "what lies below photos/ becomes the dataset photos");
    line.Example("shardctl pack sa_000000.tar sa_000001.tar -o sa1b --on-error skip",
                 "SA-1B as it is downloaded; pairs that are damaged are listed and left out");
    line.Example("shardctl pack --task 3/100 -o corpus", "a part of what plan-pack has planned, perhaps once more");
    line.Example("shardctl pack new-photos/ -o photos.shards --append --existing-keys skip",
                 "what is there already is left out");
  }
  if (const std::optional<int> code = line.Parse(argc, argv)) return code;
  if (task.has_value() || arguments->finish) {
    const std::string mode = task.has_value() ? "--task" : "--finish";
    if (!arguments->inputs.empty()) return line.UsageError(mode + ": the plan in OUT names the inputs");
    if (const auto other = line.GivenBesides({mode, "-o", "-j", "--json"})) {
      return line.UsageError(*other + ": not with " + mode + ", which takes it from the plan");
    }
  } else if (arguments->inputs.empty()) {
    return line.UsageError("INPUT is missing");
  }
  if (task.has_value()) {
    const absl::StatusOr<std::pair<uint64_t, uint64_t>> part = ParsePart(*task);
    if (!part.ok()) return line.UsageError("--task: " + std::string(part.status().message()));
    arguments->task = *part;
  }
  if (const auto code = append.Apply(line)) return code;
  if (arguments->dataset.append && arguments->resume) {
    return line.UsageError("--resume: not with --append: an append that was interrupted starts again");
  }
  if (arguments->dataset.append && arguments->dry_run) return line.UsageError("--dry-run: not with --append");
  if (plan && arguments->tasks == 0) return line.UsageError("--tasks is missing");
  if (key) arguments->key = *key;
  if (names) arguments->names = *names;
  if (root) arguments->root = *root;
  for (const std::string& file : arguments->file) {
    if (file.empty() || file.starts_with('=') || file.ends_with('=')) {
      return line.UsageError("--file: " + Quote(file) + " is not COLUMN or COLUMN=NAME");
    }
  }
  if (limit > 0) {
    if (arguments->resume) return line.UsageError("--limit: not with --resume");
    arguments->limit = limit;
  }
  if (null && !files_from) return line.UsageError("--null: only with --files-from");

  arguments->source = sources[source];
  if (group_by < std::size(kGroupings)) arguments->group_by = kGroupings[group_by];
  if (order < std::size(kOrders)) arguments->order = kOrders[order];
  arguments->skip_errors = on_error == 1;
  arguments->dataset.sync = sync.sync();
  arguments->jobs = jobs.jobs(arguments->inputs);
  arguments->max_decompression = decompression.bytes();
  for (const std::string& type : types) {
    const absl::Status status = ParseType(type, &arguments->types);
    if (!status.ok()) return line.UsageError("--type: " + std::string(status.message()));
  }
  arguments->verify_listed_hashes = hashes.verify();
  for (const std::string& codec : codecs) {
    const absl::Status status = ParseCodec(codec, &arguments->dataset);
    if (!status.ok()) return line.UsageError("--codec: " + std::string(status.message()));
  }
  for (const std::string& dictionary : dictionaries) {
    const absl::Status status = ParseDictionary(dictionary, &arguments->dataset);
    if (!status.ok()) return line.UsageError("--dictionary: " + std::string(status.message()));
  }
  for (const std::string& storage : storages) {
    const absl::Status status = ParseStorage(storage, &arguments->dataset);
    if (!status.ok()) return line.UsageError("--storage: " + std::string(status.message()));
  }
  for (const std::string& text : metadata) {
    const absl::Status status = ParseMetadata(text, &arguments->dataset.shard.metadata);
    if (!status.ok()) return line.UsageError("--metadata: " + std::string(status.message()));
  }
  if (arguments->dataset.shard_size == 0) return line.UsageError("--shard-size: must not be 0");
  if (arguments->dataset.shard.block_size == 0) return line.UsageError("--block-size: must not be 0");
  if (!arguments->dry_run && !arguments->output.has_value()) return line.UsageError("-o OUT is missing");
  if (files_from) {
    absl::StatusOr<std::vector<std::string>> names = ReadNames(*files_from, null ? '\0' : '\n');
    if (!names.ok()) return Fail(names.status());
    arguments->files = *std::move(names);
  }
  return std::nullopt;
}

}  // namespace shardctl
