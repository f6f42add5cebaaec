#include "dataset/bases.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "dataset/manifest_json.h"
#include "dataset/manifest_text.h"
#include "format/shard_list.h"

namespace shardkit {
namespace {

constexpr std::string_view kSchemeEnd = "://";

// Never deleted: another thread may be reading it. No lock, because a child of a fork could find it held.
struct Allowed {
  std::vector<std::string> prefixes;
  const Allowed* before = nullptr;
};
std::atomic<const Allowed*> allowed_bases = nullptr;

// What AllowBases was given, else what the environment says.
std::vector<std::string> AllowedBases() {
  if (const Allowed* const allowed = allowed_bases.load()) return allowed->prefixes;
  const char* const text = std::getenv("SHARDKIT_ALLOW_BASES");
  if (text == nullptr) return {};
  return absl::StrSplit(text, ',', absl::SkipEmpty());
}

// Of a URL, the bytes before its path: "s3://bucket".
size_t RootOfUrl(std::string_view url) {
  const size_t authority = url.find(kSchemeEnd) + kSchemeEnd.size();
  return std::min(url.find('/', authority), url.size());
}

// Without "." and "..", by the letters of the path alone, and without '/' at the end. A path of this machine is
// absolute then.
std::string Normal(const std::string& path) {
  const size_t root = IsUrl(path) ? RootOfUrl(path) : 0;
  std::error_code unknown;  // of the working directory: the path then stays relative, and is in reach of nothing
  const std::filesystem::path rest =
      root > 0 ? std::filesystem::path(StrCat("/", path.substr(root))) : std::filesystem::absolute(path, unknown);
  std::string normal = rest.lexically_normal();
  while (normal.size() > 1 && normal.ends_with('/')) normal.pop_back();
  while (normal.starts_with("//")) normal.erase(0, 1);
  return root > 0 ? StrCat(path.substr(0, root), normal == "/" ? "" : normal) : normal;
}

bool IsBelow(std::string_view path, std::string_view folder) {
  if (folder.empty() || !path.starts_with(folder)) return false;
  return folder.ends_with('/') || path.size() == folder.size() || path[folder.size()] == '/';
}

// The folder, bucket or host in which the dataset trusts what lies beside it (format-spec/security.md, "Bases").
std::string ReachOf(const std::string& directory) {
  const std::string normal = Normal(directory);
  if (IsUrl(normal)) {
    size_t end = RootOfUrl(normal);
    constexpr int kOwnerAndName = 2;  // behind hf://datasets
    for (int i = 0; i < kOwnerAndName && normal.starts_with("hf://") && end < normal.size(); ++i) {
      end = std::min(normal.find('/', end + 1), normal.size());
    }
    return normal.substr(0, end);
  }
  std::filesystem::path reach(normal);
  constexpr int kLevels = 2;
  for (int i = 0; i < kLevels && reach.parent_path() != "/"; ++i) reach = reach.parent_path();
  return reach;
}

std::string PathOfLocation(const std::string& directory, const std::string& location) {
  return Normal(IsUrl(location) || location.starts_with('/') ? location : JoinPath(directory, location));
}

bool IsOfWeb(std::string_view path) { return path.starts_with("http://") || path.starts_with("https://"); }

// Whether a server may read dots or slashes in it that are not there: another path than the one that is compared.
bool HidesSteps(std::string_view url) {
  const std::string lower = absl::AsciiStrToLower(ToAbsl(url));
  return lower.find("%2e") != lower.npos || lower.find("%2f") != lower.npos || lower.find("%5c") != lower.npos;
}

bool IsLocation(std::string_view location) {
  if (location.empty() || location.size() > format::kMaxShardNameBytes) return false;
  if (location.find('\0') != location.npos || !ValidUtf8(location)) return false;
  const size_t scheme = location.find(kSchemeEnd);
  if (scheme == location.npos) return true;
  const auto in_scheme = [](char c) { return absl::ascii_isalnum(c) || c == '+' || c == '-' || c == '.'; };
  const std::string_view authority = location.substr(0, RootOfUrl(location)).substr(scheme + kSchemeEnd.size());
  return scheme > 0 && std::ranges::all_of(location.substr(0, scheme), in_scheme) && !authority.empty() &&
         authority.find('@') == authority.npos && location.find_first_of("?#") == location.npos &&
         !(IsOfWeb(location) && HidesSteps(location));
}

}  // namespace

void AllowBases(std::vector<std::string> prefixes) {
  auto* const allowed = new Allowed{std::move(prefixes), allowed_bases.load()};
  while (!allowed_bases.compare_exchange_weak(allowed->before, allowed)) {
  }
}

const Base* ManifestSummary::BaseOf(std::string_view name) const {
  const size_t slash = bases.empty() ? name.npos : name.find('/');
  if (slash == name.npos) return nullptr;
  const auto found = std::ranges::lower_bound(bases, name.substr(0, slash), {}, &Base::name);
  return found == bases.end() || found->name != name.substr(0, slash) ? nullptr : &*found;
}

std::string ManifestSummary::PathOf(std::string_view directory, std::string_view name) const {
  const Base* const base = BaseOf(name);
  if (base == nullptr || base->path.empty()) return JoinPath(directory, name);
  const std::string_view rest = name.substr(base->name.size() + 1);
  if (!IsOfWeb(base->path)) return JoinPath(base->path, rest);
  // The name is that of a file, and can be no way out of the base.
  return JoinPath(base->path, absl::StrReplaceAll(ToAbsl(rest), {{"%", "%25"}, {"?", "%3F"}, {"#", "%23"}}));
}

void Manifest::DropUnusedBases() {
  if (bases.empty()) return;
  std::set<const Base*> used;
  for (const ManifestShard& shard : shards) used.insert(BaseOf(shard.name));
  for (const ColumnFile& file : column_files) used.insert(BaseOf(file.name));
  std::vector<Base> kept;
  for (const Base& base : bases) {
    if (used.contains(&base)) kept.push_back(base);
  }
  bases = std::move(kept);
}

namespace dataset {

absl::Status CheckBases(const ManifestSummary& summary, bool has_feature) {
  const std::vector<Base>& bases = summary.bases;
  if (has_feature != !bases.empty()) {
    return DataLoss("manifest: the feature \"bases\" and bases go together, and only one of them is there");
  }
  if (bases.size() > kMostBases) return DataLoss("manifest: ", bases.size(), " bases are over ", kMostBases);
  for (size_t i = 0; i < bases.size(); ++i) {
    const auto wrong = [&](const auto&... what) { return DataLoss("manifest: base ", i, ": ", what...); };
    const Base& base = bases[i];
    if (!IsSafeName(base.name) || base.name.size() > kMaxBaseNameBytes || base.name.find('/') != base.name.npos) {
      return wrong(Quote(base.name), " is no name of a base");
    }
    if (i > 0 && bases[i - 1].name >= base.name) return wrong(Quote(base.name), " does not ascend");
    if (!IsLocation(base.location)) return wrong(Quote(base.location), " is no location");
    if (base.generation == 0) return wrong("\"generation\" is 0");
  }
  const auto check = [&](const TableReference& table) {
    if (summary.BaseOf(table.name) == nullptr) return absl::OkStatus();
    return DataLoss("manifest: table ", Quote(table.name), " lies in a base");
  };
  for (const Segment& segment : summary.segments) SHARDKIT_RETURN_IF_ERROR(check(segment.table));
  return summary.removed ? check(summary.removed->table) : absl::OkStatus();
}

absl::Status FindBases(const std::string& directory, ManifestSummary* summary) {
  if (summary->bases.empty()) return absl::OkStatus();
  const std::string own = Normal(directory), reach = ReachOf(directory);
  const std::vector<std::string> allowed = AllowedBases();
  for (Base& base : summary->bases) {
    const std::string path = PathOfLocation(directory, base.location);
    if (path == own || (IsUrl(path) && !IsLocation(path))) {
      return DataLoss(directory, ": manifest: base ", Quote(base.name), ": ", Quote(path),
                      path == own ? " is the dataset itself" : " is no location");
    }
    const bool may_be_opened = IsBelow(path, reach) || std::ranges::any_of(allowed, [&](const std::string& prefix) {
                                 return IsBelow(path, prefix.ends_with(kSchemeEnd) ? prefix : Normal(prefix));
                               });
    if (!may_be_opened) {
      return absl::PermissionDeniedError(StrCat(JoinPath(directory, kManifestName), ": base ", Quote(base.name),
                                                " lies at ", Quote(path),
                                                ", out of reach of the dataset; where that place is trusted, allow it, "
                                                "or a prefix of it, with --allow-base, ",
                                                "SHARDKIT_ALLOW_BASES or AllowBases (in Python allow_bases)"));
    }
    base.path = path;
  }
  return absl::OkStatus();
}

absl::StatusOr<Base> BaseFor(const std::string& output, const std::string& directory, uint64_t generation,
                             uint64_t checksum) {
  Base base{.generation = generation, .checksum = checksum, .path = Normal(directory)};
  if (IsUrl(output) && !IsUrl(base.path)) {
    return InvalidArgument(output, ": cannot refer to ", directory,
                           ", which lies on this machine: readers of a store would not find it");
  }
  base.location = base.path;
  const std::string from = Normal(output);
  // Behind a link, ".." leads elsewhere when the dataset is opened by another path.
  std::error_code unknown;
  const bool by_link = !IsUrl(from) && std::filesystem::weakly_canonical(from, unknown) != from;
  if (IsBelow(base.path, ReachOf(output)) && !by_link) {
    const size_t root = IsUrl(from) ? RootOfUrl(from) : 0;
    const auto rest = [&](const std::string& path) { return std::filesystem::path(StrCat("/", path.substr(root))); };
    base.location = rest(base.path).lexically_normal().lexically_relative(rest(from).lexically_normal());
  }
  if (IsLocation(base.location)) return base;
  return InvalidArgument(directory,
                         ": a dataset cannot refer to it: its path is not UTF-8, has over 4096 bytes, or is ",
                         "a URL with a user, a query or a fragment");
}

std::string ChangeOf(ReadableFileSystem& file_system, const Base& base) {
  const auto is = [&](const auto&... what) { return StrCat("base \"", base.name, "\" (", base.path, "): ", what...); };
  const absl::StatusOr<std::string> text = ReadManifestBytes(file_system, base.path);
  const absl::StatusOr<Manifest> now = text.ok() ? ParseManifestText(*text) : text.status();
  if (!now.ok()) return is("its manifest cannot be read: ", ToStd(now.status().message()));
  if (now->generation > base.generation) {
    return is("has generation ", now->generation, " now, and this dataset was made of ", base.generation,
              ": samples and columns that changed since are here as they were");
  }
  return now->checksum == base.checksum ? "" : is("is another dataset than it was");
}

absl::Status InBase(const absl::Status& status, const ManifestSummary& summary, std::string_view name) {
  const Base* const base = summary.BaseOf(name);
  if (base == nullptr || (!absl::IsNotFound(status) && !absl::IsDataLoss(status))) return status;
  return WithMessage(status, StrCat(ToStd(status.message()), " (in base ", Quote(base->name),
                                    ", which was changed, purged or moved, or is damaged)"));
}

}  // namespace dataset
}  // namespace shardkit
