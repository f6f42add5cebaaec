#include "dataset/foreign/mds_merge.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>

#include "base/errors.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "dataset/dataset_files.h"
#include "dataset/foreign/foreign_dataset.h"
#include "foreign/mds/mds_directory.h"
#include "io/publish_file.h"

namespace shardkit::dataset {
namespace {

// More than any index needs. Bounds the stack that copying unknown keys takes.
constexpr size_t kMostDepth = 64;

// The part's path relative to the output.
absl::StatusOr<std::string> PathBelow(const std::string& part, const std::string& output) {
  const auto plain = [](const std::string& path) { return std::filesystem::path(path).lexically_normal(); };
  std::string name = plain(part).lexically_relative(plain(output)).generic_string();
  while (name.ends_with('/')) name.pop_back();
  if (name.empty() || name == "." || name == ".." || name.starts_with("../")) {
    return InvalidArgument(part, ": does not lie below ", output,
                           ", and an index of MDS names shards from there: move it, and give both "
                           "as absolute paths, or none");
  }
  return name;
}

// A shard exists when one of its files does.
absl::Status CheckFiles(FileSystem& file_system, const std::string& part, const foreign::MdsShard& shard) {
  for (const foreign::MdsFile* file : {&shard.raw, shard.zip ? &*shard.zip : nullptr}) {
    if (file == nullptr) continue;
    const std::string path = JoinPath(part, file->name);
    const auto info = file_system.Stat(path);
    if (absl::IsNotFound(info.status())) continue;
    if (!info.ok()) return info.status();
    if (info->size == file->bytes) return absl::OkStatus();
    return DataLoss(path, ": the file has ", info->size, " bytes, but index.json says ", file->bytes);
  }
  return NotFound(JoinPath(part, shard.raw.name), ": the shard is in index.json, but is missing");
}

JsonValue CopyOf(const JsonElement& element) {
  JsonValue copy;
  bool truth = false;
  int64_t number = 0;
  uint64_t large = 0;
  double fraction = 0;
  std::string_view text;
  if (element.kind() == JsonKind::kList) {
    copy = JsonValue::Array();
    element.ForEach([&](JsonElement part) { return copy.Add(CopyOf(part)), true; });
  } else if (element.kind() == JsonKind::kObject) {
    copy = JsonValue::Object();
    element.ForEachMember(
        [&](std::string_view name, JsonElement member) { return copy.Set(name, CopyOf(member)), true; });
  } else if (element.Get(&truth)) {
    copy = truth;
  } else if (element.Get(&number)) {
    copy = number;
  } else if (element.Get(&large)) {
    copy = large;
  } else if (element.Get(&fraction)) {
    copy = fraction;
  } else if (element.Get(&text)) {
    copy = text;
  }
  return copy;
}

// An element of "shards" as Python writes it, with `folder` put in front of its file names.
std::string MoveShard(const JsonElement& shard, const std::string& folder) {
  JsonValue moved = JsonValue::Object();
  shard.ForEachMember([&](std::string_view name, JsonElement member) {
    JsonValue copy = CopyOf(member);
    if (name == "raw_data" || name == "zip_data" || name == "raw_meta" || name == "zip_meta") {
      member.ForEachMember([&](std::string_view key, JsonElement value) {
        std::string_view file;
        if (key != "basename" || !value.Get(&file)) return true;
        copy.Set("basename", JoinPath(folder, file));
        return false;
      });
    }
    moved.Set(name, std::move(copy));
    return true;
  });
  return moved.FormatLikePython();
}

// Appends the shards of a part, whose index was read already, to *text.
absl::Status AppendShards(std::string_view index, const std::string& folder, std::string* text) {
  JsonTree tree(kMostDepth);
  SHARDKIT_ASSIGN_OR_RETURN(const JsonElement document, tree.Parse(index));
  document.ForEachMember([&](std::string_view name, JsonElement shards) {
    if (name != "shards") return true;
    shards.ForEach([&](JsonElement shard) {
      text->append(text->ends_with('[') ? "" : ", ").append(MoveShard(shard, folder));
      return true;
    });
    return false;
  });
  return absl::OkStatus();
}

absl::Status CheckOutput(FileSystem& file_system, const std::string& output) {
  SHARDKIT_ASSIGN_OR_RETURN(const bool native, Exists(file_system, JoinPath(output, kManifestName)));
  if (native)
    return InvalidArgument(output,
                           ": is a dataset already, which an index of MDS would not change: choose another directory");
  SHARDKIT_ASSIGN_OR_RETURN(const bool indexed, Exists(file_system, JoinPath(output, foreign::kMdsIndexName)));
  if (!indexed) return absl::OkStatus();
  SHARDKIT_ASSIGN_OR_RETURN(const foreign::MdsDirectory old,
                            foreign::ReadMdsIndex(file_system, JoinPath(output, foreign::kMdsIndexName)));
  for (const foreign::MdsShard& shard : old.index.shards) {
    if (shard.raw.name.find('/') != std::string::npos) continue;
    return InvalidArgument(output, ": has shards of its own ('", shard.raw.name,
                           "'), which a merged index would leave out: "
                           "move them to a folder");
  }
  return absl::OkStatus();
}

absl::StatusOr<Manifest> Describe(FileSystem& file_system, const std::string& output) {
  DatasetOptions options;
  options.mds_as_stored = true;  // then no shard is read
  const auto opened = OpenMds(file_system, output, options);
  if (opened.ok()) return (*opened)->manifest();
  if (!absl::IsUnimplemented(opened.status())) return opened.status();
  SHARDKIT_ASSIGN_OR_RETURN(const foreign::MdsDirectory directory,
                            foreign::ReadMdsIndex(file_system, JoinPath(output, foreign::kMdsIndexName)));
  Manifest manifest;
  for (const foreign::MdsShard& shard : directory.index.shards) {
    manifest.AddShard({shard.raw.name, shard.raw.bytes, shard.samples, 0, ContentHash{}});
  }
  return manifest;
}

}  // namespace

absl::StatusOr<bool> AreMdsParts(FileSystem& file_system, const std::vector<std::string>& parts) {
  std::string mds, other;
  for (const std::string& part : parts) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool native, Exists(file_system, JoinPath(part, kManifestName)));
    SHARDKIT_ASSIGN_OR_RETURN(const bool indexed, Exists(file_system, JoinPath(part, foreign::kMdsIndexName)));
    (indexed && !native ? mds : other) = part;
  }
  if (mds.empty() || other.empty()) return !mds.empty();
  return InvalidArgument(other, ": is no MDS dataset, but ", mds,
                         " is: parts of one kind alone can be merged without copying (--copy)");
}

