#include "operations/sources/file_source.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "dataset/dataset_files.h"
#include "operations/sources/source_names.h"
#include "operations/sources/tar_members.h"

namespace shardkit::operations {
namespace {

// A list is a sequence of marks, each with a text that ends in a zero byte: the directory of the samples that follow;
// the beginning of a sample; and the files of a sample, whose mark is the kind.
constexpr char kDirectoryMark = 'D';
constexpr char kSampleMark = 'S';
constexpr char kFirstKindMark = '0';

class ListedGroups final : public GroupWalk {
 public:
  ListedGroups(std::shared_ptr<const std::string> text, NameSplit split)
      : text_(std::move(text)), split_(split), rest_(*text_) {}

  absl::StatusOr<bool> Next(WalkedGroup* group) override {
    group->files.clear();
    while (!rest_.empty()) {
      const char mark = rest_[0];
      const size_t end = rest_.find('\0');
      if (end == rest_.npos) break;
      const std::string_view text = rest_.substr(1, end - 1);
      if (mark == kSampleMark && !group->files.empty()) return true;
      rest_.remove_prefix(end + 1);
      if (mark == kDirectoryMark) {
        directory_ = text;
      } else if (mark != kSampleMark) {
        const NameParts parts = DivideName(text, split_);
        if (group->files.empty()) *group = {directory_, parts.stem, {}};
        group->files.push_back({parts.rest, parts.has_dot, static_cast<EntryKind>(mark - kFirstKindMark)});
      }
      // A directory is that of the sample behind it.
      if (!group->files.empty() && !rest_.empty() && rest_[0] == kDirectoryMark) return true;
    }
    return !group->files.empty();
  }

