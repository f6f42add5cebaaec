#include <sys/stat.h>
#include <unzip.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "operations/archives/archive.h"

namespace shardkit::operations {
namespace {

constexpr std::string_view kEmptyMagic("PK\x05\x06", 4);  // APPNOTE.TXT 6.3.10, section 4.3.16
constexpr unsigned long kEncryptedFlag = 1;               // section 4.4.4
constexpr unsigned long kUtf8Flag = 1 << 11;
constexpr unsigned long kStored = 0, kDeflated = 8;  // section 4.4.5
constexpr unsigned long kDos = 0, kUnix = 3;         // section 4.4.2: who made the external attributes

constexpr uint64_t kTailBytes = uint64_t{128} << 10;  // with the end record and its comment
constexpr uint64_t kLargestDirectory = uint64_t{4} << 30;
constexpr uint64_t kReadBytes = uint64_t{128} << 10;
constexpr uint64_t kLargestRead = uint64_t{16} << 20;
constexpr uint64_t kKeptBytes = uint64_t{1} << 20;  // of memory, by a handle that is not in use
constexpr uint64_t kLocalHeaderBytes = 30 + 512;    // and what is beside the name
constexpr uint64_t kLongestLink = 4096;

class Zip final : public Archive {
 public:
  class Handle;
  class Member;
  struct Entry {
    std::string name;
    unz64_file_pos place;  // in the central directory
    uint64_t size = 0;
    uint64_t stored_size = 0;
    uint32_t crc = 0;
    bool stored = false;
    bool supported = true;
    bool link = false;
  };

  absl::Status Load(ReadableFileSystem& base, const std::string& path, const NameEncoding& names);

  size_t size() const override { return entries_.size(); }
  ListedEntry member(size_t number) const override {
    const Entry& entry = entries_[number];
    if (entry.name.ends_with('/')) return {entry.name, FileType::kDirectory, std::nullopt};
    if (entry.link) return {entry.name, FileType::kSymbolicLink, std::nullopt};
    return {entry.name, FileType::kRegular, entry.size};
  }
  absl::StatusOr<size_t> Follow(size_t number) override;
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> Open(size_t number, const std::string& path) override;

  const std::string& path() const { return path_; }
  const RandomAccessFile& file() const { return *file_; }

  // From `offset` on, in memory; empty for what lies before.
  std::string_view Directory(uint64_t offset) const {
    return offset < directory_offset_ ? std::string_view()
                                      : std::string_view(directory_).substr(offset - directory_offset_);
  }

  absl::StatusOr<std::unique_ptr<Handle>> TakeHandle();
  void GiveHandle(std::unique_ptr<Handle> handle) {
    const std::lock_guard lock(mutex_);
    handles_.push_back(std::move(handle));
  }

  absl::Status Error(const absl::Status& status, std::string_view name) const {
    return Annotate(status, StrCat(path_, "/", name));
  }

 private:
  absl::Status List(Handle& handle, const NameEncoding& names);

  std::string path_;
  std::unique_ptr<RandomAccessFile> file_;
  uint64_t directory_offset_ = 0;  // in the file, of directory_
  std::string directory_;          // the file from there to its end
  std::vector<Entry> entries_;     // ascending by name
  std::mutex mutex_;
  std::vector<std::unique_ptr<Handle>> handles_;  // not in use
};

// One reader of minizip, which is for one thread. It reads through the memory of its zip and a buffer of its own.
class Zip::Handle {
 public:
  static absl::StatusOr<std::unique_ptr<Handle>> Open(const Zip& zip) {
    std::unique_ptr<Handle> handle(new Handle(zip));
    zlib_filefunc64_def calls = {};
    calls.opaque = handle.get();
    calls.zopen64_file = [](voidpf self, const void*, int) -> voidpf { return self; };
    calls.zread_file = [](voidpf self, voidpf, void* to, uLong size) -> uLong {
      return static_cast<Handle*>(self)->Read(static_cast<char*>(to), size);
    };
    calls.ztell64_file = [](voidpf self, voidpf) -> ZPOS64_T { return static_cast<Handle*>(self)->position_; };
    calls.zseek64_file = [](voidpf self, voidpf, ZPOS64_T offset, int origin) -> long {
      return static_cast<Handle*>(self)->Seek(offset, origin);
    };
    calls.zclose_file = [](voidpf, voidpf) { return 0; };
    calls.zerror_file = [](voidpf self, voidpf) { return static_cast<Handle*>(self)->failed_.ok() ? 0 : 1; };
    handle->zip_file_ = unzOpen2_64(zip.path().c_str(), &calls);
    if (handle->zip_file_ != nullptr) return handle;
    SHARDKIT_RETURN_IF_ERROR(handle->failed_);
    return DataLoss(zip.path(),
                    ": begins as a zip and has no central directory: it was cut off or damaged; get it again");
  }
  ~Handle() {
    if (zip_file_ != nullptr) unzClose(zip_file_);
  }

