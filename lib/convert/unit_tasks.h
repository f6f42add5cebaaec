// Packing the units of a job in tasks, and making a dataset of them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "convert/packer.h"
#include "dataset/job_directory.h"
#include "shardkit/pack.h"
#include "shardkit/schema.h"
#include "shardkit/source.h"

namespace shardkit::convert {

// A job whose input is divided into units.
struct UnitJob {
  std::string directory;              // of the dataset
  std::string fingerprint;            // of the input and the options: 16 hexadecimal digits
  PackOptions pack;                   // with the job and the metadata that the dataset gets
  Schema schema;                      // before any sample is looked at
  std::map<std::string, Type> types;  // that were asked for
  std::vector<uint64_t> unit_bytes;   // of each unit, in the input

  // The source of a unit, and its place there. Units are opened in ascending order; the source is valid until the next
  // call.
  std::function<absl::StatusOr<Source*>(uint64_t unit, PackPart* part)> open;
  // The source of all units, for CheckTypes and FindKey; valid as long as the job.
  std::function<absl::StatusOr<Source*>()> whole;
};

// The first unit of task `task` of `tasks`: runs of units, of about the same bytes. Their number for task == tasks.
uint64_t FirstUnit(const std::vector<uint64_t>& unit_bytes, uint64_t task, uint64_t tasks);

// InvalidArgument unless the task is one of them.
absl::Status CheckTask(const PackTaskOptions& options);

// As PackTask. The folder of the records must be there.
absl::StatusOr<PackTaskReport> RunTask(FileSystem& file_system, const UnitJob& job, const PackTaskOptions& options);

// As FinishPack, for a dataset that is not finished, with the lock.
absl::StatusOr<PackReport> JoinUnits(FileSystem& file_system, const UnitJob& job, int threads,
                                     const Cancellation* cancellation);

// As FinishPack, for a dataset that is finished, with the lock.
absl::StatusOr<PackReport> ReportJoined(FileSystem& file_system, const std::string& directory);

// Does something with the lock of the directory. Nothing is left of the lock, whatever the result.
template <typename Result, typename Operation>
Result WithLock(FileSystem& file_system, const std::string& directory, Operation operation) {
  absl::StatusOr<std::unique_ptr<FileLock>> lock = dataset::LockDirectory(file_system, directory);
  if (!lock.ok()) return lock.status();
  Result result = operation();
  const absl::Status removed = file_system.RemoveFile(JoinPath(directory, dataset::kLockName));
  if (!result.ok()) return result;
  if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  SHARDKIT_RETURN_IF_ERROR(file_system.SyncDirectory(directory));
  return result;
}

}  // namespace shardkit::convert
