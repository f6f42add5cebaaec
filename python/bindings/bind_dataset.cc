// Datasets: values by ordinal and by key.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bind.h"
#include "dataset.h"
#include "options.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/filesystem.h"
#include "shardkit/job.h"
#include "shardkit/remote.h"
#include "shardkit/select.h"
#include "status.h"

namespace shardkit::bindings {
namespace {

namespace nb = nanobind;

std::shared_ptr<Dataset> Open(const std::string& path, std::vector<std::string> columns, const std::string& mode,
                              const std::string& verify, bool verify_listed_hashes, uint64_t max_decompression,
                              size_t max_open_shards, bool skip_lost_samples, bool mds_as_stored, uint64_t generation) {
  DatasetOptions options;
  options.columns = std::move(columns);
  options.mode = ModeNamed(mode);
  options.verify = VerifyNamed(verify);
  options.verify_listed_hashes = verify_listed_hashes;
  options.max_decompression = max_decompression;
  options.max_open_shards = max_open_shards;
  options.skip_lost_samples = skip_lost_samples;
  options.mds_as_stored = mds_as_stored;
  options.generation = generation;
  return std::make_shared<Dataset>(
      Interruptibly([&] { return DatasetReader::Open(*DefaultFileSystem(), path, options); }));
}

// The value as bytes, or as a bytearray, which an array can be made over and then changed; None when absent.
StoredBytes ReadValue(const Dataset& dataset, uint64_t sample, size_t column, bool writable) {
  const auto buffer = dataset.Borrow();
  const auto value = dataset.Read([&] { return dataset.reader().ReadValue(sample, column, buffer.get()); });
  if (!value) return nb::none();
  if (writable) return nb::bytearray(value->data(), value->size());
  return nb::bytes(value->data(), value->size());
}

// Those of several samples and columns, a list for each column: of small values a call takes longer than reading them.
nb::typed<nb::list, nb::typed<nb::list, StoredBytes>> ReadValues(const Dataset& dataset,
                                                                 const std::vector<uint64_t>& samples,
                                                                 const std::vector<size_t>& columns,
                                                                 const std::vector<bool>& writable) {
  // The buffer keeps what was read last: of MDS a sample, of shards a page of values of one column.
  const bool by_sample = dataset.reader().container() == "mds";
  std::string gathered;
  std::vector<size_t> ends;  // in `gathered`
  std::vector<bool> absent;
  ends.reserve(samples.size() * columns.size());
  const auto buffer = dataset.Borrow();
  dataset.Read([&]() -> absl::StatusOr<bool> {
    for (size_t at = 0; at < samples.size() * columns.size(); ++at) {
      const size_t sample = by_sample ? at / columns.size() : at % samples.size();
      const size_t column = by_sample ? at % columns.size() : at / samples.size();
      const auto value = dataset.reader().ReadValue(samples[sample], columns[column], buffer.get());
      if (!value.ok()) return value.status();
      if (*value) gathered += **value;
      absent.push_back(!value->has_value());
      ends.push_back(gathered.size());
    }
    return true;
  });
  nb::list made;
  for (size_t i = 0; i < columns.size(); ++i) {
    nb::list values;
    for (size_t k = 0; k < samples.size(); ++k) {
      const size_t at = by_sample ? k * columns.size() + i : i * samples.size() + k;
      const size_t begin = at == 0 ? 0 : ends[at - 1];
      if (absent[at]) {
        values.append(nb::none());
      } else if (writable[i]) {
        values.append(nb::bytearray(gathered.data() + begin, ends[at] - begin));
      } else {
        values.append(nb::bytes(gathered.data() + begin, ends[at] - begin));
      }
    }
    made.append(values);
  }
  return made;
}

// A value as a file. Thread-safe, like the file.
struct Value {
  std::shared_ptr<const Dataset> dataset;
  std::unique_ptr<RandomAccessFile> file;

