// Files and directories in memory. Errors have the operating system's numbers, codes and messages, so that code tested
// here behaves the same there.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "base/checked.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "io/posix_error.h"
#include "shardkit/filesystem.h"

namespace shardkit {
namespace {

// A file's bytes. Lives as long as a directory entry or an open file refers to it.
struct MemoryFile {
  std::mutex mutex;
  // Shared with maps of the file. While there are maps, writers first copy it, because the bytes under a map must not
  // move.
  std::shared_ptr<std::string> content = std::make_shared<std::string>();
  bool locked = false;  // by a FileLock

  std::string& Writable() {
    if (content.use_count() > 1) content = std::make_shared<std::string>(*content);
    return *content;
  }
};

struct Node {
  uint64_t inode = 0;
  std::shared_ptr<MemoryFile> file;                      // set for files only
  std::map<std::string, std::shared_ptr<Node>> entries;  // used by directories only

  bool is_directory() const { return file == nullptr; }
};

class MemoryReader final : public RandomAccessFile {
 public:
  MemoryReader(std::string path, std::shared_ptr<MemoryFile> file, ReadMode mode)
      : path_(std::move(path)), file_(std::move(file)) {
    std::lock_guard lock(file_->mutex);
    size_ = file_->content->size();
    if (mode == ReadMode::kMapped) map_ = file_->content;
  }

  ~MemoryReader() override {
    std::lock_guard lock(file_->mutex);  // writers read the count under this lock
    map_.reset();
  }

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return size_; }

  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    if (!RangeWithin(offset, buffer.size(), size_)) return io::ReadPastEnd(path_, size_, buffer.size(), offset);
    if (buffer.empty()) return absl::OkStatus();
    std::lock_guard lock(file_->mutex);
    std::memcpy(buffer.data(), (map_ ? map_ : file_->content)->data() + offset, buffer.size());
    return absl::OkStatus();
  }

  bool ReadCached(uint64_t offset, std::span<const std::span<char>> buffers) const override {
    for (const std::span<char> buffer : buffers) {
      if (!ReadAt(offset, buffer).ok()) return false;
      offset += buffer.size();
    }
    return true;
  }

  std::optional<std::string_view> Mapped() const override {
    if (map_ == nullptr) return std::nullopt;
    return std::string_view(*map_);
  }

 private:
  const std::string path_;
  const std::shared_ptr<MemoryFile> file_;
  uint64_t size_;
  std::shared_ptr<const std::string> map_;  // in kMapped mode
};

class MemoryWriter final : public WritableFile {
 public:
  MemoryWriter(std::string path, std::shared_ptr<MemoryFile> file) : path_(std::move(path)), file_(std::move(file)) {}

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return size_; }

  absl::Status Append(std::string_view bytes) override {
    if (closed_) return io::FileIsClosed(path_, "write");
    if (bytes.empty()) return absl::OkStatus();
    std::lock_guard lock(file_->mutex);
    std::string& content = file_->Writable();
    if (!RangeWithin(content.size(), bytes.size(), content.max_size())) return io::PosixError(path_, "write", EFBIG);
    content.append(bytes);
    size_ = content.size();
    return absl::OkStatus();
  }

  absl::Status Sync() override { return closed_ ? io::FileIsClosed(path_, "sync") : absl::OkStatus(); }

  absl::Status Close() override {
    closed_ = true;
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  const std::shared_ptr<MemoryFile> file_;
  uint64_t size_ = 0;
  bool closed_ = false;
};

class MemoryLock final : public FileLock {
 public:
  explicit MemoryLock(std::shared_ptr<MemoryFile> file) : file_(std::move(file)) {}
  ~MemoryLock() override {
    std::lock_guard lock(file_->mutex);
    file_->locked = false;
  }

 private:
  const std::shared_ptr<MemoryFile> file_;
};

