// What shardctl cache does with a cache, as a whole.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/status_macros.h"
#include "remote/cache/disk_cache.h"
#include "shardkit/remote.h"

namespace shardkit {
namespace {

using remote::CacheLine;
using remote::LineName;

struct FoundLine {
  LineName name;
  struct stat info;
};

// What is not a line, or was evicted meanwhile, is left out.
absl::Status ForEachReadable(const std::string& directory,
                             const std::function<void(const std::string& path, const FoundLine& line)>& take) {
  return remote::ForEachLine(directory, [&](const std::string& path) {
    io::FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    std::string page(remote::kCachePageBytes, '\0');
    FoundLine line;
    if (!file.valid() || fstat(file.get(), &line.info) != 0 ||
        pread(file.get(), page.data(), page.size(), 0) != static_cast<ssize_t>(page.size())) {
      return absl::OkStatus();
    }
    if (auto name = remote::DecodeLineHeader(page); name.ok()) {
      line.name = *std::move(name);
      take(path, line);
    }
    return absl::OkStatus();
  });
}

}  // namespace

absl::StatusOr<std::vector<CachedObject>> ListCache(const std::string& directory) {
  std::map<std::string, CachedObject> objects;
  SHARDKIT_RETURN_IF_ERROR(ForEachReadable(directory, [&](const std::string& /*path*/, const FoundLine& line) {
    CachedObject& object = objects[line.name.url];
    object.url = line.name.url;
    object.bytes += static_cast<uint64_t>(line.info.st_blocks) * 512;
    ++object.lines;
    object.last_used = std::max<int64_t>(object.last_used, line.info.st_mtim.tv_sec);
  }));
  std::vector<CachedObject> list;
  for (auto& [url, object] : objects) list.push_back(std::move(object));
  return list;
}

absl::StatusOr<CacheCheck> VerifyCache(const std::string& directory) {
  CacheCheck check;
  SHARDKIT_RETURN_IF_ERROR(ForEachReadable(directory, [&](const std::string& path, const FoundLine& found) {
    const auto line = CacheLine::Open(path, found.name, [](int /*descriptor*/) { return false; });
    if (line == nullptr) return;
    const auto [present, damaged] = line->Verify();
    check.pieces += present;
    check.damaged += damaged;
  }));
  return check;
}

absl::Status ClearCache(const std::string& directory) {
  SHARDKIT_RETURN_IF_ERROR(remote::ForEachLine(directory, [](const std::string&) { return absl::OkStatus(); }));
  SHARDKIT_ASSIGN_OR_RETURN(const auto cache, remote::DiskCache::Open(directory, 0));
  cache->EvictAll();
  return absl::OkStatus();
}

}  // namespace shardkit
