#include "dataset/key_tables.h"

#include <optional>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "io/prefetched_file.h"

namespace shardkit::dataset {
namespace {

// Whether a reader can do without the table: it will not be better when it is read again.
bool IsLostTable(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsDataLoss(status) || absl::IsOutOfRange(status) ||
         absl::IsUnimplemented(status);
}

absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenKeyFile(ReadableFileSystem& file_system,
                                                              const std::string& directory, const Segment& segment) {
  if (!segment.keys) return NotFound(directory, ": ", kManifestName, " names no table of the keys");
  const std::string path = JoinPath(directory, segment.keys->name);
  auto file = io::OpenFromEnd(file_system, path, segment.keys->bytes, segment.keys->root);
  if (absl::IsNotFound(file.status())) return NotFound(path, ": the table of the keys is missing");
  return file;
}

absl::StatusOr<std::shared_ptr<const container::KeyTable>> OpenKeyTable(std::unique_ptr<RandomAccessFile> file,
                                                                        const Segment& segment) {
  const TableReference& named = *segment.keys;
  const container::TablePlace place{.length = file->size(), .root = named.root};
  SHARDKIT_ASSIGN_OR_RETURN(std::shared_ptr<const container::KeyTable> table,
                            container::KeyTable::Open(std::move(file), place, segment.samples));
  const format::TableTail& tail = table->tail();
  if (tail.checksum != named.checksum || tail.table_length != named.bytes ||
      tail.root_length() + format::kTableTailBytes != named.root) {
    return table->Damage(StrCat("is of other shards: it is not the one that ", kManifestName, " names"));
  }
  return table;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const container::KeyTable>> OpenKeyTable(ReadableFileSystem& file_system,
                                                                        const std::string& directory,
                                                                        const Segment& segment) {
  SHARDKIT_ASSIGN_OR_RETURN(auto file, OpenKeyFile(file_system, directory, segment));
  return OpenKeyTable(std::move(file), segment);
}

absl::StatusOr<std::shared_ptr<const container::KeyTable>> KeyTables::Get(size_t segment) const {
  std::lock_guard lock(mutex_);
  Table& table = tables_[segment];
  if (table.opened) return *table.opened;
  // A key that is missing is looked for in all tables, so their roots are read at once. What fails is tried again.
  if (table.file.ok() && *table.file == nullptr) {
    for (size_t i = 0; i < tables_.size(); ++i) {
      if (!tables_[i].opened) tables_[i].file = OpenKeyFile(file_system_, directory_, segments_[i]);
    }
  }
  auto file = std::exchange(table.file, nullptr);
  absl::StatusOr<std::shared_ptr<const container::KeyTable>> opened =
      file.ok() ? OpenKeyTable(*std::move(file), segments_[segment]) : file.status();
  if (opened.ok() || IsLostTable(opened.status())) table.opened = opened;
  return opened;
}

absl::StatusOr<bool> KeyTables::Find(size_t segment, uint64_t hash,
                                     const std::function<absl::StatusOr<bool>(uint64_t ordinal)>& visit) const {
  absl::Status of_visit;
  absl::Status status;
  const auto table = Get(segment);
  if (table.ok()) {
    status = (*table)->Find(hash, [&](uint64_t ordinal) {
      absl::StatusOr<bool> found = visit(ordinal);
      of_visit = found.status();
      return found;
    });
  } else {
    status = table.status();
  }
  SHARDKIT_RETURN_IF_ERROR(of_visit);
  if (status.ok()) return true;
  if (IsLostTable(status)) return false;
  return status;
}

}  // namespace shardkit::dataset
