#include "convert/sources/source_detect.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include "base/errors.h"
#include "base/status_macros.h"
#include "convert/sources/sa1b_tar.h"
#include "convert/sources/source_names.h"
#include "convert/sources/source_walk.h"
#include "dataset/foreign/foreign_dataset.h"
#include "shardkit/tar_index.h"

namespace shardkit {
namespace {

constexpr size_t kLookedAtGroups = 256;   // to tell pairs of SA-1B
constexpr size_t kLookedAtMembers = 64;   // of a tar
constexpr size_t kLookedAtFiles = 65536;  // to tell that there is nothing but images

// "sa_" and digits.
bool IsSa1bStem(std::string_view stem) {
  if (!stem.starts_with("sa_") || stem.size() == 3) return false;
  return std::all_of(stem.begin() + 3, stem.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

// Whether pairs sa_N.jpg + sa_N.json make up at least half of the first groups.
absl::StatusOr<bool> IsSa1bTree(const std::string& path, FileSystem* file_system) {
  TreeWalk walk(file_system, path, NameSplit::kLastDot);
  WalkedGroup group;
  size_t groups = 0;
  size_t pairs = 0;
  for (; groups < kLookedAtGroups; ++groups) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, walk.Next(&group));
    if (!more) break;
    const auto has = [&group](std::string_view rest) {
      return std::any_of(group.files.begin(), group.files.end(),
                         [rest](const WalkedFile& file) { return file.has_dot && file.rest == rest; });
    };
    if (IsSa1bStem(group.stem) && has("jpg") && has("json")) ++pairs;
  }
  return pairs > 0 && 2 * pairs >= groups;
}

// In a tar the halves of the first pairs may lie far apart: names are enough, when both endings occur. Empty for a tar
// that cannot be read so far, which `skip_errors` allows for.
absl::StatusOr<std::optional<bool>> IsSa1bTar(const std::string& path, const SourceOptions& options) {
  auto reader = TarReader::Open(options.file_system, path, kDefaultMaxDecompression);
  if (!reader.ok()) return options.skip_errors ? absl::StatusOr<std::optional<bool>>(std::nullopt) : reader.status();
  TarMember member;
  size_t members = 0;
  size_t images = 0;
  size_t annotations = 0;
  bool cut = false;
  while (members < kLookedAtMembers) {
    const auto more = (*reader)->Next(&member);
    cut = options.skip_errors && absl::IsDataLoss(more.status());
    if (cut) break;
    if (!more.ok()) return more.status();
    if (!*more) break;
    if (member.kind == TarMember::Kind::kDirectory) continue;
    ++members;
    const std::string_view base = BasePart(member.name);
    if (!IsSa1bStem(DivideName(base, NameSplit::kLastDot).stem)) continue;
    images += RoleOfName(base) == Sa1bRole::kImage ? 1 : 0;
    annotations += RoleOfName(base) == Sa1bRole::kJson ? 1 : 0;
  }
  if (cut && members == 0) return std::nullopt;
  const bool enough = (images > 0 && annotations > 0) || members == kLookedAtMembers || cut;
  return enough && images + annotations > 0 && 2 * (images + annotations) >= members;
}

// Whether at the top there are two or more class directories and nothing else, and below nothing but images.
absl::StatusOr<bool> IsImageFolder(const std::string& path, FileSystem* file_system) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto top, DirectoryListing::Read(*file_system, path, NameSplit::kNever));
  if (top->size() < 2) return false;
  for (size_t i = 0; i < top->size(); ++i) {
    if (top->kind(i) != EntryKind::kDirectory) return false;
  }
  TreeWalk walk(file_system, path, NameSplit::kNever);
  WalkedGroup group;
  size_t files = 0;
  for (; files < kLookedAtFiles; ++files) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, walk.Next(&group));
    if (!more) break;
    if (!HasImageExtension(group.stem)) return false;
  }
  return files > 0;
}

}  // namespace

absl::StatusOr<std::vector<SourceInput>> LookAtInputs(const std::vector<std::string>& inputs,
                                                      const SourceOptions& options) {
  if (inputs.empty()) return InvalidArgument("no input given");
  std::vector<SourceInput> result;
  for (const std::string& path : inputs) {
    SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, options.file_system->Stat(path));
    if (info.type != FileType::kDirectory && info.type != FileType::kRegular) {
      return InvalidArgument(path, ": neither a directory nor a tar file");
    }
    const bool tar = info.type == FileType::kRegular;
    if (tar) {
      const auto opened = TarReader::Open(options.file_system, path, options.max_decompression);
      // One that is empty, or whose beginning is gone, is known by its name.
      const bool damaged = absl::IsInvalidArgument(opened.status()) || absl::IsDataLoss(opened.status());
      const bool tolerated = options.skip_errors && damaged && IsTarPath(path);
      if (absl::IsInvalidArgument(opened.status()) && !tolerated) {
        return InvalidArgument(path, ": neither a directory nor a tar file");
      }
      if (!tolerated) SHARDKIT_RETURN_IF_ERROR(opened.status());
    }
    result.push_back({path, tar});
  }
  return result;
}

absl::StatusOr<std::string_view> DetectKind(const std::vector<SourceInput>& inputs, const SourceOptions& options) {
  const auto all = [&](auto is_kind) -> absl::StatusOr<bool> {
    for (const SourceInput& input : inputs) {
      SHARDKIT_ASSIGN_OR_RETURN(const bool fits, is_kind(input));
      if (!fits) return false;
    }
    return true;
  };
  // Nobody wants shards of others as files within shards of ours.
  SHARDKIT_ASSIGN_OR_RETURN(const bool mds, all([&](const SourceInput& input) -> absl::StatusOr<bool> {
                              return !input.tar && OpenMds(*options.file_system, input.path, {}).ok();
                            }));
  if (mds) return std::string_view("mds");
  bool any = false;
  SHARDKIT_ASSIGN_OR_RETURN(const bool sa1b, all([&](const SourceInput& input) -> absl::StatusOr<bool> {
                              std::optional<bool> fits;
                              if (input.tar) {
                                SHARDKIT_ASSIGN_OR_RETURN(fits, IsSa1bTar(input.path, options));
                              } else {
                                SHARDKIT_ASSIGN_OR_RETURN(fits, IsSa1bTree(input.path, options.file_system));
                              }
                              any = any || fits.value_or(false);
                              return fits.value_or(true);
                            }));
  if (sa1b && any) return std::string_view("sa1b");
  SHARDKIT_ASSIGN_OR_RETURN(const bool images, all([&](const SourceInput& input) -> absl::StatusOr<bool> {
                              if (input.tar) return false;
                              return IsImageFolder(input.path, options.file_system);
                            }));
  if (images) return std::string_view("imagefolder");
  return std::string_view("files");
}

}  // namespace shardkit
