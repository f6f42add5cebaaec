// Tars as directories, read in place, for sources that take their files in another order than a tar's.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "operations/sources/source_names.h"
#include "shardkit/filesystem.h"

namespace shardkit::operations {

// `base`, in which each tar that is mounted is a directory of its members: the path of a member is the tar's path, a
// slash, and its name. Links to files before them are files. Of members of one name the last counts, as where a tar is
// extracted. Names are as they are, or else in `names`. Thread-safe. Memory for each member: about 100 bytes and its
// name.
class TarFileSystem final : public ForwardingReadableFileSystem {
 public:
  explicit TarFileSystem(std::unique_ptr<ReadableFileSystem> base, NameEncoding names = {});
  ~TarFileSystem() override;

  // Reads all headers. InvalidArgument for a file that is not a tar, or has something else behind it, a compressed tar,
  // whose members cannot be read without those before them, and a name that leads out of the tar; DataLoss for a tar
  // that is damaged or cut off; Unimplemented for a sparse member.
  absl::Status Mount(const std::string& path);

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> size) override;
  absl::StatusOr<FileInfo> Stat(const std::string& path, bool follow) override;
  absl::Status ForEachEntry(const std::string& path, const TakeEntry& take) override;

 private:
  struct Tar;
  class Member;

  // The tar that holds the path, and the name in it, empty for the tar itself. Null for other paths.
  std::pair<const Tar*, std::string_view> Find(std::string_view path) const;

  const std::unique_ptr<ReadableFileSystem> base_;
  const NameEncoding names_;
  std::map<std::string, Tar, std::less<>> tars_;
};

}  // namespace shardkit::operations
