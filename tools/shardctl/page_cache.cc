#include "page_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "dataset_access.h"
#include "numbers.h"
#include "report.h"
#include "shardkit/filesystem.h"
#include "shardkit/remote.h"

namespace shardctl {
namespace {

constexpr double kMostLeft = 0.01;               // share of the pages
constexpr uint64_t kMapped = uint64_t{1} << 30;  // bytes mapped at a time

struct Pages {
  uint64_t all = 0;
  uint64_t resident = 0;

  double share() const { return all == 0 ? 0 : static_cast<double>(resident) / static_cast<double>(all); }
};

// Pages that cannot be examined count as resident.
void CountPages(int file, uint64_t size, Pages* pages) {
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  for (uint64_t offset = 0; offset < size; offset += kMapped) {
    const uint64_t length = std::min(kMapped, size - offset);
    std::vector<unsigned char> states((length + page - 1) / page, 1);
    void* const map = mmap(nullptr, length, PROT_READ, MAP_SHARED, file, static_cast<off_t>(offset));
    if (map != MAP_FAILED) {
      if (mincore(map, length, states.data()) != 0) std::ranges::fill(states, static_cast<unsigned char>(1));
      munmap(map, length);
    }
    pages->all += states.size();
    pages->resident +=
        static_cast<uint64_t>(std::ranges::count_if(states, [](unsigned char state) { return (state & 1) != 0; }));
  }
}

// Counts the pages that are left. An error says why a file could not be opened.
absl::StatusOr<Pages> AdviseAndCount(const std::vector<std::string>& files) {
  Pages pages;
  for (const std::string& path : files) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return absl::UnavailableError(path + ": " + std::generic_category().message(errno));
    fsync(file);  // only clean pages can be dropped
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    struct stat info {};
    if (fstat(file, &info) == 0) CountPages(file, static_cast<uint64_t>(info.st_size), &pages);
    close(file);
  }
  return pages;
}

bool DropAllCaches() {
  const int file = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool written = write(file, "3\n", 2) == 2;
  close(file);
  return written;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> FilesOfDataset(const std::string& path, const shardkit::ReadOptions& read,
                                                        uint64_t generation) {
  shardkit::FileSystem& file_system = *shardkit::DefaultFileSystem();
  const absl::StatusOr<shardkit::FileInfo> info = file_system.Stat(path);
  if (!info.ok()) return info.status();
  if (info->type != shardkit::FileType::kDirectory) return std::vector{path};
  const auto dataset = OpenDataset(path, read, {}, generation);
  if (!dataset.ok()) return dataset.status();
  std::vector<std::string> files;
  std::vector<std::string> names = {std::string(shardkit::kManifestName)};
  const absl::StatusOr<shardkit::Manifest> manifest = (*dataset)->ReadManifest();
  if (!manifest.ok()) return manifest.status();
  for (const shardkit::Segment& segment : manifest->segments) {
    names.push_back(segment.table.name);
  }
  if (manifest->removed) names.push_back(manifest->removed->table.name);
  for (const std::string& name : names) {
    const std::string file = shardkit::JoinPath(path, name);
    if (file_system.Stat(file).ok()) files.push_back(file);
  }
  for (const shardkit::ManifestShard& shard : manifest->shards) {
    files.push_back(manifest->PathOf(path, shard.name));
  }
  for (const shardkit::ColumnFile& file : manifest->column_files) {
    files.push_back(manifest->PathOf(path, file.name));
  }
  return files;
}

std::string DropFromPageCache(const std::vector<std::string>& files) {
  absl::StatusOr<Pages> pages = AdviseAndCount(files);
  std::string refused;
  if (pages.ok() && pages->share() > kMostLeft) {
    if (!DropAllCaches()) refused = ", and /proc/sys/vm/drop_caches may not be written";
    pages = AdviseAndCount(files);
  }
  if (!pages.ok()) return std::string(pages.status().message());
  if (pages->share() <= kMostLeft) return "";
  return "the system keeps " + FormatFixed(100 * pages->share(), 0) + " % of the files in the page cache" + refused;
}

}  // namespace shardctl
