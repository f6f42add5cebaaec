// What becomes of datasets: columns added, dropped, renamed, described; compacting; their history.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>

#include <chrono>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bind.h"
#include "job.h"
#include "options.h"
#include "record.h"
#include "shardkit/change.h"
#include "shardkit/history.h"
#include "shardkit/remote.h"
#include "status.h"

namespace shardkit::bindings {
namespace {

namespace nb = nanobind;

// Rows that a function of Python gives in batches: None at the end, or (rows, values). The values of a column are bytes
// in a row, all of one size, or a list of bytes and None.
class BatchRows final : public ColumnRows {
 public:
  BatchRows(Schema schema, nb::object next, std::optional<uint64_t> count)
      : schema_(std::move(schema)), next_batch_(std::move(next)), count_(count) {}

  const Schema& schema() const override { return schema_; }
  std::optional<uint64_t> count() const override { return count_; }

  absl::StatusOr<bool> Next(std::span<std::optional<std::string_view>> row) override {
    while (next_ == rows_) {
      if (!Fetch()) return absl::InternalError("rows: an exception of Python");  // error() is thrown in its place
      if (at_end_) return false;
    }
    for (size_t i = 0; i < row.size(); ++i) {
      const Values& values = values_[i];
      row[i].reset();
      if (values.size != 0) {
        row[i] = std::string_view(values.begin + next_ * values.size, values.size);
      } else {
        row[i] = values.each[next_];
      }
    }
    ++next_;
    return true;
  }

  // The exception that ended the rows, or null.
  std::exception_ptr error() const { return error_; }

 private:
  struct Values {
    const char* begin = nullptr;
    size_t size = 0;  // of each value; 0: they are in `each`
    std::vector<std::optional<std::string_view>> each;
  };

  bool Fetch() {
    const GilHeld held;
    try {
      batch_ = nb::none();
      batch_ = CallPython([&] { return PyObject_CallNoArgs(next_batch_.ptr()); });
      at_end_ = batch_.is_none();
      if (!at_end_) Take(nb::cast<nb::tuple>(batch_));
      return true;
    } catch (...) {
      error_ = std::current_exception();
      return false;
    }
  }

  // What the batch holds is borrowed from it.
  void Take(const nb::tuple& batch) {
    rows_ = nb::cast<size_t>(batch[0]);
    next_ = 0;
    values_.assign(schema_.size(), {});
    for (size_t i = 0; i < values_.size(); ++i) {
      const nb::handle given = batch[1][i];
      Values& values = values_[i];
      if (nb::isinstance<nb::bytes>(given)) {
        const auto bytes = nb::borrow<nb::bytes>(given);
        values.begin = bytes.c_str();
        values.size = rows_ == 0 ? 0 : bytes.size() / rows_;
        if (rows_ != 0 && values.size * rows_ != bytes.size()) throw nb::value_error("values of different sizes");
        if (values.size == 0) values.each.assign(rows_, std::string_view(""));
        continue;
      }
      for (const nb::handle value : nb::cast<nb::list>(given)) {
        std::optional<std::string_view>& each = values.each.emplace_back();
        if (value.is_none()) continue;
        const auto bytes = nb::cast<nb::bytes>(value);
        each = std::string_view(bytes.c_str(), bytes.size());
      }
      if (values.each.size() != rows_) throw nb::value_error("columns of different lengths");
    }
  }