  unzFile get() const { return zip_file_; }

  // Opens a member, whose header and data are fetched by one read where that is cheaper than two, or to inflate.
  absl::Status OpenMember(const Zip::Entry& entry) {
    wanted_ = kLocalHeaderBytes + entry.name.size();
    if (!entry.stored || entry.stored_size <= zip_.file().hints().bridge_gap_bytes) {
      wanted_ += std::min(entry.stored_size, kLargestRead);
    }
    failed_ = absl::OkStatus();
    unz64_file_pos place = entry.place;
    int code = unzGoToFilePos64(zip_file_, &place);
    if (code == UNZ_OK) code = unzOpenCurrentFile(zip_file_);
    return Check(code);
  }
  absl::Status ReadMember(std::span<char> to) {
    while (!to.empty()) {
      const auto most = static_cast<unsigned>(std::min<size_t>(to.size(), size_t{1} << 30));
      const int read = unzReadCurrentFile(zip_file_, to.data(), most);
      if (read <= 0) return Check(read == 0 ? UNZ_BADZIPFILE : read);
      to = to.subspan(static_cast<size_t>(read));
    }
    return absl::OkStatus();
  }
  // Of the member that is open, in the file.
  uint64_t data_offset() const { return unzGetCurrentFileZStreamPos64(zip_file_); }
  // Reads the zip's own bytes, some of which OpenMember may have fetched.
  absl::Status ReadFile(uint64_t offset, std::span<char> to) const {
    if (offset >= buffer_offset_ && offset - buffer_offset_ < buffer_.size()) {
      const std::string_view fetched = std::string_view(buffer_).substr(offset - buffer_offset_, to.size());
      std::memcpy(to.data(), fetched.data(), fetched.size());
      to = to.subspan(fetched.size());
      offset += fetched.size();
    }
    return to.empty() ? absl::OkStatus() : zip_.file().ReadAt(offset, to);
  }
  void CloseMember() {
    unzCloseCurrentFile(zip_file_);
    if (buffer_.capacity() > kKeptBytes) buffer_ = {};
    wanted_ = kReadBytes;
  }

  absl::Status Check(int code) const {
    if (code == UNZ_OK || code == UNZ_END_OF_LIST_OF_FILE) return absl::OkStatus();
    SHARDKIT_RETURN_IF_ERROR(failed_);
    return DataLoss(code == Z_DATA_ERROR ? "its deflated bytes are damaged" : "the zip is damaged here or was cut off",
                    "; get the zip again, or pack with --on-error skip");
  }

 private:
  explicit Handle(const Zip& zip) : zip_(zip) {}

  uLong Read(char* to, uLong size) {
    uLong done = 0;
    while (done < size && position_ < zip_.file().size()) {
      std::string_view bytes = zip_.Directory(position_);
      if (bytes.empty() && position_ >= buffer_offset_) {
        bytes = std::string_view(buffer_).substr(std::min<uint64_t>(buffer_.size(), position_ - buffer_offset_));
      }
      if (bytes.empty()) {
        buffer_offset_ = position_;
        buffer_.resize(
            std::min({std::max<uint64_t>(size - done, wanted_), zip_.file().size() - position_, kLargestRead}));
        failed_ = zip_.file().ReadAt(position_, buffer_);
        if (!failed_.ok()) {
          buffer_.clear();
          return done;
        }
        wanted_ = kReadBytes;
        continue;
      }
      const size_t count = std::min<size_t>(bytes.size(), size - done);
      std::memcpy(to + done, bytes.data(), count);
      done += count;
      position_ += count;
    }
    return done;
  }
  long Seek(ZPOS64_T offset, int origin) {
    const uint64_t from = origin == ZLIB_FILEFUNC_SEEK_CUR   ? position_
                          : origin == ZLIB_FILEFUNC_SEEK_END ? zip_.file().size()
                                                             : 0;
    if (offset > zip_.file().size() || from > zip_.file().size() - offset) return -1;
    position_ = from + offset;
    return 0;
  }

  const Zip& zip_;
  unzFile zip_file_ = nullptr;
  uint64_t position_ = 0;
  uint64_t wanted_ = kReadBytes;  // bytes of the next read
  uint64_t buffer_offset_ = 0;
  std::string buffer_;
  absl::Status failed_;  // of reading the file
};

// A member that is open.
class Zip::Member final : public RandomAccessFile {
 public:
  Member(Zip& zip, const Zip::Entry& entry, std::string path) : zip_(zip), entry_(entry), path_(std::move(path)) {}
  ~Member() override { Close(); }

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return entry_.size; }

  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    if (offset > entry_.size || buffer.size() > entry_.size - offset) {
      return OutOfRange(path_, ": has ", entry_.size, " bytes; ", buffer.size(), " bytes at offset ", offset,
                        " were to be read");
    }
    const std::lock_guard lock(mutex_);
    return zip_.Error(Read(offset, buffer), entry_.name);
  }
  ReadHints hints() const override { return zip_.file().hints(); }
  void CancelReads() const override { zip_.file().CancelReads(); }

