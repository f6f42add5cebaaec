#include "dataset/patterns.h"

#include <fnmatch.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "dataset/foreign/foreign_dataset.h"
#include "foreign/mds/mds_directory.h"
#include "foreign/webdataset/webdataset_names.h"
#include "io/publish_file.h"
#include "shardkit/manifest.h"

namespace shardkit::dataset {
namespace {

constexpr size_t kLongestName = 255;  // in bytes, of most file systems
constexpr size_t kMaxNames = size_t{1} << 20;

// Where the first of these characters stands, from `begin` on, that no backslash escapes; npos if nowhere.
size_t FindPlain(std::string_view text, std::string_view characters, size_t begin = 0) {
  for (size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (characters.find(text[i]) != std::string_view::npos) {
      return i;
    }
  }
  return std::string_view::npos;
}

std::string_view Wildcards(std::string_view path) { return path.find("://") == std::string_view::npos ? "*?[" : "*["; }

std::string WithoutEscapes(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) ++i;
    plain += text[i];
  }
  return plain;
}

// What `first..last` or `first..last..step` counts: numbers, padded with zeros as either end is, or letters.
std::optional<std::vector<std::string>> Range(std::string_view text) {
  const size_t middle = text.find("..");
  if (middle == std::string_view::npos) return std::nullopt;
  const std::string_view first = text.substr(0, middle);
  std::string_view last = text.substr(middle + 2);
  int64_t step = 1;
  if (const size_t second = last.find(".."); second != std::string_view::npos) {
    if (!absl::SimpleAtoi(ToAbsl(last.substr(second + 2)), &step) || step == INT64_MIN) return std::nullopt;
    last = last.substr(0, second);
  }
  const auto is_letter = [](std::string_view end) {
    return end.size() == 1 && ((end[0] >= 'a' && end[0] <= 'z') || (end[0] >= 'A' && end[0] <= 'Z'));
  };
  const bool letters = is_letter(first) && is_letter(last);
  int64_t from = letters ? first[0] : 0;
  int64_t to = letters ? last[0] : 0;
  constexpr int64_t kMost = int64_t{1} << 62;  // so that no difference overflows
  if (!letters && (!absl::SimpleAtoi(ToAbsl(first), &from) || !absl::SimpleAtoi(ToAbsl(last), &to)))
    return std::nullopt;
  if (std::max(from, to) >= kMost || std::min(from, to) <= -kMost) return std::nullopt;
  const auto padded = [](std::string_view end) {
    if (end.starts_with('-')) end.remove_prefix(1);
    return end.size() > 1 && end.starts_with('0');
  };
  const size_t width = !letters && (padded(first) || padded(last)) ? std::max(first.size(), last.size()) : 0;
  const auto stride = static_cast<uint64_t>(step == 0 ? 1 : std::abs(step));
  const auto distance = static_cast<uint64_t>(from < to ? to - from : from - to);
  std::vector<std::string> names;
  for (uint64_t i = 0; i <= distance / stride && names.size() <= kMaxNames; ++i) {
    const auto moved = static_cast<int64_t>(i * stride);
    const int64_t number = from < to ? from + moved : from - moved;
    if (letters) {
      names.emplace_back(1, static_cast<char>(number));
      continue;
    }
    std::string digits = StrCat(number < 0 ? -number : number);
    const size_t sign = number < 0 ? 1 : 0;
    if (digits.size() + sign < width) digits.insert(0, width - sign - digits.size(), '0');
    names.push_back(StrCat(sign > 0 ? "-" : "", digits));
  }
  return names;
}

