// COCO: an annotation file (instances, captions, person_keypoints, panoptic) and the images that it is about.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "operations/coco/coco_convert.h"
#include "operations/coco/coco_index.h"
#include "operations/sources/source_unit.h"
#include "shardkit/source.h"

namespace shardkit::operations {

class CocoImages;

// Samples are the entries of "images", in their order. The key is "file_name" without its ending.
class CocoSource final : public Source {
 public:
  // `inputs` are a file *.json and the place of the images, and that of the PNGs of panoptic segmentation if it is
  // another, in any order. `opened` is from OpenInputs.
  static absl::StatusOr<std::unique_ptr<CocoSource>> Open(const std::vector<std::string>& inputs,
                                                          const SourceOptions& options,
                                                          std::shared_ptr<ReadableFileSystem> opened);

  ~CocoSource() override;

  // Whether inputs are those of COCO: a file *.json, and one or two that are none.
  static absl::StatusOr<bool> AreInputs(const std::vector<std::string>& inputs, const SourceOptions& options);

  std::string_view name() const override { return "coco"; }
  absl::StatusOr<std::vector<Column>> InitialColumns() override;
  bool keys_ascend() const override { return false; }
  absl::StatusOr<std::vector<std::string>> FindKey(std::string_view key) override;
  absl::StatusOr<std::unique_ptr<WorkUnit>> Next(size_t max_samples) override;
  void Load(WorkUnit& unit, SampleBatch* batch) override;
  absl::StatusOr<std::vector<uint64_t>> InputBytes(const WorkUnit& unit) const override;
  absl::StatusOr<uint64_t> Skip(uint64_t count) override;
  std::map<std::string, std::string> metadata() const override;
  std::vector<std::string> warnings() const override;
  absl::StatusOr<std::string> Identity() const override;
  bool counts_quickly() const override { return true; }
  absl::StatusOr<uint64_t> Count() override { return index_->size(); }

 private:
  CocoSource(std::unique_ptr<CocoIndex> index, std::unique_ptr<CocoImages> images, std::unique_ptr<CocoImages> pngs,
             const SourceOptions& options, std::shared_ptr<ReadableFileSystem> opened);
  absl::StatusOr<uint64_t> BytesOf(size_t image) const;
  absl::StatusOr<const Column*> ImageColumn(const Value& value, std::string_view file_name);
  absl::Status LoadSample(size_t image, CocoConverter& converter, ByteArena* arena, Sample* sample);

  const std::shared_ptr<ReadableFileSystem> opened_;
  const std::unique_ptr<CocoIndex> index_;
  const std::unique_ptr<CocoImages> images_, pngs_;  // without PNGs null
  const SourceOptions options_;
  const std::vector<Column> columns_;
  ColumnTable image_columns_{/*nullable=*/false};
  size_t next_ = 0;                     // image to list
  std::atomic<uint64_t> unmasked_ = 0;  // loaded samples with segmentations of another form
  UndecodedImages undecoded_images_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<CocoConverter>> idle_;
};

}  // namespace shardkit::operations