 private:
  absl::Status Open() const {
    SHARDKIT_ASSIGN_OR_RETURN(handle_, zip_.TakeHandle());
    position_ = 0;
    crc_ = crc32(0, nullptr, 0);
    SHARDKIT_RETURN_IF_ERROR(handle_->OpenMember(entry_));
    data_offset_ = handle_->data_offset();
    if (data_offset_ <= zip_.file().size() && entry_.stored_size <= zip_.file().size() - data_offset_)
      return absl::OkStatus();
    return handle_->Check(UNZ_BADZIPFILE);
  }
  absl::Status Read(uint64_t offset, std::span<char> buffer) const {
    // Stored bytes can be read from anywhere. Then there is no checksum to compare.
    const bool jumps = entry_.stored && data_offset_ > 0 && offset != position_ && offset > 0;
    if (handle_ && offset < position_ && !jumps) Close();
    if (!handle_ && !jumps) SHARDKIT_RETURN_IF_ERROR(Open());
    if (jumps || (entry_.stored && offset > position_)) {
      return zip_.file().ReadAt(data_offset_ + offset, buffer);
    }
    std::string skipped;
    while (position_ < offset) {
      skipped.resize(std::min<uint64_t>(offset - position_, kReadBytes));
      SHARDKIT_RETURN_IF_ERROR(Advance(skipped));
    }
    SHARDKIT_RETURN_IF_ERROR(Advance(buffer));
    if (position_ < entry_.size) return absl::OkStatus();
    Close();
    if (crc_ == entry_.crc) return absl::OkStatus();
    return DataLoss("its CRC-32 is wrong: the zip is damaged; get it again, or pack with --on-error skip");
  }
  absl::Status Advance(std::span<char> to) const {
    SHARDKIT_RETURN_IF_ERROR(entry_.stored ? handle_->ReadFile(data_offset_ + position_, to) : handle_->ReadMember(to));
    position_ += to.size();
    crc_ = crc32_z(crc_, reinterpret_cast<const Bytef*>(to.data()), to.size());
    return absl::OkStatus();
  }
  void Close() const {
    if (!handle_) return;
    handle_->CloseMember();
    zip_.GiveHandle(std::move(handle_));
  }

  Zip& zip_;
  const Zip::Entry& entry_;
  const std::string path_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<Handle> handle_;  // between reads, where the member is not read at once
  mutable uint64_t position_ = 0;           // of handle_
  mutable uLong crc_ = 0;                   // of the bytes before
  mutable uint64_t data_offset_ = 0;        // in the zip; 0 until the member was opened
};

absl::Status Zip::Load(ReadableFileSystem& base, const std::string& path, const NameEncoding& names) {
  path_ = path;
  SHARDKIT_ASSIGN_OR_RETURN(file_, base.OpenForReading(path));
  const uint64_t size = file_->size();
  const auto keep = [&](uint64_t offset) {
    directory_.resize(size - offset);
    directory_offset_ = offset;
    return file_->ReadAt(offset, directory_);
  };
  SHARDKIT_RETURN_IF_ERROR(keep(size - std::min(size, kTailBytes)));
  // minizip finds no end record at offset 0.
  if (directory_offset_ == 0 && directory_.starts_with(kEmptyMagic)) return absl::OkStatus();
  {
    SHARDKIT_ASSIGN_OR_RETURN(const auto handle, Handle::Open(*this));
    unz_global_info64 info;
    SHARDKIT_RETURN_IF_ERROR(Annotate(handle->Check(unzGetGlobalInfo64(handle->get(), &info)), path));
    if (info.number_entry == 0) return absl::OkStatus();
    SHARDKIT_RETURN_IF_ERROR(Annotate(handle->Check(unzGoToFirstFile(handle->get())), path));
    const uint64_t directory = unzGetOffset64(handle->get());
    if (directory < directory_offset_ && size - directory <= kLargestDirectory)
      SHARDKIT_RETURN_IF_ERROR(keep(directory));
  }
  SHARDKIT_ASSIGN_OR_RETURN(auto handle, Handle::Open(*this));
  SHARDKIT_RETURN_IF_ERROR(List(*handle, names));
  GiveHandle(std::move(handle));
  return absl::OkStatus();
}

