#include "container/foreign/tar_sample_grouper.h"

#include <optional>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "shardkit/schema.h"

namespace shardkit::container {

absl::Status TarSampleGrouper::Add(const TarHeader& header) {
  if (!header.regular) return absl::OkStatus();
  const std::optional<format::WebDatasetName> name = format::SplitWebDatasetName(header.name);
  if (!name) return absl::OkStatus();
  const auto where = [&] { return StrCat(path_, ": member '", header.name, "' at byte ", header.header_offset); };
  if (header.sparse) return Unimplemented(where(), ": is sparse, which is not read: write the tar without holes");
  if (index_->values.size() == format::kMaxTarValues) {
    return Unimplemented(where(), ": a tar of more than ", format::kMaxTarValues, " values is not read");
  }
  if (absl::Status status = AddToSample(header, *name); !status.ok()) return Annotate(status, where());
  return absl::OkStatus();
}

absl::Status TarSampleGrouper::AddToSample(const TarHeader& header, const format::WebDatasetName& name) {
  SHARDKIT_ASSIGN_OR_RETURN(const uint32_t column, FindColumn(name.extension));
  const uint64_t samples = index_->sample_count();
  if (samples == 0 || index_->key(samples - 1) != name.key) {
    if (!ValidUtf8(name.key)) return Unimplemented("its key is not UTF-8: rename the member");
    if (name.key.size() > format::kMaxTarKeyBytes) {
      return Unimplemented("its key has more than ", format::kMaxTarKeyBytes, " bytes: rename the member");
    }
    if (index_->keys.size() + name.key.size() > format::kMaxTarKeysLength) {
      return Unimplemented("the keys of a tar have at most ", format::kMaxTarKeysLength, " bytes together");
    }
    index_->keys += name.key;
    index_->key_ends.push_back(index_->keys.size());
    index_->value_ends.push_back(index_->values.size());
  }
  if (std::exchange(used_[column], index_->sample_count()) == index_->sample_count()) {
    return DataLoss("sample '", name.key, "' has two members with the extension '", name.extension,
                    "' (large and small letters are the same): remove one");
  }
  index_->values.push_back({header.offset, header.length, column});
  index_->value_ends.back() = index_->values.size();
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> TarSampleGrouper::FindColumn(std::string_view extension) {
  std::string name = format::WebDatasetColumn(extension);
  const auto found = columns_.find(name);
  if (found != columns_.end()) return found->second;
  if (!ValidUtf8(name))
    return Unimplemented("its extension is not UTF-8, which a column's name must be: rename the member");
  if (name.size() > kMaxColumnNameBytes) {
    return Unimplemented("its extension has more than ", kMaxColumnNameBytes, " bytes, which a column's name may have");
  }
  // One of the columns is the key.
  if (columns_.size() + 1 >= kMaxColumns) {
    return Unimplemented("more than ", kMaxColumns - 1,
                         " extensions: a name is a key up to its first dot, the rest an extension");
  }
  const auto column = static_cast<uint32_t>(columns_.size());
  index_->columns.push_back(name);
  columns_.emplace(std::move(name), column);
  used_.push_back(0);
  return column;
}

}  // namespace shardkit::container
