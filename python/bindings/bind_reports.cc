// What the verbs return. shardkit.reports has the rest, which is not a struct of the library.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <nanobind/stl/map.h>

#include "bind.h"
#include "record.h"
#include "shardkit/change.h"
#include "shardkit/dataset_writer.h"
#include "shardkit/history.h"
#include "shardkit/pack.h"
#include "shardkit/repair.h"
#include "shardkit/select.h"
#include "shardkit/validate.h"

namespace shardkit::bindings {

namespace nb = nanobind;

using Example = std::tuple<nb::str, std::optional<uint64_t>, std::optional<uint64_t>>;

void BindReports(nb::module_& module) {
  Record<SkippedSample>(
      module, "Skipped",
      "A sample that could not be loaded: its position in the input, its key or file, why, and what kind\n"
      "that is: \"damaged\", \"missing\", \"forbidden\", \"too large\" or \"refused\".")
      .Field("position", &SkippedSample::position)
      .Field("key", &SkippedSample::key)
      .Field("reason", &SkippedSample::reason)
      .Field("kind", &SkippedSample::kind);
  Record<PackPlan>(
      module, "PackPlan",
      "What `plan_pack` has divided: bytes of files, tars and blocks; samples where no tar has to be read for them.")
      .Field("units", &PackPlan::units)
      .Field("input_bytes", &PackPlan::input_bytes)
      .Field("samples", &PackPlan::samples)
      .Field("warnings", &PackPlan::warnings);
  Record<PackTaskReport>(module, "TaskReport",
                         "What a task has done.\n\n"
                         "Of its `units`, `units_before` were there before, from another run of it; the rest is of "
                         "this run. Positions of skipped samples count from the first sample of their unit.")
      .Field("units", &PackTaskReport::units)
      .Field("units_before", &PackTaskReport::units_before)
      .Field("samples", &PackTaskReport::samples)
      .Field("input_bytes", &PackTaskReport::input_bytes)
      .Field("skipped", &PackTaskReport::skipped)
      .Field("warnings", &PackTaskReport::warnings);
  Record<SelectionReport>(
      module, "Selection",
      "What `filter` has found: samples and blocks of the dataset, and what it took to decide.\n\n"
      "`blocks_skipped` were not read because their smallest and largest numbers exclude all of their samples; "
      "`keys_missing` of the given keys no sample has.")
      .Field("samples", &SelectionReport::samples)
      .Field("selected", &SelectionReport::selected)
      .Field("blocks", &SelectionReport::blocks)
      .Field("blocks_read", &SelectionReport::blocks_read)
      .Field("blocks_skipped", &SelectionReport::blocks_skipped)
      .Field("keys_missing", &SelectionReport::keys_missing);
  Record<RemoveReport>(
      module, "Removed",
      "What `remove` did: samples removed now, given keys of no sample, samples left, and removed ones still stored.")
      .Field(
          "removed", [](auto& report) -> auto& { return report.selection.selected; })
      .Field(
          "keys_missing", [](auto& report) -> auto& { return report.selection.keys_missing; })
      .Field("samples", &RemoveReport::samples)
      .Field("removed_in_all", &RemoveReport::removed)
      .Field("generation", &RemoveReport::generation);
  Record<Problem>(
      module, "Problem",
      "What is wrong, and in which file.\n\n"
      "`error_class` is ``\"DataLoss\"`` for damage, ``\"Unimplemented\"`` for what a newer version has written, "
      "``\"NotFound\"`` for a missing file, and empty for a warning.")
      .Field("path", &Problem::path)
      .Field("message", &Problem::message)
      .Field(
          "error_class", [](const Problem& self) { return std::string(self.error_class()); },
          [](Problem& self, nb::handle name) {
            constexpr std::array kCodes = {absl::StatusCode::kOk, absl::StatusCode::kDataLoss,
                                           absl::StatusCode::kUnimplemented, absl::StatusCode::kNotFound};
            for (const absl::StatusCode code : kCodes) {
              if (Problem{"", "", code}.error_class() == nb::cast<std::string>(name)) self.code = code;
            }
          });
  Record<ValidateReport>(
      module, "Validated",
      "What `validate` found; true when there is no problem.\n\n"
      "``samples`` are those that readers see; the shards hold ``removed_samples`` besides. Shards, blocks and bytes "
      "do not count those of column files.")
      .Field("shards", &ValidateReport::shards)
      .Field("blocks", &ValidateReport::blocks)
      .Field("samples", &ValidateReport::samples)
      .Field("removed_samples", &ValidateReport::removed_samples)
      .Field("column_files", &ValidateReport::column_files)
      .Field("bytes", &ValidateReport::bytes)
      .Field("undecoded_images", &ValidateReport::undecoded_images)
      .Field("warned_images", &ValidateReport::warned_images)
      .Field("repeated_keys", &ValidateReport::repeated_keys)
      .Field("problem_count", &ValidateReport::problem_count)
      .Field("problems", &ValidateReport::problems)
      .Field("warnings", &ValidateReport::warnings)
      .bound()
      .def_prop_ro("ok", &ValidateReport::ok, "Whether there is no problem.")
      .def("__bool__", &ValidateReport::ok);
  Record<UnpackReport>(module, "Unpacked", "The files that were written.")
      .Field("samples", &UnpackReport::samples)
      .Field("files", &UnpackReport::files)
      .Field("bytes", &UnpackReport::bytes)
      .Field("skipped", &UnpackReport::skipped)
      .Field("warnings", &UnpackReport::warnings);
  Record<DiffCount>(
      module, "Differing",
      "Samples that one dataset lacks, or whose values differ: how many, and key and ordinals of the first.")
      .Field("count", &DiffCount::count)
      .Field(
          "examples",
          [](const DiffCount& count) {
            std::vector<Example> examples;
            for (const DiffExample& each : count.examples) examples.emplace_back(Text(each.key), each.a, each.b);
            return examples;
          },
          [](DiffCount& count, nb::handle value) {
            for (const auto& [key, a, b] : nb::cast<std::vector<Example>>(value)) {
              count.examples.push_back({key.c_str(), a, b});
            }
          });
  Record<DatasetDiff>(
      module, "Diff",
      "What `diff` found; true when there is a difference.\n\n"
      "`matched` samples are in both, `unread` of them in shards that both have. `types` are columns of both whose "
      "types differ, `columns` those with values that differ.")
      .Field("by_key", &DatasetDiff::by_key)
      .Field("matched", &DatasetDiff::matched)
      .Field("unread", &DatasetDiff::unread)
      .Field("only_a", &DatasetDiff::only_a)
      .Field("only_b", &DatasetDiff::only_b)
      .Field("columns_only_a", &DatasetDiff::columns_only_a)
      .Field("columns_only_b", &DatasetDiff::columns_only_b)
      .Field("types", &DatasetDiff::types)
      .Field(
          "columns",
          [](const DatasetDiff& diff) {
            nb::typed<nb::dict, nb::str, DiffCount> columns = nb::dict();
            for (const ColumnDiff& column : diff.columns) columns[column.name.c_str()] = column.values;
            return columns;
          },
          [](DatasetDiff& diff, nb::handle value) {
            for (const auto& [name, count] : nb::cast<nb::dict>(value)) {
              diff.columns.push_back({nb::cast<std::string>(name), nb::cast<DiffCount>(count)});
            }
          })
      .bound()
      .def("__bool__", [](const DatasetDiff& diff) { return !diff.same(); });
  Record<RepairLoss>(module, "Loss", "Consecutive samples that were lost; ordinals are those of the damaged shard.")
      .Field("first_sample", &RepairLoss::first_sample)
      .Field("sample_count", &RepairLoss::sample_count)
      .Field("reason", &RepairLoss::reason)
      .Field("columns", &RepairLoss::columns)
      .Field("keys", &RepairLoss::keys);
  Record<RepairReport>(module, "RepairedShard", "What became of a shard.")
      .Field("path", &RepairReport::path)
      .Field("output", &RepairReport::output)
      .Field("written", &RepairReport::written)
      .Field("samples_recovered", &RepairReport::samples_recovered)
      .Field("samples_lost", &RepairReport::samples_lost)
      .Field("end_known", &RepairReport::end_known)
      .Field("losses", &RepairReport::losses)
      .Field("problems", &RepairReport::problems)
      .Field("notes", &RepairReport::notes);
  Record<DatasetRepairReport>(module, "Repaired", "What `repair` recovered.")
      .Field("written", &DatasetRepairReport::written)
      .Field("shards", &DatasetRepairReport::shards)
      .Field("notes", &DatasetRepairReport::notes)
      .bound()
      .def_prop_ro("samples_recovered", &DatasetRepairReport::samples_recovered, "Samples in the output.")
      .def_prop_ro("samples_lost", &DatasetRepairReport::samples_lost,
                   "Samples that are not in the output, as far as known.")
      .def_prop_ro("lossless", &DatasetRepairReport::lossless, "Whether certainly no sample was lost.");
  Record<AddColumnsReport>(
      module, "AddedColumns",
      "Columns that `add_columns` has added, those that were `replaced` among them.\n\n"
      "Of the dataset's `samples` those `matched` have a row. `unmatched` of the input's `rows` have a key that no "
      "sample has; `unmatched_keys` are the first of these. `files` column files of `bytes` were written.")
      .Field("generation", &AddColumnsReport::generation)
      .Field("columns", &AddColumnsReport::columns)
      .Field("replaced", &AddColumnsReport::replaced)
      .Field("samples", &AddColumnsReport::samples)
      .Field("matched", &AddColumnsReport::matched)
      .Field("rows", &AddColumnsReport::rows)
      .Field("unmatched", &AddColumnsReport::unmatched)
      .Field("unmatched_keys", &AddColumnsReport::unmatched_keys)
      .Field("files", &AddColumnsReport::files)
      .Field("bytes", &AddColumnsReport::bytes);
  Record<DatasetGeneration>(
      module, "Generation",
      "A generation of a dataset.\n\n"
      "`operation` is what made it of the one before: ``\"create\"``, ``\"append\"``, ``\"columns\"``, ``\"remove\"``, "
      "``\"compact\"``, ``\"index\"``, or what another program has named so; its `arguments` say which columns, and "
      "how "
      "many samples or shards. The numbers are of the whole dataset.")
      .Field("generation", &DatasetGeneration::generation)
      .Field(
          "operation", [](auto& self) -> auto& { return self.operation.name; })
      .Field(
          "arguments", [](auto& self) -> auto& { return self.operation.arguments; })
      .Field("samples", &DatasetGeneration::samples)
      .Field("shards", &DatasetGeneration::shards)
      .Field("segments", &DatasetGeneration::segments)
      .Field("columns", &DatasetGeneration::columns)
      .Field("bytes", &DatasetGeneration::bytes)
      .Field("readable", &DatasetGeneration::readable);
}

}  // namespace shardkit::bindings
