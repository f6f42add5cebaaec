#include "operations/sources/source_walk.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/endian.h"
#include "base/errors.h"
#include "base/status_macros.h"

namespace shardkit::operations {
namespace {

constexpr size_t kRecordChunkBytes = size_t{1} << 20;
constexpr size_t kRecordHeader = 1 + sizeof(uint32_t);
constexpr uint8_t kHasSize = 0x80;  // of a record's first byte

// The first eight bytes as a number with the same order as the bytes.
uint64_t PrefixOf(std::string_view text) {
  char bytes[8] = {};
  std::memcpy(bytes, text.data(), std::min<size_t>(text.size(), 8));
  return __builtin_bswap64(LoadLittle<uint64_t>(bytes));
}

// False, too, of a file that cannot be read: who loads it reports that.
bool IsAppleDouble(ReadableFileSystem& file_system, const std::string& path) {
  const auto file = file_system.OpenForReading(path);
  if (!file.ok() || (*file)->size() < kAppleDoubleMagic.size()) return false;
  std::string begin(kAppleDoubleMagic.size(), '\0');
  return (*file)->ReadAt(0, begin).ok() && begin == kAppleDoubleMagic;
}

}  // namespace

absl::Status CheckEntryKind(EntryKind kind) {
  switch (kind) {
    case EntryKind::kFile:
    case EntryKind::kDirectory:
      return absl::OkStatus();
    case EntryKind::kDangling:
      return NotFound("a symbolic link to a file that does not exist");
    case EntryKind::kLoop:
      return InvalidArgument("a symbolic link to a directory that contains it");
    case EntryKind::kLink:
      return InvalidArgument("a symbolic link, which is not followed (--no-follow)");
    case EntryKind::kForbidden:
      return absl::PermissionDeniedError(
          "the folder may not be listed; --exclude leaves it out, --on-error skip goes on");
    case EntryKind::kOther:
      break;
  }
  return InvalidArgument("not a regular file (a socket, pipe or device)");
}

absl::StatusOr<std::unique_ptr<DirectoryListing>> DirectoryListing::Read(ReadableFileSystem& file_system,
                                                                         const std::string& root,
                                                                         std::string_view directory, NameSplit split,
                                                                         const WalkRules& rules,
                                                                         PassedOver* passed_over) {
  auto listing = std::make_unique<DirectoryListing>();
  const std::string path = directory.empty() ? root : JoinPath(root, directory.substr(0, directory.size() - 1));
  Reading reading{file_system, path, directory, split, rules, {}, {}, 0, {}};
  SHARDKIT_RETURN_IF_ERROR(
      file_system.ForEachEntry(path, [&](const ListedEntry& entry) { return listing->Add(entry, &reading); }));
  for (const Doubtful& file : reading.doubtful) {
    if (IsAppleDouble(file_system, JoinPath(path, file.name))) {
      reading.passed.Add(file.name);
    } else {
      listing->Store(EntryKind::kFile, file.name, file.size, split);
    }
  }
  listing->Sort();
  if (passed_over == nullptr) return listing;
  passed_over->not_chosen += reading.not_chosen;
  if (reading.passed.count > 0) {
    if (passed_over->count == 0) passed_over->first = JoinPath(path, reading.passed.least);
    passed_over->count += reading.passed.count;
  }
  if (reading.followed.count > 0) {
    if (passed_over->links == 0) passed_over->first_link = JoinPath(path, reading.followed.least);
    passed_over->links += reading.followed.count;
  }
  return listing;
}

// A file system lists names in any order.
void DirectoryListing::Passed::Add(std::string_view name) {
  if (count++ == 0 || name < least) least = name;
}

absl::Status DirectoryListing::Add(const ListedEntry& entry, Reading* reading) {
  const WalkRules& rules = reading->rules;
  if (rules.pass_over == PassOver::kHidden && entry.name.starts_with('.')) {
    reading->passed.Add(entry.name);
    return absl::OkStatus();
  }
  const auto chosen = [&](bool directory) {
    if (!rules.filter || rules.filter->Takes(StrCat(reading->directory, entry.name), directory)) return true;
    ++reading->not_chosen;
    return false;
  };
  FileType type = entry.type;
  const bool link = type == FileType::kSymbolicLink;
  if (link && rules.follow_links) {
    const auto info = reading->file_system.Stat(JoinPath(reading->path, entry.name));
    if (!info.ok()) {
      // A link that cannot be followed (a missing target, a loop of links) fails this sample and not the listing.
      if (chosen(/*directory=*/false)) Store(EntryKind::kDangling, entry.name, std::nullopt, reading->split);
      return absl::OkStatus();
    }
    type = info->type;
  }
  const EntryKind kind = type == FileType::kRegular        ? EntryKind::kFile
                         : type == FileType::kDirectory    ? EntryKind::kDirectory
                         : type == FileType::kSymbolicLink ? EntryKind::kLink
                                                           : EntryKind::kOther;
  if (!chosen(kind == EntryKind::kDirectory)) return absl::OkStatus();
  if (rules.pass_over != PassOver::kNothing) {
    if (IsLeftoverName(entry.name, kind == EntryKind::kDirectory)) {
      reading->passed.Add(entry.name);
      return absl::OkStatus();
    }
    if (kind == EntryKind::kFile && entry.name.starts_with(kAppleDoublePrefix)) {
      reading->doubtful.push_back({std::string(entry.name), entry.size});
      return absl::OkStatus();
    }
  }
  if (link && rules.follow_links) reading->followed.Add(entry.name);
  Store(kind, entry.name, kind == EntryKind::kFile ? entry.size : std::nullopt, reading->split);
  return absl::OkStatus();
}

void DirectoryListing::Store(EntryKind kind, std::string_view name, std::optional<uint64_t> size, NameSplit split) {
  const bool directory = kind == EntryKind::kDirectory;
  const size_t length = name.size() + (directory ? 1 : 0);
  const size_t header = kRecordHeader + (size ? sizeof(*size) : 0);
  const size_t needed = header + length;
  if (chunks_.empty() || needed > kRecordChunkBytes - std::min(kRecordChunkBytes, chunk_used_.back())) {
    chunks_.push_back(std::make_unique_for_overwrite<char[]>(std::max(needed, kRecordChunkBytes)));
    chunk_used_.push_back(0);
  }
  char* const record = chunks_.back().get() + chunk_used_.back();
  chunk_used_.back() += needed;
  ++count_;
  record[0] = static_cast<char>(static_cast<uint8_t>(kind) | (size ? kHasSize : 0));
  StoreLittle(record + 1, static_cast<uint32_t>(length));
  if (size) StoreLittle(record + kRecordHeader, *size);
  char* const text = record + header;
  std::memcpy(text, name.data(), name.size());
  if (directory) {
    text[name.size()] = '/';
  } else if (const NameParts parts = DivideName(name, split); parts.has_dot) {
    text[parts.stem.size()] = '\0';
  }
}

EntryKind DirectoryListing::RecordKind(const char* record) {
  return static_cast<EntryKind>(static_cast<uint8_t>(record[0]) & ~kHasSize);
}

std::string_view DirectoryListing::RecordName(const char* record) {
  const bool sized = (static_cast<uint8_t>(record[0]) & kHasSize) != 0;
  return {record + kRecordHeader + (sized ? sizeof(uint64_t) : 0), LoadLittle<uint32_t>(record + 1)};
}

std::optional<uint64_t> DirectoryListing::file_size(size_t i) const {
  const char* const record = entries_[i].record;
  if ((static_cast<uint8_t>(record[0]) & kHasSize) == 0) return std::nullopt;
  return LoadLittle<uint64_t>(record + kRecordHeader);
}

void DirectoryListing::Sort() {
  entries_.reserve(count_);
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    for (size_t at = 0; at < chunk_used_[chunk];) {
      const char* const record = chunks_[chunk].get() + at;
      entries_.push_back({0, record});
      const std::string_view text = RecordName(record);
      at += static_cast<size_t>(text.data() + text.size() - record);
    }
  }
  if (entries_.empty()) return;
  std::string_view shared = name(0);
  for (size_t i = 1; i < entries_.size() && !shared.empty(); ++i) {
    const std::string_view other = name(i);
    const auto [end, unused] = std::mismatch(shared.begin(), shared.end(), other.begin(), other.end());
    shared = shared.substr(0, static_cast<size_t>(end - shared.begin()));
  }
  for (Entry& entry : entries_) entry.prefix = PrefixOf(RecordName(entry.record).substr(shared.size()));
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return a.prefix != b.prefix ? a.prefix < b.prefix : RecordName(a.record) < RecordName(b.record);
  });
}

