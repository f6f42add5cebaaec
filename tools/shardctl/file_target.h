// A file that appears whole or not at all.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"

namespace shardctl {

// Writes to a temporary file beside PATH and renames it on Commit, replacing a regular file that is there.
// What is no regular file (a device, a pipe) is written to as it is. Dropped without Commit, the temporary
// file is removed.
class FileTarget {
 public:
  static absl::StatusOr<std::unique_ptr<FileTarget>> Open(const std::string& path);
  ~FileTarget();

  absl::Status Append(std::string_view bytes) { return file_->Append(bytes); }
  absl::Status Commit();

 private:
  FileTarget() = default;

  std::string path_;
  std::string temporary_;  // empty when written in place
  std::unique_ptr<shardkit::WritableFile> file_;
};

}  // namespace shardctl
