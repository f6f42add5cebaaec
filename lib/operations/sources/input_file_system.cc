#include "operations/sources/input_file_system.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "operations/sources/source_names.h"
#include "operations/sources/zip_filesystem.h"

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

// Of a path within a zip that zip, else the path.
std::string ZipOr(const std::string& path) {
  constexpr std::string_view kWithin = ".zip/";
  const size_t within = absl::AsciiStrToLower(path).find(kWithin);
  return within == path.npos ? path : path.substr(0, within + kWithin.size() - 1);
}

// `base`, in which the names below `roots` are text.
class NamesAsText final : public ForwardingReadableFileSystem {
 public:
  NamesAsText(std::unique_ptr<ReadableFileSystem> base, NameEncoding names, std::vector<std::string> roots)
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

  const std::unique_ptr<ReadableFileSystem> base_;
  const NameEncoding names_;
  const std::vector<std::string> roots_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<ReadableFileSystem>> OpenInputs(const std::vector<std::string>& inputs,
                                                               SourceOptions* options) {
  SHARDKIT_ASSIGN_OR_RETURN(const NameEncoding names, NameEncoding::Create(options->names));
  std::vector<std::string> paths = inputs, others;
  if (const std::string root = ZipOr(options->root); !root.empty() && std::ranges::find(inputs, root) == inputs.end()) {
    paths.push_back(root);
  }
  auto zips = std::make_unique<ZipFileSystem>(*options->file_system, names);
  for (const std::string& path : paths) {
    if (IsZip(*options->file_system, path)) {
      SHARDKIT_RETURN_IF_ERROR(zips->Mount(path));
    } else {
      others.push_back(path);
    }
  }
  std::shared_ptr<ReadableFileSystem> opened;
  if (!names.empty()) {
    opened =
        std::make_shared<NamesAsText>(std::move(zips), names, std::move(others));  // names in zips are text already
  } else if (others.size() < paths.size()) {
    opened = std::move(zips);
  }
  if (opened) options->file_system = opened.get();
  return opened;
}

}  // namespace shardkit::operations
