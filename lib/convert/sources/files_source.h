// Directory trees of any files, or tar files. Files whose names are equal up to the first dot (or as group_by says) are
// one sample, and the part after the dot is the column.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convert/sources/source_unit.h"
#include "convert/sources/tar_samples.h"
#include "shardkit/source.h"

namespace shardkit {

class FilesSource final : public Source {
 public:
  FilesSource(std::vector<SourceInput> inputs, const SourceOptions& options);

  std::string_view name() const override { return "files"; }
  absl::StatusOr<std::vector<Column>> InitialColumns() override;
  bool knows_all_columns() const override {
    return std::ranges::none_of(inputs_, &SourceInput::tar);  // of a tar only the first samples are looked at
  }
  bool keys_ascend() const override { return inputs_.size() == 1 && !inputs_[0].tar; }
  absl::StatusOr<std::unique_ptr<WorkUnit>> Next(size_t max_samples) override;
  void Load(WorkUnit& unit, SampleBatch* batch) override;
  absl::Status CheckTypes() const override { return columns_.CheckTypes(); }
  absl::StatusOr<uint64_t> Count() override;
  std::map<std::string, std::string> metadata() const override;
  std::vector<std::string> warnings() const override;
  absl::StatusOr<std::vector<std::string>> FindKey(std::string_view key) override {
    return FindKeyByName(inputs_, key, split_, options_);
  }

 private:
  class FoundColumns;
  absl::Status FindTreeColumns(const SourceInput& input, FoundColumns* found);
  absl::Status FindTarColumns(const SourceInput& input, FoundColumns* found);
  absl::StatusOr<std::unique_ptr<WorkUnit>> NextFromTree(size_t max_samples);
  absl::StatusOr<std::unique_ptr<WorkUnit>> NextFromTar(size_t max_samples);
  absl::Status LoadTreeSample(const TreeUnit& unit, size_t i, ByteArena* arena, Sample* sample);
  absl::Status LoadTarSample(const std::string& path, TarSample& listed, Sample* sample);

  void NoteMembers(const std::string& input, std::string_view key, size_t members);

  const std::vector<SourceInput> inputs_;
  const SourceOptions options_;
  const NameSplit split_;
  uint64_t large_samples_ = 0;  // samples with many members so far
  std::string first_large_;     // what to say of the first of them
  ColumnTable columns_;
  size_t input_ = 0;                 // the input being listed
  std::unique_ptr<TreeWalk> walk_;   // when that input is a directory
  std::unique_ptr<TarSamples> tar_;  // when that input is a tar
  std::optional<uint64_t> count_;
};

}  // namespace shardkit
