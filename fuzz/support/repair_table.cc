#include <xxhash.h>

#include <algorithm>
#include <cstdio>

#include "format/paged_table.h"
#include "support/little_endian.h"
#include "support/repair_checksums.h"

namespace shardkit::fuzz {
namespace {

class TableRepair {
 public:
  TableRepair(std::string* file, uint64_t offset, uint64_t length) : bytes_(*file), base_(offset), length_(length) {}

  void Run() {
    const uint64_t tail = length_ - format::kTableTailBytes;
    const auto pages = Number(tail + 8), payload = Number(tail + 16);
    const bool two_levels = pages > format::kMostRootFences;
    const uint64_t fence_pages = two_levels ? (pages + format::kFencesOfPage - 1) / format::kFencesOfPage : 0;
    if (pages > length_ / format::kFenceBytes || payload > tail) return;
    const uint64_t root_length = format::kFenceBytes * (two_levels ? fence_pages : pages) + payload;
    if (root_length > tail) return;
    const uint64_t root = tail - root_length;
    const uint64_t fences_length = two_levels ? format::kFenceBytes * pages : 0;
    if (fences_length > root) return;
    const uint64_t fences = root - fences_length;  // the root's own where there is one level
    Fences(two_levels ? fences : root, pages, fences);
    for (uint64_t i = 0; i < fence_pages; ++i) {
      const uint64_t begin = fences + format::kFencePageBytes * i;
      Write(root + format::kFenceBytes * i + 16, Hash(begin, std::min(format::kFencePageBytes, root - begin)));
    }
    Write(tail + 24, length_);
    Write(tail + 32, Hash(root, root_length));
    Write(tail + 48, Hash(tail, 48));
  }

 private:
  uint64_t Number(uint64_t at) const { return Load<uint64_t>(bytes_, base_ + at); }
  void Write(uint64_t at, uint64_t number) { Store(&bytes_, base_ + at, number); }
  uint64_t Hash(uint64_t at, uint64_t length) const { return XXH3_64bits(bytes_.data() + base_ + at, length); }

  // `end`: of the last page.
  void Fences(uint64_t at, uint64_t count, uint64_t end) {
    for (uint64_t i = 0; i < count; ++i, at += format::kFenceBytes) {
      const uint64_t begin = Number(at + 8), next = i + 1 < count ? Number(at + format::kFenceBytes + 8) : end;
      if (begin <= next && next <= end) Write(at + 16, Hash(begin, next - begin));
    }
  }

  std::string& bytes_;
  const uint64_t base_;
  const uint64_t length_;
};

}  // namespace

void RepairTable(std::string* table) { RepairTable(table, 0, table->size()); }

void RepairTable(std::string* file, uint64_t offset, uint64_t length) {
  if (!Within(offset, length, file->size()) || length < format::kTableTailBytes) return;
  TableRepair(file, offset, length).Run();
}

void RepairReference(std::string* manifest, std::string_view name, std::string_view table) {
  const std::string begin = "{\"name\": \"" + std::string(name) + "\", \"bytes\": ";
  const size_t at = manifest->find(begin), end = manifest->find('}', at);
  if (at == manifest->npos || end == manifest->npos || table.size() < format::kTableTailBytes) return;
  const uint64_t tail = table.size() - format::kTableTailBytes;
  const auto pages = Load<uint64_t>(table, tail + 8), payload = Load<uint64_t>(table, tail + 16);
  const uint64_t fences = pages > format::kMostRootFences ? (pages - 1) / format::kFencesOfPage + 1 : pages;
  char text[128];
  std::snprintf(text, sizeof(text), "%llu, \"root\": %llu, \"checksum\": \"%016llx\"",
                static_cast<unsigned long long>(table.size()),
                static_cast<unsigned long long>(format::kFenceBytes * fences + payload + format::kTableTailBytes),
                static_cast<unsigned long long>(Load<uint64_t>(table, tail + 48)));
  manifest->replace(at + begin.size(), end - at - begin.size(), text);
}

}  // namespace shardkit::fuzz
