#include "operations/sources/source_names.h"

#include <fnmatch.h>
#include <iconv.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "foreign/webdataset/webdataset_names.h"
#include "shardkit/filesystem.h"
#include "shardkit/schema.h"

namespace shardkit::operations {
namespace {

// NAME_MAX, and PATH_MAX without the NUL byte, of Linux.
constexpr size_t kMaxComponentBytes = 255;
constexpr size_t kMaxPathBytes = 4095;

// The beginning of a name, long enough to find the file.
std::string_view Front(std::string_view name) {
  size_t length = std::min<size_t>(name.size(), 40);
  while (length > 0 && length < name.size() && (name[length] & 0xc0) == 0x80) --length;
  return name.substr(0, length);
}

// Whether the parts of a pattern match all parts of a path. "**" matches any number of parts.
bool MatchesParts(std::string_view pattern, std::string_view path) {
  while (true) {
    const std::string part(pattern.substr(0, pattern.find('/')));
    const bool last = part.size() == pattern.size();
    if (part == "**") {
      if (last) return true;
      pattern.remove_prefix(part.size() + 1);
      for (size_t at = 0; at != path.npos; at = path.find('/', at), at += at == path.npos ? 0 : 1) {
        if (MatchesParts(pattern, path.substr(at))) return true;
      }
      return false;
    }
    const std::string name(path.substr(0, path.find('/')));
    if (fnmatch(part.c_str(), name.c_str(), 0) != 0) return false;
    if (last || name.size() == path.size()) return last && name.size() == path.size();
    pattern.remove_prefix(part.size() + 1);
    path.remove_prefix(name.size() + 1);
  }
}

// Whether the pattern matches the path, or a directory that it lies in, by the rules of gitignore(5): a pattern with a
// slash, but at its end, is for the whole path, others are for its last name; one that ends in a slash is for
// directories.
bool Matches(std::string_view pattern, std::string_view path, bool directory) {
  const bool of_directories = pattern.ends_with('/');
  if (of_directories) pattern.remove_suffix(1);
  const bool whole = pattern.find('/') != pattern.npos;
  if (pattern.starts_with('/')) pattern.remove_prefix(1);
  for (size_t end = path.find('/');; end = path.find('/', end + 1)) {
    const bool last = end == path.npos;
    const std::string_view prefix = path.substr(0, end);
    if (last && of_directories && !directory) return false;
    if (MatchesParts(pattern, whole ? prefix : BasePart(prefix))) return true;
    if (last) return false;
  }
}

}  // namespace

NameParts DivideName(std::string_view base_name, NameSplit split) {
  size_t dot = std::string_view::npos;
  if (split == NameSplit::kFirstDot) dot = base_name.find('.');
  if (split == NameSplit::kLastDot) dot = base_name.rfind('.');
  if (dot == std::string_view::npos) return {base_name, {}, false};
  return {base_name.substr(0, dot), base_name.substr(dot + 1), true};
}

std::string_view ColumnOfName(const NameParts& parts) {
  if (!parts.has_dot) return "/";
  if (parts.rest.empty()) return "/.";
  if (parts.rest == "key") return "/key";
  return parts.rest;
}

std::string_view ColumnOfFile(const NameParts& parts, NameSplit split) {
  return split == NameSplit::kNever ? kFileColumn : ColumnOfName(parts);
}

NameSplit SplitOf(const SourceOptions& options) {
  switch (options.group_by.value_or(GroupBy::kFirstDot)) {
    case GroupBy::kLastDot:
      return NameSplit::kLastDot;
    case GroupBy::kNone:
      return NameSplit::kNever;
    case GroupBy::kFirstDot:
      break;
  }
  return NameSplit::kFirstDot;
}

std::string SuffixOfColumn(std::string_view column) {
  if (column.starts_with('/')) {
    column.remove_prefix(1);
    if (column.empty() || column == ".") return std::string(column);
  }
  return StrCat(".", column);
}

std::string_view LastExtension(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(dot + 1);
}

std::string_view DirectoryPart(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash + 1);
}

std::string_view BasePart(std::string_view path) { return path.substr(DirectoryPart(path).size()); }

bool IsLeftoverName(std::string_view base_name, bool directory) {
  if (directory) return base_name == "__MACOSX" || base_name == ".ipynb_checkpoints" || base_name == "@eaDir";
  // Windows does not tell cases apart.
  const auto is = [&](std::string_view name) { return absl::EqualsIgnoreCase(ToAbsl(base_name), ToAbsl(name)); };
  return base_name == ".DS_Store" || is("Thumbs.db") || is("desktop.ini");
}

