// An output file that is either complete or absent.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"

namespace shardctl {

// Writes to a temporary file beside PATH. Commit renames it to PATH and replaces a regular file there. When PATH is
// something else (a device, a pipe), the bytes go there directly. The destructor removes a temporary file that was
// not committed.
class FileTarget {
 public:
  static absl::StatusOr<std::unique_ptr<FileTarget>> Open(const std::string& path);
  ~FileTarget();

  absl::Status Append(std::string_view bytes);
  absl::Status Commit();

 private:
  FileTarget() = default;

  std::string path_;
  std::string temporary_;  // empty when written in place
  std::unique_ptr<shardkit::WritableFile> file_;
  std::FILE* in_place_ = nullptr;
};

}  // namespace shardctl
