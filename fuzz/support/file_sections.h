// Several files in one input: a sequence of sections, each one byte that chooses a name, three bytes with the
// length (little-endian), and the content. A section that is cut short ends with the input; of two with one
// name the first counts.
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

// The input that SplitSections takes apart.
std::string JoinSections(const std::vector<std::pair<size_t, std::string>>& sections);

// The sections as files below `directory`, which is made with what folders the names need.
void WriteSections(FileSystem& files, const std::string& directory, std::span<const std::string_view> names,
                   std::string_view input);

// One file, in place of what is there. The folder exists.
void WriteWhole(FileSystem& files, const std::string& path, std::string_view bytes);

}  // namespace shardkit::fuzz
