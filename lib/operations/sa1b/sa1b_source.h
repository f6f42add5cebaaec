// SA-1B: pairs of a photograph X.jpg and its annotations X.json, in a directory tree or in tar files.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "operations/sa1b/sa1b.h"
#include "operations/sa1b/sa1b_tar.h"
#include "operations/sources/file_source.h"
#include "shardkit/source.h"

namespace shardkit::operations {

class Sa1bSource final : public FileSource {
 public:
  Sa1bSource(std::vector<SourceInput> inputs, const SourceOptions& options);

  std::string_view name() const override { return "sa1b"; }
  absl::StatusOr<std::vector<Column>> InitialColumns() override { return Sa1bColumns(); }
  void Load(WorkUnit& unit, SampleBatch* batch) override;
  std::vector<std::string> warnings() const override;
  absl::StatusOr<uint64_t> Count() override;
  absl::StatusOr<std::vector<std::string>> FindKey(std::string_view key) override {
    return FindKeyByName(key, NameSplit::kLastDot);
  }

 protected:
  absl::StatusOr<std::unique_ptr<TreeUnit>> NextFromTree(size_t max_samples) override;
  absl::StatusOr<std::unique_ptr<WorkUnit>> NextFromTar(size_t max_samples) override;
  void CloseInput() override;

 private:
  // What one call of Load works with.
  struct Worker {
    Sa1bConverter converter;
    std::string json;
  };
  std::unique_ptr<Worker> TakeWorker();
  void ReturnWorker(std::unique_ptr<Worker> worker);

  absl::Status LoadFromTree(const TreeUnit& unit, size_t i, Worker& worker, ByteArena* arena, Sample* sample);
  absl::Status LoadFromTar(const std::string& path, Sa1bPair& pair, Worker& worker, ByteArena* arena, Sample* sample);
  absl::Status AddImage(Value value, Sample* sample);
  void CountMasks(const Sample& sample);

  ColumnTable images_{/*nullable=*/false};        // for images that are not JPEG
  WalkedGroup group_;                             // the files of one key, borrowed from the walk
  std::vector<std::pair<size_t, size_t>> parts_;  // the samples of group_ (first file, number of files)
  size_t next_part_ = 0;                          // the next of parts_ to list
  std::unique_ptr<Sa1bTar> tar_;
  std::atomic<uint64_t> without_masks_ = 0;  // loaded samples that have annotations, and no column of masks
  std::atomic<uint64_t> of_other_size_ = 0;  // loaded samples with a mask of another size than their image
  std::mutex mutex_;
  std::vector<std::unique_ptr<Worker>> idle_;
};

}  // namespace shardkit::operations