absl::Status NameFilter::Check(const SourceOptions& options) {
  for (const auto* const patterns : {&options.include, &options.exclude}) {
    for (const std::string& pattern : *patterns) {
      const std::string_view option = patterns == &options.include ? "--include" : "--exclude";
      if (pattern.find_first_not_of('/') == pattern.npos) return InvalidArgument(option, ": an empty pattern");
      if (pattern.starts_with('!')) {
        return InvalidArgument(option, " ", pattern,
                               ": no pattern negates another; exclude wins over include ('\\!' is a ",
                               "name's first character)");
      }
    }
  }
  return absl::OkStatus();
}

bool NameFilter::Takes(std::string_view name, bool directory) const {
  const std::string path = StrCat(folder_, name);
  const auto matches = [&](const std::vector<std::string>& patterns) {
    return std::ranges::any_of(patterns, [&](std::string_view pattern) { return Matches(pattern, path, directory); });
  };
  return !matches(exclude_) && (directory || include_.empty() || matches(include_));
}

class NameEncoding::Converters {
 public:
  explicit Converters(const std::string& name)
      : to_text_(iconv_open("UTF-8", name.c_str())), to_bytes_(iconv_open(name.c_str(), "UTF-8")) {}
  ~Converters() {
    if (to_text_ != kNone) iconv_close(to_text_);
    if (to_bytes_ != kNone) iconv_close(to_bytes_);
  }
  bool known() const { return to_text_ != kNone && to_bytes_ != kNone; }
  std::optional<std::string> ToText(std::string_view bytes) { return Convert(to_text_, bytes); }
  std::optional<std::string> ToBytes(std::string_view text) { return Convert(to_bytes_, text); }

 private:
  inline static const iconv_t kNone = reinterpret_cast<iconv_t>(-1);  // NOLINT: as iconv_open(3) says

  std::optional<std::string> Convert(iconv_t converter, std::string_view from) {
    std::string input(from);
    std::string output(4 * from.size() + 16, '\0');
    char* next = input.data();
    size_t left = input.size();
    char* to = output.data();
    size_t room = output.size();
    const std::lock_guard lock(mutex_);
    iconv(converter, nullptr, nullptr, nullptr, nullptr);
    // A character that is replaced by a similar one counts; the name would not be given back.
    if (iconv(converter, &next, &left, &to, &room) != 0) return std::nullopt;
    if (iconv(converter, nullptr, nullptr, &to, &room) != 0) return std::nullopt;
    output.resize(output.size() - room);
    return output;
  }

  std::mutex mutex_;
  iconv_t to_text_, to_bytes_;
};

namespace {

// No byte of UTF-8.
constexpr char kNoText = '\xff';

bool IsAscii(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) { return c < 0x80; });
}

// The length of the character in front, 0 when the bytes are none.
size_t CharacterLength(std::string_view text) {
  for (size_t length = 1; length <= std::min<size_t>(text.size(), 4); ++length) {
    if (ValidUtf8(text.substr(0, length))) return length;
  }
  return 0;
}

std::string Escape(std::string_view name) {
  std::string text;
  while (!name.empty()) {
    const size_t length = CharacterLength(name);
    if (length == 0 || name[0] == '%') {
      text += StrCat("%", absl::Hex(static_cast<unsigned char>(name[0]), absl::kZeroPad2));
    } else {
      text += name.substr(0, length);
    }
    name.remove_prefix(std::max<size_t>(length, 1));
  }
  return text;
}

std::optional<std::string> Unescape(std::string_view text) {
  std::string name;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      name += text[i];
      continue;
    }
    unsigned byte = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (digits.size() != 2 || parsed.ptr != digits.data() + 2) return std::nullopt;
    name += static_cast<char>(byte);
    i += 2;
  }
  return name;
}

}  // namespace

