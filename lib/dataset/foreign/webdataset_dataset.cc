// Tars as datasets: single ones, and directories.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "dataset/foreign/foreign_dataset.h"
#include "foreign/webdataset/tar_shard_reader.h"
#include "foreign/webdataset/tar_sidecar.h"
#include "foreign/webdataset/webdataset_names.h"
#include "io/publish_file.h"
#include "shardkit/tar_index.h"
#include "shardkit/validate.h"

namespace shardkit::dataset {
namespace {

// So many bytes of what is known of tars are kept, so that opening one again need not scan it.
constexpr uint64_t kKeptBytes = uint64_t{256} << 20;

// Scanning headers waits for the device more than it computes.
constexpr size_t kThreads = 8;

class WebDataset final : public ForeignDataset {
 public:
  WebDataset(ReadableFileSystem& file_system, std::vector<std::string> tars, bool whole_names,
             const std::optional<Manifest>& origin, bool skip_lost)
      : file_system_(file_system),
        tars_(std::move(tars)),
        whole_names_(whole_names),
        skip_lost_(skip_lost),
        contents_(tars_.size()) {
    if (!origin) return;
    manifest_.metadata = origin->metadata;
    const auto keys = manifest_.metadata.find(std::string(kKeysName));
    escaped_keys_ = keys != manifest_.metadata.end() && keys->second == kEscapedKeys;
  }

  // Opens all tars to find their samples and columns.
  absl::Status Describe(const ReadOptions& options) {
    ReadOptions read = options;
    read.mode = ReadMode::kBuffered;
    if (tars_.size() == 1) return Take(0, OpenTar(0, read));
    using Opened = absl::StatusOr<std::unique_ptr<foreign::TarShardReader>>;
    ThreadPool threads(static_cast<int>(std::min(kThreads, tars_.size())));
    OrderedTasks<Opened> opening(threads, "opening tars", nullptr, 2 * kThreads);
    size_t begun = 0;
    for (size_t shard = 0; shard < tars_.size(); ++shard) {
      for (; begun < tars_.size() && !opening.full(); ++begun) {
        opening.Add([this, &read, begun] { return OpenTar(begun, read); });
      }
      SHARDKIT_RETURN_IF_ERROR(Take(shard, opening.Take().result));
    }
    return absl::OkStatus();
  }

  std::string_view container() const override { return "webdataset"; }
  const Manifest& manifest() const override { return manifest_; }
  std::span<const LostSample> lost_samples() const override { return lost_samples_; }

  std::vector<std::string> notes() const override {
    std::vector<std::string> notes;
    if (joined_ > 0) {
      notes.push_back(StrCat(first_joined_, joined_ == 1 ? "" : StrCat(" (and so in ", joined_ - 1, " more tars)"),
                             ": an end mark lies before it, as where two tars were joined; readers of WebDataset stop "
                             "there, and here all members are read"));
    }
    if (left_behind_ > 0) {
      notes.push_back(StrCat(first_left_behind_,
                             left_behind_ == 1 ? "" : StrCat(" (and so in ", left_behind_ - 1, " more tars)"), ": ",
                             foreign::kLeftBehind));
    }
    if (passed_over_ > 0) {
      notes.push_back(StrCat("passed over ", passed_over_,
                             passed_over_ == 1 ? " member that is no file (" : " members that are no files (",
                             first_passed_over_, passed_over_ == 1 ? "" : ", …",
                             "): a link is followed to a file that stands before it"));
    }
    return notes;
  }

  absl::StatusOr<std::unique_ptr<ShardReader>> OpenShard(size_t shard, const ReadOptions& options) const override {
    SHARDKIT_ASSIGN_OR_RETURN(auto opened, OpenTar(shard, options));
    return opened;
  }

  absl::Status FindProblems(size_t shard, const ReadOptions& options,
                            const std::function<void(const absl::Status&)>& report) const override {
    const std::string& path = tars_[shard];
    SHARDKIT_ASSIGN_OR_RETURN(const auto file, file_system_.OpenForReading(path));
    std::vector<TarProblem> problems;
    SHARDKIT_ASSIGN_OR_RETURN(foreign::TarContents contents,
                              foreign::ScanTar(*file, options.max_decompression, &problems));
    const std::vector<TarProblem> repeated = foreign::FindRepeatedKeys(contents.index);
    problems.insert(problems.end(), repeated.begin(), repeated.end());
    for (const TarProblem& problem : problems) {
      report(DataLoss(path, ": ", problem.member.empty() ? "" : StrCat("member \"", problem.member, "\" "), "at byte ",
                      problem.offset, ": ", problem.message));
    }
    if (contents.compression == foreign::TarCompression::kNone) {
      SHARDKIT_ASSIGN_OR_RETURN(const bool sound, foreign::CheckTarIndex(file_system_, *file, contents.index, report));
      if (sound) return ValidateIndex(path, report);
    }
    return absl::OkStatus();
  }

