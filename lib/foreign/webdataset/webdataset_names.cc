#include "foreign/webdataset/webdataset_names.h"

#include <algorithm>

#include "base/errors.h"

namespace shardkit::foreign {

bool IsWebDatasetMeta(std::string_view name) {
  const size_t slash = name.find('/');
  if (slash == std::string_view::npos) {
    if (name.starts_with("__") && name.ends_with("__")) return true;
    // In webdataset's expression, $ also matches before a line feed at the end of the name.
    if (name.ends_with('\n')) name.remove_suffix(1);
  }
  const std::string_view first = name.substr(0, slash);
  return first.size() >= 4 && first.starts_with("__") && first.ends_with("__");
}

std::string_view MemberName(std::string_view name) {
  while (name.starts_with("./")) name.remove_prefix(2);
  return name;
}

std::optional<WebDatasetName> SplitWebDatasetName(std::string_view name) {
  name = MemberName(name);
  if (IsWebDatasetMeta(name)) return std::nullopt;
  // The expression allows no slash after the dot. So the dot is the first one after the last slash, wherever the folder
  // part of the expression ends.
  const size_t base = name.rfind('/') + 1;  // 0 when there is none
  const size_t dot = name.find('.', base);
  if (dot == std::string_view::npos) return std::nullopt;
  // The folder part ends after a slash and contains no line feed. The text between it and the dot must not be empty and
  // must have no dot. The longest folder part leaves the shortest text, so it is the one to check.
  size_t folders = 0;
  if (dot > 0) {
    const size_t line = name.substr(0, dot - 1).find('\n');
    folders = name.substr(0, line == std::string_view::npos ? dot - 1 : line).rfind('/') + 1;
  }
  const std::string_view stem = name.substr(folders, dot - folders);
  if (stem.empty() || stem.find('.') != std::string_view::npos) return std::nullopt;
  return WebDatasetName{name.substr(0, dot), name.substr(dot + 1)};
}

absl::Status CheckMemberName(std::string_view name) {
  if (name.starts_with('/')) return InvalidArgument("an absolute name could not be unpacked below a directory");
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view component = name.substr(begin, end - begin);
    if (component.empty() || component == "." || component == "..") {
      return InvalidArgument("a name with the component '", component, "' would not be unpacked to the same name");
    }
    begin = end + 1;
  }
  return absl::OkStatus();
}

std::string WebDatasetColumn(std::string_view extension) {
  if (extension.empty()) return "/.";
  std::string column(extension);
  for (char& c : column) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return column == "key" ? "/key" : column;
}

std::string_view WebDatasetExtension(std::string_view column) {
  if (column == "/.") return {};
  return column == "/key" ? column.substr(1) : column;
}

std::string EscapeWebDatasetKey(std::string_view key) {
  const size_t base = key.rfind('/') + 1;  // 0 when there is none
  std::string escaped(key.substr(0, base));
  for (const char c : key.substr(base)) {
    if (c == '.' || c == '%') {
      escaped += c == '.' ? "%2E" : "%25";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string UnescapeWebDatasetKey(std::string_view key) {
  const size_t base = key.rfind('/') + 1;
  std::string plain(key.substr(0, base));
  for (size_t i = base; i < key.size(); ++i) {
    const std::string_view rest = key.substr(i);
    const bool dot = rest.starts_with("%2E");
    if (dot || rest.starts_with("%25")) {
      plain += dot ? '.' : '%';
      i += 2;
    } else {
      plain += key[i];
    }
  }
  return plain;
}

bool IsTarName(std::string_view name) {
  for (const std::string_view ending :
       {".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tar.xz", ".tar.lz4", ".tar.lzma", ".tar.Z"}) {
    if (name.ends_with(ending)) return true;
  }
  return false;
}

}  // namespace shardkit::foreign
