#include "dataset/read/removed_samples.h"

#include <string_view>

#include "base/endian.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "container/read/paged_table_reader.h"
#include "dataset/write/segment_writer.h"
#include "format/paged_table.h"
#include "io/publish_file.h"
#include "io/tail_prefetch_file.h"

namespace shardkit::dataset {
namespace {

constexpr uint64_t kOrdinalsOfPage = format::kTablePageBytes / 8;
constexpr uint64_t kMostRemoved = uint64_t{1} << 28;  // spec.md, section 10

}  // namespace

absl::StatusOr<RemovedList> RemovedList::Read(ReadableFileSystem& file_system, const std::string& directory,
                                              const RemovedSamples& named, uint64_t stored_samples) {
  const std::string path = JoinPath(directory, named.table.name);
  if (named.samples > kMostRemoved) {
    return DataLoss(path, ": ", named.samples, " removed samples are more than ", kMostRemoved,
                    "; shardctl compact leaves them out");
  }
  auto opened = io::OpenWithTail(file_system, path, named.table.bytes, named.table.root);
  if (absl::IsNotFound(opened.status())) {
    return NotFound(path, ": the list of removed samples is missing; copy it again: without it nobody can tell which ",
                    "samples of ", directory, " may be read");
  }
  SHARDKIT_RETURN_IF_ERROR(opened.status());
  const format::TablePlace place{.length = (*opened)->size(), .root = named.table.root};
  SHARDKIT_ASSIGN_OR_RETURN(const auto table,
                            container::PagedTable::Open(*std::move(opened), place, format::TableKind::kRemoved));
  const format::TableTail& tail = table->tail();
  if (tail.checksum != named.table.checksum || tail.table_length != named.table.bytes ||
      tail.root_length + format::kTableTailBytes != named.table.root || table->payload().size() != 8 ||
      LoadLittle<uint64_t>(table->payload().data()) != named.samples) {
    return table->Damage(StrCat("is another list than the one that ", kManifestName, " names"));
  }
  std::vector<uint64_t> removed;
  SHARDKIT_RETURN_IF_ERROR(table->ForEachPage([&](const container::TablePage& page) -> absl::Status {
    const uint64_t count = page.bytes.size() / 8;
    if (removed.size() % kOrdinalsOfPage != 0 || count > kOrdinalsOfPage || count > named.samples - removed.size() ||
        LoadLittle<uint64_t>(page.bytes.data()) != page.first) {
      return table->Damage(StrCat("page ", page.number, ": does not begin or end as its place wants"));
    }
    for (uint64_t i = 0; i < count; ++i) {
      const auto ordinal = LoadLittle<uint64_t>(page.bytes.data() + 8 * i);
      if (ordinal >= stored_samples || (!removed.empty() && ordinal <= removed.back())) {
        return table->Damage(StrCat("page ", page.number, ": sample ", ordinal, " of ", stored_samples,
                                    " does not follow the one before"));
      }
      removed.push_back(ordinal);
    }
    return absl::OkStatus();
  }));
  SHARDKIT_RETURN_IF_ERROR(table->CheckMapped());
  if (removed.size() != named.samples) return table->Damage(StrCat("has ", removed.size(), " samples"));
  return RemovedList(std::move(removed));
}

absl::StatusOr<RemovedSamples> WriteRemoved(FileSystem& file_system, const std::string& directory,
                                            const std::string& name, const RemovedList& removed) {
  if (removed.size() > kMostRemoved) {
    return ResourceExhausted(directory, ": ", removed.size(), " removed samples would be more than ", kMostRemoved,
                             ": compact the dataset first, or copy the samples that are to stay");
  }
  std::string bytes;
  format::PagedTableWriter table([&](std::string_view part) {
    bytes += part;
    return absl::OkStatus();
  });
  std::string page;
  for (uint64_t i = 0; i < removed.size(); ++i) {
    AppendLittle(page, removed.ordinals()[i]);
    if (page.size() < 8 * kOrdinalsOfPage && i + 1 < removed.size()) continue;
    SHARDKIT_RETURN_IF_ERROR(table.AddPage(LoadLittle<uint64_t>(page.data()), page));
    page.clear();
  }
  std::string count;
  AppendLittle(count, removed.size());
  SHARDKIT_RETURN_IF_ERROR(table.EndSection(format::TableKind::kRemoved, count));
  SHARDKIT_ASSIGN_OR_RETURN(const format::TableTail tail, table.Finish());
  SHARDKIT_RETURN_IF_ERROR(io::PublishFile(file_system, JoinPath(directory, name), bytes));
  return RemovedSamples{removed.size(), ReferenceTo(name, tail)};
}

}  // namespace shardkit::dataset
