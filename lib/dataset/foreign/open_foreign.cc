// Finding out which container a path belongs to.
#include <algorithm>

#include "base/errors.h"
#include "base/status_macros.h"
#include "dataset/foreign/foreign_dataset.h"
#include "dataset/write/job_folder.h"
#include "foreign/mds/mds_directory.h"
#include "foreign/webdataset/webdataset_names.h"
#include "io/publish_file.h"
#include "shardkit/dataset_writer.h"

namespace shardkit::dataset {
namespace {

constexpr std::string_view kWayFromHuggingFace = "give sk.pack of Python datasets.load_from_disk(FOLDER)";

constexpr std::string_view kShardkitName = "of Shardkit";

constexpr uint64_t kMaxOriginBytes = uint64_t{16} << 20;

absl::StatusOr<bool> IsFile(ReadableFileSystem& file_system, const std::string& path) {
  const auto info = file_system.Stat(path);
  if (absl::IsNotFound(info.status())) return false;
  // A device that fails must not make a dataset look like one of another kind.
  if (!info.ok()) return info.status();
  return info->type == FileType::kRegular;
}

// What a directory without a manifest is, and what to do.
absl::StatusOr<std::string> LookWithoutManifest(ReadableFileSystem& file_system, const std::string& directory) {
  SHARDKIT_ASSIGN_OR_RETURN(const bool begun, HasUnfinishedJob(file_system, directory));
  if (begun) return "is being written, or its writer was interrupted: run that again with --resume";
  SHARDKIT_ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, file_system.List(directory));
  if (entries.empty()) return "is no dataset: the directory is empty";
  const auto any = [&entries](auto fits) { return std::ranges::any_of(entries, fits, &DirectoryEntry::name); };
  if (any([](std::string_view name) { return name.ends_with(".shard"); })) {
    return StrCat(kManifestName, " is missing, but there are shards: shardctl index ", directory, " rebuilds it");
  }
  if (any(foreign::IsMdsShardName) && !any([](std::string_view name) { return name == foreign::kMdsIndexName; })) {
    return StrCat("there are MDS shards, but no ", foreign::kMdsIndexName,
                  ": it was not copied with them, or the writing of them did not end; copy or write them again");
  }
  if (any(foreign::IsTarName) || any(foreign::IsMdsShardName)) {
    return StrCat("is a dataset of another container: shardctl convert ", directory,
                  " -o OUT --to shard makes one of shards");
  }
  if (any([](std::string_view name) { return name == "dataset_dict.json"; })) {
    return StrCat("is no dataset of Shardkit: ", kWayFromHuggingFace);
  }
  if (const std::string_view way = WayIntoShards(io::BaseName(directory)); !way.empty()) {
    return StrCat("is no dataset of Shardkit: ", way);
  }
  for (const DirectoryEntry& entry : entries) {
    const std::string folder = JoinPath(directory, entry.name);
    SHARDKIT_ASSIGN_OR_RETURN(const bool dataset, IsFile(file_system, JoinPath(folder, kManifestName)));
    if (dataset) return StrCat("is no dataset, but holds some: give one of them, as ", folder);
  }
  const auto many = std::ranges::find_if(entries, [](const auto& entry) { return !WayIntoShards(entry.name).empty(); });
  if (many != entries.end()) {
    return StrCat("is no dataset of Shardkit, but ", many->name,
                  " in it holds many samples: ", WayIntoShards(many->name));
  }
  return StrCat("is no dataset; to make one of the files in it: shardctl pack ", directory, " -o OUT");
}

// Whether a name is that of a chunk of litData, which also has an index.json.
bool IsLitDataChunk(std::string_view name) { return name.starts_with("chunk-") && name.ends_with(".bin"); }

}  // namespace

std::string_view WithoutCompression(std::string_view name) {
  for (const std::string_view ending : {".gz", ".zst", ".bz2", ".xz"}) {
    if (name.ends_with(ending)) return name.substr(0, name.size() - ending.size());
  }
  return name;
}

std::string_view WayIntoShards(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kWays[] = {
      {".jsonl", "pack with --from jsonl"},
      {".ndjson", "pack with --from jsonl"},
      {".csv", "pack with --from table"},
      {".tsv", "pack with --from table"},
      {".parquet", "give sk.pack of Python shardkit.sources.parquet(FILES)"},
      {".arrow", kWayFromHuggingFace},
      {".lance", "give sk.pack of Python lance.dataset(FOLDER).scanner().to_reader()"},
      {".tfrecord", "give sk.pack of Python shardkit.sources.tfrecord(FILES)"},
      {".beton", "pack the files that they were made from"},
      {".zip", "pack the zip itself"},
      {".mdb", "give sk.pack of Python what lmdb reads, as dicts"},
  };
  const std::string_view plain = WithoutCompression(name);
  if (IsLitDataChunk(plain)) return "give sk.pack of Python shardkit.sources.litdata(FOLDER)";
  const auto* const way = std::ranges::find_if(kWays, [plain](const auto& way) { return plain.ends_with(way.first); });
  return way == std::end(kWays) ? std::string_view() : way->second;
}

