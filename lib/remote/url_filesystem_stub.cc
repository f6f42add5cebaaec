// For builds without libcurl, expat or libcrypto.
#include "base/errors.h"
#include "shardkit/filesystem.h"
#include "shardkit/remote.h"

namespace shardkit {
namespace {

absl::Status NoUrls(const std::string& path) {
  return Unimplemented(path.substr(0, path.find('?')),
                       ": this build of Shardkit knows no URLs; build it with libcurl, expat and OpenSSL's libcrypto");
}

class LocalFileSystem : public ForwardingFileSystem {
 public:
  LocalFileSystem() : ForwardingFileSystem(*PosixFileSystem()) {}

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> size) override {
    if (!IsUrl(path)) return ForwardingFileSystem::OpenForReading(path, mode, size);
    return NoUrls(path);
  }
};

}  // namespace

FileSystem* DefaultFileSystem() {
  static FileSystem* const file_system = new LocalFileSystem;
  return file_system;
}

std::string KeepQuery(const std::string& path) { return path; }

absl::Status UseCache(const CacheOptions& options) {
  return options.directory.empty() ? absl::OkStatus() : NoUrls(options.directory);
}

CacheTraffic ReadCacheTraffic() { return {}; }

absl::StatusOr<std::vector<CachedObject>> ListCache(const std::string& directory) { return NoUrls(directory); }

absl::StatusOr<CacheCheck> VerifyCache(const std::string& directory) { return NoUrls(directory); }

absl::Status ClearCache(const std::string& directory) { return NoUrls(directory); }

absl::StatusOr<std::vector<Leftover>> ListLeftovers(const std::string& url) { return NoUrls(url); }

absl::Status RemoveLeftover(const Leftover& leftover) { return NoUrls(leftover.url); }

}  // namespace shardkit
