// How a file's name becomes a sample's key and a column, and back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/source.h"

namespace shardkit::operations {

// Where the base name of a file is divided: the part in front belongs to the key.
enum class NameSplit {
  kFirstDot,  // "a.seg.png" -> "a", "seg.png"
  kLastDot,   // "a.seg.png" -> "a.seg", "png"
  kNever,     // the whole name belongs to the key
};

// Metadata of files that were not grouped by their first dot. Its value is the GroupByName.
inline constexpr std::string_view kGroupByName = "shardkit.group_by";

// The column of files that are samples by themselves.
inline constexpr std::string_view kFileColumn = "file";

// A divided base name. Borrowed from the name.
struct NameParts {
  std::string_view stem;
  std::string_view rest;  // without the dot
  bool has_dot = false;   // an empty rest with a dot ("a.") is not the same as none ("a")
};

NameParts DivideName(std::string_view base_name, NameSplit split);

// The column of a file in a `files` dataset: the rest, unchanged. No extension begins with '/', so such names stand for
// special cases: "/" no dot, "/." nothing after the dot, "/key" the extension "key" (the column "key" is taken).
std::string_view ColumnOfName(const NameParts& parts);

// The same, also for whole files, which all have the column kFileColumn.
std::string_view ColumnOfFile(const NameParts& parts, NameSplit split);

// The split that `options` asks for.
NameSplit SplitOf(const SourceOptions& options);

// The inverse of ColumnOfName: what follows the key in the file's name.
std::string SuffixOfColumn(std::string_view column);

// What follows the last dot; empty when there is none.
std::string_view LastExtension(std::string_view name);

// The part of `path` up to and including the last '/', or empty; and what follows it.
std::string_view DirectoryPart(std::string_view path);
std::string_view BasePart(std::string_view path);

// Whether macOS, Windows, a NAS or notebooks leave a file (or directory) of this base name among those of a user. Of a
// file named "._*" its first bytes decide: kAppleDoubleMagic.
bool IsLeftoverName(std::string_view base_name, bool directory);
inline constexpr std::string_view kAppleDoublePrefix = "._";
inline constexpr std::string_view kAppleDoubleMagic("\x00\x05\x16\x07", 4);

// The files that SourceOptions::include and exclude choose.
class NameFilter {
 public:
  // `folder` is empty, or a folder in the input and a slash.
  explicit NameFilter(const SourceOptions& options, std::string_view folder = {})
      : include_(options.include), exclude_(options.exclude), folder_(folder) {}

  // InvalidArgument for an empty pattern, and one that begins with '!', which negates in other programs.
  static absl::Status Check(const SourceOptions& options);

  bool chooses() const { return !include_.empty() || !exclude_.empty(); }

  // Whether a file is chosen, or a directory is to be looked into. `name` is relative to the folder.
  bool Takes(std::string_view name, bool directory) const;

 private:
  std::vector<std::string> include_, exclude_;
  std::string folder_;
};

// What was passed over, in the order in which it was found.
struct PassedOver {
  uint64_t count = 0;
  std::string first;        // where it is
  uint64_t not_chosen = 0;  // by the NameFilter; a directory counts once
  // Besides, what is not passed over: symbolic links that were followed.
  uint64_t links = 0;
  std::string first_link;
  // Tars in which an end mark lies between members.
  uint64_t joined_tars = 0;
  std::string first_joined;
  // Tars with something else behind the end mark.
  uint64_t left_behind = 0;
  std::string first_left_behind;
};

// Metadata of files whose names were not UTF-8. Its value is the encoding, as SourceOptions::names.
inline constexpr std::string_view kNamesName = "shardkit.names";

// The encoding of the names of files, and the text that stands for them: keys and names of columns. Text is given only
// for bytes that it gives back. Thread-safe; copies share what they convert with.
class NameEncoding {
 public:
  // As SourceOptions::names; empty: names are text as they are. InvalidArgument for an encoding that iconv does not
  // know, that has other bytes for ASCII, or has a state.
  static absl::StatusOr<NameEncoding> Create(std::string_view name);

  bool empty() const { return converters_ == nullptr && !escape_; }

  // Of a name that has no text, the name behind a byte that no UTF-8 has: CheckKey refuses it.
  std::string TextOf(std::string_view name) const;
  // The same, where `name` is known to be UTF-8, as the archive says.
  std::string TextOfUtf8(std::string_view name) const;
  // The inverse of TextOf. Nothing for text that has no bytes.
  std::optional<std::string> BytesOf(std::string_view text) const;

 private:
  class Converters;

  std::shared_ptr<Converters> converters_;
  bool escape_ = false;
};

// The name of an archive's member without "./", leading and double slashes. False for a name that leads out of the
// archive.
bool NormalizeName(std::string* name);

// InvalidArgument when a key is not UTF-8, or a column name not UTF-8 of at most 255 bytes.
absl::Status CheckKey(std::string_view key);
absl::Status CheckExtension(std::string_view column);

// The bytes of a name below `directory` whose text is given. InvalidArgument as foreign::CheckMemberName, and for text
// that is not UTF-8, has no bytes, or holds a NUL byte; ResourceExhausted for a component of more than 255 bytes, or a
// path of more than 4095, which file systems do not take.
absl::StatusOr<std::string> OutputName(std::string_view directory, std::string_view text,
                                       const NameEncoding& names = {});

}  // namespace shardkit::operations
