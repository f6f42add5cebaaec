// A file system that passes all calls to another one, under other names, and reports created files.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "shardkit/filesystem.h"

namespace shardkit::test {

class DisturbingFileSystem final : public ForwardingFileSystem {
 public:
  // Either function may be empty. `created` is called after a file was created, with its path before `rename`.
  DisturbingFileSystem(FileSystem& base, std::function<std::string(std::string)> rename,
                       std::function<void(const std::string&)> created)
      : ForwardingFileSystem(base), rename_(std::move(rename)), created_(std::move(created)) {}

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    auto file = ForwardingFileSystem::Create(path);
    if (file.ok() && created_) created_(path);
    return file;
  }

 private:
  std::string BasePath(const std::string& path) const override { return rename_ ? rename_(path) : path; }

  const std::function<std::string(std::string)> rename_;
  const std::function<void(const std::string&)> created_;
};

}  // namespace shardkit::test