  const Schema schema_;
  const nb::object next_batch_;
  const std::optional<uint64_t> count_;
  nb::object batch_ = nb::none();
  bool at_end_ = false;
  size_t rows_ = 0;
  size_t next_ = 0;
  std::vector<Values> values_;
  std::exception_ptr error_;
};

AddColumnsReport AddFile(const std::string& dataset, const std::string& path, const std::string& key,
                         const std::vector<std::string>& columns, const std::map<std::string, std::string>& types,
                         int threads, const nb::object& progress) {
  ColumnRowsOptions options{.key = key, .columns = columns};
  for (const auto& [column, name] : types) options.types[column] = TypeNamed(name);
  return RunJob<AddColumnsReport>(
      progress, [&](Cancellation& cancellation, JobProgress& numbers) -> absl::StatusOr<AddColumnsReport> {
        const auto rows = OpenColumnRows(*DefaultFileSystem(), path, options);
        if (!rows.ok()) return rows.status();
        return AddColumns(*DefaultFileSystem(), dataset, **rows,
                          {{.threads = threads, .cancellation = &cancellation, .progress = numbers.function()}});
      });
}

AddColumnsReport AddRows(const std::string& dataset, std::vector<Column> columns, nb::object next,
                         std::optional<uint64_t> count, int threads, const nb::object& progress) {
  BatchRows rows(ValueOrRaise(Schema::Create(std::move(columns))), std::move(next), count);
  try {
    return RunJob<AddColumnsReport>(progress, [&](Cancellation& cancellation, JobProgress& numbers) {
      return AddColumns(*DefaultFileSystem(), dataset, rows,
                        {{.threads = threads, .cancellation = &cancellation, .progress = numbers.function()}});
    });
  } catch (...) {
    if (rows.error()) std::rethrow_exception(rows.error());
    throw;
  }
}

uint64_t Drop(const std::string& dataset, const std::vector<std::string>& columns) {
  return Interruptibly([&] { return DropColumns(*DefaultFileSystem(), dataset, columns); });
}

uint64_t Rename(const std::string& dataset, const std::vector<std::pair<std::string, std::string>>& names) {
  return Interruptibly([&] { return RenameColumns(*DefaultFileSystem(), dataset, names); });
}

uint64_t Set(const std::string& dataset, const std::string& column, const Metadata& changes) {
  return Interruptibly([&] { return SetColumnMetadata(*DefaultFileSystem(), dataset, column, changes); });
}

Dict Compact(const std::string& path, const Dict& given, const nb::object& progress) {
  OptionReader reader(given, "compact");
  CompactOptions options;
  uint64_t grace = 0;
  reader.Take("lost", options.least_lost);
  reader.Take("fold", options.fold);
  reader.Take("purge", options.purge);
  reader.Take("grace_minutes", grace);
  reader.Take("threads", options.threads);
  reader.Finish();
  options.grace = std::chrono::minutes(grace);
  const auto report = RunJob<CompactReport>(progress, [&](Cancellation& cancellation, JobProgress& numbers) {
    options.cancellation = &cancellation;
    options.progress = numbers.function();
    return CompactDataset(*DefaultFileSystem(), path, options);
  });
  nb::dict result;
  result["samples"] = report.manifest.seen_samples();
  result["removed_left"] = report.manifest.removed ? report.manifest.removed->samples : 0;
  result["shards"] = report.manifest.shards.size();
  result["bytes"] = report.manifest.bytes;
  result["bytes_before"] = report.bytes_before;
  result["generation"] = report.manifest.generation;
  result["shards_rewritten"] = report.shards_rewritten;
  result["samples_dropped"] = report.samples_dropped;
  result["files_deleted"] = report.files_deleted;
  return result;
}

std::vector<DatasetGeneration> History(const std::string& path) {
  return Interruptibly([&] { return ReadHistory(*DefaultFileSystem(), path); });
}

}  // namespace

void BindChanges(nb::module_& module) {
  const auto progress = nb::arg("progress").none();
  module.def("add_columns_file", &AddFile, nb::arg("dataset"), nb::arg("path"), nb::arg("key"), nb::arg("columns"),
             nb::arg("types"), nb::arg("threads"), progress);
  module.def("add_columns_rows", &AddRows, nb::arg("dataset"), nb::arg("columns"), nb::arg("next"),
             nb::arg("count").none(), nb::arg("threads"), progress);
  module.def("drop_columns", &Drop, nb::arg("dataset"), nb::arg("columns"));
  module.def("rename_columns", &Rename, nb::arg("dataset"), nb::arg("names"));
  module.def("compact", &Compact, nb::arg("path"), nb::arg("options"), progress);
  module.def("history", &History, nb::arg("path"));
  module.def("set_columns", &Set, nb::arg("dataset"), nb::arg("column"), nb::arg("changes"));
}

}  // namespace shardkit::bindings
