#include "operations/archives/input_file_system.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "foreign/webdataset/webdataset_names.h"
#include "operations/archives/archive.h"
#include "operations/sources/source_names.h"

namespace shardkit::operations {

size_t Archive::LowerBound(std::string_view name) const {
  size_t begin = 0, end = size();
  while (begin < end) {
    const size_t middle = begin + (end - begin) / 2;
    if (member(middle).name < name) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

std::optional<size_t> Archive::Find(std::string_view name) const {
  const size_t number = LowerBound(name);
  return number < size() && member(number).name == name ? std::optional(number) : std::nullopt;
}

bool Archive::HasDirectory(std::string_view name) const {
  if (name.empty()) return true;
  const std::string prefix = StrCat(name, "/");
  const size_t number = LowerBound(prefix);
  return number < size() && member(number).name.starts_with(prefix);
}

absl::Status Archive::CheckNames(std::string_view path, std::string_view remedy) const {
  for (size_t number = 0; number + 1 < size(); ++number) {
    const std::string_view name = member(number).name;
    if (name.ends_with('/') || (member(number + 1).name != name && !HasDirectory(name))) continue;
    return InvalidArgument(path, ": has two members of the name '", name, "'; ", remedy);
  }
  return absl::OkStatus();
}

namespace {

constexpr std::string_view kZipMagics[] = {"PK\x03\x04", "PK\x05\x06"};  // of a member, of an empty zip

// By its name and first bytes. What cannot be read is reported as every other input.
bool IsZip(ReadableFileSystem& file_system, const std::string& path) {
  if (!absl::EndsWithIgnoreCase(ToAbsl(path), ".zip")) return false;
  const auto file = file_system.OpenForReading(path);
  std::string magic(kZipMagics[0].size(), '\0');
  if (!file.ok() || (*file)->size() < magic.size() || !(*file)->ReadAt(0, magic).ok()) return false;
  return magic == kZipMagics[0] || magic == kZipMagics[1];
}

bool IsTar(ReadableFileSystem& file_system, const std::string& path) {
  if (!foreign::IsTarName(path)) return false;
  const absl::StatusOr<FileInfo> info = file_system.Stat(path);
  return info.ok() && info->type == FileType::kRegular;
}

// Others read a tar from front to back.
bool TakesTarsAsFolders(std::string_view kind) {
  return kind == "coco" || kind == "imagefolder" || kind == "jsonl" || kind == "table";
}

// Of a path within a zip or tar that archive, else the path.
std::string ArchiveOr(ReadableFileSystem& file_system, const std::string& path) {
  for (size_t end = path.find('/'); end != path.npos; end = path.find('/', end + 1)) {
    const std::string above = path.substr(0, end);
    if (IsZip(file_system, above) || IsTar(file_system, above)) return above;
  }
  return path;
}

// `base`, in which each archive is a directory of its members: the path of a member is the archive's path, a slash, and
// its name.
class ArchiveFileSystem final : public ForwardingReadableFileSystem {
 public:
  using Archives = std::map<std::string, std::unique_ptr<Archive>, std::less<>>;  // by path

  ArchiveFileSystem(ReadableFileSystem& base, Archives archives)
      : ForwardingReads(base), archives_(std::move(archives)) {}

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> size) override {
    const auto [archive, name] = Find(path);
    if (archive == nullptr) return base().OpenForReading(path, mode, size);
    const std::optional<size_t> number = archive->Find(name);
    if (!number) return IsMissing(path);
    SHARDKIT_ASSIGN_OR_RETURN(const size_t file, archive->Follow(*number));
    return archive->Open(file, path);
  }

  absl::StatusOr<FileInfo> Stat(const std::string& path, bool follow) override {
    const auto [archive, name] = Find(path);
    if (archive == nullptr) return base().Stat(path, follow);
    FileInfo info;
    if (std::optional<size_t> number = archive->Find(name)) {
      if (follow) {
        SHARDKIT_ASSIGN_OR_RETURN(number, archive->Follow(*number));
      }
      const ListedEntry member = archive->member(*number);
      info.type = member.type;
      info.size = member.size.value_or(0);
    } else if (archive->HasDirectory(name)) {
      info.type = FileType::kDirectory;
    } else {
      return IsMissing(path);
    }
    return info;
  }

  absl::Status ForEachEntry(const std::string& path, const TakeEntry& take) override {
    const auto [archive, name] = Find(path);
    if (archive == nullptr) return base().ForEachEntry(path, take);
    if (!archive->HasDirectory(name)) return NotFound(path, ": is not a directory in the archive");
    const std::string prefix = name.empty() ? std::string() : StrCat(name, "/");
    for (size_t number = archive->LowerBound(prefix); number < archive->size();) {
      ListedEntry entry = archive->member(number);
      if (!entry.name.starts_with(prefix)) break;
      entry.name.remove_prefix(prefix.size());
      if (const size_t slash = entry.name.find('/'); slash != entry.name.npos) {
        const std::string_view folder = entry.name.substr(0, slash);
        SHARDKIT_RETURN_IF_ERROR(take({folder, FileType::kDirectory, std::nullopt}));
        // Behind all that is in it: '0' follows '/'.
        number = archive->LowerBound(StrCat(prefix, folder, "0"));
        continue;
      }
      if (!entry.name.empty()) SHARDKIT_RETURN_IF_ERROR(take(entry));
      ++number;
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status IsMissing(const std::string& path) { return NotFound(path, ": is not in the archive"); }

  // The archive that holds the path, and the name in it, empty for the archive itself. Null for other paths.
  std::pair<Archive*, std::string_view> Find(std::string_view path) const {
    const std::string_view whole = path.substr(0, path.find_last_not_of('/') + 1);
    for (size_t end = whole.size(); end != whole.npos; end = end == 0 ? whole.npos : whole.rfind('/', end - 1)) {
      const auto found = archives_.find(whole.substr(0, end));
      if (found != archives_.end()) return {found->second.get(), whole.substr(std::min(end + 1, whole.size()))};
    }
    return {};
  }

  const Archives archives_;
};

// `base`, in which the names below `roots` are text.
class NamesAsText final : public ForwardingReadableFileSystem {
 public:
  NamesAsText(std::shared_ptr<ReadableFileSystem> base, NameEncoding names, std::vector<std::string> roots)
      : ForwardingReads(*base), base_(std::move(base)), names_(std::move(names)), roots_(std::move(roots)) {}

  absl::Status ForEachEntry(const std::string& path, const TakeEntry& take) override {
    const bool text = RootOf(path).has_value();
    return ForwardingReads::ForEachEntry(path, [&](const ListedEntry& entry) {
      if (!text) return take(entry);
      const std::string name = names_.TextOf(entry.name);
      ListedEntry named = entry;
      named.name = name;
      return take(named);
    });
  }

 private:
  // The bytes of `path` that are an input's own. An input may lie in another.
  std::optional<size_t> RootOf(std::string_view path) const {
    std::optional<size_t> longest;
    for (const std::string& root : roots_) {
      if (path.starts_with(root) && (path.size() == root.size() || root.ends_with('/') || path[root.size()] == '/')) {
        longest = std::max(longest.value_or(0), root.size());
      }
    }
    return longest;
  }

  std::string BasePath(const std::string& path) const override {
    const std::optional<size_t> root = RootOf(path);
    if (!root) return path;
    const std::optional<std::string> bytes = names_.BytesOf(std::string_view(path).substr(*root));
    return bytes ? StrCat(std::string_view(path).substr(0, *root), *bytes) : path;
  }

  const std::shared_ptr<ReadableFileSystem> base_;
  const NameEncoding names_;
  const std::vector<std::string> roots_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<ReadableFileSystem>> OpenInputs(std::string_view kind,
                                                               const std::vector<std::string>& inputs,
                                                               SourceOptions* options) {
  SHARDKIT_ASSIGN_OR_RETURN(const NameEncoding names, NameEncoding::Create(options->names));
  ReadableFileSystem& base = *options->file_system;
  std::vector<std::string> paths = inputs, others;
  const std::string root = ArchiveOr(base, options->root);
  if (!root.empty() && std::ranges::find(inputs, root) == inputs.end()) paths.push_back(root);
  ArchiveFileSystem::Archives archives;
  for (const std::string& path : paths) {
    if (IsZip(base, path)) {
      SHARDKIT_ASSIGN_OR_RETURN(archives[path], OpenZip(base, path, names));
    } else if ((TakesTarsAsFolders(kind) || path == root) && IsTar(base, path)) {
      SHARDKIT_ASSIGN_OR_RETURN(archives[path], OpenTar(base, path, names));
    } else {
      others.push_back(path);
    }
  }
  if (names.empty() && archives.empty()) return nullptr;
  std::shared_ptr<ReadableFileSystem> opened = std::make_shared<ArchiveFileSystem>(base, std::move(archives));
  // Names in archives are text already.
  if (!names.empty()) opened = std::make_shared<NamesAsText>(std::move(opened), names, std::move(others));
  options->file_system = opened.get();
  return opened;
}

}  // namespace shardkit::operations
