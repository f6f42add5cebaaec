// Writing datasets sample by sample.
#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bind.h"
#include "options.h"
#include "report.h"
#include "shardkit/dataset_writer.h"
#include "shardkit/remote.h"
#include "status.h"

namespace shardkit::bindings {
namespace {

namespace nb = nanobind;

class Writer {
 public:
  Writer(const std::string& directory, std::vector<Column> columns, const Dict& given) {
    DatasetWriterOptions options;
    OptionReader reader(given, "Writer");
    TakeWriterOptions(reader, options);
    reader.Finish();
    const Schema schema = ValueOrRaise(Schema::Create(std::move(columns)));
    writer_ = WithoutGil([&] { return DatasetWriter::Create(*DefaultFileSystem(), directory, schema, options); });
  }

  ~Writer() {
    const GilReleased released;  // its threads end first
    writer_.reset();
  }

  // One value, or None, for each column. `next_position` as in DatasetWriter::Append.
  void Append(const nb::typed<nb::list, std::optional<nb::bytes>>& values, std::optional<uint64_t> next_position) {
    std::vector<std::optional<Value>> row;
    row.reserve(values.size());
    for (const nb::handle value : values) {
      if (value.is_none()) {
        row.emplace_back();
      } else {
        const auto bytes = nb::cast<nb::bytes>(value);
        row.emplace_back(Value(std::string_view(bytes.c_str(), bytes.size())));
      }
    }
    WithoutGil([&] { return Open().Append(row, next_position); });
  }

  void RecordSkip(uint64_t position, const std::string& key, const std::string& reason) {
    Open().RecordSkip({.position = position, .key = key, .reason = reason});
  }

  Dict Finish() {
    const DatasetSummary summary = WithoutGil([&] { return Open().Finish(); });
    nb::dict result = ManifestDict(summary.manifest);
    result["skipped"] = summary.skipped;
    result["existing"] = summary.existing;
    writer_.reset();
    return result;
  }

  void Abort() {
    if (writer_ == nullptr) return;
    WithoutGil([&] { return writer_->Abort(); });
    writer_.reset();
  }

  void Suspend() {
    WithoutGil([&] { return Open().Suspend(); });
    writer_.reset();
  }

  uint64_t resume_position() { return Open().resume_position(); }
  std::vector<Column> columns() { return Open().schema().columns(); }

 private:
  DatasetWriter& Open() {
    if (writer_ == nullptr) throw nb::value_error("the writer is closed");
    return *writer_;
  }

  std::unique_ptr<DatasetWriter> writer_;
};

}  // namespace

void BindWriter(nb::module_& module) {
  nb::class_<Writer>(module, "Writer")
      .def(nb::init<const std::string&, std::vector<Column>, const Dict&>(), nb::arg("path"), nb::arg("columns"),
           nb::arg("options"))
      .def("append", &Writer::Append, nb::arg("values"), nb::arg("next_position") = nb::none())
      .def("record_skip", &Writer::RecordSkip, nb::arg("position"), nb::arg("key"), nb::arg("reason"))
      .def("finish", &Writer::Finish)
      .def("abort", &Writer::Abort)
      .def("suspend", &Writer::Suspend)
      .def_prop_ro("resume_position", &Writer::resume_position)
      .def_prop_ro("columns", &Writer::columns);
}

}  // namespace shardkit::bindings
