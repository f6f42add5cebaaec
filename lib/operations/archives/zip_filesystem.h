// Zips as directories, read in place: a source of files then needs no code for them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "operations/sources/source_names.h"
#include "shardkit/filesystem.h"

namespace shardkit::operations {

// `base`, in which each zip that is mounted is a directory of its members: the path of a member is the zip's path, a
// slash, and its name. Members are stored or deflated; zip64 is read. A name is UTF-8, or
// else in `names`, or where those are empty in CP437, as of old.
// The checksum of a member is compared when all of it was read from front to back. Thread-safe: threads read members of
// one zip at the same time. Memory for each member: about 100 bytes and its name.
class ZipFileSystem final : public ForwardingReadableFileSystem {
 public:
  explicit ZipFileSystem(ReadableFileSystem& base, NameEncoding names = {});
  ~ZipFileSystem() override;

  // Reads the central directory. DataLoss for a zip that is damaged or cut off; InvalidArgument, naming the member, for
  // an encrypted one, a name that leads out of the zip, and a name that occurs twice.
  absl::Status Mount(const std::string& path);

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> size) override;
  // Follows links to members that are files.
  absl::StatusOr<FileInfo> Stat(const std::string& path, bool follow) override;
  absl::Status ForEachEntry(const std::string& path, const TakeEntry& take) override;

 private:
  class Zip;
  class Handle;
  class Member;

  // The zip that holds the path, and the name in it, empty for the zip itself. Null for other paths.
  std::pair<Zip*, std::string_view> Find(std::string_view path) const;

  const NameEncoding names_;
  std::map<std::string, std::unique_ptr<Zip>, std::less<>> zips_;
};

}  // namespace shardkit::operations
