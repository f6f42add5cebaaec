// How the names of a tar's members become the samples of a WebDataset. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace shardkit::format {

// Borrowed from the name.
struct WebDatasetName {
  std::string_view key;        // at least one byte
  std::string_view extension;  // what follows the dot, as it is written; may be empty

  bool operator==(const WebDatasetName&) const = default;
};

// By webdataset's rule, the expression ^((?:.*/|)[^.]+)[.]([^/]*)$ : the key ends before the first dot of the
// base name. Empty for names that are no part of a sample: those without such a dot, hidden files, and those
// that IsWebDatasetMeta names.
std::optional<WebDatasetName> SplitWebDatasetName(std::string_view name);

// By the rule of wids, ^((?:.*/)?.*?)(\..*)$ : the extension begins with its dot, and the key may be empty.
// Empty for names without a dot, or with a line feed.
std::optional<WebDatasetName> SplitWidsName(std::string_view name);

// "__name__", alone or as the first folder: data about the shard, which is passed over.
bool IsWebDatasetMeta(std::string_view name);

// The column of an extension: its ASCII letters made small; "/." for an empty one and "/key" for "key", which
// no extension can be, as packing names them.
std::string WebDatasetColumn(std::string_view extension);

// The extension of a column, without the dot: what WebDatasetColumn made, undone.
std::string_view WebDatasetExtension(std::string_view column);

// A key whose last part has dots, as one without: in that part '.' becomes "%2E" and '%' "%25". And back; what the
// first has not made stays as it is.
std::string EscapeWebDatasetKey(std::string_view key);
std::string UnescapeWebDatasetKey(std::string_view key);

// Whether a file's name ends as that of a tar does: .tar, or compressed .tar.gz .tgz .tar.zst .tar.bz2
// .tar.xz.
bool IsTarName(std::string_view name);

}  // namespace shardkit::format
