// Images sorted into class directories: INPUT/CLASS/**/IMAGE.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convert/sources/source_unit.h"
#include "shardkit/source.h"

namespace shardkit {

class ImageFolderSource final : public Source {
 public:
  // `inputs` are directories. InvalidArgument when none has a class directory.
  static absl::StatusOr<std::unique_ptr<Source>> Open(std::vector<std::string> inputs, const SourceOptions& options);

  std::string_view name() const override { return "imagefolder"; }
  absl::StatusOr<std::vector<Column>> InitialColumns() override;
  bool keys_ascend() const override { return inputs_.size() == 1; }
  absl::StatusOr<std::unique_ptr<WorkUnit>> Next(size_t max_samples) override;
  void Load(WorkUnit& unit, SampleBatch* batch) override;
  absl::StatusOr<uint64_t> Count() override;
  absl::StatusOr<std::vector<std::string>> FindKey(std::string_view key) override {
    std::vector<SourceInput> inputs;
    for (const std::string& path : inputs_) inputs.push_back({path});
    return FindKeyByName(inputs, key, NameSplit::kNever, options_);
  }
  std::map<std::string, std::string> metadata() const override;

 private:
  ImageFolderSource(std::vector<std::string> inputs, std::map<std::string, int64_t, std::less<>> labels,
                    const SourceOptions& options);
  absl::Status LoadSample(const TreeUnit& unit, size_t i, ByteArena* arena, Sample* sample);
  absl::StatusOr<Type> ImageType(const Value& value, std::string_view name);
  absl::StatusOr<std::optional<Type>> FirstImageType();

  const std::vector<std::string> inputs_;
  const SourceOptions options_;
  const std::map<std::string, int64_t, std::less<>> labels_;  // by class name
  ColumnTable images_;
  const Column label_;
  const Column class_name_;
  size_t input_ = 0;  // the input being listed
  std::unique_ptr<TreeWalk> walk_;
};

}  // namespace shardkit
