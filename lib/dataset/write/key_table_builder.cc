#include "dataset/write/key_table_builder.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "container/read/key_table_reader.h"
#include "dataset/write/k_way_merge.h"
#include "shardkit/manifest.h"

namespace shardkit::dataset {
namespace {

constexpr size_t kMostMerged = 256;

using AddPage = std::function<absl::Status(uint64_t first, std::string_view page)>;

class Builder {
 public:
  Builder(FileSystem& file_system, const std::string& path, const Cancellation* cancellation,
          const std::function<absl::Status(const format::KeyEntry&)>& take)
      : file_system_(file_system), path_(path), cancellation_(cancellation), take_(take) {}

  ~Builder() {
    (void)Guarded("giving up", [this] { return RemoveTemporary(temporary_.size()); });
  }

  absl::StatusOr<std::string> Run(std::vector<KeyTableInput> inputs, const AddPage& add_page) {
    for (size_t number = 0; inputs.size() > kMostMerged;) {
      const size_t temporary_before = temporary_.size();
      std::vector<KeyTableInput> merged;
      for (size_t begin = 0; begin < inputs.size(); begin += kMostMerged) {
        const auto group = std::span(inputs).subspan(begin, std::min(kMostMerged, inputs.size() - begin));
        KeyTableInput output{.path = StrCat(path_, ".", number++, ".tmp"), .first_sample = group[0].first_sample};
        for (const KeyTableInput& input : group) output.samples += input.count();
        SHARDKIT_ASSIGN_OR_RETURN(const format::TableTail tail, MergeToFile(group, output.path));
        output.place = {.length = tail.table_length, .root = tail.root_length + format::kTableTailBytes};
        merged.push_back(std::move(output));
      }
      SHARDKIT_RETURN_IF_ERROR(RemoveTemporary(temporary_before));
      inputs = std::move(merged);
    }
    SHARDKIT_ASSIGN_OR_RETURN(std::string payload, Merge(inputs, /*last=*/true, add_page));
    SHARDKIT_RETURN_IF_ERROR(RemoveTemporary(temporary_.size()));
    return payload;
  }

 private:
  // The first `count` of them.
  absl::Status RemoveTemporary(size_t count) {
    absl::Status status;
    for (size_t i = 0; i < count; ++i) status.Update(file_system_.RemoveFile(temporary_[i]));
    temporary_.erase(temporary_.begin(), temporary_.begin() + static_cast<std::ptrdiff_t>(count));
    return status;
  }

  absl::StatusOr<format::TableTail> MergeToFile(std::span<const KeyTableInput> inputs, const std::string& to) {
    SHARDKIT_ASSIGN_OR_RETURN(const auto file, file_system_.Create(to));
    temporary_.push_back(to);
    format::PagedTableWriter table([&](std::string_view bytes) { return file->Append(bytes); });
    SHARDKIT_ASSIGN_OR_RETURN(const std::string payload,
                              Merge(inputs, /*last=*/false,
                                    [&](uint64_t first, std::string_view page) { return table.AddPage(first, page); }));
    SHARDKIT_RETURN_IF_ERROR(table.EndSection(format::TableKind::kKeys, payload));
    SHARDKIT_ASSIGN_OR_RETURN(const format::TableTail tail, table.Finish());
    SHARDKIT_RETURN_IF_ERROR(file->Close());
    return tail;
  }

  absl::StatusOr<std::string> Merge(std::span<const KeyTableInput> inputs, bool last, const AddPage& add_page) {
    std::vector<std::unique_ptr<container::KeyTable>> tables;
    std::vector<container::KeyCursor> cursors;
    for (const KeyTableInput& input : inputs) {
      SHARDKIT_ASSIGN_OR_RETURN(tables.emplace_back(), OpenKeys(input));
      cursors.emplace_back(*tables.back());
    }
    KWayMerge merge(inputs.size(), [&](size_t list, format::KeyEntry* entry) -> absl::StatusOr<bool> {
      const std::optional<std::vector<KeptSamples>>& kept = inputs[list].kept;
      while (true) {
        SHARDKIT_ASSIGN_OR_RETURN(const bool more, cursors[list].Next(entry));
        if (!more) return false;
        if (kept) {
          const auto behind = std::ranges::upper_bound(*kept, entry->ordinal, {}, &KeptSamples::begin);
          if (behind == kept->begin()) continue;
          const KeptSamples& run = *(behind - 1);
          if (entry->ordinal - run.begin >= run.count) continue;
          entry->ordinal = entry->ordinal - run.begin + run.first;
        }
        entry->ordinal += inputs[list].first_sample - inputs[0].first_sample;
        return true;
      }
    });
    format::KeyTableWriter writer([&](uint64_t first, std::string_view page) -> absl::Status {
      if (cancellation_) SHARDKIT_RETURN_IF_ERROR(cancellation_->Check("merging keys"));
      return add_page(first, page);
    });
    for (format::KeyEntry entry;;) {
      SHARDKIT_ASSIGN_OR_RETURN(const bool more, merge.Next(&entry));
      if (!more) break;
      if (last && take_) SHARDKIT_RETURN_IF_ERROR(take_(entry));
      SHARDKIT_RETURN_IF_ERROR(writer.Add(entry));
    }
    return writer.Finish();
  }

  absl::StatusOr<std::unique_ptr<container::KeyTable>> OpenKeys(const KeyTableInput& input) {
    SHARDKIT_ASSIGN_OR_RETURN(auto file, file_system_.OpenForReading(input.path));
    SHARDKIT_ASSIGN_OR_RETURN(auto sections, container::PagedTable::OpenAll(std::move(file), input.place));
    if (input.checksum && *input.checksum != sections.back()->tail().checksum) {
      return DataLoss(input.path, ": the keys are of other shards: it is not the file that ", kManifestName, " names");
    }
    if (sections.back()->kind() != format::TableKind::kKeys) return NotFound(input.path, ": has no table of the keys");
    return container::KeyTable::Of(std::move(sections.back()), input.samples);
  }

  FileSystem& file_system_;
  const std::string& path_;
  const Cancellation* const cancellation_;
  const std::function<absl::Status(const format::KeyEntry&)>& take_;
  std::vector<std::string> temporary_;  // files that were created, and not removed
};

}  // namespace

absl::StatusOr<std::string> MergeKeys(FileSystem& file_system, const std::string& path,
                                      std::vector<KeyTableInput> inputs, const Cancellation* cancellation,
                                      const std::function<absl::Status(const format::KeyEntry&)>& take,
                                      const std::function<absl::Status(uint64_t, std::string_view)>& add_page) {
  return Builder(file_system, path, cancellation, take).Run(std::move(inputs), add_page);
}

}  // namespace shardkit::dataset
