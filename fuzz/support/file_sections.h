// Several files in one input: a sequence of sections. A section is one byte that chooses a name, three bytes with the
// length (little-endian), and the content. A truncated section ends with the input. Of two sections with the same name
// the first one counts.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardkit/filesystem.h"

namespace shardkit::fuzz {

struct FileSection {
  size_t name = 0;  // position among the target's names
  std::string_view content;
};

std::vector<FileSection> SplitSections(std::string_view input, size_t name_count);

// Makes the input for SplitSections.
std::string JoinSections(const std::vector<std::pair<size_t, std::string>>& sections);

// Writes the sections as files below `directory`. Makes `directory` and the folders that the names need.
void WriteSections(FileSystem& files, const std::string& directory, std::span<const std::string_view> names,
                   std::string_view input);

// Writes one file and replaces an existing one. The folder must exist.
void WriteWhole(FileSystem& files, const std::string& path, std::string_view bytes);

}  // namespace shardkit::fuzz