class MemoryFileSystem final : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> /*size*/) override {
    SHARDKIT_ASSIGN_OR_RETURN(std::shared_ptr<MemoryFile> file, OpenFile(path, "open for reading", Missing::kFail));
    return std::make_unique<MemoryReader>(path, std::move(file), mode);
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    SHARDKIT_ASSIGN_OR_RETURN(std::shared_ptr<MemoryFile> file, OpenFile(path, "create", Missing::kDemand));
    return std::make_unique<MemoryWriter>(path, std::move(file));
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    const std::string operation = StrCat("rename to ", to);
    std::lock_guard lock(mutex_);
    SHARDKIT_ASSIGN_OR_RETURN(const Place source, Find(from, operation));
    if (source.node == nullptr) return io::PosixError(from, operation, ENOENT);
    SHARDKIT_ASSIGN_OR_RETURN(const Place target, Find(to, operation));
    if (source.parent == nullptr || target.parent == nullptr) return io::PosixError(from, operation, EBUSY);
    if (source.node == target.node) return absl::OkStatus();
    if (Contains(*source.node, target.parent)) return io::PosixError(from, operation, EINVAL);
    if (target.node != nullptr) {
      if (!source.node->is_directory() && target.node->is_directory()) return io::PosixError(from, operation, EISDIR);
      if (source.node->is_directory() && !target.node->is_directory()) return io::PosixError(from, operation, ENOTDIR);
      if (!target.node->entries.empty()) return io::PosixError(from, operation, ENOTEMPTY);
    }
    target.parent->entries[target.name] = source.node;
    source.parent->entries.erase(source.name);
    return absl::OkStatus();
  }

  absl::Status Link(const std::string& from, const std::string& to) override {
    const std::string operation = StrCat("link to ", to);
    std::lock_guard lock(mutex_);
    SHARDKIT_ASSIGN_OR_RETURN(const Place source, Find(from, operation));
    if (source.node == nullptr) return io::PosixError(from, operation, ENOENT);
    SHARDKIT_ASSIGN_OR_RETURN(const Place target, Find(to, operation));
    if (target.node != nullptr) return io::PosixError(from, operation, EEXIST);
    if (source.node->is_directory()) return io::PosixError(from, operation, EPERM);
    target.parent->entries[target.name] = source.node;
    return absl::OkStatus();
  }

  absl::Status RemoveFile(const std::string& path) override {
    return Remove(path, "remove", [](const Place& place) { return place.node->is_directory() ? EISDIR : 0; });
  }

  absl::Status RemoveDirectory(const std::string& path) override {
    return Remove(path, "remove directory", [](const Place& place) {
      if (!place.node->is_directory()) return ENOTDIR;
      if (!place.node->entries.empty()) return ENOTEMPTY;
      return place.parent == nullptr ? EBUSY : 0;
    });
  }

  absl::Status CreateDirectory(const std::string& path) override {
    std::lock_guard lock(mutex_);
    SHARDKIT_ASSIGN_OR_RETURN(const Place place, Find(path, "create directory"));
    if (place.node == nullptr) {
      NewNode(place);
      return absl::OkStatus();
    }
    return place.node->is_directory() ? absl::OkStatus() : io::PosixError(path, "create directory", EEXIST);
  }

  absl::Status SyncDirectory(const std::string& path) override {
    std::lock_guard lock(mutex_);
    return FindDirectory(path, "sync directory").status();
  }

  absl::StatusOr<FileInfo> Stat(const std::string& path, bool /*follow*/) override {
    std::lock_guard lock(mutex_);
    SHARDKIT_ASSIGN_OR_RETURN(const Place place, Find(path, "stat"));
    if (place.node == nullptr) return io::PosixError(path, "stat", ENOENT);
    FileInfo info{.type = FileType::kDirectory, .device = Device(), .inode = place.node->inode};
    if (!place.node->is_directory()) {
      info.type = FileType::kRegular;
      std::lock_guard file_lock(place.node->file->mutex);
      info.size = place.node->file->content->size();
    }
    return info;
  }

  absl::Status ForEachEntry(const std::string& path, const TakeEntry& take) override {
    std::vector<DirectoryEntry> entries;
    {
      std::lock_guard lock(mutex_);
      SHARDKIT_ASSIGN_OR_RETURN(const std::shared_ptr<Node> directory, FindDirectory(path, "list directory"));
      for (const auto& [name, node] : directory->entries) {
        entries.push_back({name, node->is_directory() ? FileType::kDirectory : FileType::kRegular});
      }
    }
    for (const DirectoryEntry& entry : entries) SHARDKIT_RETURN_IF_ERROR(take({entry.name, entry.type, std::nullopt}));
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) override {
    SHARDKIT_ASSIGN_OR_RETURN(std::shared_ptr<MemoryFile> file, OpenFile(path, "lock", Missing::kCreate));
    std::lock_guard lock(file->mutex);
    if (std::exchange(file->locked, true)) return io::LockIsHeld(path);
    return std::make_unique<MemoryLock>(file);
  }

 private:
  // The target of a path: entry `name` of `parent`; it does not exist when `node` is null. The root has no parent.
  struct Place {
    std::shared_ptr<Node> parent;
    std::string name;
    std::shared_ptr<Node> node;
  };

  enum class Missing { kFail, kCreate, kDemand };

  // Paths start at the root, with or without a leading '/'. REQUIRES: mutex_ is held.
  absl::StatusOr<Place> Find(const std::string& path, std::string_view operation) const {
    if (path.empty()) return io::PosixError(path, operation, ENOENT);
    if (path.find('\0') != std::string::npos) return io::PosixError(path.c_str(), operation, EINVAL);
    std::vector<std::shared_ptr<Node>> above;  // the directories above, for
    Place place{.node = root_};
    std::string_view rest = path;
    while (true) {
      rest.remove_prefix(std::min(rest.find_first_not_of('/'), rest.size()));
      if (rest.empty()) return place;
      const std::string_view name = rest.substr(0, rest.find('/'));
      rest.remove_prefix(name.size());
      if (place.node == nullptr) return io::PosixError(path, operation, ENOENT);
      if (!place.node->is_directory()) return io::PosixError(path, operation, ENOTDIR);
      if (name == ".") continue;
      if (name == "..") {
        place = Place{.node = above.empty() ? root_ : above.back()};
        if (!above.empty()) above.pop_back();
        continue;
      }
      above.push_back(place.node);
      const auto entry = place.node->entries.find(std::string(name));
      const bool found = entry != place.node->entries.end();
      place = Place{.parent = above.back(), .name = std::string(name), .node = found ? entry->second : nullptr};
    }
  }

  absl::StatusOr<std::shared_ptr<Node>> FindDirectory(const std::string& path, std::string_view operation) const {
    SHARDKIT_ASSIGN_OR_RETURN(const Place place, Find(path, operation));
    if (place.node == nullptr) return io::PosixError(path, operation, ENOENT);
    if (!place.node->is_directory()) return io::PosixError(path, operation, ENOTDIR);
    return place.node;
  }

  absl::StatusOr<std::shared_ptr<MemoryFile>> OpenFile(const std::string& path, std::string_view operation,
                                                       Missing missing) {
    std::lock_guard lock(mutex_);
    SHARDKIT_ASSIGN_OR_RETURN(const Place place, Find(path, operation));
    if (place.node == nullptr) {
      if (missing == Missing::kFail) return io::PosixError(path, operation, ENOENT);
      if (path.back() == '/') return io::PosixError(path, operation, EISDIR);
      return NewNode(place, std::make_shared<MemoryFile>())->file;
    }
    if (missing == Missing::kDemand) return io::PosixError(path, operation, EEXIST);
    if (place.node->is_directory()) return io::PosixError(path, operation, EISDIR);
    return place.node->file;
  }

  // `problem` returns the error number that forbids the removal, or 0.
  template <typename Problem>
  absl::Status Remove(const std::string& path, std::string_view operation, Problem problem) {
    std::lock_guard lock(mutex_);
    SHARDKIT_ASSIGN_OR_RETURN(const Place place, Find(path, operation));
    const int error = place.node == nullptr ? ENOENT : problem(place);
    if (error != 0) return io::PosixError(path, operation, error);
    place.parent->entries.erase(place.name);
    return absl::OkStatus();
  }

  // Makes a directory when `file` is null.
  std::shared_ptr<Node> NewNode(const Place& place, std::shared_ptr<MemoryFile> file = nullptr) {
    auto node = std::make_shared<Node>();
    node->file = std::move(file);
    node->inode = next_inode_++;
    place.parent->entries[place.name] = node;
    return node;
  }

  // Whether `other` is `node` or lies below it.
  static bool Contains(const Node& node, const std::shared_ptr<Node>& other) {
    if (&node == other.get()) return true;
    return std::any_of(node.entries.begin(), node.entries.end(),
                       [&other](const auto& entry) { return Contains(*entry.second, other); });
  }

  // Different for two memory file systems that exist at the same time.
  uint64_t Device() const { return reinterpret_cast<uintptr_t>(this); }

  std::mutex mutex_;  // guards the tree and the counter; taken before the mutex of a file
  const std::shared_ptr<Node> root_ = std::make_shared<Node>(Node{.inode = 1});
  uint64_t next_inode_ = 2;
};

}  // namespace

std::unique_ptr<FileSystem> NewMemoryFileSystem() { return std::make_unique<MemoryFileSystem>(); }

}  // namespace shardkit
