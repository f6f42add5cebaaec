// Walks a directory tree in the byte order of sample keys, one directory in memory at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "operations/sources/source_names.h"
#include "shardkit/filesystem.h"

namespace shardkit::operations {

enum class EntryKind : uint8_t {
  kFile,       // a regular file, perhaps through a symbolic link
  kDirectory,  // never handed out by TreeWalk
  kDangling,   // a symbolic link to nothing
  kLoop,       // a symbolic link to a directory that holds it
  kLink,       // a symbolic link, where links are not followed
  kOther,      // a socket, a device, a pipe
  kForbidden,  // a directory that may not be listed
};

// Which names are passed over, as if they were not there.
enum class PassOver : uint8_t {
  kNothing,    // as SourceOptions::keep_hidden says
  kLeftovers,  // IsLeftoverName, and AppleDouble
  kHidden,     // these, and all that begin with a dot
};

struct WalkRules {
  PassOver pass_over = PassOver::kNothing;
  bool follow_links = true;
  std::shared_ptr<const NameFilter> filter;  // null: all names
};

// `pass_over` is what a source passes over that does not keep hidden files; `folder` is as for NameFilter.
inline WalkRules RulesOf(const SourceOptions& options, PassOver pass_over, std::string_view folder = {}) {
  auto filter = std::make_shared<NameFilter>(options, folder);
  if (!filter->chooses()) filter = nullptr;
  return {options.keep_hidden ? PassOver::kNothing : pass_over, options.follow_links, std::move(filter)};
}

// Why an entry that is no file cannot be packed; OK for kFile.
absl::Status CheckEntryKind(EntryKind kind);

// The names of one directory in a compact form, sorted. The form has a zero byte in place of a file's first or last dot
// (as NameSplit says), and a '/' after a directory's name. The byte order of these forms is the order of keys, because
// the zero byte after a stem is smaller than every byte of a name. Three million names of 20 bytes take 130 MB.
class DirectoryListing {
 public:
  // Lists a directory of the tree at `root`: `directory` is empty, or ends in '/'. Adds to *passed_over, which may be
  // null.
  static absl::StatusOr<std::unique_ptr<DirectoryListing>> Read(ReadableFileSystem& file_system,
                                                                const std::string& root, std::string_view directory,
                                                                NameSplit split, const WalkRules& rules = {},
                                                                PassedOver* passed_over = nullptr);

  size_t size() const { return entries_.size(); }
  EntryKind kind(size_t i) const { return RecordKind(entries_[i].record); }

  // The bytes of a file, where the listing told them.
  std::optional<uint64_t> file_size(size_t i) const;

  // The name in its compact form.
  std::string_view name(size_t i) const { return RecordName(entries_[i].record); }

 private:
  struct Entry {
    uint64_t prefix;     // the first bytes after the prefix that all names share, big-endian: decides most comparisons
    const char* record;  // kind and whether the size follows, length of the name (u32), size (u64), name
  };

  static EntryKind RecordKind(const char* record);
  static std::string_view RecordName(const char* record);
  // A file of a walk that passes over AppleDouble, which its first bytes decide.
  struct Doubtful {
    std::string name;
    std::optional<uint64_t> size;
  };
  struct Passed {
    uint64_t count = 0;
    std::string least;  // name
    void Add(std::string_view name);
  };
  // What is listed, and what is found out.
  struct Reading {
    ReadableFileSystem& file_system;
    const std::string& path;
    std::string_view directory;
    NameSplit split;
    const WalkRules& rules;
    Passed passed, followed;
    uint64_t not_chosen = 0;
    std::vector<Doubtful> doubtful;
  };
  absl::Status Add(const ListedEntry& entry, Reading* reading);
  void Store(EntryKind kind, std::string_view name, std::optional<uint64_t> size, NameSplit split);
  void Sort();

  std::vector<std::unique_ptr<char[]>> chunks_;
  std::vector<size_t> chunk_used_;
  size_t count_ = 0;
  std::vector<Entry> entries_;
};

// The files of one directory that have the same key. Borrowed until the next call.
struct WalkedFile {
  std::string_view rest;  // see NameParts
  bool has_dot = false;
  EntryKind kind = EntryKind::kFile;
  std::optional<uint64_t> size;  // bytes, where a listing told them
};
struct WalkedGroup {
  std::string_view directory;  // relative to the root: empty, or ends in '/'
  std::string_view stem;       // the key is directory + stem
  std::vector<WalkedFile> files;
};

// Not thread-safe.
class GroupWalk {
 public:
  virtual ~GroupWalk() = default;

  // False at the end.
  virtual absl::StatusOr<bool> Next(WalkedGroup* group) = 0;
};

// A directory below the root that may not be listed is a group of its own, of one file of kind kForbidden; other errors
// end the walk. Groups come in strictly
// ascending byte order of their keys.
class TreeWalk final : public GroupWalk {
 public:
  // Adds to *passed_over, which may be null, when a directory is listed.
  TreeWalk(ReadableFileSystem* file_system, std::string root, NameSplit split, WalkRules rules = {},
           PassedOver* passed_over = nullptr);

  absl::StatusOr<bool> Next(WalkedGroup* group) override;

 private:
  struct Level {
    std::unique_ptr<DirectoryListing> listing;
    size_t next = 0;
    size_t directory_length = 0;  // of directory_ at this level
    uint64_t device = 0;
    uint64_t inode = 0;
  };

  // kDirectory when its entries come next; else the levels do not change: kLoop when the directory is one of the
  // levels, or kForbidden.
  absl::StatusOr<EntryKind> Enter(std::string_view name);

  ReadableFileSystem* const file_system_;
  const std::string root_;
  const NameSplit split_;
  const WalkRules rules_;
  PassedOver* const passed_over_;
  bool started_ = false;
  std::string directory_;
  std::vector<Level> levels_;
};

// The number of groups that are left.
absl::StatusOr<uint64_t> CountGroups(GroupWalk& walk);

}  // namespace shardkit::operations
