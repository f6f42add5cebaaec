// What the sources of directory trees and tar files have in common.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "operations/sources/source_unit.h"
#include "operations/sources/source_walk.h"
#include "shardkit/source.h"

namespace shardkit::operations {

// Listing a tar also reads its data. A unit of this many bytes is handed out, however few samples it has.
inline constexpr uint64_t kTarUnitBytes = uint64_t{4} << 20;

// Samples of a tar, read while they were listed.
class TarredUnit : public WorkUnit {
 public:
  std::string path;
  std::vector<uint64_t> bytes;  // of each sample's members
};

struct SourceInput {
  std::string path;
  bool tar = false;  // else a directory
  // Of a directory: the samples to take, instead of those that are found there (see FileList).
  std::shared_ptr<const std::string> listed;
  // Of a table that was found in a directory: what its keys begin with, empty or a folder and a slash.
  std::string key_prefix = {};
  // The end of `path` that was not given but found, empty or a folder and a slash.
  std::string folder = {};
};

// Samples of a tree as bytes, in the order of their listing: for packing in tasks, which then list nothing.
class FileList {
 public:
  void Add(const TreeUnit& unit, size_t sample);

  bool empty() const { return text_.empty(); }
  // What was added since the last call.
  std::string Take();

 private:
  std::string text_;
  std::string directory_;  // of the last sample
};

// The same of names relative to the input. Neighbours of one key are a sample. InvalidArgument for a name that is no
// relative path of a file.
absl::StatusOr<std::string> ListNames(const std::vector<std::string>& names, NameSplit split);

// The groups of an input: of its list, or else of its tree. A listed group is one sample. Adds to *passed_over, which
// may be null.
std::unique_ptr<GroupWalk> OpenGroups(const SourceOptions& options, const SourceInput& input, NameSplit split,
                                      WalkRules rules, PassedOver* passed_over);

class FileSource : public Source {
 public:
  absl::StatusOr<std::unique_ptr<WorkUnit>> Next(size_t max_samples) final;
  absl::StatusOr<std::vector<uint64_t>> InputBytes(const WorkUnit& unit) const override;

  // The same samples, but tars as a whole, unread. Not together with Next.
  struct Listed {
    std::shared_ptr<const TreeUnit> tree;
    const SourceInput* tar = nullptr;  // when there is no tree
  };
  absl::StatusOr<std::optional<Listed>> List(size_t max_samples);

  std::vector<std::string> notes() const override { return notes_; }
  std::vector<std::string> warnings() const override;
  // What to say of what was found. `detected`: so was the kind.
  void SetFound(bool detected, std::vector<std::string> notes) {
    detected_ = detected;
    notes_ = std::move(notes);
  }

  // Keeps what OpenInputs returned until the source ends.
  void KeepFileSystem(std::shared_ptr<ReadableFileSystem> opened) { opened_ = std::move(opened); }

  // Whether samples cannot be counted without reading tars.
  bool has_tars() const { return std::ranges::any_of(inputs_, &SourceInput::tar); }
  bool counts_quickly() const override { return !has_tars(); }
  bool keys_ascend() const override { return inputs_.size() == 1 && !inputs_[0].tar && !inputs_[0].listed; }
  const SourceOptions& options() const { return options_; }
  size_t input_count() const { return inputs_.size(); }
  const SourceInput& input(size_t number) const { return inputs_[number]; }

  // Of a part of an input, instead of InitialColumns: the columns of the whole.
  virtual void UseColumns(const std::vector<Column>& /*columns*/) {}

  // Of an image folder, in the order of their labels.
  virtual std::vector<std::string> classes() const { return {}; }

 protected:
  FileSource(std::vector<SourceInput> inputs, const SourceOptions& options, PassOver pass_over = PassOver::kLeftovers)
      : inputs_(std::move(inputs)), options_(options), rules_(RulesOf(options, pass_over)) {}

  // The next samples of input(), none at its end.
  virtual absl::StatusOr<std::unique_ptr<TreeUnit>> NextFromTree(size_t max_samples) = 0;
  virtual absl::StatusOr<std::unique_ptr<WorkUnit>> NextFromTar(size_t max_samples);
  virtual void CloseInput() { walk_.reset(); }

  const SourceInput& input() const { return inputs_[input_]; }
  // The walk through input(), a directory.
  GroupWalk& Walk(NameSplit split);
  TreeUnit NewUnit() const { return TreeUnit(input().path, input_); }
  // As Source::FindKey, where the key is a name divided as `split` says.
  absl::StatusOr<std::vector<std::string>> FindKeyByName(std::string_view key, NameSplit split) const;

  const std::vector<SourceInput> inputs_;
  const SourceOptions options_;
  const WalkRules rules_;
  bool detected_ = false;
  std::vector<std::string> notes_;
  PassedOver passed_over_;  // by Next or List
  UndecodedImages undecoded_images_;

 private:
  std::shared_ptr<ReadableFileSystem> opened_;
  size_t input_ = 0;
  std::unique_ptr<GroupWalk> walk_;
  bool within_tar_ = false;  // samples of input(), a tar, have been listed
  uint64_t empty_tars_ = 0;  // since the last unit
};

// A source for inputs of which it is known what they are. `classes` are those of an image folder whose inputs are
// listed, in the order of their labels.
absl::StatusOr<std::unique_ptr<FileSource>> OpenFileSource(std::string_view kind, std::vector<SourceInput> inputs,
                                                           const SourceOptions& options,
                                                           const std::vector<std::string>& classes = {});

}  // namespace shardkit::operations
