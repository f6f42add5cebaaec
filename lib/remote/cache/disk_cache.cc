#include "remote/cache/disk_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "io/posix_error.h"
#include "io/publish_file.h"

namespace shardkit::remote {
namespace {

constexpr size_t kFolders = 256;
constexpr std::string_view kUsageMagic = "SHKUSAGE";
constexpr uint64_t kBlock = 512;  // of stat's st_blocks

// Lines that this process keeps open, unless the system allows fewer.
constexpr uint64_t kMostOpen = 512;

// Lines that are compared to find those whose last use is longest ago. Folders hold random ones, so that some hundred
// tell which are old.
constexpr size_t kCompared = 256;

// What a file system may need for a line besides its bytes, to note where they are: ext4 does so in blocks of 4 KiB
// with 340 places each, which it may add long after the bytes were reserved. So it is counted for each line from the
// start.
constexpr uint64_t kBeside = 16384;

std::string FolderName(size_t folder) { return {"0123456789abcdef"[folder >> 4], "0123456789abcdef"[folder & 15]}; }

size_t FolderOf(const std::string& name) {
  const auto digit = [](char c) { return static_cast<size_t>(c <= '9' ? c - '0' : c - 'a' + 10); };
  return 16 * digit(name[0]) + digit(name[1]);
}

// No less than the file may come to take on disk without further bytes.
uint64_t CountedBytes(const struct stat& info) {
  return info.st_blocks == 0 ? 0 : static_cast<uint64_t>(info.st_blocks) * kBlock + kBeside;
}

uint64_t CountedBytes(int descriptor) {
  struct stat info;
  return fstat(descriptor, &info) == 0 ? CountedBytes(info) : 0;
}

absl::Status MakeDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return absl::OkStatus();
  return io::PosixError(path, "create the cache's directory", errno);
}

struct Listed {
  std::string path;
  size_t folder = 0;
  uint64_t bytes = 0;                // counted
  std::pair<int64_t, int64_t> used;  // seconds, nanoseconds
};

// Appends the files of a folder of lines. Returns their counted bytes.
uint64_t ListFolder(const std::string& directory, size_t folder, std::vector<Listed>* lines) {
  const std::string path = StrCat(directory, "/lines/", FolderName(folder));
  DIR* const listing = opendir(path.c_str());
  if (listing == nullptr) return 0;
  uint64_t total = 0;
  while (const dirent* const entry = readdir(listing)) {
    struct stat info;
    if (entry->d_name[0] == '.' || fstatat(dirfd(listing), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    const uint64_t bytes = CountedBytes(info);
    total += bytes;
    if (lines != nullptr) {
      lines->push_back({StrCat(path, "/", entry->d_name), folder, bytes, {info.st_mtim.tv_sec, info.st_mtim.tv_nsec}});
    }
  }
  (void)closedir(listing);
  return total;
}

// False for a line of which pieces are being fetched.
bool Evict(const std::string& path) {
  const io::FileDescriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!file.valid() || !TryLockBytes(file.get(), 0, kLockedBytes)) return false;
  // Those who have it open keep it, but not its bytes. The name goes first: should this process end between the two,
  // nobody may write to the file, whose pieces others may hold for compared.
  if (unlink(path.c_str()) != 0) return false;
  [[maybe_unused]] const int cut = ftruncate(file.get(), 0);
  return true;
}

}  // namespace

// The file `usage`, locked. What it says is never less than what the lines take.
class DiskCache::Usage {
 public:
  // The file's lock is of the process; `mutex` is for its threads.
  Usage(std::mutex& mutex, int descriptor, const std::string& directory)
      : thread_lock_(mutex), descriptor_(descriptor) {
    // Held for microseconds, or while some folders are listed.
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_len = 1;
    while (fcntl(descriptor, F_OFD_SETLKW, &lock) != 0) {
      if (errno != EINTR) return;
    }
    locked_ = true;
    if (pread(descriptor_, &stored_, sizeof(stored_), 0) == sizeof(stored_) &&
        std::memcmp(stored_.magic, kUsageMagic.data(), kUsageMagic.size()) == 0 && stored_.hand < kFolders) {
      return;
    }
    // It is new, or was lost.
    std::memcpy(stored_.magic, kUsageMagic.data(), kUsageMagic.size());
    stored_.hand = 0;
    for (size_t i = 0; i < kFolders; ++i) stored_.bytes[i] = ListFolder(directory, i, nullptr);
  }