absl::StatusOr<Manifest> MergeMdsIndexes(FileSystem& file_system, const std::vector<std::string>& parts,
                                         const std::string& output) {
  std::vector<std::string> folders;
  for (const std::string& part : parts) {
    SHARDKIT_ASSIGN_OR_RETURN(std::string folder, PathBelow(part, output));
    if (std::ranges::find(folders, folder) != folders.end()) return InvalidArgument(part, ": is given twice");
    folders.push_back(std::move(folder));
  }
  SHARDKIT_RETURN_IF_ERROR(CheckOutput(file_system, output));
  std::string text = R"({"version": 2, "shards": [)";
  std::string first;
  std::vector<foreign::MdsColumn> columns;
  std::map<std::string, std::pair<size_t, std::string>> seen;  // from a shard's hashes to its part and path
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string& part = parts[i];
    const std::string index_path = JoinPath(part, foreign::kMdsIndexName);
    SHARDKIT_ASSIGN_OR_RETURN(const std::string index_text,
                              file_system.ReadFile(index_path, foreign::kMaxMdsIndexBytes));
    auto index = foreign::ParseMdsIndex(index_text);
    if (!index.ok()) return Annotate(index.status(), index_path);
    if (index->shards.empty()) continue;
    if (first.empty()) {
      first = part;
      columns = std::move(index->columns);
    } else if (index->columns != columns) {
      return InvalidArgument(part, ": its columns, their encodings or sizes differ from those of ", first);
    }
    for (const foreign::MdsShard& shard : index->shards) {
      SHARDKIT_RETURN_IF_ERROR(CheckFiles(file_system, part, shard));
      if (shard.samples == 0 || shard.raw.hashes.empty()) continue;  // it cannot be told apart from others
      std::string identity = StrCat(shard.raw.bytes);
      for (const auto& [name, hash] : shard.raw.hashes) identity += StrCat(" ", name, " ", hash);
      const std::string path = JoinPath(part, shard.raw.name);
      const auto [found, is_new] = seen.try_emplace(std::move(identity), i, path);
      if (is_new || found->second.first == i) continue;
      return InvalidArgument(path, ": holds the same samples as ", found->second.second, ": give each part once");
    }
    if (absl::Status status = AppendShards(index_text, folders[i], &text); !status.ok())
      return Annotate(status, index_path);
  }
  text += "]}";
  SHARDKIT_RETURN_IF_ERROR(io::PublishFile(file_system, JoinPath(output, foreign::kMdsIndexName), text));
  return Describe(file_system, output);
}

}  // namespace shardkit::dataset
