#include "dataset/existing_keys.h"

#include <optional>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace shardkit::dataset {
namespace {

constexpr size_t kNamed = 3;  // keys, in the message

}  // namespace

absl::StatusOr<std::unique_ptr<ExistingKeyCheck>> ExistingKeyCheck::Open(FileSystem& file_system,
                                                                         const std::string& directory,
                                                                         ExistingKeys action) {
  if (action == ExistingKeys::kAdd) return nullptr;
  SHARDKIT_ASSIGN_OR_RETURN(auto dataset, DatasetReader::Open(file_system, directory));
  if (!dataset->summary().schema.key_column()) return nullptr;
  return std::unique_ptr<ExistingKeyCheck>(new ExistingKeyCheck(std::move(dataset), action));
}

absl::StatusOr<bool> ExistingKeyCheck::LeavesOut(std::string_view key) {
  SHARDKIT_ASSIGN_OR_RETURN(const std::optional<uint64_t> found, dataset_->FindKey(key, &buffer_));
  if (found) {
    if (first_.size() < kNamed) first_.emplace_back(key);
    ++count_;
  }
  return found.has_value() || (action_ == ExistingKeys::kRefuse && count_ > 0);
}

absl::Status ExistingKeyCheck::Verdict() const {
  if (action_ != ExistingKeys::kRefuse || count_ == 0) return absl::OkStatus();
  std::string keys;
  for (const std::string& key : first_) keys += StrCat(keys.empty() ? "\"" : ", \"", key, "\"");
  if (count_ > first_.size()) keys += ", …";
  return absl::AlreadyExistsError(ToAbsl(
      StrCat(dataset_->path(), ": has the ", count_ == 1 ? "key of 1 sample" : StrCat("keys of ", count_, " samples"),
             " already: ", keys, "; nothing was appended; --existing-keys skip leaves them out, add stores them")));
}

}  // namespace shardkit::dataset
