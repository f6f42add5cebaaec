#include "operations/archives/tar_filesystem.h"

#include <cstdint>
#include <span>

#include "base/checked.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "foreign/webdataset/tar_archive.h"

namespace shardkit::operations {

using foreign::TarMember;

struct TarFileSystem::Tar {
  struct Place {
    FileType type = FileType::kOther;
    uint64_t offset = 0, length = 0;
  };

  // Whether it is a directory, or something lies in it.
  bool HasDirectory(std::string_view name) const {
    if (name.empty()) return true;
    const std::string prefix = StrCat(name, "/");
    const auto found = members.lower_bound(prefix);
    return found != members.end() && found->first.starts_with(prefix);
  }

  std::shared_ptr<const RandomAccessFile> file;
  std::map<std::string, Place, std::less<>> members;  // names of directories end in '/'
};

class TarFileSystem::Member final : public RandomAccessFile {
 public:
  Member(std::shared_ptr<const RandomAccessFile> tar, std::string path, const Tar::Place& place)
      : tar_(std::move(tar)), path_(std::move(path)), place_(place) {}

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return place_.length; }
  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    if (!RangeWithin(offset, buffer.size(), place_.length)) {
      return OutOfRange(path_, ": read of ", buffer.size(), " bytes at ", offset, " passes the end at ", place_.length);
    }
    return tar_->ReadAt(place_.offset + offset, buffer);
  }

 private:
  const std::shared_ptr<const RandomAccessFile> tar_;
  const std::string path_;
  const Tar::Place place_;
};

TarFileSystem::TarFileSystem(std::unique_ptr<ReadableFileSystem> base, NameEncoding names)
    : ForwardingReads(*base), base_(std::move(base)), names_(std::move(names)) {}
TarFileSystem::~TarFileSystem() = default;

absl::Status TarFileSystem::Mount(const std::string& path) {
  Tar tar;
  SHARDKIT_ASSIGN_OR_RETURN(tar.file, base().OpenForReading(path));
  SHARDKIT_ASSIGN_OR_RETURN(const foreign::TarCompression compression, foreign::DetectCompression(*tar.file));
  if (compression != foreign::TarCompression::kNone) {
    return InvalidArgument(path,
                           ": is a compressed tar, whose files can only be read in its own order: decompress it, or ",
                           "extract it and give the folder");
  }
  const auto reader = foreign::TarReader::Open(*tar.file, compression);
  if (ToStd(reader.status().message()).ends_with("Unrecognized archive format")) {
    return InvalidArgument(path, ": not a tar file");
  }
  SHARDKIT_RETURN_IF_ERROR(reader.status());
  TarMember member;
  while (true) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, (*reader)->Next(&member));
    if (!more) break;
    const auto where = [&] { return StrCat(path, ": member '", member.name, "'"); };
    std::string name = member.name;
    if (!names_.empty()) {
      name = member.pax && ValidUtf8(name) ? names_.TextOfUtf8(name) : names_.TextOf(name);
    }
    if (!NormalizeName(&name)) {
      return InvalidArgument(where(), " has a name that leads out of the tar: extract it and give the folder");
    }
    while (name.ends_with('/')) name.pop_back();
    if (name.empty()) continue;
    Tar::Place place;
    if (member.kind == TarMember::Kind::kDirectory) {
      name.push_back('/');
    } else if (member.kind == TarMember::Kind::kFile) {
      SHARDKIT_ASSIGN_OR_RETURN(const std::optional<uint64_t> offset, (*reader)->Locate());
      if (!offset) {
        return Unimplemented(where(), ": a sparse member of ", member.length,
                             " bytes: extract the tar and give the folder");
      }
      place = {FileType::kRegular, *offset, member.length};
    }
    tar.members.insert_or_assign(std::move(name), place);
  }
  if (const std::optional<uint64_t> begin = (*reader)->left_behind()) {
    return InvalidArgument(path, ": at byte ", *begin, ": ", foreign::kLeftBehind, ": extract it and give the folder");
  }
  tars_.insert_or_assign(path, std::move(tar));
  return absl::OkStatus();
}

std::pair<const TarFileSystem::Tar*, std::string_view> TarFileSystem::Find(std::string_view path) const {
  const std::string_view whole = path.substr(0, path.find_last_not_of('/') + 1);
  for (const auto& [tar_path, tar] : tars_) {
    if (!whole.starts_with(tar_path)) continue;
    if (whole.size() == tar_path.size()) return {&tar, {}};
    if (whole[tar_path.size()] == '/') return {&tar, whole.substr(tar_path.size() + 1)};
  }
  return {};
}

absl::StatusOr<std::unique_ptr<RandomAccessFile>> TarFileSystem::OpenForReading(const std::string& path, ReadMode mode,
                                                                                std::optional<uint64_t> size) {
  const auto [tar, name] = Find(path);
  if (tar == nullptr) return base().OpenForReading(path, mode, size);
  const auto member = tar->members.find(name);
  if (member == tar->members.end()) return NotFound(path, ": is not in the tar");
  return std::make_unique<Member>(tar->file, path, member->second);
}

absl::StatusOr<FileInfo> TarFileSystem::Stat(const std::string& path, bool follow) {
  const auto [tar, name] = Find(path);
  if (tar == nullptr) return base().Stat(path, follow);
  FileInfo info;
  if (const auto member = tar->members.find(name); member != tar->members.end()) {
    info.type = member->second.type;
    info.size = member->second.length;
  } else if (tar->HasDirectory(name)) {
    info.type = FileType::kDirectory;
  } else {
    return NotFound(path, ": is not in the tar");
  }
  return info;
}

absl::Status TarFileSystem::ForEachEntry(const std::string& path, const TakeEntry& take) {
  const auto [tar, name] = Find(path);
  if (tar == nullptr) return base().ForEachEntry(path, take);
  if (!tar->HasDirectory(name)) return NotFound(path, ": is not a directory in the tar");
  const std::string prefix = name.empty() ? std::string() : StrCat(name, "/");
  const auto end = tar->members.end();
  for (auto member = tar->members.lower_bound(prefix); member != end && member->first.starts_with(prefix);) {
    const std::string_view rest = std::string_view(member->first).substr(prefix.size());
    if (const size_t slash = rest.find('/'); slash != rest.npos) {
      SHARDKIT_RETURN_IF_ERROR(take({rest.substr(0, slash), FileType::kDirectory, std::nullopt}));
      // Behind all that is in it: '0' follows '/'.
      member = tar->members.lower_bound(StrCat(prefix, rest.substr(0, slash), "0"));
      continue;
    }
    if (!rest.empty()) SHARDKIT_RETURN_IF_ERROR(take({rest, member->second.type, member->second.length}));
    ++member;
  }
  return absl::OkStatus();
}

}  // namespace shardkit::operations