TreeWalk::TreeWalk(ReadableFileSystem* file_system, std::string root, NameSplit split, WalkRules rules,
                   PassedOver* passed_over)
    : file_system_(file_system), root_(std::move(root)), split_(split), rules_(rules), passed_over_(passed_over) {}

absl::StatusOr<EntryKind> TreeWalk::Enter(std::string_view name) {
  const auto stay_out = [&](EntryKind kind) {
    directory_.resize(directory_.size() - name.size());
    return kind;
  };
  directory_.append(name);
  const std::string path =
      directory_.empty() ? root_ : JoinPath(root_, std::string_view(directory_).substr(0, directory_.size() - 1));
  SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, file_system_->Stat(path));
  const bool known = info.device != 0 || info.inode != 0;
  for (const Level& level : levels_) {
    if (known && level.device == info.device && level.inode == info.inode) return stay_out(EntryKind::kLoop);
  }
  Level level;
  auto listing = DirectoryListing::Read(*file_system_, root_, directory_, split_, rules_, passed_over_);
  if (absl::IsPermissionDenied(listing.status()) && !name.empty()) return stay_out(EntryKind::kForbidden);
  SHARDKIT_RETURN_IF_ERROR(listing.status());
  level.listing = *std::move(listing);
  level.directory_length = directory_.size();
  level.device = info.device;
  level.inode = info.inode;
  levels_.push_back(std::move(level));
  return EntryKind::kDirectory;
}

