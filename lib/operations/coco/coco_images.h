// The place where the images of a COCO file are.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "operations/coco/coco_index.h"
#include "shardkit/source.h"

namespace shardkit::operations {

// Thread-safe.
class CocoImages {
 public:
  // `path` is a directory, which a mounted zip is, too, or a tar. Names of files are relative to it, or to the one
  // folder in it (train2017/) that has the first images. Of a tar the members are listed. InvalidArgument for another
  // kind of file, a compressed tar, and when two folders have the first images.
  static absl::StatusOr<std::unique_ptr<CocoImages>> Open(const std::string& path, const CocoIndex& index,
                                                          const SourceOptions& options);

  // What messages call the file.
  std::string PathOf(std::string_view file_name) const;
  // As LoadFile. NotFound when it is missing, InvalidArgument for a name that leads out of the place.
  absl::StatusOr<Value> Load(std::string_view file_name, ByteArena* arena) const;
  // 0 for a file that is missing.
  absl::StatusOr<uint64_t> Bytes(std::string_view file_name) const;

 private:
  CocoImages(std::string path, const SourceOptions& options) : path_(std::move(path)), options_(options) {}
  absl::Status ListTar();
  absl::Status FindFolder(const CocoIndex& index);
  absl::StatusOr<bool> Has(std::string_view name) const;
  absl::Status CheckName(std::string_view file_name) const;

  const std::string path_;
  const SourceOptions options_;
  bool tar_ = false;
  std::string folder_;  // within path_: empty, or ends in '/'
  absl::flat_hash_map<std::string, std::shared_ptr<const RandomAccessFile>> members_;  // of a tar
};

}  // namespace shardkit::operations
