#include "support/fault_filesystem.h"

#include <mutex>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "shardkit/filesystem.h"

namespace shardkit {

// Shared by the file system and its files.
class FaultFileSystem::Calls {
 public:
  void FailCall(uint64_t number, Fault fault) {
    std::lock_guard lock(mutex_);
    number_ = number;
    fault_ = std::move(fault);
  }

  // Counts a call. Returns an error when the call must fail.
  absl::Status Count(std::string_view operation, const std::string& path, bool* short_write = nullptr) {
    std::lock_guard lock(mutex_);
    calls_.push_back({calls_.size() + 1, std::string(operation), path});
    const uint64_t number = calls_.size();
    if (number_ == 0 || number < number_ || (number > number_ && !fault_.all_following)) return absl::OkStatus();
    if (!failed_) failed_ = calls_.back();
    if (short_write != nullptr) *short_write = fault_.short_write;
    return Annotate(fault_.status, StrCat(path, ": cannot ", operation));
  }

  uint64_t count() const {
    std::lock_guard lock(mutex_);
    return calls_.size();
  }
  std::vector<FileSystemCall> calls() const {
    std::lock_guard lock(mutex_);
    return calls_;
  }
  std::optional<FileSystemCall> failed() const {
    std::lock_guard lock(mutex_);
    return failed_;
  }

 private:
  mutable std::mutex mutex_;
  uint64_t number_ = 0;  // of the call that must fail; 0: none
  Fault fault_;
  std::vector<FileSystemCall> calls_;
  std::optional<FileSystemCall> failed_;
};

class FaultFileSystem::Reader final : public ForwardingFile {
 public:
  Reader(std::unique_ptr<RandomAccessFile> base, std::shared_ptr<Calls> calls)
      : ForwardingFile(std::move(base)), calls_(std::move(calls)) {}

  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    SHARDKIT_RETURN_IF_ERROR(calls_->Count("read", path()));
    return ForwardingFile::ReadAt(offset, buffer);
  }

  absl::Status ReadBatch(std::span<const ReadRequest> requests) const override {
    SHARDKIT_RETURN_IF_ERROR(calls_->Count("read", path()));
    return ForwardingFile::ReadBatch(requests);
  }

 private:
  const std::shared_ptr<Calls> calls_;
};

class FaultFileSystem::Writer final : public WritableFile {
 public:
  Writer(std::unique_ptr<WritableFile> base, std::shared_ptr<Calls> calls)
      : base_(std::move(base)), calls_(std::move(calls)) {}

  const std::string& path() const override { return base_->path(); }
  uint64_t size() const override { return base_->size(); }
  void StartWriteback() override { base_->StartWriteback(); }

  absl::Status Append(std::string_view bytes) override {
    bool short_write = false;
    const absl::Status fault = calls_->Count("write", path(), &short_write);
    if (short_write) SHARDKIT_RETURN_IF_ERROR(base_->Append(bytes.substr(0, bytes.size() / 2)));
    return fault.ok() ? base_->Append(bytes) : fault;
  }

  absl::Status AppendPieces(std::span<const std::string_view> pieces) override {
    bool short_write = false;
    const absl::Status fault = calls_->Count("write", path(), &short_write);
    if (short_write) {
      std::string bytes;
      for (const std::string_view piece : pieces) bytes.append(piece);
      SHARDKIT_RETURN_IF_ERROR(base_->Append(std::string_view(bytes).substr(0, bytes.size() / 2)));
    }
    return fault.ok() ? base_->AppendPieces(pieces) : fault;
  }

  absl::Status Sync() override {
    SHARDKIT_RETURN_IF_ERROR(calls_->Count("sync", path()));
    return base_->Sync();
  }

  absl::Status Close() override {
    if (std::exchange(closed_, true)) return base_->Close();  // does nothing the second time, so it cannot fail
    absl::Status fault = calls_->Count("close", path());
    absl::Status status = base_->Close();
    fault.Update(status);
    return fault;
  }

 private:
  const std::unique_ptr<WritableFile> base_;
  const std::shared_ptr<Calls> calls_;
  bool closed_ = false;
};

FaultFileSystem::FaultFileSystem(FileSystem* base) : base_(base), calls_(std::make_shared<Calls>()) {}

void FaultFileSystem::FailCall(uint64_t number, Fault fault) { calls_->FailCall(number, std::move(fault)); }
uint64_t FaultFileSystem::call_count() const { return calls_->count(); }
std::vector<FileSystemCall> FaultFileSystem::calls() const { return calls_->calls(); }
std::optional<FileSystemCall> FaultFileSystem::failed_call() const { return calls_->failed(); }

absl::StatusOr<std::unique_ptr<RandomAccessFile>> FaultFileSystem::OpenForReading(const std::string& path,
                                                                                  ReadMode mode,
                                                                                  std::optional<uint64_t> size) {
  SHARDKIT_RETURN_IF_ERROR(calls_->Count("open", path));
  SHARDKIT_ASSIGN_OR_RETURN(auto file, base_->OpenForReading(path, mode, size));
  return std::make_unique<Reader>(std::move(file), calls_);
}

absl::StatusOr<std::unique_ptr<WritableFile>> FaultFileSystem::Create(const std::string& path) {
  SHARDKIT_RETURN_IF_ERROR(calls_->Count("create", path));
  SHARDKIT_ASSIGN_OR_RETURN(auto file, base_->Create(path));
  return std::make_unique<Writer>(std::move(file), calls_);
}

absl::Status FaultFileSystem::Rename(const std::string& from, const std::string& to) {
  SHARDKIT_RETURN_IF_ERROR(calls_->Count("rename", from));
  return base_->Rename(from, to);
}

absl::Status FaultFileSystem::Link(const std::string& from, const std::string& to) {
  SHARDKIT_RETURN_IF_ERROR(calls_->Count("link", from));
  return base_->Link(from, to);
}

absl::Status FaultFileSystem::RemoveFile(const std::string& path) {
  SHARDKIT_RETURN_IF_ERROR(calls_->Count("remove", path));
  return base_->RemoveFile(path);
}

absl::Status FaultFileSystem::RemoveDirectory(const std::string& path) {
  SHARDKIT_RETURN_IF_ERROR(calls_->Count("remove directory", path));
  return base_->RemoveDirectory(path);
}

absl::Status FaultFileSystem::CreateDirectory(const std::string& path) {
  SHARDKIT_RETURN_IF_ERROR(calls_->Count("create directory", path));
  return base_->CreateDirectory(path);
}

absl::Status FaultFileSystem::SyncDirectory(const std::string& path) {
  SHARDKIT_RETURN_IF_ERROR(calls_->Count("sync directory", path));
  return base_->SyncDirectory(path);
}

absl::StatusOr<FileInfo> FaultFileSystem::Stat(const std::string& path, bool follow) {
  SHARDKIT_RETURN_IF_ERROR(calls_->Count("stat", path));
  return base_->Stat(path, follow);
}

absl::Status FaultFileSystem::ForEachEntry(const std::string& path, const TakeEntry& take) {
  SHARDKIT_RETURN_IF_ERROR(calls_->Count("list directory", path));
  return base_->ForEachEntry(path, take);
}

absl::StatusOr<std::unique_ptr<FileLock>> FaultFileSystem::Lock(const std::string& path) {
  SHARDKIT_RETURN_IF_ERROR(calls_->Count("lock", path));
  return base_->Lock(path);
}

}  // namespace shardkit
