#include "dataset/key_tables.h"

#include <optional>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace shardkit {
namespace {

// Whether a reader can do without the table: it will not be better when it is read again.
bool IsLost(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsDataLoss(status) || absl::IsOutOfRange(status) ||
         absl::IsUnimplemented(status);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const KeyTable>> OpenKeyTable(FileSystem& file_system, const std::string& directory,
                                                             const Segment& segment) {
  if (!segment.keys) return NotFound(directory, ": ", kManifestName, " names no table of the keys");
  const TableReference& named = *segment.keys;
  const std::string path = JoinPath(directory, named.name);
  auto file = file_system.OpenForReading(path, ReadMode::kMapped, named.bytes);
  if (absl::IsNotFound(file.status())) return NotFound(path, ": the table of the keys is missing");
  if (!file.ok()) return file.status();
  const TablePlace place{.length = (*file)->size(), .root = named.root};
  SHARDKIT_ASSIGN_OR_RETURN(std::shared_ptr<const KeyTable> table,
                            KeyTable::Open(*std::move(file), place, segment.samples));
  const format::TableTail& tail = table->tail();
  if (tail.checksum != named.checksum || tail.table_length != named.bytes ||
      tail.root_length() + format::kTableTailBytes != named.root) {
    return table->Damage(StrCat("is of other shards: it is not the one that ", kManifestName, " names"));
  }
  return table;
}

absl::StatusOr<std::shared_ptr<const KeyTable>> KeyTables::Get(size_t segment) const {
  std::lock_guard lock(mutex_);
  auto& table = tables_[segment];
  if (table.ok() && *table == nullptr) {
    auto opened = OpenKeyTable(file_system_, directory_, segments_[segment]);
    if (!opened.ok() && !IsLost(opened.status())) return opened.status();
    table = std::move(opened);
  }
  return table;
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
  if (!IsLost(status)) return status;
  std::lock_guard lock(mutex_);
  if (problem_.empty()) problem_ = StrCat(ToStd(status.message()), "; run shardctl index ", directory_);
  return false;
}

std::string KeyTables::problem() const {
  std::lock_guard lock(mutex_);
  return problem_;
}

}  // namespace shardkit
