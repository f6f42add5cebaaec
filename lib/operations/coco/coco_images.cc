#include "operations/coco/coco_images.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "operations/sources/source_names.h"
#include "operations/sources/source_unit.h"
#include "operations/sources/tar_members.h"

namespace shardkit::operations {
namespace {

constexpr size_t kSoughtImages = 16;  // to find the folder that they are in

}  // namespace

absl::StatusOr<std::unique_ptr<CocoImages>> CocoImages::Open(const std::string& path, const CocoIndex& index,
                                                             const SourceOptions& options) {
  std::unique_ptr<CocoImages> images(new CocoImages(path, options));
  SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, options.file_system->Stat(path));
  images->tar_ = info.type == FileType::kRegular;
  if (!images->tar_ && info.type != FileType::kDirectory) {
    return InvalidArgument(path, ": neither a directory nor a tar or zip: give the place of the images");
  }
  if (images->tar_) SHARDKIT_RETURN_IF_ERROR(images->ListTar());
  SHARDKIT_RETURN_IF_ERROR(images->FindFolder(index));
  return images;
}

absl::Status CocoImages::ListTar() {
  const auto tar = TarMembers::Open(path_, options_);
  if (absl::IsInvalidArgument(tar.status())) {
    return InvalidArgument(path_, ": neither a directory nor a tar or zip: give the place of the images");
  }
  SHARDKIT_RETURN_IF_ERROR(tar.status());
  TarMember member;
  ByteArena arena;
  while (true) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, (*tar)->Next(&member));
    if (!more) return absl::OkStatus();
    if (member.kind != TarMember::Kind::kFile) continue;
    SHARDKIT_ASSIGN_OR_RETURN(const Value value, (*tar)->Read(member, /*stream_above=*/0, &arena));
    if (!value.file) {
      return InvalidArgument(path_,
                             ": is a compressed tar, whose images cannot be read in the order of the annotation ",
                             "file: decompress it, or extract it and give the directory");
    }
    members_.insert_or_assign(member.name, value.file);
  }
}

absl::StatusOr<bool> CocoImages::Has(std::string_view name) const {
  if (tar_) return members_.contains(ToAbsl(name));
  const auto info = options_.file_system->Stat(JoinPath(path_, name));
  if (absl::IsNotFound(info.status()) || absl::IsPermissionDenied(info.status())) return false;
  SHARDKIT_RETURN_IF_ERROR(info.status());
  return info->type == FileType::kRegular;
}

absl::Status CocoImages::FindFolder(const CocoIndex& index) {
  std::set<std::string> folders;
  for (const auto& [name, file] : members_) {
    if (const size_t slash = name.find('/'); slash != name.npos) folders.insert(name.substr(0, slash + 1));
  }
  bool listed = tar_;
  for (size_t i = 0; i < std::min(index.size(), kSoughtImages); ++i) {
    const std::string_view name = index.file_name(i);
    if (!CheckName(name).ok()) continue;
    SHARDKIT_ASSIGN_OR_RETURN(const bool here, Has(name));
    if (here) return absl::OkStatus();
    if (!std::exchange(listed, true)) {
      SHARDKIT_RETURN_IF_ERROR(options_.file_system->ForEachEntry(path_, [&](const ListedEntry& entry) {
        if (entry.type == FileType::kDirectory || entry.type == FileType::kSymbolicLink) {
          folders.insert(StrCat(entry.name, "/"));
        }
        return absl::OkStatus();
      }));
    }
    for (const std::string& folder : folders) {
      SHARDKIT_ASSIGN_OR_RETURN(const bool there, Has(StrCat(folder, name)));
      if (!there) continue;
      if (!folder_.empty()) {
        return InvalidArgument(path_, ": both ", folder_, " and ", folder, " have an image ", name,
                               ": give the folder ", "that the annotation file is for");
      }
      folder_ = folder;
    }
    if (!folder_.empty()) return absl::OkStatus();
  }
  return absl::OkStatus();
}

std::string CocoImages::PathOf(std::string_view file_name) const {
  if (tar_) return StrCat(path_, ": member '", folder_, file_name, "'");
  return JoinPath(path_, StrCat(folder_, file_name));
}

absl::Status CocoImages::CheckName(std::string_view file_name) const {
  if (file_name.empty() || file_name.ends_with('/')) return InvalidArgument("\"file_name\" is none of a file");
  return OutputName("", file_name).status();
}

absl::StatusOr<Value> CocoImages::Load(std::string_view file_name, ByteArena* arena) const {
  if (const absl::Status status = CheckName(file_name); !status.ok()) return Annotate(status, PathOf(file_name));
  if (tar_) {
    const auto member = members_.find(StrCat(folder_, file_name));
    if (member == members_.end()) return NotFound(PathOf(file_name), ": is missing, and the annotation file names it");
    Value value;
    if (member->second->size() >= options_.stream_above) {
      value.file = member->second;
      return value;
    }
    const std::span<char> memory = arena->Allocate(member->second->size());
    SHARDKIT_RETURN_IF_ERROR(member->second->ReadAt(0, memory));
    value.bytes = {memory.data(), memory.size()};
    return value;
  }
  const std::string path = PathOf(file_name);
  if (!options_.follow_links) {
    const std::string below = StrCat(folder_, file_name);
    for (size_t end = below.find('/');; end = below.find('/', end + 1)) {
      SHARDKIT_ASSIGN_OR_RETURN(
          const FileInfo info,
          options_.file_system->Stat(JoinPath(path_, std::string_view(below).substr(0, end)), /*follow=*/false));
      if (info.type == FileType::kSymbolicLink) return Annotate(CheckEntryKind(EntryKind::kLink), path);
      if (end == below.npos) break;
    }
  }
  absl::StatusOr<Value> value = LoadFile(options_.file_system, path, std::nullopt, options_.stream_above, arena);
  if (absl::IsNotFound(value.status())) return NotFound(path, ": is missing, and the annotation file names it");
  return value;
}

absl::StatusOr<uint64_t> CocoImages::Bytes(std::string_view file_name) const {
  if (!CheckName(file_name).ok()) return 0;
  if (tar_) {
    const auto member = members_.find(StrCat(folder_, file_name));
    return member == members_.end() ? 0 : member->second->size();
  }
  const auto info = options_.file_system->Stat(PathOf(file_name));
  if (absl::IsNotFound(info.status()) || absl::IsPermissionDenied(info.status())) return 0;
  SHARDKIT_RETURN_IF_ERROR(info.status());
  return info->size;
}

}  // namespace shardkit::operations