absl::StatusOr<bool> TreeWalk::Next(WalkedGroup* group) {
  if (!started_) {
    started_ = true;
    SHARDKIT_RETURN_IF_ERROR(Enter("").status());
  }
  group->files.clear();
  while (!levels_.empty()) {
    Level& level = levels_.back();
    directory_.resize(level.directory_length);
    if (level.next == level.listing->size()) {
      levels_.pop_back();
      continue;
    }
    if (level.listing->kind(level.next) == EntryKind::kDirectory) {
      const std::string_view name = level.listing->name(level.next++);
      SHARDKIT_ASSIGN_OR_RETURN(const EntryKind entered, Enter(name));
      if (entered == EntryKind::kDirectory) continue;
      *group = {directory_, name.substr(0, name.size() - 1), {{{}, false, entered, std::nullopt}}};
      return true;
    }
    for (; level.next < level.listing->size(); ++level.next) {
      const std::string_view name = level.listing->name(level.next);
      const std::string_view stem = name.substr(0, name.find('\0'));
      if (level.listing->kind(level.next) == EntryKind::kDirectory) break;
      if (!group->files.empty() && stem != group->stem) break;
      const bool has_dot = stem.size() < name.size();
      group->directory = directory_;
      group->stem = stem;
      group->files.push_back({has_dot ? name.substr(stem.size() + 1) : std::string_view(), has_dot,
                              level.listing->kind(level.next), level.listing->file_size(level.next)});
    }
    return true;
  }
  return false;
}

absl::StatusOr<uint64_t> CountGroups(GroupWalk& walk) {
  WalkedGroup group;
  for (uint64_t count = 0;; ++count) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, walk.Next(&group));
    if (!more) return count;
  }
}

}  // namespace shardkit::operations
