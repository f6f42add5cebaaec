// A local file without a name, for what is written in any order, or read again, before it becomes an object.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"

namespace shardkit::remote {

// One thread at a time. It lies in TMPDIR, or /tmp, and is gone with this object or with the process, however that
// ends. Errors begin with `path`, the name of what is written, and name the directory.
class Spool {
 public:
  static absl::StatusOr<std::unique_ptr<Spool>> Create(const std::string& path);

  WritableFile& file() { return *file_; }

  // What has been written so far. The file may outlive this.
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading() const;

 private:
  Spool(int descriptor, std::unique_ptr<WritableFile> file) : descriptor_(descriptor), file_(std::move(file)) {}

  const int descriptor_;  // file_ owns it
  const std::unique_ptr<WritableFile> file_;
};

}  // namespace shardkit::remote