  ~Usage() {
    if (locked_) UnlockBytes(descriptor_, 0, 1);
  }

  bool locked() const { return locked_; }
  uint64_t total() const { return std::accumulate(stored_.bytes.begin(), stored_.bytes.end(), uint64_t{0}); }
  uint64_t& of(size_t folder) { return stored_.bytes[folder]; }
  size_t NextFolder() { return std::exchange(stored_.hand, (stored_.hand + 1) % kFolders); }

  bool Store() const { return pwrite(descriptor_, &stored_, sizeof(stored_), 0) == sizeof(stored_); }

 private:
  struct Stored {  // of one machine, so in its byte order
    char magic[8];
    uint64_t hand;  // the folder that is looked at next
    std::array<uint64_t, kFolders> bytes;
  };
  const std::lock_guard<std::mutex> thread_lock_;
  const int descriptor_;
  bool locked_ = false;
  Stored stored_ = {};
};

absl::StatusOr<std::unique_ptr<DiskCache>> DiskCache::Open(const std::string& directory, uint64_t limit) {
  SHARDKIT_RETURN_IF_ERROR(MakeDirectory(directory));
  struct stat info;
  if (lstat(directory.c_str(), &info) != 0) return io::PosixError(directory, "use as a cache", errno);
  if (!S_ISDIR(info.st_mode)) return FailedPrecondition(directory, ": is no directory; name another for the cache");
  if (info.st_uid != geteuid() || (info.st_mode & 022) != 0) {
    return absl::PermissionDeniedError(
        StrCat(directory,
               ": is not used as a cache: others own it or may write there, and so could change what is read; "
               "name a directory of your own (chmod 700)"));
  }
  struct statvfs disk;
  if (limit == 0 && statvfs(directory.c_str(), &disk) == 0) {
    limit = static_cast<uint64_t>(disk.f_blocks) / 5 * 4 * static_cast<uint64_t>(disk.f_frsize);
  }
  std::unique_ptr<DiskCache> cache(new DiskCache(directory, limit));
  SHARDKIT_RETURN_IF_ERROR(MakeDirectory(directory + "/lines"));
  const std::string usage = directory + "/usage";
  cache->usage_ = io::FileDescriptor(open(usage.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!cache->usage_.valid()) return io::PosixError(usage, "open", errno);
  cache->KeepLimit();
  return cache;
}

std::string DiskCache::PathOf(const std::string& name) const {
  return StrCat(directory_, "/lines/", name.substr(0, 2), "/", name.substr(2));
}

std::shared_ptr<CacheLine> DiskCache::Find(const LineName& name) {
  const std::string file_name = name.FileName();
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = by_name_.find(file_name); found != by_name_.end()) {
      lines_.splice(lines_.begin(), lines_, found->second);
      return found->second->second;
    }
  }
  const std::string path = PathOf(file_name);
  // Another process may be making it, which takes less than a millisecond, or be evicting it.
  std::shared_ptr<CacheLine> line;
  for (int attempt = 0; attempt < 50 && line == nullptr; ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    bool full = false;
    const auto allocate = [&](int descriptor) {
      full = !Allocate(descriptor, file_name, 0, kLineDataBegin);
      return !full;
    };
    line = CacheLine::Open(path, name, allocate);
    if (full || (line == nullptr && mkdir(io::ParentDirectory(path).c_str(), 0700) != 0 && errno != EEXIST))
      return nullptr;
  }
  if (line == nullptr) return nullptr;
  rlimit files = {};
  const uint64_t allowed = getrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_cur / 4 : kMostOpen;
  const std::lock_guard lock(mutex_);
  if (const auto found = by_name_.find(file_name); found != by_name_.end()) return found->second->second;
  lines_.emplace_front(file_name, line);
  by_name_[file_name] = lines_.begin();
  while (lines_.size() > std::clamp<uint64_t>(allowed, 8, kMostOpen)) {
    by_name_.erase(lines_.back().first);
    lines_.pop_back();
  }
  return line;
}