absl::Status Zip::List(Handle& handle, const NameEncoding& names) {
  // Python's zipfile and Info-ZIP read names that are not marked as UTF-8 as CP437; macOS marks none.
  // Where iconv does not know it, such names are no text.
  const NameEncoding old = NameEncoding::Create("CP437").value_or(NameEncoding());
  unz_file_info64 info;
  std::string name(std::numeric_limits<uint16_t>::max(), '\0');
  int code = unzGoToFirstFile(handle.get());
  for (; code == UNZ_OK; code = unzGoToNextFile(handle.get())) {
    Entry entry;
    code = unzGetCurrentFileInfo64(handle.get(), &info, name.data(), name.size(), nullptr, 0, nullptr, 0);
    if (code == UNZ_OK) code = unzGetFilePos64(handle.get(), &entry.place);
    if (code != UNZ_OK) break;
    const std::string_view bytes = std::string_view(name).substr(0, info.size_filename);
    const bool utf8 = (info.flag & kUtf8Flag) != 0;
    if (names.empty()) {
      entry.name = utf8 || ValidUtf8(bytes) ? std::string(bytes) : old.TextOf(bytes);
    } else {
      entry.name = utf8 ? names.TextOfUtf8(bytes) : names.TextOf(bytes);
    }
    // As .NET 4.0 wrote them, and Info-ZIP reads them.
    if (info.version >> 8 == kDos && entry.name.find('/') == entry.name.npos) {
      std::ranges::replace(entry.name, '\\', '/');
    }
    if (entry.name.find('\0') != entry.name.npos || !NormalizeName(&entry.name)) {
      return InvalidArgument(path_, ": member '", entry.name,
                             "' has a name that leads out of the zip; unzip it and pack the folder");
    }
    if (entry.name.empty()) continue;
    if ((info.flag & kEncryptedFlag) != 0) {
      return InvalidArgument(path_, ": member '", entry.name,
                             "' is encrypted: unzip it with its password and pack the folder");
    }
    entry.size = info.uncompressed_size;
    entry.stored_size = info.compressed_size;
    entry.crc = static_cast<uint32_t>(info.crc);
    entry.stored = info.compression_method == kStored;
    entry.supported = entry.stored || info.compression_method == kDeflated;
    entry.link = info.version >> 8 == kUnix && S_ISLNK(info.external_fa >> 16);
    if (entry.stored && entry.size != entry.stored_size) {
      return DataLoss(path_, ": member '", entry.name,
                      "' is stored and has two lengths: the zip is damaged; get it again");
    }
    entries_.push_back(std::move(entry));
  }
  SHARDKIT_RETURN_IF_ERROR(Annotate(handle.Check(code), path_));
  std::ranges::stable_sort(entries_, {}, &Entry::name);
  return CheckNames(path_, "unzip it and pack the folder");
}

absl::StatusOr<size_t> Zip::Follow(size_t number) {
  const std::string& link = entries_[number].name;
  std::optional<size_t> at = number;
  for (int links = 0; at && entries_[*at].link; ++links) {
    const Entry& entry = entries_[*at];
    if (links == 8 || entry.size > kLongestLink || !entry.supported)
      return NotFound(path_, "/", link, ": cannot follow the link");
    std::string target(entry.size, '\0');
    SHARDKIT_RETURN_IF_ERROR(Member(*this, entry, StrCat(path_, "/", entry.name)).ReadAt(0, target));
    std::string_view folder = std::string_view(entry.name).substr(0, entry.name.rfind('/') + 1);
    std::string_view rest = target;
    while (rest.starts_with("../") && !folder.empty()) {
      rest.remove_prefix(3);
      folder.remove_suffix(1);
      folder = folder.substr(0, folder.rfind('/') + 1);
    }
    std::string name = StrCat(folder, rest);
    at = !target.starts_with('/') && NormalizeName(&name) ? Find(name) : std::nullopt;
  }
  if (!at) return NotFound(path_, "/", link, ": a link to a file that is not in the zip");
  return *at;
}

absl::StatusOr<std::unique_ptr<RandomAccessFile>> Zip::Open(size_t number, const std::string& path) {
  const Entry& entry = entries_[number];
  if (!entry.supported) {
    return InvalidArgument(path, ": is compressed by another method than deflate: unzip it and pack the folder");
  }
  return std::make_unique<Member>(*this, entry, path);
}

absl::StatusOr<std::unique_ptr<Zip::Handle>> Zip::TakeHandle() {
  {
    const std::lock_guard lock(mutex_);
    if (!handles_.empty()) {
      auto handle = std::move(handles_.back());
      handles_.pop_back();
      return handle;
    }
  }
  return Handle::Open(*this);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Archive>> OpenZip(ReadableFileSystem& file_system, const std::string& path,
                                                 const NameEncoding& names) {
  auto zip = std::make_unique<Zip>();
  SHARDKIT_RETURN_IF_ERROR(zip->Load(file_system, path, names));
  return zip;
}

}  // namespace shardkit::operations
