#include "operations/archives/input_file_system.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "foreign/webdataset/webdataset_names.h"
#include "operations/archives/tar_filesystem.h"
#include "operations/archives/zip_filesystem.h"
#include "operations/sources/source_names.h"

namespace shardkit::operations {
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
  std::vector<std::string> tars;
  auto zips = std::make_unique<ZipFileSystem>(base, names);
  for (const std::string& path : paths) {
    if (IsZip(base, path)) {
      SHARDKIT_RETURN_IF_ERROR(zips->Mount(path));
    } else if ((TakesTarsAsFolders(kind) || path == root) && IsTar(base, path)) {
      tars.push_back(path);
    } else {
      others.push_back(path);
    }
  }
  if (names.empty() && others.size() == paths.size()) return nullptr;
  auto archives = std::make_unique<TarFileSystem>(std::move(zips), names);
  for (const std::string& path : tars) SHARDKIT_RETURN_IF_ERROR(archives->Mount(path));
  std::shared_ptr<ReadableFileSystem> opened = std::move(archives);
  // Names in archives are text already.
  if (!names.empty()) opened = std::make_shared<NamesAsText>(std::move(opened), names, std::move(others));
  options->file_system = opened.get();
  return opened;
}

}  // namespace shardkit::operations
