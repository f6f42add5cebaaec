// Shared by all kinds of synthetic input: dividing the work among threads, and writing files so that no incomplete file
// ever has its final name.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/job.h"
#include "synth/synth.h"

namespace shardctl {

// Threads to use for `count` samples when the options ask for `wanted` (0: one per processor); at least 1.
int SynthThreadCount(int wanted, uint64_t count);

// Calls make(index, worker) for each index below `count`, on `threads` threads numbered from 0. `make` returns the
// number of bytes written. Stops at the first error and returns the error of the lowest index.
absl::Status RunSynth(uint64_t count, int threads,
                      const std::function<absl::StatusOr<uint64_t>(uint64_t index, int worker)>& make,
                      const SynthProgressCallback& progress, const shardkit::Cancellation* cancellation);

// A file under a temporary name in its directory, removed again unless published.
class PartialFile {
 public:
  // AlreadyExists when `name` is there and `overwrite` is false. A temporary file left by a killed run is
  // replaced.
  static absl::StatusOr<std::unique_ptr<PartialFile>> Create(shardkit::FileSystem& file_system,
                                                             const std::string& directory, const std::string& name,
                                                             bool overwrite);
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  absl::Status Append(std::string_view bytes) { return file_->Append(bytes); }
  absl::Status Close() { return file_->Close(); }

  // Gives the closed file its name.
  absl::Status Publish();

  // Takes a published file away again.
  void Withdraw();

 private:
  PartialFile(shardkit::FileSystem& file_system, std::string temporary, std::string path)
      : file_system_(file_system), temporary_(std::move(temporary)), path_(std::move(path)) {}

  shardkit::FileSystem& file_system_;
  const std::string temporary_;
  const std::string path_;
  std::unique_ptr<shardkit::WritableFile> file_;
  bool published_ = false;
};

}  // namespace shardctl
