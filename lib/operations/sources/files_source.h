// Directory trees of any files, or tar files. Files whose names are equal up to the first dot (or as group_by says) are
// one sample, and the part after the dot is the column.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "operations/sources/file_source.h"
#include "operations/sources/tar_samples.h"
#include "shardkit/source.h"

namespace shardkit::operations {

class FilesSource final : public FileSource {
 public:
  FilesSource(std::vector<SourceInput> inputs, const SourceOptions& options);

  std::string_view name() const override { return "files"; }
  absl::StatusOr<std::vector<Column>> InitialColumns() override;
  bool knows_all_columns() const override {
    return !has_tars();  // of a tar only the first samples are looked at
  }
  void Load(WorkUnit& unit, SampleBatch* batch) override;
  absl::Status CheckTypes() const override { return columns_.CheckTypes(); }
  absl::StatusOr<uint64_t> Count() override;
  std::map<std::string, std::string> metadata() const override;
  std::vector<std::string> notes() const override;
  std::vector<std::string> warnings() const override;
  absl::StatusOr<std::vector<std::string>> FindKey(std::string_view key) override { return FindKeyByName(key, split_); }

 protected:
  absl::StatusOr<std::unique_ptr<TreeUnit>> NextFromTree(size_t max_samples) override;
  absl::StatusOr<std::unique_ptr<WorkUnit>> NextFromTar(size_t max_samples) override;
  void CloseInput() override;

 private:
  class FoundColumns;
  absl::Status FindTreeColumns(const SourceInput& input, FoundColumns* found);
  absl::Status FindTarColumns(const SourceInput& input, FoundColumns* found);
  absl::Status LoadTreeSample(const TreeUnit& unit, size_t i, ByteArena* arena, Sample* sample);
  absl::Status LoadTarSample(const std::string& path, TarSample& listed, Sample* sample);

  // Looks whether a file of a sample of `members` files is one that has samples in it. Of `name` the beginning and the
  // last endings count; `bytes` are its length, 0 where that is not known.
  void NoteContainer(std::string_view name, size_t members, uint64_t bytes);
  void NoteMembers(const std::string& input, std::string_view key, size_t members);

  const NameSplit split_;
  uint64_t large_samples_ = 0;    // samples with many members so far
  std::string first_large_;       // what to say of the first of them
  uint64_t unnamed_samples_ = 0;  // samples whose files' names begin with the dot that ends the key
  std::string first_unnamed_;     // what to say of the first of them
  std::string classes_in_;        // a tar whose samples are single images in folders, as it seems
  ColumnTable columns_;
  std::map<std::string, std::string> containers_;  // by what names end in: how to have the samples in such files
  std::unique_ptr<TarSamples> tar_;                // when the input being listed is a tar
  std::optional<uint64_t> count_;
};

}  // namespace shardkit::operations
