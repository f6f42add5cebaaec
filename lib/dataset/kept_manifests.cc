#include "dataset/kept_manifests.h"

#include "absl/strings/numbers.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "io/publish_file.h"
#include "shardkit/history.h"

namespace shardkit::dataset {
namespace {

constexpr std::string_view kManifestStart = "dataset-";
constexpr std::string_view kManifestEnd = ".json";

}  // namespace

std::string KeptManifestName(uint64_t generation) { return StrCat(kManifestStart, generation, kManifestEnd); }

std::optional<uint64_t> GenerationOfKeptManifest(std::string_view name) {
  if (const std::string_view target = io::TargetOfTemporary(name); !target.empty()) name = target;
  if (!name.starts_with(kManifestStart) || !name.ends_with(kManifestEnd) ||
      name.size() < kManifestStart.size() + kManifestEnd.size()) {
    return std::nullopt;
  }
  uint64_t generation = 0;
  const std::string_view digits =
      name.substr(kManifestStart.size(), name.size() - kManifestStart.size() - kManifestEnd.size());
  if (!absl::SimpleAtoi(ToAbsl(digits), &generation) || KeptManifestName(generation) != name) return std::nullopt;
  return generation;
}

bool IsKept(uint64_t generation, uint64_t newest) {
  return generation < newest && newest - generation <= kMostKeptManifests;
}

absl::Status KeepManifest(FileSystem& file_system, const std::string& directory, uint64_t generation,
                          std::string_view bytes) {
  return io::PublishFile(file_system, JoinPath(directory, KeptManifestName(generation)), bytes);
}

absl::StatusOr<Manifest> ReadGeneration(ReadableFileSystem& file_system, const std::string& directory,
                                        uint64_t generation) {
  SHARDKIT_ASSIGN_OR_RETURN(Manifest current, ReadManifestText(file_system, directory));
  const uint64_t newest = current.generation;
  if (newest == generation) return current;
  if (newest < generation) return NotFound(directory, ": has no generation ", generation, ": the newest is ", newest);
  const std::string path = JoinPath(directory, KeptManifestName(generation));
  const absl::StatusOr<std::string> bytes = file_system.ReadFile(path, kMaxManifestBytes);
  if (absl::IsNotFound(bytes.status())) {
    return NotFound(directory, ": generation ", generation, " is not kept; shardctl history ", directory,
                    " lists those that are");
  }
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<Manifest> kept = ParseManifestText(*bytes);
  if (!kept.ok()) return Annotate(kept.status(), path);
  if (kept->generation != generation) {
    return DataLoss(path, ": says that it is of generation ", kept->generation, ": it was renamed; remove it");
  }
  return kept;
}

}  // namespace shardkit::dataset