 private:
  const std::shared_ptr<const std::string> text_;
  const NameSplit split_;
  std::string_view rest_;
  std::string_view directory_;
};

// The rules of a source, where the paths that patterns match begin with the input's folder.
WalkRules Within(const SourceInput& input, const SourceOptions& options, WalkRules rules) {
  if (rules.filter) rules.filter = std::make_shared<NameFilter>(options, input.folder);
  return rules;
}

}  // namespace

void FileList::Add(const TreeUnit& unit, size_t sample) {
  const auto add = [this](char mark, std::string_view text) {
    text_.push_back(mark);
    text_.append(text);
    text_.push_back('\0');
  };
  if (text_.empty() || unit.directory(sample) != directory_) {
    directory_ = unit.directory(sample);
    add(kDirectoryMark, directory_);
  }
  add(kSampleMark, "");
  for (const TreeUnit::File& file : unit.files(sample)) {
    add(static_cast<char>(kFirstKindMark + static_cast<int>(file.kind)), unit.name(file));
  }
}

std::string FileList::Take() { return std::exchange(text_, {}); }

absl::StatusOr<std::string> ListNames(const std::vector<std::string>& names, NameSplit split) {
  std::string list;
  std::string_view directory, stem;
  for (size_t i = 0; i < names.size(); ++i) {
    std::string_view name = names[i];
    while (name.starts_with("./")) name.remove_prefix(2);
    const auto wrong = [&](std::string_view what) {
      return InvalidArgument("--files-from: name ", i + 1, ", '", names[i], "', ", what);
    };
    if (name.empty() || name.ends_with('/')) return wrong("is none of a file");
    if (name.starts_with('/')) return wrong("must be relative to the input");
    if (StrCat("/", name, "/").find("/../") != std::string::npos) return wrong("leads out of the input");
    if (name.find('\0') != name.npos) return wrong("holds a NUL byte");
    const std::string_view base = BasePart(name);
    const std::string_view own_stem = DivideName(base, split).stem;
    const bool begins = i == 0 || DirectoryPart(name) != directory || own_stem != stem;
    if (i == 0 || DirectoryPart(name) != directory)
      list += StrCat(std::string(1, kDirectoryMark), DirectoryPart(name), std::string(1, '\0'));
    directory = DirectoryPart(name);
    stem = own_stem;
    if (begins) list += {kSampleMark, '\0'};
    list += StrCat(std::string(1, kFirstKindMark), base, std::string(1, '\0'));
  }
  return list;
}

std::unique_ptr<GroupWalk> OpenGroups(const SourceOptions& options, const SourceInput& input, NameSplit split,
                                      WalkRules rules, PassedOver* passed_over) {
  if (input.listed) return std::make_unique<ListedGroups>(input.listed, split);
  return std::make_unique<TreeWalk>(options.file_system, input.path, split, Within(input, options, std::move(rules)),
                                    passed_over);
}

absl::StatusOr<std::unique_ptr<WorkUnit>> FileSource::NextFromTar(size_t /*max_samples*/) {
  return Internal(input().path, ": this source does not read tars");
}

std::vector<std::string> FileSource::warnings() const {
  std::vector<std::string> warnings;
  if (const uint64_t joined = passed_over_.joined_tars; joined > 0) {
    warnings.push_back(StrCat(passed_over_.first_joined,
                              joined == 1 ? "" : StrCat(" (and so in ", joined - 1, " more tars)"),
                              ": an end mark lies before it, as where two tars were joined; all members are read"));
  }
  if (const uint64_t tars = passed_over_.left_behind; tars > 0) {
    warnings.push_back(StrCat(passed_over_.first_left_behind,
                              tars == 1 ? "" : StrCat(" (and so in ", tars - 1, " more tars)"), ": ",
                              foreign::kLeftBehind));
  }
  if (auto images = undecoded_images_.Warning()) warnings.push_back(*std::move(images));
  if (const uint64_t links = passed_over_.links; links > 0) {
    warnings.push_back(StrCat("followed ", links, links == 1 ? " symbolic link (" : " symbolic links (",
                              passed_over_.first_link, links == 1 ? "" : ", …", "); --no-follow refuses ",
                              links == 1 ? "it" : "them"));
  }
  if (const uint64_t left = passed_over_.not_chosen; left > 0) {
    warnings.push_back(StrCat(left, left == 1 ? " file or folder was" : " files or folders were",
                              " left out by --include and --exclude"));
  }
  const uint64_t count = passed_over_.count;
  if (count == 0) return warnings;
  warnings.push_back(StrCat("passed over ", count,
                            count == 1 ? " hidden file or folder (" : " hidden files or folders (", passed_over_.first,
                            count == 1 ? "" : ", …", "); --keep-hidden packs ", count == 1 ? "it" : "them"));
  return warnings;
}

GroupWalk& FileSource::Walk(NameSplit split) {
  if (!walk_) walk_ = OpenGroups(options_, input(), split, rules_, &passed_over_);
  return *walk_;
}

absl::StatusOr<std::unique_ptr<WorkUnit>> FileSource::Next(size_t max_samples) {
  for (; input_ < inputs_.size(); ++input_) {
    std::unique_ptr<WorkUnit> unit;
    if (input().tar) {
      SHARDKIT_ASSIGN_OR_RETURN(unit, NextFromTar(max_samples));
    } else {
      SHARDKIT_ASSIGN_OR_RETURN(unit, NextFromTree(max_samples));
    }
    if (unit->sample_count > 0) {
      unit->of_tar = input().tar;
      unit->begins_tar = unit->of_tar && !std::exchange(within_tar_, true);
      unit->empty_tars = std::exchange(empty_tars_, 0);
      return unit;
    }
    if (input().tar && !std::exchange(within_tar_, false)) ++empty_tars_;
    CloseInput();
  }
  return nullptr;
}

absl::StatusOr<std::vector<uint64_t>> FileSource::InputBytes(const WorkUnit& unit) const {
  if (const auto* const tar = dynamic_cast<const TarredUnit*>(&unit)) return tar->bytes;
  const auto& tree = static_cast<const TreeUnit&>(unit);
  std::vector<uint64_t> bytes;
  absl::Status failed;
  for (size_t i = 0; i < tree.size(); ++i) bytes.push_back(tree.StatBytes(*options_.file_system, i, &failed));
  SHARDKIT_RETURN_IF_ERROR(failed);
  return bytes;
}

absl::StatusOr<std::optional<FileSource::Listed>> FileSource::List(size_t max_samples) {
  for (; input_ < inputs_.size(); ++input_) {
    Listed listed;
    if (input().tar) {
      listed.tar = &inputs_[input_++];
      return listed;
    }
    SHARDKIT_ASSIGN_OR_RETURN(listed.tree, NextFromTree(max_samples));
    if (listed.tree->size() > 0) return listed;
    CloseInput();
  }
  return std::optional<Listed>();
}

absl::StatusOr<std::vector<std::string>> FileSource::FindKeyByName(std::string_view key, NameSplit split) const {
  std::vector<std::string> found;
  for (const SourceInput& input : inputs_) {
    if (input.tar) {
      SHARDKIT_ASSIGN_OR_RETURN(const auto tar, TarMembers::Open(input.path, options_));
      TarMember member;
      while (true) {
        SHARDKIT_ASSIGN_OR_RETURN(const bool more, tar->Next(&member));
        if (!more) break;
        if (member.kind != TarMember::Kind::kFile || DirectoryPart(member.name) != DirectoryPart(key)) continue;
        if (DivideName(BasePart(member.name), split).stem != BasePart(key)) continue;
        found.push_back(StrCat(input.path, ": member '", member.name, "'"));
        break;
      }
      continue;
    }
    const std::string folder = JoinPath(input.path, DirectoryPart(key));
    SHARDKIT_ASSIGN_OR_RETURN(const bool there, dataset::Exists(*options_.file_system, folder));
    if (!there) continue;
    SHARDKIT_ASSIGN_OR_RETURN(const auto listing,
                              DirectoryListing::Read(*options_.file_system, input.path, DirectoryPart(key), split,
                                                     Within(input, options_, rules_)));
    for (size_t i = 0; i < listing->size(); ++i) {
      std::string name(listing->name(i));
      std::ranges::replace(name, '\0', '.');
      if (listing->kind(i) == EntryKind::kDirectory || DivideName(name, split).stem != BasePart(key)) continue;
      found.push_back(JoinPath(folder, name));
      break;
    }
  }
  return found;
}

}  // namespace shardkit::operations