 private:
  // What reading its blocks does not show.
  absl::Status ValidateIndex(const std::string& tar, const std::function<void(const absl::Status&)>& report) const {
    SHARDKIT_ASSIGN_OR_RETURN(const ValidateReport checked, Validate(file_system_, StrCat(tar, kTarIndexSuffix)));
    for (const Problem& problem : checked.problems) {
      report(absl::Status(problem.code, ToAbsl(StrCat(problem.message, "; run shardctl index ", tar))));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<foreign::TarShardReader>> OpenTar(size_t shard, const ReadOptions& options) const {
    std::shared_ptr<const foreign::TarContents> contents = contents_[shard];
    if (contents == nullptr) {
      SHARDKIT_ASSIGN_OR_RETURN(
          contents,
          foreign::LoadTarContents(file_system_, tars_[shard], options.max_decompression, skip_lost_, escaped_keys_));
    }
    return foreign::TarShardReader::Open(file_system_, tars_[shard], options, contents);
  }

  absl::Status Take(size_t shard, absl::StatusOr<std::unique_ptr<foreign::TarShardReader>> opened) {
    if (!opened.ok()) return opened.status();
    const foreign::TarShardReader& reader = **opened;
    if (shard == 0) {
      manifest_.schema = reader.schema();
    } else {
      absl::StatusOr<Schema> merged = MergeSchemas(manifest_.schema, reader.schema());
      if (!merged.ok()) return Annotate(merged.status(), StrCat(reader.path(), ": does not fit the tars before it"));
      manifest_.schema = *std::move(merged);
    }
    manifest_.AddShard({whole_names_ ? tars_[shard] : std::string(io::BaseName(tars_[shard])),
                        reader.file_length(),
                        reader.sample_count(),
                        reader.blocks().size(),
                        {}});
    const foreign::TarContents& contents = *reader.contents();
    for (const foreign::LostTarSample& lost : contents.lost) lost_samples_.push_back({shard, lost.key, lost.status});
    const auto place = [&](const TarProblem& problem) {
      return StrCat(reader.path(), ": member '", problem.member, "' at byte ", problem.offset);
    };
    if (contents.after_end_mark && joined_++ == 0) first_joined_ = place(*contents.after_end_mark);
    if (contents.left_behind && left_behind_++ == 0) {
      first_left_behind_ = StrCat(reader.path(), ": at byte ", *contents.left_behind);
    }
    if (contents.passed_over && passed_over_ == 0) first_passed_over_ = place(*contents.passed_over);
    passed_over_ += contents.passed_over_count;
    const uint64_t bytes = contents.memory();
    if (kept_bytes_ + bytes <= kKeptBytes) {
      kept_bytes_ += bytes;
      contents_[shard] = reader.contents();
    }
    return absl::OkStatus();
  }

  ReadableFileSystem& file_system_;
  const std::vector<std::string> tars_;  // paths
  const bool whole_names_;               // shards are named by their paths, which may have several folders
  const bool skip_lost_;
  bool escaped_keys_ = false;
  std::vector<LostSample> lost_samples_;
  std::vector<std::shared_ptr<const foreign::TarContents>> contents_;  // null where not kept
  uint64_t kept_bytes_ = 0;
  uint64_t joined_ = 0;  // tars with an end mark between members
  std::string first_joined_;
  uint64_t left_behind_ = 0;  // tars with something else behind the end mark
  std::string first_left_behind_;
  uint64_t passed_over_ = 0;  // members
  std::string first_passed_over_;
  Manifest manifest_;
};

absl::StatusOr<std::unique_ptr<ForeignDataset>> OpenTars(ReadableFileSystem& file_system, std::vector<std::string> tars,
                                                         bool whole_names, const DatasetOptions& options) {
  const std::string folder = io::ParentDirectory(tars.front());
  const bool together = std::ranges::all_of(tars, [&](const auto& tar) { return io::ParentDirectory(tar) == folder; });
  std::optional<Manifest> origin;
  if (together) {
    SHARDKIT_ASSIGN_OR_RETURN(origin, ReadOrigin(file_system, folder));
  }
  auto dataset =
      std::make_unique<WebDataset>(file_system, std::move(tars), whole_names, origin, options.skip_lost_samples);
  SHARDKIT_RETURN_IF_ERROR(dataset->Describe(options));
  return dataset;
}

// The tars at `path`, which is one of them or a directory that holds some.
absl::StatusOr<std::vector<std::string>> TarsAt(ReadableFileSystem& file_system, const std::string& path) {
  SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, file_system.Stat(path));
  if (info.type != FileType::kDirectory) return std::vector<std::string>{path};
  SHARDKIT_ASSIGN_OR_RETURN(std::vector<std::string> tars, ListTars(file_system, path));
  if (tars.empty()) return NotFound(path, ": holds no tar files");
  return tars;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ForeignDataset>> OpenWebDataset(ReadableFileSystem& file_system, const std::string& path,
                                                               const DatasetOptions& options) {
  SHARDKIT_ASSIGN_OR_RETURN(std::vector<std::string> tars, TarsAt(file_system, path));
  return OpenTars(file_system, std::move(tars), /*whole_names=*/false, options);
}

absl::StatusOr<std::unique_ptr<ForeignDataset>> OpenWebDatasetMembers(ReadableFileSystem& file_system,
                                                                      const std::vector<std::string>& members,
                                                                      const DatasetOptions& options) {
  std::vector<std::string> tars;
  for (const std::string& member : members) {
    if (foreign::IsTarName(member)) {
      tars.push_back(member);
      continue;
    }
    SHARDKIT_ASSIGN_OR_RETURN(const std::vector<std::string> inside, TarsAt(file_system, member));
    tars.insert(tars.end(), inside.begin(), inside.end());
  }
  return OpenTars(file_system, std::move(tars), /*whole_names=*/true, options);
}

}  // namespace shardkit::dataset