absl::Status DescribeNoDataset(ReadableFileSystem& file_system, const std::string& directory) {
  const absl::StatusOr<FileInfo> info = file_system.Stat(directory);
  if (absl::IsNotFound(info.status())) return info.status();
  if (info.ok() && info->type != FileType::kDirectory) {
    return InvalidArgument(directory, ": is a file: give the directory of a dataset");
  }
  // An error while looking for advice is not reported.
  const absl::StatusOr<std::string> found = LookWithoutManifest(file_system, directory);
  return NotFound(directory, ": ",
                  found.ok() ? *found : StrCat("is no dataset: there is no ", kManifestName, " in it"));
}

absl::StatusOr<std::string_view> ForeignContainerAt(ReadableFileSystem& file_system, const std::string& path,
                                                    const FileInfo& info, std::optional<bool> has_manifest) {
  if (info.type != FileType::kDirectory) {
    if (foreign::IsTarName(path)) return "webdataset";
    return io::BaseName(path) == foreign::kMdsIndexName || path.ends_with(".mds") ? "mds" : "";
  }
  if (!has_manifest) {
    SHARDKIT_ASSIGN_OR_RETURN(has_manifest, IsFile(file_system, JoinPath(path, kManifestName)));
  }
  if (*has_manifest) return "";
  SHARDKIT_ASSIGN_OR_RETURN(const bool mds, IsFile(file_system, JoinPath(path, foreign::kMdsIndexName)));
  if (mds) return "mds";
  SHARDKIT_ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, file_system.List(path));
  for (const DirectoryEntry& entry : entries) {
    if (foreign::IsTarName(entry.name) && entry.type != FileType::kDirectory) return "webdataset";
  }
  for (const DirectoryEntry& entry : entries) {
    if (entry.type == FileType::kRegular) continue;
    SHARDKIT_ASSIGN_OR_RETURN(const bool stream,
                              IsFile(file_system, JoinPath(JoinPath(path, entry.name), foreign::kMdsIndexName)));
    if (stream) return "mds";
  }
  return "";
}

absl::StatusOr<std::unique_ptr<ForeignDataset>> OpenForeign(ReadableFileSystem& file_system, const std::string& path,
                                                            const FileInfo& info, const DatasetOptions& options,
                                                            std::optional<bool> has_manifest) {
  const std::string_view name = io::BaseName(path);
  const bool table = GenerationOfTable(name).has_value() && !name.ends_with(kColumnFileSuffix);
  if (info.type != FileType::kDirectory && (name == kManifestName || table)) {
    return InvalidArgument(path, ": is a part of a dataset: give the directory that holds it, ",
                           io::ParentDirectory(path));
  }
  SHARDKIT_ASSIGN_OR_RETURN(const std::string_view container,
                            ForeignContainerAt(file_system, path, info, has_manifest));
  if (container == "mds") {
    auto opened = OpenMds(file_system, path, options);
    if (opened.ok() || info.type != FileType::kDirectory) return opened;
    const auto entries = file_system.List(path);
    if (!entries.ok() || std::ranges::none_of(*entries, IsLitDataChunk, &DirectoryEntry::name)) return opened;
    return DescribeNoDataset(file_system, path);
  }
  if (container.empty()) {
    const std::string_view way = info.type == FileType::kDirectory ? "" : WayIntoShards(name);
    if (!way.empty()) return InvalidArgument(path, ": is no dataset of Shardkit, but holds many samples: ", way);
    return nullptr;
  }
  if (info.type == FileType::kDirectory) {
    // While a dataset is being written, each of its tars looks complete.
    SHARDKIT_ASSIGN_OR_RETURN(const bool begun, HasUnfinishedJob(file_system, path));
    SHARDKIT_ASSIGN_OR_RETURN(const bool complete, IsFile(file_system, JoinPath(path, kOriginName)));
    if (begun && !complete) {
      return FailedPrecondition(path,
                                ": is being written, or its writer was interrupted: run that again with --resume");
    }
  }
  return OpenWebDataset(file_system, path, options);
}

absl::StatusOr<std::unique_ptr<ForeignDataset>> OpenForeignMembers(ReadableFileSystem& file_system,
                                                                   const std::string& pattern,
                                                                   const std::vector<std::string>& members,
                                                                   const DatasetOptions& options) {
  const auto named = [](std::string_view container) { return container.empty() ? kShardkitName : container; };
  std::string_view all;
  for (size_t i = 0; i < members.size(); ++i) {
    std::string_view container = "webdataset";
    if (!foreign::IsTarName(members[i])) {  // which need not be there before it is read
      SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, file_system.Stat(members[i]));
      SHARDKIT_ASSIGN_OR_RETURN(container, ForeignContainerAt(file_system, members[i], info));
    }
    if (i == 0) all = container;
    if (container == all) continue;
    return InvalidArgument(pattern, ": names datasets of several containers: ", members[0], " is ", named(all),
                           ", and ", members[i], " is ", named(container), ": give a pattern for each");
  }
  if (all.empty()) return nullptr;
  return all == "mds" ? OpenMdsMembers(file_system, members, options)
                      : OpenWebDatasetMembers(file_system, members, options);
}

absl::StatusOr<std::optional<Manifest>> ReadOrigin(ReadableFileSystem& file_system, const std::string& directory) {
  const std::string origin_path = JoinPath(directory, kOriginName);
  const auto text = file_system.ReadFile(origin_path, kMaxOriginBytes);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  if (!text.ok()) return text.status();
  auto origin = ParseManifest(*text);
  if (!origin.ok()) {
    return Annotate(origin.status(), StrCat(origin_path, " (remove it to read the dataset without what it says)"));
  }
  return *std::move(origin);
}

}  // namespace shardkit::dataset