absl::StatusOr<NameEncoding> NameEncoding::Create(std::string_view name) {
  NameEncoding encoding;
  encoding.escape_ = name == "escape";
  if (encoding.escape_ || name.empty()) return encoding;
  auto converters = std::make_shared<Converters>(std::string(name));
  if (!converters->known() || name.find('/') != name.npos) {
    return InvalidArgument("--names ", name,
                           ": is no encoding that iconv knows: iconv -l lists them, such as GBK, EUC-JP, KOI8-R and "
                           "LATIN1; escape keeps the bytes");
  }
  // Names are divided at '/' and '.' before they are text. An encoding of 7 bits has a state (ISO-2022), and that its
  // names are not UTF-8 would not be seen.
  std::string ascii;
  for (char c = 1; c < 0x7f; ++c) {
    if (c != '\\' && c != '~') ascii += c;  // in Japan and Korea, signs of a currency and an overline
  }
  if (converters->ToText(ascii) != ascii || !converters->ToText("\xb0\xa1")) {
    return InvalidArgument("--names ", name, ": is no encoding of 8 bits with ASCII in it, as names of files have");
  }
  encoding.converters_ = std::move(converters);
  return encoding;
}

std::string NameEncoding::TextOf(std::string_view name) const {
  if (escape_) return Escape(name);
  if (!converters_ || IsAscii(name)) return std::string(name);
  std::optional<std::string> text = converters_->ToText(name);
  if (text && converters_->ToBytes(*text) == name) return *std::move(text);
  return StrCat(std::string_view(&kNoText, 1), name);
}

std::string NameEncoding::TextOfUtf8(std::string_view name) const {
  if (escape_) return Escape(name);
  if (!converters_ || BytesOf(name)) return std::string(name);
  return StrCat(std::string_view(&kNoText, 1), name);
}

std::optional<std::string> NameEncoding::BytesOf(std::string_view text) const {
  if (escape_) return Unescape(text);
  if (!converters_ || IsAscii(text)) return std::string(text);
  std::string bytes;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('/', begin), text.size());
    const std::string_view component = text.substr(begin, end - begin);
    if (component.starts_with(kNoText)) {
      bytes += component.substr(1);
    } else if (IsAscii(component)) {
      bytes += component;
    } else if (const auto converted = converters_->ToBytes(component)) {
      bytes += *converted;
    } else {
      return std::nullopt;
    }
    if (end < text.size()) bytes += '/';
    begin = end + 1;
  }
  return bytes;
}

bool NormalizeName(std::string* name) {
  std::string normal;
  const bool directory = name->ends_with('/');
  for (std::string_view rest = *name; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find('/'));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    if (part == "..") return false;
    if (part.empty() || part == ".") continue;
    normal += StrCat(normal.empty() ? "" : "/", part);
  }
  if (directory && !normal.empty()) normal.push_back('/');
  *name = std::move(normal);
  return true;
}

absl::Status CheckKey(std::string_view key) {
  if (ValidUtf8(key)) return absl::OkStatus();
  return InvalidArgument(
      "the name is not valid UTF-8, nor in an encoding that --names tells (gbk, latin1, …): --names escape keeps its "
      "bytes");
}

absl::Status CheckExtension(std::string_view column) {
  SHARDKIT_RETURN_IF_ERROR(CheckKey(column));
  if (const absl::Status status = CheckName(column, "column name"); !status.ok()) {
    return InvalidArgument("the extension cannot name a column (", ToStd(status.message()), "): rename the file");
  }
  if (column.size() > kMaxColumnNameBytes) {
    return InvalidArgument("the part of the name after the first dot has ", column.size(),
                           " bytes; a column name has at most ", kMaxColumnNameBytes,
                           ": rename the file, or group by another dot (--group-by)");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> OutputName(std::string_view directory, std::string_view text, const NameEncoding& names) {
  if (!ValidUtf8(text)) return InvalidArgument("the name is not valid UTF-8");
  std::optional<std::string> bytes = names.BytesOf(text);
  if (!bytes) return InvalidArgument("the name '", Front(text), "' is none in the encoding of metadata ", kNamesName);
  const std::string_view name = *bytes;
  SHARDKIT_RETURN_IF_ERROR(foreign::CheckMemberName(name));
  if (name.find('\0') != std::string_view::npos) return InvalidArgument("the name holds a NUL byte");
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    if (end - begin > kMaxComponentBytes) {
      return ResourceExhausted("the name '", Front(name.substr(begin)), "…' has ", end - begin,
                               " bytes between slashes; file systems take at most ", kMaxComponentBytes,
                               ": convert the dataset to tars instead");
    }
    begin = end + 1;
  }
  if (const size_t length = JoinPath(directory, name).size(); length > kMaxPathBytes) {
    return ResourceExhausted(
        "the path of '", Front(name), "…' would have ", length, " bytes; at most ", kMaxPathBytes,
        " are possible: give a directory with a shorter path, or convert the dataset to tars instead");
  }
  return *std::move(bytes);
}

}  // namespace shardkit::operations
