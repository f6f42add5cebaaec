// Where the files of a dataset lie that are in other datasets (format-spec/dataset.md, section 9.6).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"

namespace shardkit::dataset {

// Limits of the format (format-spec/dataset.md, sections 9.6 and 9.7).
inline constexpr size_t kMaxBaseNameBytes = 255;
inline constexpr size_t kMostBases = 65536;

// DataLoss where a base, or the name of a table, breaks a rule of the format. `has_feature`: the manifest has the
// feature "bases".
absl::Status CheckBases(const ManifestSummary& summary, bool has_feature);

// Sets the paths of the bases of a manifest that was read from `directory`. PermissionDenied, saying how to allow it,
// where one is neither within reach of the dataset nor allowed (AllowBases). DataLoss where one is the dataset itself.
absl::Status FindBases(const std::string& directory, ManifestSummary* summary);

// The base that the dataset in `directory` is for one in `output`, without a name. `generation` and `checksum` are of
// its manifest. InvalidArgument where the base lies on this machine and the dataset in a store, or where no location
// says where it lies.
absl::StatusOr<Base> BaseFor(const std::string& output, const std::string& directory, uint64_t generation,
                             uint64_t checksum);

// What has become of a base since it was referred to, which may lose the files there; empty where it is as it was.
std::string ChangeOf(ReadableFileSystem& file_system, const Base& base);

// `status`, an error of the shard or column file `name`, saying in which base it lies, if it lies in one.
absl::Status InBase(const absl::Status& status, const ManifestSummary& summary, std::string_view name);

}  // namespace shardkit::dataset
