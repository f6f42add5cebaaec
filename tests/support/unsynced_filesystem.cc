#include "support/unsynced_filesystem.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <utility>

#include "base/status_macros.h"
#include "base/strings.h"

namespace shardkit {
namespace {

struct Write {
  uint64_t offset = 0;
  std::string bytes;

  // Applies the first `length` bytes.
  void Apply(std::string& content, size_t length) const {
    if (length == 0) return;
    content.resize(std::max<size_t>(content.size(), offset + length));
    content.replace(offset, length, bytes, 0, length);
  }
};

using Entries = std::map<std::string, uint64_t>;  // name to inode

// Names that appear or disappear (inode 0) together.
struct EntryChange {
  std::vector<std::pair<std::string, uint64_t>> entries;

  void Apply(Entries& to) const {
    for (const auto& [name, inode] : entries) {
      if (inode == 0) {
        to.erase(name);
      } else {
        to[name] = inode;
      }
    }
  }
};

struct FileOnDisk {
  std::string durable;
  std::vector<Write> pending;
};

struct DirectoryOnDisk {
  Entries durable;
  std::vector<EntryChange> pending;
};

std::pair<std::string, std::string> SplitPath(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {"/", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

// Applies each sector of a write with probability 1/2, as if the device had written only some sectors. The file grows
// to the end of the last applied sector.
void ApplySectors(const Write& write, std::string& content, std::mt19937_64& random) {
  constexpr uint64_t kSector = 512;
  const uint64_t end = write.offset + write.bytes.size();
  for (uint64_t begin = write.offset; begin < end;) {
    const uint64_t next = std::min(end, (begin / kSector + 1) * kSector);
    if (random() % 2 == 0)
      Write{begin, write.bytes.substr(begin - write.offset, next - begin)}.Apply(content, next - begin);
    begin = next;
  }
}

std::string SurvivingContent(const FileOnDisk& file, std::mt19937_64& random) {
  const auto below = [&random](uint64_t limit) { return random() % limit; };
  const auto part = [&](const Write& write) {
    return below(2) == 0 ? below(write.bytes.size() + 1) : write.bytes.size();
  };
  std::string content = file.durable;
  if (file.pending.empty()) return content;
  const uint64_t manner = below(3);
  if (manner == 0) {  // in order, up to a point
    const size_t whole = below(file.pending.size() + 1);
    for (size_t i = 0; i < whole; ++i) file.pending[i].Apply(content, file.pending[i].bytes.size());
    if (whole < file.pending.size()) file.pending[whole].Apply(content, part(file.pending[whole]));
  } else if (manner == 1) {  // in any order that the device chose
    for (const Write& write : file.pending) {
      if (below(2) == 0) write.Apply(content, part(write));
    }
  } else {
    for (const Write& write : file.pending) ApplySectors(write, content, random);
  }
  return content;
}

}  // namespace

class UnsyncedFileSystem::Disk {
 public:
  std::mutex mutex;  // guards all members below, and makes an operation and its record here one step
  std::map<uint64_t, FileOnDisk> files;
  std::map<uint64_t, DirectoryOnDisk> directories;

  static void Sync(FileOnDisk& file) {
    for (const Write& write : std::exchange(file.pending, {})) write.Apply(file.durable, write.bytes.size());
  }
  static void Sync(DirectoryOnDisk& directory) {
    for (const EntryChange& change : std::exchange(directory.pending, {})) change.Apply(directory.durable);
  }

  // Records that the entry `path` now leads to `inode`, or to nothing when `inode` is 0.
  void Change(FileSystem& base, const std::string& path, uint64_t inode) {
    const auto [parent, name] = SplitPath(path);
    directories[base.Stat(parent)->inode].pending.push_back({{{name, inode}}});
  }
};

struct UnsyncedFileSystem::Survivors {
  std::map<uint64_t, std::string> files;
  std::map<uint64_t, Entries> directories;
  std::map<uint64_t, std::string> placed;  // the path of a file that is already in the new file system
  std::set<uint64_t> entered;
};

class UnsyncedFileSystem::Writer final : public WritableFile {
 public:
  Writer(std::unique_ptr<WritableFile> base, uint64_t inode, std::shared_ptr<Disk> disk)
      : base_(std::move(base)), inode_(inode), disk_(std::move(disk)) {}

  const std::string& path() const override { return base_->path(); }
  uint64_t size() const override { return base_->size(); }

  absl::Status Append(std::string_view bytes) override {
    std::lock_guard lock(disk_->mutex);
    const uint64_t offset = base_->size();
    SHARDKIT_RETURN_IF_ERROR(base_->Append(bytes));
    disk_->files[inode_].pending.push_back({offset, std::string(bytes)});
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    std::lock_guard lock(disk_->mutex);
    SHARDKIT_RETURN_IF_ERROR(base_->Sync());
    Disk::Sync(disk_->files[inode_]);
    return absl::OkStatus();
  }

  absl::Status Close() override { return base_->Close(); }

 private:
  const std::unique_ptr<WritableFile> base_;
  const uint64_t inode_;
  const std::shared_ptr<Disk> disk_;
};

UnsyncedFileSystem::UnsyncedFileSystem() : base_(NewMemoryFileSystem()), disk_(std::make_shared<Disk>()) {}

std::unique_ptr<UnsyncedFileSystem> UnsyncedFileSystem::Crash(std::optional<uint64_t> seed) const {
  auto after = std::make_unique<UnsyncedFileSystem>();
  Survivors survivors;
  std::mt19937_64 random(seed.value_or(0));
  std::lock_guard lock(disk_->mutex);
  for (const auto& [inode, file] : disk_->files) {
    survivors.files[inode] = seed ? SurvivingContent(file, random) : file.durable;
  }
  for (const auto& [inode, directory] : disk_->directories) {
    Entries& entries = survivors.directories[inode] = directory.durable;
    if (!seed) continue;
    const bool in_order = random() % 2 == 0;
    const size_t kept = in_order ? random() % (directory.pending.size() + 1) : directory.pending.size();
    for (size_t i = 0; i < kept; ++i) {
      if (in_order || random() % 2 == 0) directory.pending[i].Apply(entries);
    }
  }
  Rebuild(survivors, base_->Stat("/")->inode, "/", *after);
  after->SyncEverything();
  return after;
}

void UnsyncedFileSystem::SyncEverything() {
  std::lock_guard lock(disk_->mutex);
  for (auto& [inode, file] : disk_->files) Disk::Sync(file);
  for (auto& [inode, directory] : disk_->directories) Disk::Sync(directory);
}

absl::StatusOr<std::unique_ptr<RandomAccessFile>> UnsyncedFileSystem::OpenForReading(const std::string& path,
                                                                                     ReadMode mode,
                                                                                     std::optional<uint64_t> size) {
  return base_->OpenForReading(path, mode, size);
}

template <typename Open>
auto UnsyncedFileSystem::OpenOrCreate(const std::string& path, Open open) {
  const bool existed = base_->Stat(path).ok();
  auto result = open();
  if (result.ok() && !existed) {
    const uint64_t inode = base_->Stat(path)->inode;
    disk_->files[inode];
    disk_->Change(*base_, path, inode);
  }
  return result;
}

absl::StatusOr<std::unique_ptr<WritableFile>> UnsyncedFileSystem::Create(const std::string& path) {
  std::lock_guard lock(disk_->mutex);
  SHARDKIT_ASSIGN_OR_RETURN(auto file, OpenOrCreate(path, [&] { return base_->Create(path); }));
  return std::make_unique<Writer>(std::move(file), base_->Stat(path)->inode, disk_);
}

absl::Status UnsyncedFileSystem::Rename(const std::string& from, const std::string& to) {
  std::lock_guard lock(disk_->mutex);
  const absl::StatusOr<FileInfo> source = base_->Stat(from);
  const absl::StatusOr<FileInfo> target = base_->Stat(to);
  SHARDKIT_RETURN_IF_ERROR(base_->Rename(from, to));
  if (target.ok() && target->inode == source->inode) return absl::OkStatus();  // two names of one file
  const auto [from_parent, from_name] = SplitPath(from);
  const auto [to_parent, to_name] = SplitPath(to);
  const uint64_t from_directory = base_->Stat(from_parent)->inode;
  const uint64_t to_directory = base_->Stat(to_parent)->inode;
  if (from_directory == to_directory) {
    disk_->directories[to_directory].pending.push_back({{{from_name, 0}, {to_name, source->inode}}});
  } else {
    disk_->directories[from_directory].pending.push_back({{{from_name, 0}}});
    disk_->directories[to_directory].pending.push_back({{{to_name, source->inode}}});
  }
  return absl::OkStatus();
}

absl::Status UnsyncedFileSystem::Link(const std::string& from, const std::string& to) {
  std::lock_guard lock(disk_->mutex);
  SHARDKIT_RETURN_IF_ERROR(base_->Link(from, to));
  disk_->Change(*base_, to, base_->Stat(to)->inode);
  return absl::OkStatus();
}

absl::Status UnsyncedFileSystem::RemoveFile(const std::string& path) {
  std::lock_guard lock(disk_->mutex);
  SHARDKIT_RETURN_IF_ERROR(base_->RemoveFile(path));
  disk_->Change(*base_, path, 0);
  return absl::OkStatus();
}

absl::Status UnsyncedFileSystem::RemoveDirectory(const std::string& path) {
  std::lock_guard lock(disk_->mutex);
  SHARDKIT_RETURN_IF_ERROR(base_->RemoveDirectory(path));
  disk_->Change(*base_, path, 0);
  return absl::OkStatus();
}

absl::Status UnsyncedFileSystem::CreateDirectory(const std::string& path) {
  std::lock_guard lock(disk_->mutex);
  const bool existed = base_->Stat(path).ok();
  SHARDKIT_RETURN_IF_ERROR(base_->CreateDirectory(path));
  if (existed) return absl::OkStatus();
  const uint64_t inode = base_->Stat(path)->inode;
  disk_->directories[inode];
  disk_->Change(*base_, path, inode);
  return absl::OkStatus();
}

absl::Status UnsyncedFileSystem::SyncDirectory(const std::string& path) {
  std::lock_guard lock(disk_->mutex);
  SHARDKIT_RETURN_IF_ERROR(base_->SyncDirectory(path));
  Disk::Sync(disk_->directories[base_->Stat(path)->inode]);
  return absl::OkStatus();
}

absl::StatusOr<FileInfo> UnsyncedFileSystem::Stat(const std::string& path, bool follow) {
  return base_->Stat(path, follow);
}

absl::Status UnsyncedFileSystem::ForEachEntry(const std::string& path, const TakeEntry& take) {
  return base_->ForEachEntry(path, take);
}

absl::StatusOr<std::unique_ptr<FileLock>> UnsyncedFileSystem::Lock(const std::string& path) {
  std::lock_guard lock(disk_->mutex);
  return OpenOrCreate(path, [&] { return base_->Lock(path); });
}

void UnsyncedFileSystem::Rebuild(Survivors& survivors, uint64_t directory, const std::string& path,
                                 UnsyncedFileSystem& out) {
  // A directory moved between two others may have kept both names. The first one found counts.
  if (!survivors.entered.insert(directory).second) return;
  for (const auto& [name, inode] : survivors.directories[directory]) {
    const std::string entry_path = JoinPath(path, name);
    const auto file = survivors.files.find(inode);
    if (file == survivors.files.end()) {
      if (survivors.entered.count(inode) != 0) continue;
      (void)out.CreateDirectory(entry_path);
      Rebuild(survivors, inode, entry_path, out);
    } else if (const auto [placed, is_new] = survivors.placed.emplace(inode, entry_path); !is_new) {
      (void)out.Link(placed->second, entry_path);
    } else {
      (void)(*out.Create(entry_path))->Append(file->second);
    }
  }
}

}  // namespace shardkit
