// Files of lines of JSON: each line is a sample, its members are the columns.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "operations/json_lines.h"
#include "operations/sources/file_source.h"
#include "shardkit/source.h"

namespace shardkit::operations {

// The inputs are files (SourceInput::tar), each with shards of its own. Columns and types are those of the first 256
// rows, unless SourceOptions::types names them; a row with another member, or a value that its column cannot hold,
// fails.
class JsonlSource final : public FileSource {
 public:
  JsonlSource(std::vector<SourceInput> inputs, const SourceOptions& options);

  std::string_view name() const override { return "jsonl"; }
  // InvalidArgument when the first rows have values of several kinds in a column, or none has the key.
  absl::StatusOr<std::vector<Column>> InitialColumns() override;
  void Load(WorkUnit& unit, SampleBatch* batch) override;
  absl::StatusOr<uint64_t> Count() override;

 protected:
  absl::StatusOr<std::unique_ptr<TreeUnit>> NextFromTree(size_t max_samples) override;
  absl::StatusOr<std::unique_ptr<WorkUnit>> NextFromTar(size_t max_samples) override;
  void CloseInput() override;

 private:
  absl::Status LoadRow(JsonTree& tree, std::string_view line, const std::string& place, ByteArena* arena,
                       Sample* sample) const;
  absl::StatusOr<std::unique_ptr<LineReader>> OpenLines(const SourceInput& input) const;
  const Column& AddColumn(const std::string& name, Type type);

  Column key_;
  std::map<std::string, Column, std::less<>> columns_;  // without the key
  std::unique_ptr<LineReader> lines_;                   // of the input that is listed
};

}  // namespace shardkit::operations
