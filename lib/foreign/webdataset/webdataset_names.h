// How the names of a tar's members become the samples of a WebDataset. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace shardkit::foreign {

// Views into the name.
struct WebDatasetName {
  std::string_view key;        // at least one byte
  std::string_view extension;  // what follows the dot, as it is written; may be empty

  bool operator==(const WebDatasetName&) const = default;
};

// The name of a tar's member as it is read: without "./" in front, which "tar -C FOLDER -c ." writes.
std::string_view MemberName(std::string_view name);

// Splits a name, after MemberName, by the rule of webdataset, the expression ^((?:.*/|)[^.]+)[.]([^/]*)$ : the key ends
// before the first dot of the base name. Empty for a name that belongs to no sample: a name without such a dot, a
// hidden file, or a name for which IsWebDatasetMeta is true.
std::optional<WebDatasetName> SplitWebDatasetName(std::string_view name);

// Whether the whole name, or its first folder, has the form "__name__": data about the shard, which is skipped.
bool IsWebDatasetMeta(std::string_view name);

// InvalidArgument for a name that would change or lead elsewhere when the tar is unpacked: absolute, or with components
// that are empty, "." or "..".
absl::Status CheckMemberName(std::string_view name);

// The column name of an extension: the extension with its ASCII letters in lower case. An empty extension gives "/.",
// and "key" gives "/key", as in packing. No extension contains a slash, so these names are free.
std::string WebDatasetColumn(std::string_view extension);

// The extension of a column name, without the dot. Reverses WebDatasetColumn, but letters stay in lower case.
std::string_view WebDatasetExtension(std::string_view column);

// The first function removes the dots from the last part of a key: there '.' becomes "%2E" and '%' becomes "%25". The
// second function reverses this and leaves all other text as it is.
std::string EscapeWebDatasetKey(std::string_view key);
std::string UnescapeWebDatasetKey(std::string_view key);

// Whether a file's name has the ending of a tar: .tar, or, compressed, .tar.gz .tgz .tar.zst .tar.bz2 .tar.xz .tar.lz4
// .tar.lzma .tar.Z.
bool IsTarName(std::string_view name);

}  // namespace shardkit::foreign
