#include "support/file_sections.h"

#include "support/input.h"
#include "support/require.h"

namespace shardkit::fuzz {

std::vector<FileSection> SplitSections(std::string_view bytes, size_t name_count) {
  Input input(bytes);
  std::vector<FileSection> sections;
  while (!input.empty()) {
    const size_t name = input.Byte() % name_count;
    const uint64_t length = input.Number(3);
    sections.push_back({name, input.Bytes(length)});
  }
  return sections;
}

std::string JoinSections(const std::vector<std::pair<size_t, std::string>>& sections) {
  std::string joined;
  for (const auto& [name, content] : sections) {
    joined += static_cast<char>(name);
    for (int i = 0; i < 3; ++i) joined += static_cast<char>(content.size() >> (8 * i));
    joined += content;
  }
  return joined;
}

void WriteSections(FileSystem& files, const std::string& directory, std::span<const std::string_view> names,
                   std::string_view input) {
  RequireOk(CreateDirectories(files, directory), "creating a directory in memory");
  std::vector<bool> written(names.size());
  for (const FileSection& section : SplitSections(input, names.size())) {
    if (written[section.name]) continue;
    written[section.name] = true;
    const std::string path = JoinPath(directory, names[section.name]);
    RequireOk(CreateDirectories(files, path.substr(0, path.rfind('/'))), "creating a directory in memory");
    WriteWhole(files, path, section.content);
  }
}

void WriteWhole(FileSystem& files, const std::string& path, std::string_view bytes) {
  (void)files.RemoveFile(path);
  const auto file = files.Create(path);
  RequireOk(file.status(), "creating a file in memory");
  RequireOk((*file)->Append(bytes), "writing a file in memory");
  RequireOk((*file)->Close(), "closing a file in memory");
}

}  // namespace shardkit::fuzz
