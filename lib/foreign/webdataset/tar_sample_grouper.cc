#include "foreign/webdataset/tar_sample_grouper.h"

#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "shardkit/schema.h"

namespace shardkit::foreign {
namespace {

constexpr uint64_t kStatusBytes = 128;  // about what a status takes besides its message

}  // namespace

absl::Status TarSampleGrouper::Add(const TarMember& member, std::optional<uint64_t> offset) {
  if (member.kind != TarMember::Kind::kFile) return absl::OkStatus();
  const std::optional<foreign::WebDatasetName> name = foreign::SplitWebDatasetName(member.name);
  if (!name) return absl::OkStatus();
  if (lost_key_ == name->key) return absl::OkStatus();
  lost_key_.reset();
  absl::Status status = AddToSample(*name, member.length, offset);
  if (status.ok()) return status;
  status = Annotate(status, StrCat(path_, ": member '", member.name, "' at byte ", member.header_offset));
  if (lost_ == nullptr || !absl::IsDataLoss(status)) return status;
  const uint64_t samples = index_->sample_count();
  if (samples > 0 && index_->key(samples - 1) == name->key) DropLastSample();
  lost_key_ = std::string(name->key);
  lost_memory_ += sizeof(LostTarSample) + name->key.size() + status.message().size() + kStatusBytes;
  lost_->push_back({*lost_key_, std::move(status)});
  return absl::OkStatus();
}

void TarSampleGrouper::DropLastSample() {
  index_->key_ends.pop_back();
  index_->value_ends.pop_back();
  index_->keys.resize(index_->key_ends.back());
  while (index_->values.size() > index_->value_ends.back()) {
    used_[index_->values.back().column] = 0;
    index_->values.pop_back();
  }
}

void TarSampleGrouper::DropUnusedColumns() {
  std::vector<uint32_t> places(index_->columns.size(), UINT32_MAX);
  for (const foreign::TarValue& value : index_->values) places[value.column] = 0;
  std::vector<std::string> columns;
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i] == UINT32_MAX) continue;
    places[i] = static_cast<uint32_t>(columns.size());
    columns.push_back(std::move(index_->columns[i]));
  }
  for (foreign::TarValue& value : index_->values) value.column = places[value.column];
  index_->columns = std::move(columns);
}

absl::Status TarSampleGrouper::AddToSample(const foreign::WebDatasetName& name, uint64_t length,
                                           std::optional<uint64_t> offset) {
  if (!offset) return DataLoss("is sparse, which is not read: write the tar without holes");
  if (index_->values.size() == foreign::kMaxTarValues) {
    return Unimplemented("a tar of more than ", foreign::kMaxTarValues, " values is not read");
  }
  SHARDKIT_ASSIGN_OR_RETURN(const uint32_t column, FindColumn(name.extension));
  const uint64_t samples = index_->sample_count();
  if (samples == 0 || index_->key(samples - 1) != name.key) {
    if (!ValidUtf8(name.key)) return DataLoss("its key is not UTF-8: rename the member");
    if (name.key.size() > foreign::kMaxTarKeyBytes) {
      return DataLoss("its key has more than ", foreign::kMaxTarKeyBytes, " bytes: rename the member");
    }
    if (index_->keys.size() + name.key.size() > foreign::kMaxTarKeysLength) {
      return Unimplemented("the keys of a tar have at most ", foreign::kMaxTarKeysLength, " bytes together");
    }
    index_->keys += name.key;
    index_->key_ends.push_back(index_->keys.size());
    index_->value_ends.push_back(index_->values.size());
  }
  if (std::exchange(used_[column], index_->sample_count()) == index_->sample_count()) {
    return DataLoss("sample '", name.key, "' has two members with the extension '", name.extension,
                    "' (large and small letters are the same): remove one");
  }
  index_->values.push_back({*offset, length, column});
  index_->value_ends.back() = index_->values.size();
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> TarSampleGrouper::FindColumn(std::string_view extension) {
  std::string name = foreign::WebDatasetColumn(extension);
  const auto found = columns_.find(name);
  if (found != columns_.end()) return found->second;
  if (const absl::Status status = CheckName(name, "column name"); !status.ok()) {
    return DataLoss("its extension cannot name a column (", ToStd(status.message()), "): rename the member");
  }
  if (name.size() > kMaxColumnNameBytes) {
    return DataLoss("its extension has more than ", kMaxColumnNameBytes, " bytes, which a column's name may have");
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

}  // namespace shardkit::foreign
