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
    const auto sections = Load<uint32_t>(bytes_, base_ + tail);
    const uint64_t root_length = Number(tail + 8);
    if (root_length > tail) return;
    const uint64_t root = tail - root_length;
    uint64_t at = root;
    for (uint32_t i = 0; i < sections; ++i) {
      if (!Section(&at, root, tail)) break;  // root and tail are made right all the same
    }
    Write(tail + 16, length_);
    Write(tail + 24, Hash(root, root_length));
    Write(tail + 48, Hash(tail, 48));
  }

 private:
  // What the root says of a section begins at *at, which moves behind it. False when it cannot be recognised.
  bool Section(uint64_t* at, uint64_t root, uint64_t tail) {
    if (tail - *at < format::kSectionHeaderBytes) return false;
    const uint64_t pages = Number(*at + 8), pages_end = Number(*at + 16), payload = Number(*at + 24);
    const uint64_t fences = *at + format::kSectionHeaderBytes;
    if (pages > length_ / format::kFenceBytes || pages_end > root) return false;
    const bool two_levels = pages > format::kMostRootFences;
    const uint64_t fence_pages = two_levels ? (pages + format::kFencesOfPage - 1) / format::kFencesOfPage : 0;
    const uint64_t fences_length = format::kFenceBytes * (two_levels ? fence_pages : pages);
    if (fences_length > tail - fences || payload > tail - fences - fences_length) return false;
    if (two_levels && format::kFenceBytes * pages > root - pages_end) return false;
    Fences(two_levels ? pages_end : fences, pages, pages_end);
    for (uint64_t i = 0; i < fence_pages; ++i) {
      const uint64_t begin = pages_end + format::kFencePageBytes * i;
      const uint64_t length = std::min(format::kFencePageBytes, pages_end + format::kFenceBytes * pages - begin);
      Write(fences + format::kFenceBytes * i + 16, Hash(begin, length));
    }
    *at = fences + fences_length + payload;
    return true;
  }

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
  char text[128];
  std::snprintf(text, sizeof(text), "%llu, \"root\": %llu, \"checksum\": \"%016llx\"",
                static_cast<unsigned long long>(table.size()),
                static_cast<unsigned long long>(Load<uint64_t>(table, tail + 8) + format::kTableTailBytes),
                static_cast<unsigned long long>(Load<uint64_t>(table, tail + 48)));
  manifest->replace(at + begin.size(), end - at - begin.size(), text);
}

}  // namespace shardkit::fuzz
