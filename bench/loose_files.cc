// A plain loop over loose files, the minimum of work for any packer. One thread reads every file below DIRECTORY once
// into one buffer, in the order of a sorted walk. With --shuffled the order is random, as in training on loose files.
//
//   loose_files DIRECTORY [--shuffled]
//
// Prints files, bytes and seconds. The time includes listing the files.

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace {

uint64_t files = 0, bytes = 0;
std::vector<char> buffer(size_t{1} << 20);

bool shuffled = false;
std::vector<std::string> listed;  // the paths, for --shuffled

void Read(int directory, const char* name) {
  const int file = openat(directory, name, O_RDONLY);
  for (;;) {
    const ssize_t got = read(file, buffer.data(), buffer.size());
    if (got <= 0) break;
    bytes += static_cast<uint64_t>(got);
  }
  close(file);
  ++files;
}

void Walk(int parent, const char* name, const std::string& path) {
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
      Walk(directory, entry.c_str(), path + "/" + entry);
    } else if (shuffled) {
      listed.push_back(path + "/" + entry);
    } else {
      Read(directory, entry.c_str());
    }
  }
  close(directory);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  shuffled = argc > 2 && std::strcmp(argv[2], "--shuffled") == 0;
  const auto begin = std::chrono::steady_clock::now();
  Walk(AT_FDCWD, argv[1], argv[1]);
  std::ranges::shuffle(listed, std::mt19937_64(1));
  for (const std::string& path : listed) Read(AT_FDCWD, path.c_str());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("{\"files\": %llu, \"bytes\": %llu, \"seconds\": %.6f}\n", static_cast<unsigned long long>(files),
              static_cast<unsigned long long>(bytes), seconds);
  return 0;
}