// The parts of what stands in braces, between commas; empty when there is no comma, and it is no range.
std::vector<std::string> PartsOf(std::string_view inside) {
  std::vector<std::string> parts;
  size_t depth = 0;
  size_t begin = 0;
  for (size_t i = FindPlain(inside, "{,}"); i != std::string_view::npos; i = FindPlain(inside, "{,}", i + 1)) {
    if (inside[i] == '{') {
      ++depth;
    } else if (inside[i] == '}') {
      --depth;
    } else if (depth == 0) {
      parts.emplace_back(inside.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  if (parts.empty()) return Range(inside).value_or(parts);
  parts.emplace_back(inside.substr(begin));
  return parts;
}

// Where the brace ends that begins there; npos if nowhere.
size_t EndOfBrace(std::string_view text, size_t begin) {
  size_t depth = 0;
  for (size_t i = begin; i != std::string_view::npos; i = FindPlain(text, "{}", i + 1)) {
    depth = text[i] == '{' ? depth + 1 : depth - 1;
    if (depth == 0) return i;
  }
  return std::string_view::npos;
}

// Replaces the braces from `begin` on, one after another, so that the depth of calls is at most that of the text.
// Stops above kMaxNames.
void ExpandBraces(std::string text, size_t begin, std::vector<std::string>* names) {
  while (true) {
    const size_t open = FindPlain(text, "{", begin);
    if (open == std::string_view::npos) break;
    const size_t close = EndOfBrace(text, open);
    const std::string_view all = text;
    std::vector<std::string> parts;
    if (close != std::string_view::npos) parts = PartsOf(all.substr(open + 1, close - open - 1));
    if (parts.empty()) {
      begin = open + 1;  // as it stands
      continue;
    }
    for (const std::string& part : parts) {
      if (names->size() > kMaxNames) return;
      ExpandBraces(StrCat(all.substr(0, open), part, all.substr(close + 1)), open, names);
    }
    return;
  }
  names->push_back(std::move(text));
}

bool HasWildcards(std::string_view path) {
  return FindPlain(path, StrCat("{", Wildcards(path))) != std::string_view::npos;
}

bool IsShardFile(std::string_view path) {
  return foreign::IsTarName(path) || path.ends_with(".shard") || foreign::IsMdsShardName(io::BaseName(path));
}

// Finds what fits a pattern without braces.
class Finder {
 public:
  Finder(ReadableFileSystem& file_system, std::string_view pattern) : file_system_(file_system) {
    const size_t scheme = pattern.find("://");
    const size_t begin = scheme == std::string_view::npos ? 0 : pattern.find('/', scheme + 3);
    while (pattern.size() > 1 && pattern.ends_with('/')) pattern.remove_suffix(1);
    root_ = pattern.substr(0, begin == std::string_view::npos ? pattern.size() : begin);
    for (size_t at = root_.size(); at < pattern.size();) {
      const size_t end = std::min(pattern.find('/', at), pattern.size());
      parts_.push_back(pattern.substr(at, end - at));
      at = end + 1;
    }
    wildcards_ = Wildcards(pattern);
  }

  absl::StatusOr<std::vector<std::string>> Run() {
    SHARDKIT_RETURN_IF_ERROR(Walk(std::string(root_), 0));
    if (files_.empty()) SHARDKIT_RETURN_IF_ERROR(KeepDatasets());
    std::vector<std::string>& found = files_.empty() ? folders_ : files_;
    std::ranges::sort(found);
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return std::move(found);
  }

 private:
  // `place` is what the parts before `part` have come to.
  absl::Status Walk(const std::string& place, size_t part) {
    if (files_.size() > kMaxNames || folders_.size() > kMaxNames) return absl::OkStatus();
    const std::string_view wanted = parts_[part];
    const bool last = part + 1 == parts_.size();
    if (FindPlain(wanted, wildcards_) == std::string_view::npos) {
      const std::string next = part == 0 && root_.empty() ? StrCat(WithoutEscapes(wanted), wanted.empty() ? "/" : "")
                                                          : JoinPath(place, WithoutEscapes(wanted));
      if (!last) return Walk(next, part + 1);
      const absl::StatusOr<FileInfo> info = file_system_.Stat(next);
      if (info.ok()) Take(next, info->type == FileType::kDirectory);
      return absl::OkStatus();
    }
    const bool any_depth = wanted == "**";
    if (any_depth && !last) SHARDKIT_RETURN_IF_ERROR(Walk(place, part + 1));
    const absl::StatusOr<std::vector<DirectoryEntry>> entries = file_system_.List(place.empty() ? "." : place);
    if (absl::IsNotFound(entries.status())) return absl::OkStatus();
    if (!entries.ok()) return entries.status();
    if (any_depth && last && std::ranges::any_of(*entries, NamesShards, &DirectoryEntry::name)) {
      Take(place, /*directory=*/true);  // as a whole: it may hide samples of its shards
      return absl::OkStatus();
    }
    for (const DirectoryEntry& entry : *entries) {
      const std::string pattern(any_depth ? "*" : wanted);
      if (fnmatch(pattern.c_str(), entry.name.c_str(), FNM_PERIOD) != 0) continue;
      const std::string next = place.empty() ? entry.name : JoinPath(place, entry.name);
      bool directory = entry.type == FileType::kDirectory;
      if (entry.type == FileType::kSymbolicLink) {
        const absl::StatusOr<FileInfo> info = file_system_.Stat(next);
        directory = info.ok() && info->type == FileType::kDirectory;
        if (directory && any_depth) continue;  // it may lead back
      }
      if (directory && (any_depth || !last)) {
        SHARDKIT_RETURN_IF_ERROR(Walk(next, any_depth ? part : part + 1));
      } else if (last) {
        Take(next, directory);
      }
    }
    return absl::OkStatus();
  }

  // Whether a file of this name says which shards are in its folder.
  static bool NamesShards(std::string_view name) { return name == kManifestName || name == foreign::kMdsIndexName; }

  void Take(const std::string& place, bool directory) {
    if (directory) {
      folders_.push_back(place);
    } else if (IsShardFile(place)) {
      files_.push_back(place);
    }
  }

  absl::Status KeepDatasets() {
    std::vector<std::string> datasets;
    for (std::string& folder : folders_) {
      const absl::StatusOr<FileInfo> manifest = file_system_.Stat(JoinPath(folder, kManifestName));
      if (!manifest.ok() && !absl::IsNotFound(manifest.status())) return manifest.status();
      bool is_dataset = manifest.ok();
      if (!is_dataset) {
        SHARDKIT_ASSIGN_OR_RETURN(const std::string_view container,
                                  ForeignContainerAt(file_system_, folder, {FileType::kDirectory}, false));
        is_dataset = !container.empty();
      }
      if (is_dataset) datasets.push_back(std::move(folder));
    }
    folders_ = std::move(datasets);
    return absl::OkStatus();
  }

  ReadableFileSystem& file_system_;
  std::string_view root_;  // "", or a scheme and what follows up to a slash
  std::string_view wildcards_;
  std::vector<std::string_view> parts_;
  std::vector<std::string> files_;    // of shards
  std::vector<std::string> folders_;  // that may be datasets; they count where there are no files
};

}  // namespace

bool IsPattern(std::string_view path, const absl::Status& looked_for) {
  if (looked_for.ok() || !HasWildcards(path)) return false;
  // A long pattern is no name that a file could have, which is another error. Servers have others for braces, which no
  // URL has.
  const bool url = path.find("://") != std::string_view::npos && FindPlain(path, "{") != std::string_view::npos;
  return absl::IsNotFound(looked_for) || path.size() > kLongestName || url;
}

absl::StatusOr<std::vector<std::string>> ExpandPattern(ReadableFileSystem& file_system, const std::string& pattern) {
  std::vector<std::string> names;
  ExpandBraces(pattern, 0, &names);
  std::vector<std::string> members;
  for (const std::string& name : names) {
    std::vector<std::string> found = {WithoutEscapes(name)};
    if (FindPlain(name, Wildcards(name)) != std::string_view::npos) {
      SHARDKIT_ASSIGN_OR_RETURN(found, Finder(file_system, name).Run());
      if (found.empty()) return NotFound(name, ": no tar, shard or dataset fits this pattern");
    }
    members.insert(members.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
    if (members.size() > kMaxNames || names.size() > kMaxNames) {
      return ResourceExhausted(pattern, ": names more than ", kMaxNames, " files: give folders of them");
    }
  }
  return members;
}

absl::StatusOr<std::vector<std::string>> ExpandPatterns(ReadableFileSystem& file_system,
                                                        const std::vector<std::string>& paths) {
  std::vector<std::string> expanded;
  for (const std::string& path : paths) {
    std::vector<std::string> members = {path};
    if (HasWildcards(path) && IsPattern(path, file_system.Stat(path).status())) {
      SHARDKIT_ASSIGN_OR_RETURN(members, ExpandPattern(file_system, path));
    }
    expanded.insert(expanded.end(), members.begin(), members.end());
  }
  return expanded;
}

}  // namespace shardkit::dataset