void DiskCache::Drop(const LineName& name) {
  const std::lock_guard lock(mutex_);
  const auto found = by_name_.find(name.FileName());
  if (found == by_name_.end()) return;
  lines_.erase(found->second);
  by_name_.erase(found);
}

bool DiskCache::Reserve(const CacheLine& line, const LineName& name, PieceRun run) {
  const uint64_t begin = run.begin * kPieceBytes, end = std::min<uint64_t>(run.end * kPieceBytes, name.bytes());
  return Allocate(line.descriptor(), name.FileName(), kLineDataBegin + begin, end - begin);
}

// Under the lock, what the disk has given out is known: nobody else takes or frees any.
bool DiskCache::Allocate(int descriptor, const std::string& name, uint64_t begin, uint64_t length) {
  Usage usage(usage_mutex_, usage_.get(), directory_);
  if (!usage.locked()) return false;
  const uint64_t wanted = length + kBeside;
  const bool room = MakeRoom(usage, wanted);
  uint64_t& bytes = usage.of(FolderOf(name));
  const uint64_t before = CountedBytes(descriptor);
  bytes += wanted;  // should this process end now, it is too much, never too little
  if (!usage.Store() || !room) {
    bytes -= wanted;
    (void)usage.Store();
    return false;
  }
  const bool allocated = posix_fallocate(descriptor, static_cast<off_t>(begin), static_cast<off_t>(length)) == 0;
  bytes = bytes - wanted + CountedBytes(descriptor) - std::min(before, CountedBytes(descriptor));
  (void)usage.Store();
  return allocated;
}

// Evicts lines until there is room for `wanted` bytes, and for some more, so that not every line that comes has to
// evict another.
bool DiskCache::MakeRoom(Usage& usage, uint64_t wanted) const {
  const auto has_room = [&](uint64_t bytes) { return bytes <= limit_ && usage.total() <= limit_ - bytes; };
  if (has_room(wanted)) return true;
  if (wanted > limit_) return false;
  std::vector<Listed> lines;
  for (size_t looked = 0; looked < kFolders && lines.size() < kCompared; ++looked) {
    const size_t folder = usage.NextFolder();
    usage.of(folder) = ListFolder(directory_, folder, &lines);
  }
  std::ranges::sort(lines, {}, &Listed::used);
  const uint64_t more = std::min(limit_ / 64, uint64_t{64} << 20);
  for (const Listed& line : lines) {
    if (has_room(wanted + more)) break;
    if (Evict(line.path)) usage.of(line.folder) -= std::min(usage.of(line.folder), line.bytes);
  }
  return has_room(wanted);
}

// The limit may be smaller than it was.
void DiskCache::KeepLimit() {
  for (uint64_t before = UINT64_MAX;;) {
    Usage usage(usage_mutex_, usage_.get(), directory_);
    if (!usage.locked() || usage.total() <= limit_ || usage.total() >= before) return;
    before = usage.total();
    (void)MakeRoom(usage, 0);
    (void)usage.Store();
  }
}

void DiskCache::EvictAll() {
  for (size_t folder = 0; folder < kFolders; ++folder) {
    Usage usage(usage_mutex_, usage_.get(), directory_);
    if (!usage.locked()) return;
    std::vector<Listed> lines;
    ListFolder(directory_, folder, &lines);
    for (const Listed& line : lines) (void)Evict(line.path);
    usage.of(folder) = ListFolder(directory_, folder, nullptr);
    (void)usage.Store();
  }
}

absl::Status ForEachLine(const std::string& directory,
                         const std::function<absl::Status(const std::string& path)>& take) {
  struct stat info;
  if (stat(StrCat(directory, "/lines").c_str(), &info) != 0) {
    return NotFound(directory, ": is not a cache: it has no folder \"lines\"");
  }
  for (size_t folder = 0; folder < kFolders; ++folder) {
    std::vector<Listed> lines;
    ListFolder(directory, folder, &lines);
    for (const Listed& line : lines) SHARDKIT_RETURN_IF_ERROR(take(line.path));
  }
  return absl::OkStatus();
}

}  // namespace shardkit::remote
