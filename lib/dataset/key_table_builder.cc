#include "dataset/key_table_builder.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "base/exceptions.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "container/key_table_reader.h"
#include "dataset/key_merge.h"

namespace shardkit::dataset {
namespace {

constexpr size_t kMostMerged = 256;

class Builder {
 public:
  Builder(FileSystem& file_system, const std::string& path, const Cancellation* cancellation,
          const std::function<absl::Status(const format::KeyEntry&)>& take)
      : file_system_(file_system), path_(path), cancellation_(cancellation), take_(take) {}

  ~Builder() {
    (void)Guarded("giving up", [this] { return RemoveTemporary(temporary_.size()); });
  }

  absl::StatusOr<format::TableTail> Run(std::vector<KeyTableInput> inputs) {
    for (size_t number = 0; inputs.size() > kMostMerged;) {
      const size_t temporary_before = temporary_.size();
      std::vector<KeyTableInput> merged;
      for (size_t begin = 0; begin < inputs.size(); begin += kMostMerged) {
        const auto group = std::span(inputs).subspan(begin, std::min(kMostMerged, inputs.size() - begin));
        KeyTableInput output{.path = StrCat(path_, ".", number++, ".tmp"), .first_sample = group[0].first_sample};
        for (const KeyTableInput& input : group) output.samples += input.samples;
        SHARDKIT_ASSIGN_OR_RETURN(const format::TableTail tail, Merge(group, output.path, /*last=*/false));
        output.place = {.length = tail.table_length, .root = tail.root_length() + format::kTableTailBytes};
        merged.push_back(std::move(output));
      }
      SHARDKIT_RETURN_IF_ERROR(RemoveTemporary(temporary_before));
      inputs = std::move(merged);
    }
    const std::string temporary = StrCat(path_, ".tmp");
    SHARDKIT_ASSIGN_OR_RETURN(const format::TableTail tail, Merge(inputs, temporary, /*last=*/true));
    SHARDKIT_RETURN_IF_ERROR(file_system_.Rename(temporary, path_));
    temporary_.pop_back();
    SHARDKIT_RETURN_IF_ERROR(RemoveTemporary(temporary_.size()));
    return tail;
  }

 private:
  // The first `count` of them.
  absl::Status RemoveTemporary(size_t count) {
    absl::Status status;
    for (size_t i = 0; i < count; ++i) status.Update(file_system_.RemoveFile(temporary_[i]));
    temporary_.erase(temporary_.begin(), temporary_.begin() + static_cast<std::ptrdiff_t>(count));
    return status;
  }

  absl::StatusOr<format::TableTail> Merge(std::span<const KeyTableInput> inputs, const std::string& to, bool last) {
    std::vector<std::unique_ptr<container::KeyTable>> tables;
    std::vector<container::KeyCursor> cursors;
    for (const KeyTableInput& input : inputs) {
      SHARDKIT_ASSIGN_OR_RETURN(auto file, file_system_.OpenForReading(input.path));
      SHARDKIT_ASSIGN_OR_RETURN(auto table, container::KeyTable::Open(std::move(file), input.place, input.samples));
      cursors.emplace_back(*table);
      tables.push_back(std::move(table));
    }
    KeyMerge merge(inputs.size(), [&](size_t list, format::KeyEntry* entry) -> absl::StatusOr<bool> {
      SHARDKIT_ASSIGN_OR_RETURN(const bool more, cursors[list].Next(entry));
      if (more) entry->ordinal += inputs[list].first_sample - inputs[0].first_sample;
      return more;
    });
    SHARDKIT_ASSIGN_OR_RETURN(const auto file, file_system_.Create(to));
    temporary_.push_back(to);
    format::KeyTableWriter writer([&](std::string_view bytes) {
      if (cancellation_) SHARDKIT_RETURN_IF_ERROR(cancellation_->Check("merging keys"));
      return file->Append(bytes);
    });
    for (format::KeyEntry entry;;) {
      SHARDKIT_ASSIGN_OR_RETURN(const bool more, merge.Next(&entry));
      if (!more) break;
      if (last && take_) SHARDKIT_RETURN_IF_ERROR(take_(entry));
      SHARDKIT_RETURN_IF_ERROR(writer.Add(entry));
    }
    SHARDKIT_ASSIGN_OR_RETURN(const format::TableTail tail, writer.Finish());
    if (last) SHARDKIT_RETURN_IF_ERROR(file->Sync());
    SHARDKIT_RETURN_IF_ERROR(file->Close());
    return tail;
  }

  FileSystem& file_system_;
  const std::string& path_;
  const Cancellation* const cancellation_;
  const std::function<absl::Status(const format::KeyEntry&)>& take_;
  std::vector<std::string> temporary_;  // files that were created, and not removed or renamed
};

}  // namespace

absl::StatusOr<format::TableTail> BuildKeyTable(FileSystem& file_system, const std::string& path,
                                                std::vector<KeyTableInput> inputs, const Cancellation* cancellation,
                                                const std::function<absl::Status(const format::KeyEntry&)>& take) {
  return Builder(file_system, path, cancellation, take).Run(std::move(inputs));
}

}  // namespace shardkit::dataset
