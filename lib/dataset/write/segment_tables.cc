#include "dataset/write/segment_tables.h"

#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "io/tail_prefetch_file.h"

namespace shardkit::dataset {
namespace {

// A file that is not longer is read whole when it is opened, where that is cheap. Who needs its pages is saved a round
// trip.
constexpr uint64_t kSmallSegment = uint64_t{4} << 20;

// The end of the file is on its way then.
absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenFile(ReadableFileSystem& file_system,
                                                           const std::string& directory, const Segment& segment) {
  const std::string path = JoinPath(directory, segment.table.name);
  auto file = io::OpenWithTail(file_system, path, segment.table.bytes, segment.table.root, kSmallSegment);
  if (!absl::IsNotFound(file.status())) return file;
  return NotFound(path, ": the segment is missing");
}

absl::StatusOr<SegmentTables> OpenSegment(std::unique_ptr<RandomAccessFile> file, const Segment& segment) {
  const std::string path = file->path();
  const auto other = [&] {
    return DataLoss(path, ": the segment is of other shards: it is not the one that ", kManifestName, " names");
  };
  const format::TablePlace place{.length = file->size(), .root = segment.table.root};
  SHARDKIT_ASSIGN_OR_RETURN(auto sections, container::PagedTable::OpenAll(std::move(file), place, "segment"));
  SHARDKIT_RETURN_IF_ERROR(sections[0]->CheckMapped());
  const format::TableTail& tail = sections[0]->tail();
  if (tail.checksum != segment.table.checksum || tail.table_length != segment.table.bytes ||
      tail.root_length + format::kTableTailBytes != segment.table.root) {
    return other();
  }
  constexpr format::TableKind kKinds[] = {format::TableKind::kOffsetIndex, format::TableKind::kShardList,
                                          format::TableKind::kKeys};
  bool right = sections.size() == 2 || sections.size() == 3;
  for (size_t i = 0; i < sections.size() && right; ++i) right = sections[i]->kind() == kKinds[i];
  if (!right) {
    return DataLoss(path,
                    ": segment: its sections are of other kinds than offset index, list of shards and perhaps keys");
  }
  SegmentTables tables{.index = std::move(sections[0]), .list = std::move(sections[1]), .keys = nullptr};
  if (sections.size() == 3) {
    SHARDKIT_ASSIGN_OR_RETURN(tables.keys, container::KeyTable::Of(std::move(sections[2]), segment.samples));
  }
  return tables;
}

}  // namespace

std::vector<absl::StatusOr<SegmentTables>> OpenSegments(ReadableFileSystem& file_system, const std::string& directory,
                                                        std::span<const Segment> segments) {
  std::vector<absl::StatusOr<std::unique_ptr<RandomAccessFile>>> files;
  for (const Segment& segment : segments) files.push_back(OpenFile(file_system, directory, segment));
  std::vector<absl::StatusOr<SegmentTables>> opened;
  for (size_t i = 0; i < segments.size(); ++i) {
    opened.push_back(files[i].ok() ? OpenSegment(*std::move(files[i]), segments[i])
                                   : absl::StatusOr<SegmentTables>(files[i].status()));
  }
  return opened;
}

bool CannotBeUsed(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsDataLoss(status) || absl::IsOutOfRange(status) ||
         absl::IsUnimplemented(status);
}

absl::StatusOr<bool> FindInKeys(const container::KeyTable* keys, uint64_t hash,
                                const std::function<absl::StatusOr<bool>(uint64_t ordinal)>& visit) {
  if (keys == nullptr) return false;
  absl::Status of_visit;
  const absl::Status status = keys->Find(hash, [&](uint64_t ordinal) {
    absl::StatusOr<bool> found = visit(ordinal);
    of_visit = found.status();
    return found;
  });
  SHARDKIT_RETURN_IF_ERROR(of_visit);
  if (status.ok()) return true;
  // It will not be better when it is read again.
  if (CannotBeUsed(status)) return false;
  return status;
}

}  // namespace shardkit::dataset