  void ReadInto(uint64_t offset, const WritableBytes& buffer) const {
    const std::span<char> bytes(reinterpret_cast<char*>(buffer.data()), buffer.size());
    dataset->Read([&]() -> absl::StatusOr<bool> {
      if (absl::Status status = file->ReadAt(offset, bytes); !status.ok()) return status;
      return true;
    });
  }
};

std::optional<Value> OpenValue(std::shared_ptr<const Dataset> dataset, uint64_t sample, size_t column) {
  auto file = dataset->Read([&] { return dataset->reader().OpenValue(sample, column); });
  if (file == nullptr) return std::nullopt;
  return Value{std::move(dataset), std::move(file)};
}

ChosenSamples ChooseSamples(const std::string& path, const Dict& given) {
  OptionReader reader(given, "open");
  const SampleSelection selection = TakeSelection(reader);
  SelectionOptions options;
  options.threads = AvailableProcessors();
  reader.Take("generation", options.generation);
  reader.Take("max_decompression", options.max_decompression);
  reader.Take("verify_listed_hashes", options.verify_listed_hashes);
  reader.Finish();
  FoundSamples found = Interruptibly([&] { return FindSamples(*DefaultFileSystem(), path, selection, options); });
  if (found.report.keys_missing > 0 && selection.where.empty()) {
    Raise(
        absl::NotFoundError(path + ": " + std::to_string(found.report.keys_missing) + " of the keys are of no sample"));
  }
  return {std::make_shared<const std::vector<uint64_t>>(std::move(found.ordinals)), found.report.samples};
}

Array<int64_t> Ordinals(const ChosenSamples& samples) {
  const uint64_t count = samples.ordinals->size();
  void* data = nullptr;
  nb::object array = NewArray(Type::kI64, {&count, 1}, &data);
  std::ranges::copy(*samples.ordinals, static_cast<int64_t*>(data));
  return array;
}

std::optional<uint64_t> FindKey(const Dataset& dataset, const std::string& key) {
  auto buffer = dataset.Borrow();
  return dataset.Read([&] { return dataset.reader().FindKey(key, buffer.get()); });
}

}  // namespace

void BindDataset(nb::module_& module) {
  nb::class_<ChosenSamples>(module, "ChosenSamples").def("ordinals", &Ordinals).def_ro("of", &ChosenSamples::of);
  module.def("choose", &ChooseSamples, nb::arg("path"), nb::arg("options"));
  nb::class_<Value>(module, "Value", nb::is_weak_referenceable())
      .def_prop_ro("size", [](const Value& value) { return value.file->size(); })
      .def("read_into", &Value::ReadInto, nb::arg("offset"), nb::arg("buffer"),
           nb::sig("def read_into(self, offset: int, buffer: memoryview) -> None"));
  nb::class_<Dataset>(module, "Dataset", nb::is_weak_referenceable())
      .def(nb::new_(&Open), nb::arg("path"), nb::kw_only(), nb::arg("columns"), nb::arg("mode"), nb::arg("verify"),
           nb::arg("verify_listed_hashes"), nb::arg("max_decompression"), nb::arg("max_open_shards"),
           nb::arg("skip_lost_samples"), nb::arg("mds_as_stored"), nb::arg("generation"))
      .def_prop_ro("sample_count", [](const Dataset& dataset) { return dataset.reader().sample_count(); })
      .def_prop_ro("shard_count", [](const Dataset& dataset) { return dataset.reader().shard_count(); })
      .def(
          "shard",
          [](const Dataset& dataset, size_t shard) {
            ManifestShard found = dataset.Read([&] { return dataset.reader().Shard(shard); });
            return std::pair(std::move(found.name), found.samples);
          },
          nb::arg("shard"), "The file's name, and the samples that readers see.")
      .def_prop_ro("container", [](const Dataset& dataset) { return std::string(dataset.reader().container()); })
      .def_prop_ro("columns", [](const Dataset& dataset) { return dataset.reader().columns(); })
      .def_prop_ro("all_columns", [](const Dataset& dataset) { return dataset.reader().summary().schema.columns(); })
      .def_prop_ro("metadata", [](const Dataset& dataset) { return dataset.reader().summary().metadata; })
      .def_prop_ro("index_problem", [](const Dataset& dataset) { return Text(dataset.reader().index_problem()); })
      .def_prop_ro("notes", [](const Dataset& dataset) { return dataset.reader().notes(); })
      .def("read_value", &ReadValue, nb::arg("sample"), nb::arg("column"), nb::arg("writable"))
      .def("read_values", &ReadValues, nb::arg("samples"), nb::arg("columns"), nb::arg("writable"))
      .def("open_value", &OpenValue, nb::arg("sample"), nb::arg("column"))
      .def("find_key", &FindKey, nb::arg("key"));
  module.def(
      "read_keys",
      [](const std::string& path) { return Interruptibly([&] { return ReadKeys(*DefaultFileSystem(), path); }); },
      nb::arg("path"));
  module.def("keep_query", &KeepQuery, nb::arg("path"));
  module.def("allow_bases", &AllowBases, nb::arg("prefixes"));
  module.def(
      "use_cache",
      [](const std::string& directory, uint64_t limit) {
        WithoutGil([&] { return UseCache({.directory = directory, .limit_bytes = limit}); });
      },
      nb::arg("directory"), nb::arg("limit"));
}

}  // namespace shardkit::bindings
