// Zips and tars whose members are read in place, for sources that take files in any order.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "operations/sources/source_names.h"
#include "shardkit/filesystem.h"

namespace shardkit::operations {

// The members of an archive, ascending by name. The names of directories end in '/'. Thread-safe: threads read members
// of one archive at the same time. Memory for each member: about 100 bytes and its name.
class Archive {
 public:
  virtual ~Archive() = default;

  virtual size_t size() const = 0;  // number of members
  virtual ListedEntry member(size_t number) const = 0;

  // The member that a symbolic link leads to, or `number` where it is none. NotFound when there is no such member.
  virtual absl::StatusOr<size_t> Follow(size_t number) = 0;

  // The bytes of a member that is a file, under the name `path`. The archive must outlive it.
  virtual absl::StatusOr<std::unique_ptr<RandomAccessFile>> Open(size_t number, const std::string& path) = 0;

  // The first member that does not come before `name`.
  size_t LowerBound(std::string_view name) const;
  std::optional<size_t> Find(std::string_view name) const;
  // Whether it is a directory, or something lies in it.
  bool HasDirectory(std::string_view name) const;

 protected:
  // InvalidArgument for a name that occurs twice, as a file and a directory also; directories may occur several times.
  absl::Status CheckNames(std::string_view path, std::string_view remedy) const;
};

// Reads the central directory. Members are stored or deflated; zip64 is read. A name is UTF-8, or else in `names`, or
// where those are empty in CP437, as of old. The checksum of a member is compared when all of it was read from front to
// back. DataLoss for a zip that is damaged or cut off; InvalidArgument, naming the member, for an encrypted one, a name
// that leads out of the zip, and a name that occurs twice.
absl::StatusOr<std::unique_ptr<Archive>> OpenZip(ReadableFileSystem& file_system, const std::string& path,
                                                 const NameEncoding& names);

// Reads all headers. Links to files before them are files. Of files of one name the last counts, as where a tar is
// extracted. Names are as they are, or else in `names`. InvalidArgument for a file that is not a tar, or has something
// else behind it, for a compressed tar, whose members cannot be read without the bytes before them, for a name that
// leads out of the tar, and for a file with the name of a directory; DataLoss for a tar that is damaged or cut off;
// Unimplemented for a sparse member.
absl::StatusOr<std::unique_ptr<Archive>> OpenTar(ReadableFileSystem& file_system, const std::string& path,
                                                 const NameEncoding& names);

}  // namespace shardkit::operations
