#include "dataset/foreign/wids_dataset.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "container/foreign/tar_wids.h"
#include "format/foreign/webdataset_names.h"
#include "io/publish_file.h"

namespace shardkit::dataset {
namespace {

constexpr uint64_t kMaxWidsIndexBytes = uint64_t{1} << 30;

std::string Place(const ListedTar& tar) { return StrCat("shard ", tar.number, " of ", tar.index_path); }

// The path of a file that the index names, in `folder` when it is relative. An index of another machine was made by
// somebody who must not choose files of this one: it names files below its own folder only.
absl::StatusOr<std::string> Locate(const std::string& index_path, const std::string& folder, const std::string& url) {
  SHARDKIT_ASSIGN_OR_RETURN(const std::string path, format::LocalPathOfUrl(url));
  if (index_path.find("://") != std::string::npos) {
    const std::string_view below = format::MemberName(path);
    if (path == url && format::CheckMemberName(below).ok()) return JoinPath(folder, below);
    return Unimplemented("'", url, "' is not below the folder of this index, and an index behind a URL names no other ",
                         "files: copy the index and its tars to this machine");
  }
  return path.starts_with('/') ? path : JoinPath(folder, path);
}

absl::StatusOr<std::vector<ListedTar>> ListWidsTars(const std::string& index_path, format::WidsIndex index) {
  std::string folder = io::ParentDirectory(index_path);
  if (!index.base.empty()) {
    auto base = Locate(index_path, folder, index.base);
    if (!base.ok()) return Annotate(base.status(), StrCat(index_path, ": base"));
    folder = *std::move(base);
  }
  std::vector<ListedTar> tars;
  for (format::WidsShard& shard : index.shards) {
    auto path = Locate(index_path, folder, shard.url);
    if (!path.ok()) return Annotate(path.status(), StrCat(index_path, ": shard ", tars.size()));
    SHARDKIT_ASSIGN_OR_RETURN(std::string name, format::LocalPathOfUrl(shard.url));
    tars.push_back({*std::move(path), std::move(name), index_path, tars.size(), std::move(shard), nullptr});
    ListedTar& tar = tars.back();
    const std::pair<std::string, std::string> md5("md5", tar.listed.md5);
    if (!tar.listed.md5.empty()) tar.hash = container::ListedHash::Choose({&md5, 1}, Place(tar));
  }
  return tars;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ForeignDataset>> OpenWids(ReadableFileSystem& file_system, const std::string& path,
                                                         const DatasetOptions& options) {
  absl::StatusOr<std::string> text = file_system.ReadFile(path, kMaxWidsIndexBytes);
  // A file of that size is not an index of tars; the caller finds out what it is.
  if (absl::IsResourceExhausted(text.status())) return nullptr;
  if (!text.ok()) return text.status();
  auto index = format::ParseWidsIndex(*text);
  if (!index.ok()) return Annotate(index.status(), path);
  if (!*index) return nullptr;
  SHARDKIT_ASSIGN_OR_RETURN(std::vector<ListedTar> tars, ListWidsTars(path, **std::move(index)));
  return OpenTars(file_system, io::ParentDirectory(path), std::move(tars), options);
}

absl::Status DescribeMissing(const ListedTar& tar, const absl::Status& status) {
  if (!absl::IsNotFound(status) || tar.index_path.empty()) return status;
  return NotFound(tar.path, ": ", Place(tar), " is missing");
}

absl::Status CheckTarSize(ReadableFileSystem& file_system, const ListedTar& tar) {
  if (tar.index_path.empty() || !tar.listed.bytes) return absl::OkStatus();
  const auto info = file_system.Stat(tar.path);
  if (!info.ok()) return DescribeMissing(tar, info.status());
  if (info->size == *tar.listed.bytes) return absl::OkStatus();
  return DataLoss(tar.path, ": has ", info->size, " bytes, but ", tar.index_path, " says ", *tar.listed.bytes,
                  " (shard ", tar.number, "): it was ", info->size < *tar.listed.bytes ? "cut off" : "replaced",
                  ", or the index is of another tar");
}

absl::Status CheckTarSamples(ReadableFileSystem& file_system, const ListedTar& tar, uint64_t samples) {
  if (tar.index_path.empty() || samples == tar.listed.samples) return absl::OkStatus();
  std::string reason = "make the index anew with shardctl index --wids";
  // An index that wids has made counts by wids's own rule.
  if (const auto file = file_system.OpenForReading(tar.path); file.ok()) {
    const auto view = container::ViewAsWids(**file);
    if (view.ok() && view->difference && view->samples == tar.listed.samples) {
      reason = StrCat("that is how wids counts, for member '", view->difference->member, "' at byte ",
                      view->difference->offset, " ", view->difference->message);
    }
  }
  return DataLoss(tar.path, ": has ", samples, " samples, but ", tar.index_path, " says ", tar.listed.samples,
                  " (shard ", tar.number, "): ", reason);
}

absl::Status CheckTarMd5(const RandomAccessFile& file, const ListedTar& tar,
                         const std::function<void(std::string)>& report) {
  if (tar.listed.md5.empty()) return absl::OkStatus();
  const absl::Status status = container::ListedHash("md5", tar.listed.md5, Place(tar)).Check(file);
  if (absl::IsDataLoss(status)) {
    report(std::string(ToStd(status.message())));
  } else if (absl::IsUnimplemented(status)) {
    report(StrCat(tar.path, ": not compared: ", ToStd(status.message())));
  } else {
    return status;
  }
  return absl::OkStatus();
}

}  // namespace shardkit::dataset
