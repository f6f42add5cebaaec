// The cache on local disk: a folder with lines of objects (cache_line.h) for all processes of a machine.
//
//   DIR/usage          bytes that the lines take, by folder
//   DIR/lines/3f/...   lines, in 256 folders by the beginning of their names
//
// Nothing in it outlives a process but what can be used: locks end with their holders, room is reserved before it is
// taken and given back after it is free, and lines are checked piece by piece.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/thread_pool.h"
#include "io/posix_file.h"
#include "remote/cache/cache_line.h"

namespace shardkit::remote {

// Thread-safe. Belongs to the process that opened it.
class DiskCache {
 public:
  // Makes the folder when there is none, for its owner alone. PermissionDenied when others own it or may write there.
  // `limit`: bytes on disk that all lines together have at most; 0 is four fifths of the file system. Lists nothing
  // unless there are more.
  static absl::StatusOr<std::unique_ptr<DiskCache>> Open(const std::string& directory, uint64_t limit);

  // The line of that name, made when there is none. Null when it cannot be used: without room, for instance.
  std::shared_ptr<CacheLine> Find(const LineName& name);

  // Reserves disk for pieces that were taken of a line; evicts lines whose last use is longest ago. False when there is
  // no room; then nothing may be written.
  bool Reserve(const CacheLine& line, const LineName& name, PieceRun run);

  // Forgets what it has open of a line whose file was evicted.
  void Drop(const LineName& name);

  // Evicts all lines of which no piece is being fetched.
  void EvictAll();

  // What was read through it.
  std::atomic<uint64_t> bytes_found = 0, bytes_fetched = 0;

  // For reads that go on while their caller does something else. They wait for one another only while they run.
  ThreadPool& pool() { return pool_; }

 private:
  class Usage;
  static constexpr int kStartedReads = 16;

  DiskCache(std::string directory, uint64_t limit) : directory_(std::move(directory)), limit_(limit) {}
  std::string PathOf(const std::string& name) const;
  bool Allocate(int descriptor, const std::string& name, uint64_t begin, uint64_t length);
  bool MakeRoom(Usage& usage, uint64_t wanted) const;
  void KeepLimit();

  using OpenLine = std::pair<std::string, std::shared_ptr<CacheLine>>;

  const std::string directory_;
  const uint64_t limit_;
  io::FileDescriptor usage_;
  std::mutex usage_mutex_;
  std::mutex mutex_;           // guards the next two
  std::list<OpenLine> lines_;  // open, the last used first
  std::map<std::string, std::list<OpenLine>::iterator> by_name_;
  ThreadPool pool_{kStartedReads};  // last: its reads use the rest
};

// Calls `take` with the path of each line's file below `directory`. NotFound when this is no cache.
absl::Status ForEachLine(const std::string& directory,
                         const std::function<absl::Status(const std::string& path)>& take);

}  // namespace shardkit::remote
