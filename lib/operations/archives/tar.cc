#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "container/read/value_file.h"
#include "foreign/webdataset/tar_archive.h"
#include "operations/archives/archive.h"

namespace shardkit::operations {
namespace {

using foreign::TarMember;

class Tar final : public Archive {
 public:
  absl::Status List(ReadableFileSystem& file_system, const std::string& path, const NameEncoding& names);

  size_t size() const override { return members_.size(); }
  ListedEntry member(size_t number) const override {
    const Member& member = members_[number];
    return {member.name, member.type, member.length};
  }
  absl::StatusOr<size_t> Follow(size_t number) override { return number; }
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> Open(size_t number, const std::string& path) override {
    const Member& member = members_[number];
    return std::make_unique<container::ValueFile>(file_, path, member.offset, member.length);
  }

 private:
  struct Member {
    std::string name;
    FileType type = FileType::kOther;
    uint64_t offset = 0, length = 0;
  };

  std::shared_ptr<const RandomAccessFile> file_;
  std::vector<Member> members_;
};

absl::Status Tar::List(ReadableFileSystem& file_system, const std::string& path, const NameEncoding& names) {
  SHARDKIT_ASSIGN_OR_RETURN(file_, file_system.OpenForReading(path));
  SHARDKIT_ASSIGN_OR_RETURN(const foreign::TarCompression compression, foreign::DetectCompression(*file_));
  if (compression != foreign::TarCompression::kNone) {
    return InvalidArgument(path,
                           ": is a compressed tar, whose files can only be read in its own order: decompress it, or ",
                           "extract it and give the folder");
  }
  const auto reader = foreign::TarReader::Open(*file_, compression);
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
    if (!names.empty()) {
      name = member.pax && ValidUtf8(name) ? names.TextOfUtf8(name) : names.TextOf(name);
    }
    if (!NormalizeName(&name)) {
      return InvalidArgument(where(), " has a name that leads out of the tar: extract it and give the folder");
    }
    while (name.ends_with('/')) name.pop_back();
    if (name.empty()) continue;
    Member listed;
    if (member.kind == TarMember::Kind::kDirectory) {
      name.push_back('/');
      listed.type = FileType::kDirectory;
    } else if (member.kind == TarMember::Kind::kFile) {
      SHARDKIT_ASSIGN_OR_RETURN(const std::optional<uint64_t> offset, (*reader)->Locate());
      if (!offset) {
        return Unimplemented(where(), ": a sparse member of ", member.length,
                             " bytes: extract the tar and give the folder");
      }
      listed = {{}, FileType::kRegular, *offset, member.length};
    }
    listed.name = std::move(name);
    members_.push_back(std::move(listed));
  }
  if (const std::optional<uint64_t> begin = (*reader)->left_behind()) {
    return InvalidArgument(path, ": at byte ", *begin, ": ", foreign::kLeftBehind, ": extract it and give the folder");
  }
  std::ranges::stable_sort(members_, {}, &Member::name);
  // The last of each name.
  const auto end = std::unique(members_.rbegin(), members_.rend(),
                               [](const Member& a, const Member& b) { return a.name == b.name; });
  members_.erase(members_.begin(), end.base());
  return CheckNames(path, "extract it and give the folder");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Archive>> OpenTar(ReadableFileSystem& file_system, const std::string& path,
                                                 const NameEncoding& names) {
  auto tar = std::make_unique<Tar>();
  SHARDKIT_RETURN_IF_ERROR(tar->List(file_system, path, names));
  return tar;
}

}  // namespace shardkit::operations
