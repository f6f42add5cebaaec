// The plain loop over loose files: what any packer has to do at the least. Reads every file below DIRECTORY once into one
// buffer, one thread, in the order of a sorted walk.
//
//   loose_files DIRECTORY
//
// Prints files, bytes and seconds, listing included.

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace {

uint64_t files = 0, bytes = 0;
std::vector<char> buffer(size_t{1} << 20);

void Walk(int parent, const char* name) {
  const int directory = openat(parent, name, O_RDONLY | O_DIRECTORY);
  if (directory < 0) return;
  DIR* const stream = fdopendir(dup(directory));
  std::vector<std::pair<std::string, bool>> entries;
  while (const dirent* entry = readdir(stream)) {
    if (std::strcmp(entry->d_name, ".") == 0 || std::strcmp(entry->d_name, "..") == 0) continue;
    entries.emplace_back(entry->d_name, entry->d_type == DT_DIR);
  }
  closedir(stream);
  std::ranges::sort(entries);
  for (const auto& [entry, is_directory] : entries) {
    if (is_directory) {
      Walk(directory, entry.c_str());
      continue;
    }
    const int file = openat(directory, entry.c_str(), O_RDONLY);
    for (;;) {
      const ssize_t got = read(file, buffer.data(), buffer.size());
      if (got <= 0) break;
      bytes += static_cast<uint64_t>(got);
    }
    close(file);
    ++files;
  }
  close(directory);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto begin = std::chrono::steady_clock::now();
  Walk(AT_FDCWD, argv[1]);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("{\"files\": %llu, \"bytes\": %llu, \"seconds\": %.6f}\n", static_cast<unsigned long long>(files),
              static_cast<unsigned long long>(bytes), seconds);
  return 0;
}
