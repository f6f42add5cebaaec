// The verbs: pack, convert, filter, split, validate, index, unpack, repair, merge, remove.
#include <nanobind/nanobind.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bind.h"
#include "job.h"
#include "options.h"
#include "record.h"
#include "report.h"
#include "shardkit/change.h"
#include "shardkit/copy.h"
#include "shardkit/dataset_writer.h"
#include "shardkit/history.h"
#include "shardkit/pack.h"
#include "shardkit/remote.h"
#include "shardkit/repair.h"
#include "shardkit/source.h"
#include "shardkit/validate.h"
#include "status.h"

namespace shardkit::bindings {
namespace {

namespace nb = nanobind;

// The options of PackOptions.
PackOptions TakePackOptions(OptionReader& reader) {
  PackOptions options;
  TakeWriterOptions(reader, options.dataset);
  reader.Take("skip_errors", options.skip_errors);
  reader.Take("keep_on_cancel", options.keep_on_cancel);
  return options;
}

// Of the jobs that copy a dataset.
template <typename Options>
void TakeCopyOptions(OptionReader& reader, const nb::dict& given, Options& options) {
  options.pack = TakePackOptions(reader);
  // Who asks for a size wants it of all blocks, also where it is the one that they have at first.
  if (given.contains("block_size") || given.contains("max_block_samples")) options.keep_blocks = false;
  reader.Take("keep_blocks", options.keep_blocks);
  reader.Take("max_decompression", options.max_decompression);
  reader.Take("verify_listed_hashes", options.verify_listed_hashes);
}

void Connect(PackOptions& options, Cancellation& cancellation, JobProgress& numbers) {
  options.dataset.cancellation = &cancellation;
  options.progress = [&numbers](const PackProgress& progress) {
    numbers.Set(progress.samples, progress.total_samples);
  };
}

nb::dict PackDict(const PackReport& report) {
  nb::dict result = ManifestDict(report.manifest);
  result["packed"] = report.samples;
  result["existing"] = report.existing;
  result["input_bytes"] = report.input_bytes;
  result["skipped"] = report.skipped;
  result["warnings"] = Text(report.warnings);
  return result;
}

// What OpenSource takes.
struct SourceArguments {
  std::string kind = "auto";
  SourceOptions options;
};

// `skip_errors` is that of the packing.
SourceArguments TakeSource(OptionReader& reader, bool skip_errors) {
  SourceArguments source;
  SourceOptions& source_options = source.options;
  std::map<std::string, std::string> types;
  reader.Take("kind", source.kind);
  reader.TakeChoice<std::optional<GroupBy>>(
      "group_by", source_options.group_by,
      {{"first-dot", GroupBy::kFirstDot}, {"last-dot", GroupBy::kLastDot}, {"none", GroupBy::kNone}});
  reader.TakeChoice<std::optional<FolderOrder>>("order", source_options.order,
                                                {{"random", FolderOrder::kRandom}, {"path", FolderOrder::kPath}});
  reader.Take("types", types);
  reader.Take("stream_above", source_options.stream_above);
  reader.Take("max_decompression", source_options.max_decompression);
  reader.Take("verify_listed_hashes", source_options.verify_listed_hashes);
  reader.Take("pending_pair_bytes", source_options.pending_pair_bytes);
  reader.Take("key", source_options.key);
  reader.Take("names", source_options.names);
  reader.Take("file", source_options.file);
  reader.Take("root", source_options.root);
  reader.Take("include", source_options.include);
  reader.Take("exclude", source_options.exclude);
  reader.Take("files", source_options.files);
  reader.Take("allow_empty", source_options.allow_empty);
  reader.Take("keep_hidden", source_options.keep_hidden);
  reader.Take("follow_links", source_options.follow_links);
  source_options.skip_errors = skip_errors;
  source_options.file_system = DefaultFileSystem();
  for (const auto& [column, name] : types) source_options.types[column] = TypeNamed(name);
  return source;
}

Dict PackSource(const std::vector<std::string>& inputs, const std::string& output, const Dict& given,
                const nb::object& progress) {
  OptionReader reader(given, "pack");
  PackOptions options = TakePackOptions(reader);
  const SourceArguments arguments = TakeSource(reader, options.skip_errors);
  bool dry_run = false;
  reader.Take("dry_run", dry_run);
  reader.Take("limit", options.limit);
  reader.Finish();
  return PackDict(
      RunJob<PackReport>(progress, [&](Cancellation& cancellation, JobProgress& numbers) -> absl::StatusOr<PackReport> {
        Connect(options, cancellation, numbers);
        auto source = OpenSource(arguments.kind, inputs, arguments.options);
        if (!source.ok()) return source.status();
        if (dry_run) return DryRunPack(**source, options);
        return Pack(*DefaultFileSystem(), **source, output, options);
      }));
}

PackPlan PlanOfPack(const std::vector<std::string>& inputs, const std::string& output, const Dict& given,
                    const nb::object& progress) {
  OptionReader reader(given, "plan_pack");
  PackOptions options = TakePackOptions(reader);
  const SourceArguments arguments = TakeSource(reader, options.skip_errors);
  reader.Finish();
  return RunJob<PackPlan>(progress, [&](Cancellation& cancellation, JobProgress& numbers) {
    Connect(options, cancellation, numbers);
    return PlanPack(*DefaultFileSystem(), arguments.kind, inputs, arguments.options, output, options);
  });
}

PackPlan PlanAt(const std::string& output) {
  return Interruptibly([&] { return ReadPackPlan(*DefaultFileSystem(), output); });
}

void RemoveAll(const std::string& path) {
  absl::Status status;
  {
    const GilReleased released;
    status = RemoveTree(*DefaultFileSystem(), path);
  }
  Raise(status);
}

PackTaskReport RunPackTask(const std::string& output, uint64_t task, uint64_t tasks, int threads,
                           const nb::object& progress) {
  return RunJob<PackTaskReport>(progress, [&](Cancellation& cancellation, JobProgress& numbers) {
    PackTaskOptions options{.task = task, .tasks = tasks, .threads = threads, .cancellation = &cancellation};
    options.progress = [&numbers](const PackProgress& now) { numbers.Set(now.samples, now.total_samples); };
    return PackTask(*DefaultFileSystem(), output, options);
  });
}

Dict FinishOfPack(const std::string& output, int threads) {
  return PackDict(RunJob<PackReport>(nb::none(), [&](Cancellation& cancellation, JobProgress&) {
    return FinishPack(*DefaultFileSystem(), output, threads, &cancellation);
  }));
}

ConvertOptions TakeConvertOptions(OptionReader& reader, const nb::dict& given) {
  ConvertOptions options;
  TakeCopyOptions(reader, given, options);
  reader.TakeChoice<Container>(
      "to", options.to,
      {{"shard", Container::kShard}, {"mds", Container::kMds}, {"webdataset", Container::kWebDataset}});
  reader.Take("columns", options.columns);
  reader.Take("key_column", options.key_column);
  reader.Take("lossy", options.lossy);
  reader.Take("compression", options.mds.compression);
  reader.Take("hashes", options.mds.hashes);
  reader.Take("encodings", options.mds.encodings);
  reader.Take("index", options.webdataset.index);
  if (given.contains("shard_size")) {
    options.mds.shard_size = options.webdataset.shard_size = options.pack.dataset.shard_size;
  }
  options.mds.shard_samples = options.webdataset.shard_samples = options.pack.dataset.shard_samples;
  return options;
}

Dict ConvertDataset(const std::string& input, const std::string& output, const Dict& given,
                    const nb::object& progress) {
  OptionReader reader(given, "convert");
  ConvertOptions options = TakeConvertOptions(reader, given);
  bool dry_run = false;
  reader.Take("dry_run", dry_run);
  reader.Finish();
  return PackDict(RunJob<PackReport>(progress, [&](Cancellation& cancellation, JobProgress& numbers) {
    Connect(options.pack, cancellation, numbers);
    return dry_run ? DryRunConvert(*DefaultFileSystem(), input, options)
                   : Convert(*DefaultFileSystem(), input, output, options);
  }));
}

PackTaskReport RunConvertTask(const std::string& input, const std::string& output, uint64_t task, uint64_t tasks,
                              const Dict& given, const nb::object& progress) {
  OptionReader reader(given, "convert_task");
  ConvertOptions options = TakeConvertOptions(reader, given);
  reader.Finish();
  return RunJob<PackTaskReport>(progress, [&](Cancellation& cancellation, JobProgress& numbers) {
    Connect(options.pack, cancellation, numbers);
    return ConvertTask(*DefaultFileSystem(), input, output, options, task, tasks);
  });
}

Dict FinishOfConvert(const std::string& input, const std::string& output, const Dict& given) {
  OptionReader reader(given, "finish_convert");
  ConvertOptions options = TakeConvertOptions(reader, given);
  reader.Finish();
  return PackDict(RunJob<PackReport>(nb::none(), [&](Cancellation& cancellation, JobProgress&) {
    options.pack.dataset.cancellation = &cancellation;
    return FinishConvert(*DefaultFileSystem(), input, output, options);
  }));
}

SelectionOptions TakeSelectionOptions(OptionReader& reader) {
  SelectionOptions options;
  reader.Take("threads", options.threads);
  reader.Take("max_decompression", options.max_decompression);
  reader.Take("verify_listed_hashes", options.verify_listed_hashes);
  return options;
}

Dict FilterDataset(const std::string& input, const std::string& output, const Dict& given, const nb::object& progress) {
  OptionReader reader(given, "filter");
  FilterOptions options;
  TakeCopyOptions(reader, given, options);
  reader.Take("by_reference", options.by_reference);
  const SampleSelection selection = TakeSelection(reader);
  reader.Finish();
  const auto report = RunJob<FilterReport>(progress, [&](Cancellation& cancellation, JobProgress& numbers) {
    Connect(options.pack, cancellation, numbers);
    return Filter(*DefaultFileSystem(), input, output, selection, options);
  });
  nb::dict result = PackDict(report.pack);
  result["selection"] = report.selection;
  return result;
}

DictList SplitDataset(const std::string& input, const std::string& output,
                      const std::vector<std::pair<std::string, double>>& into, uint64_t seed, const Dict& given,
                      const nb::object& progress) {
  OptionReader reader(given, "split");
  FilterOptions options;
  TakeCopyOptions(reader, given, options);
  reader.Take("by_reference", options.by_reference);
  reader.Finish();
  std::vector<SplitPart> parts;
  for (const auto& [name, share] : into) parts.push_back({name, share});
  const auto report = RunJob<SplitReport>(progress, [&](Cancellation& cancellation, JobProgress& numbers) {
    Connect(options.pack, cancellation, numbers);
    return Split(*DefaultFileSystem(), input, output, parts, seed, options);
  });
  nb::list result;
  for (const PackReport& part : report.parts) result.append(PackDict(part));
  return result;
}

SelectionReport CountSelected(const std::string& input, const Dict& given, const nb::object& progress) {
  OptionReader reader(given, "count");
  const SampleSelection selection = TakeSelection(reader);
  SelectionOptions options = TakeSelectionOptions(reader);
  reader.Finish();
  return RunJob<SelectionReport>(progress, [&](Cancellation& cancellation, JobProgress& numbers) {
    options.cancellation = &cancellation;
    options.progress = numbers.function();
    return CountSamples(*DefaultFileSystem(), input, selection, options);
  });
}

RemoveReport RemoveSelected(const std::string& path, const Dict& given, const nb::object& progress) {
  OptionReader reader(given, "remove");
  const SampleSelection selection = TakeSelection(reader);
  SelectionOptions options = TakeSelectionOptions(reader);
  reader.Finish();
  return RunJob<RemoveReport>(progress, [&](Cancellation& cancellation, JobProgress& numbers) {
    options.cancellation = &cancellation;
    options.progress = numbers.function();
    return RemoveSamples(*DefaultFileSystem(), path, selection, options);
  });
}

ValidateReport ValidateDataset(const std::string& path, const Dict& given, const nb::object& progress) {
  OptionReader reader(given, "validate");
  ValidateOptions options;
  std::string mode = "buffered";
  reader.Take("deep", options.deep);
  reader.Take("threads", options.threads);
  reader.Take("mode", mode);
  reader.Take("max_problems", options.max_problems);
  reader.Take("max_decompression", options.max_decompression);
  reader.Take("max_image_memory", options.max_image_memory);
  reader.Take("task", options.task);
  reader.Take("tasks", options.tasks);
  reader.Finish();
  options.mode = ModeNamed(mode);
  return RunJob<ValidateReport>(progress, [&](Cancellation& cancellation, JobProgress& numbers) {
    options.cancellation = &cancellation;
    options.progress = numbers.function();
    return Validate(*DefaultFileSystem(), path, options);
  });
}

UnpackReport UnpackDataset(const std::string& path, const std::string& output, const Dict& given,
                           const nb::object& progress) {
  OptionReader reader(given, "unpack");
  UnpackOptions options;
  DatasetOptions dataset_options;
  reader.Take("threads", options.threads);
  reader.Take("first_sample", options.first_sample);
  reader.Take("end_sample", options.end_sample);
  reader.Take("skip_errors", options.skip_errors);
  reader.Take("by_shard", options.by_shard);
  reader.Take("columns", dataset_options.columns);
  reader.Take("max_decompression", dataset_options.max_decompression);
  reader.Take("verify_listed_hashes", dataset_options.verify_listed_hashes);
  reader.Take("generation", dataset_options.generation);
  reader.Finish();
  dataset_options.key_column = true;
  return RunJob<UnpackReport>(progress,
                              [&](Cancellation& cancellation, JobProgress& numbers) -> absl::StatusOr<UnpackReport> {
                                options.cancellation = &cancellation;
                                options.progress = numbers.function();
                                auto dataset = DatasetReader::Open(*DefaultFileSystem(), path, dataset_options);
                                if (!dataset.ok()) return dataset.status();
                                return Unpack(*PosixFileSystem(), **dataset, output, options);
                              });
}

DatasetDiff Diff(const std::string& a, const std::string& b, const Dict& given, const nb::object& progress) {
  OptionReader reader(given, "diff");
  DiffOptions options;
  reader.Take("columns", options.columns);
  reader.Take("threads", options.threads);
  reader.Take("max_examples", options.max_examples);
  reader.Take("generation_a", options.a.generation);
  reader.Take("generation_b", options.b.generation);
  reader.Finish();
  return RunJob<DatasetDiff>(progress, [&](Cancellation& cancellation, JobProgress& numbers) {
    options.cancellation = &cancellation;
    options.progress = numbers.function();
    return DiffDatasets(*DefaultFileSystem(), a, b, options);
  });
}

DatasetRepairReport RepairDirectory(const std::string& path, const std::string& output, const Dict& given,
                                    const nb::object& progress) {
  OptionReader reader(given, "repair");
  RepairOptions options;
  reader.Take("schema_from", options.schema_from);
  reader.Take("keep_samples", options.keep_samples);
  reader.Take("max_keys", options.max_keys);
  reader.Take("max_decompression", options.max_decompression);
  reader.Take("sync", options.sync);
  reader.Finish();
  return RunJob<DatasetRepairReport>(
      progress, [&](Cancellation& cancellation, JobProgress& numbers) -> absl::StatusOr<DatasetRepairReport> {
        options.cancellation = &cancellation;
        options.progress = numbers.function();
        const auto info = PosixFileSystem()->Stat(path);
        if (!info.ok()) return info.status();
        if (info->type == FileType::kDirectory) return RepairDataset(*PosixFileSystem(), path, output, options);
        auto shard = RepairShard(*PosixFileSystem(), path, output, options);
        if (!shard.ok()) return shard.status();
        DatasetRepairReport dataset;
        dataset.written = shard->written;
        dataset.shards.push_back(*std::move(shard));
        return dataset;
      });
}

using IndexFunction = absl::StatusOr<Manifest> (*)(FileSystem&, const std::string&, const Cancellation*);

template <IndexFunction function>
Dict RunIndex(const std::string& path) {
  return ManifestDict(RunJob<Manifest>(nb::none(), [&](Cancellation& cancellation, JobProgress&) {
    return function(*DefaultFileSystem(), path, &cancellation);
  }));
}

Dict ReshardDataset(const std::string& input, const std::string& output, const Dict& given,
                    const nb::object& progress) {
  OptionReader reader(given, "reshard");
  ReshardOptions options;
  TakeCopyOptions(reader, given, options);
  reader.Take("shuffle", options.shuffle);
  reader.Take("shuffle_memory", options.shuffle_memory);
  reader.Take("scratch", options.scratch);
  reader.Finish();
  return PackDict(RunJob<PackReport>(progress, [&](Cancellation& cancellation, JobProgress& numbers) {
    Connect(options.pack, cancellation, numbers);
    return Reshard(*DefaultFileSystem(), input, output, options);
  }));
}

Dict Merge(const std::vector<std::string>& parts, const std::string& output, const Dict& given,
           const nb::object& progress) {
  OptionReader reader(given, "merge");
  MergeOptions options;
  TakeCopyOptions(reader, given, options);
  reader.Take("keep_repeated_keys", options.keep_repeated_keys);
  reader.Take("copy", options.copy);
  reader.Take("by_reference", options.by_reference);
  reader.Finish();
  return ManifestDict(RunJob<Manifest>(progress, [&](Cancellation& cancellation, JobProgress& numbers) {
    Connect(options.pack, cancellation, numbers);
    return MergeDatasets(*DefaultFileSystem(), parts, output, options);
  }));
}

}  // namespace

void BindJobs(nb::module_& module) {
  const auto progress = nb::arg("progress").none();
  module.def("pack", &PackSource, nb::arg("inputs"), nb::arg("output"), nb::arg("options"), progress);
  module.def("plan_pack", &PlanOfPack, nb::arg("inputs"), nb::arg("output"), nb::arg("options"), progress);
  module.def("read_pack_plan", &PlanAt, nb::arg("output"));
  module.def("remove_tree", &RemoveAll, nb::arg("path"));
  module.def("pack_task", &RunPackTask, nb::arg("output"), nb::arg("task"), nb::arg("tasks"), nb::arg("threads"),
             progress);
  module.def("finish_pack", &FinishOfPack, nb::arg("output"), nb::arg("threads"));
  module.def("convert_task", &RunConvertTask, nb::arg("input"), nb::arg("output"), nb::arg("task"), nb::arg("tasks"),
             nb::arg("options"), progress);
  module.def("finish_convert", &FinishOfConvert, nb::arg("input"), nb::arg("output"), nb::arg("options"));
  module.def("convert", &ConvertDataset, nb::arg("input"), nb::arg("output"), nb::arg("options"), progress);
  module.def("filter", &FilterDataset, nb::arg("input"), nb::arg("output"), nb::arg("options"), progress);
  module.def("split", &SplitDataset, nb::arg("input"), nb::arg("output"), nb::arg("into"), nb::arg("seed"),
             nb::arg("options"), progress);
  module.def("count", &CountSelected, nb::arg("input"), nb::arg("options"), progress);
  module.def("validate", &ValidateDataset, nb::arg("path"), nb::arg("options"), progress);
  module.def("unpack", &UnpackDataset, nb::arg("path"), nb::arg("output"), nb::arg("options"), progress);
  module.def("repair", &RepairDirectory, nb::arg("path"), nb::arg("output"), nb::arg("options"), progress);
  module.def("index", &RunIndex<&RebuildIndex>, nb::arg("path"));
  module.def("remove", &RemoveSelected, nb::arg("path"), nb::arg("options"), progress);
  module.def("diff", &Diff, nb::arg("a"), nb::arg("b"), nb::arg("options"), progress);
  module.def("reshard", &ReshardDataset, nb::arg("input"), nb::arg("output"), nb::arg("options"), progress);
  module.def("merge", &Merge, nb::arg("parts"), nb::arg("output"), nb::arg("options"), progress);
}

}  // namespace shardkit::bindings
