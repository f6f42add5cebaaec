#include "dataset/finished_dataset.h"

#include "base/status_macros.h"
#include "shardkit/dataset_reader.h"

namespace shardkit {

absl::StatusOr<Manifest> ReadFinishedDataset(FileSystem& file_system, const std::string& directory) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto dataset, DatasetReader::Open(file_system, directory));
  return dataset->manifest();
}

}  // namespace shardkit
