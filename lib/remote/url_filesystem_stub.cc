// For builds without libcurl, expat or libcrypto.
#include "base/errors.h"
#include "shardkit/forwarding_filesystem.h"
#include "shardkit/remote.h"

namespace shardkit {
namespace {

class LocalFileSystem : public ForwardingFileSystem {
 public:
  LocalFileSystem() : ForwardingFileSystem(*PosixFileSystem()) {}

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> size) override {
    if (path.find("://") == path.npos) return ForwardingFileSystem::OpenForReading(path, mode, size);
    return Unimplemented(
        path.substr(0, path.find('?')),
        ": this build of Shardkit reads no URLs; build it with libcurl, expat and OpenSSL's libcrypto");
  }
};

}  // namespace

FileSystem* DefaultFileSystem() {
  static FileSystem* const file_system = new LocalFileSystem;
  return file_system;
}

}  // namespace shardkit
