#include "view/recent_reads.h"

#include <algorithm>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "shardkit/filesystem.h"

namespace shardctl {
namespace {

// Ranges of files, the last used ones. A range that is larger than an eighth of all is not kept.
class RecentRanges {
 public:
  explicit RecentRanges(uint64_t limit) : limit_(limit) {}

  // Fills the request from a range that has all of it.
  bool Find(const std::string& path, const shardkit::ReadRequest& request) {
    const std::lock_guard lock(mutex_);
    return FindLocked(path, request);
  }

  // As Find, but waits while somebody else reads all of it. When it returns false, the caller reads the request, and
  // calls Done afterwards. Only for callers that read nothing else meanwhile, so that no two wait for each other.
  bool FindOrBegin(const std::string& path, const shardkit::ReadRequest& request) {
    std::unique_lock lock(mutex_);
    while (!FindLocked(path, request)) {
      const auto covers = [&](const Reading& each) {
        return each.path == path && each.offset <= request.offset &&
               request.offset + request.buffer.size() <= each.offset + each.length;
      };
      if (std::ranges::none_of(readings_, covers)) {
        readings_.push_back({path, request.offset, request.buffer.size()});
        return false;
      }
      changed_.wait(lock);
    }
    return true;
  }

  void Done(const std::string& path, const shardkit::ReadRequest& request) {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(readings_, [&](const Reading& each) {
      return each.path == path && each.offset == request.offset && each.length == request.buffer.size();
    });
    readings_.erase(found);
    changed_.notify_all();
  }

  void Keep(const std::string& path, const shardkit::ReadRequest& request) {
    if (request.buffer.size() > limit_ / 8) return;
    const std::lock_guard lock(mutex_);
    auto& ranges = files_[path];
    if (const auto found = ranges.find(request.offset); found != ranges.end()) Forget(found->second);
    recent_.push_front({path, request.offset, std::string(request.buffer.begin(), request.buffer.end())});
    files_[path][request.offset] = recent_.begin();
    bytes_ += request.buffer.size();
    while (bytes_ > limit_) Forget(std::prev(recent_.end()));
  }

 private:
  struct Range {
    std::string path;
    uint64_t offset;
    std::string bytes;
  };
  using Place = std::list<Range>::iterator;
  struct Reading {
    std::string path;
    uint64_t offset;
    uint64_t length;
  };

  bool FindLocked(const std::string& path, const shardkit::ReadRequest& request) {
    const auto file = files_.find(path);
    if (file == files_.end()) return false;
    const auto found = file->second.upper_bound(request.offset);
    if (found == file->second.begin()) return false;
    const auto place = std::prev(found)->second;
    const uint64_t begin = request.offset - place->offset;
    if (begin > place->bytes.size() || request.buffer.size() > place->bytes.size() - begin) return false;
    std::copy_n(place->bytes.data() + begin, request.buffer.size(), request.buffer.data());
    recent_.splice(recent_.begin(), recent_, place);
    return true;
  }

  void Forget(Place place) {
    const auto file = files_.find(place->path);
    file->second.erase(place->offset);
    if (file->second.empty()) files_.erase(file);
    bytes_ -= place->bytes.size();
    recent_.erase(place);
  }

  const uint64_t limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Reading> readings_;
  uint64_t bytes_ = 0;
  std::list<Range> recent_;  // the last used one first
  std::map<std::string, std::map<uint64_t, Place>> files_;
};

class RememberedFile final : public shardkit::ForwardingFile {
 public:
  RememberedFile(std::unique_ptr<shardkit::RandomAccessFile> base, RecentRanges& ranges)
      : ForwardingFile(std::move(base)), ranges_(ranges) {}

  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    const shardkit::ReadRequest request{offset, buffer};
    if (ranges_.FindOrBegin(path(), request)) return absl::OkStatus();
    // Others wait for it, also when an allocation fails here.
    const absl::Cleanup done = [&] { ranges_.Done(path(), request); };
    const absl::Status status = base().ReadAt(offset, buffer);
    if (status.ok()) ranges_.Keep(path(), request);
    return status;
  }

  absl::Status ReadBatch(std::span<const shardkit::ReadRequest> requests) const override {
    if (requests.size() == 1) return ReadAt(requests[0].offset, requests[0].buffer);
    std::vector<shardkit::ReadRequest> missing;
    for (const shardkit::ReadRequest& request : requests) {
      if (!ranges_.Find(path(), request)) missing.push_back(request);
    }
    if (missing.empty()) return absl::OkStatus();
    if (absl::Status status = base().ReadBatch(missing); !status.ok()) return status;
    for (const shardkit::ReadRequest& request : missing) ranges_.Keep(path(), request);
    return absl::OkStatus();
  }

 private:
  RecentRanges& ranges_;
};

class RememberingFileSystem final : public shardkit::ForwardingReadableFileSystem {
 public:
  RememberingFileSystem(shardkit::ReadableFileSystem& base, uint64_t bytes)
      : shardkit::ForwardingReadableFileSystem(base), ranges_(bytes) {}

  absl::StatusOr<std::unique_ptr<shardkit::RandomAccessFile>> OpenForReading(const std::string& path,
                                                                             shardkit::ReadMode mode,
                                                                             std::optional<uint64_t> size) override {
    auto file = base().OpenForReading(path, mode, size);
    if (!file.ok()) return file;
    return std::make_unique<RememberedFile>(*std::move(file), ranges_);
  }

 private:
  RecentRanges ranges_;
};

}  // namespace

std::unique_ptr<shardkit::ReadableFileSystem> KeepRecentReads(shardkit::ReadableFileSystem& base, uint64_t bytes) {
  return std::make_unique<RememberingFileSystem>(base, bytes);
}

}  // namespace shardctl
