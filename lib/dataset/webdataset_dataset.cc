// Directories of tars, and single ones, as datasets.
#include <algorithm>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "container/tar_shard_reader.h"
#include "dataset/foreign_dataset.h"
#include "shardkit/tar_index.h"

namespace shardkit {
namespace {

// What is known of the tars is kept up to here, so that they need not be looked through again when they are
// opened.
constexpr uint64_t kKeptBytes = uint64_t{256} << 20;

// Looking through headers waits for the device more than it computes.
constexpr size_t kThreads = 8;

class WebDataset final : public ForeignDataset {
 public:
  WebDataset(FileSystem& file_system, std::vector<std::string> paths)
      : file_system_(file_system), paths_(std::move(paths)), contents_(paths_.size()) {}

  // Looks through all tars.
  absl::Status Describe(const ReadOptions& options) {
    ReadOptions read = options;
    read.mode = ReadMode::kBuffered;
    if (paths_.size() == 1) return Take(0, TarShardReader::Open(file_system_, paths_[0], read));
    using Opened = absl::StatusOr<std::unique_ptr<TarShardReader>>;
    ThreadPool threads(static_cast<int>(std::min(kThreads, paths_.size())));
    std::deque<Pending<Opened>> pending;
    size_t submitted = 0;
    for (size_t shard = 0; shard < paths_.size(); ++shard) {
      for (; submitted < paths_.size() && pending.size() < 2 * kThreads; ++submitted) {
        pending.push_back(Pending<Opened>::Run(threads, [this, &read, submitted] {
          return TarShardReader::Open(file_system_, paths_[submitted], read);
        }));
      }
      SHARDKIT_RETURN_IF_ERROR(Take(shard, pending.front().Take()));
      pending.pop_front();
    }
    return absl::OkStatus();
  }

  std::string_view container() const override { return "webdataset"; }
  const Manifest& manifest() const override { return manifest_; }

  absl::StatusOr<std::unique_ptr<ShardReader>> OpenShard(size_t shard,
                                                         const ReadOptions& options) const override {
    return TarShardReader::Open(file_system_, paths_[shard], options, contents_[shard]);
  }

  absl::Status FindProblems(size_t shard, const std::function<void(std::string)>& report) const override {
    SHARDKIT_ASSIGN_OR_RETURN(const auto file, file_system_.OpenForReading(paths_[shard]));
    std::vector<TarProblem> problems;
    SHARDKIT_ASSIGN_OR_RETURN(const TarContents contents, ScanTar(*file, &problems));
    const std::vector<TarProblem> repeated = FindRepeatedKeys(contents.index);
    problems.insert(problems.end(), repeated.begin(), repeated.end());
    for (const TarProblem& problem : problems) {
      report(StrCat(paths_[shard], ": ", problem.member.empty() ? "" : StrCat("member \"", problem.member, "\" "), "at byte ",
                    problem.offset, ": ", problem.message));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Take(size_t shard, absl::StatusOr<std::unique_ptr<TarShardReader>> opened) {
    if (!opened.ok()) return opened.status();
    const TarShardReader& reader = **opened;
    if (shard == 0) {
      manifest_.schema = reader.schema();
    } else {
      absl::StatusOr<Schema> merged = MergeSchemas(manifest_.schema, reader.schema());
      if (!merged.ok())
        return Annotate(merged.status(), StrCat(reader.path(), ": does not fit the tars before it"));
      manifest_.schema = *std::move(merged);
    }
    const std::string& path = paths_[shard];
    const size_t slash = path.rfind('/');
    manifest_.shards.push_back({slash == path.npos ? path : path.substr(slash + 1),
                                reader.file_length(),
                                reader.sample_count(),
                                reader.blocks().size(),
                                {}});
    const uint64_t bytes = reader.contents()->index.memory();
    if (kept_bytes_ + bytes <= kKeptBytes) {
      kept_bytes_ += bytes;
      contents_[shard] = reader.contents();
    }
    return absl::OkStatus();
  }

  FileSystem& file_system_;
  const std::vector<std::string> paths_;
  std::vector<std::shared_ptr<const TarContents>> contents_;  // null where not kept
  uint64_t kept_bytes_ = 0;
  Manifest manifest_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ForeignDataset>> OpenWebDataset(FileSystem& file_system,
                                                               const std::string& path,
                                                               const ReadOptions& options) {
  SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, file_system.Stat(path));
  std::vector<std::string> paths = {path};
  if (info.type == FileType::kDirectory) {
    SHARDKIT_ASSIGN_OR_RETURN(paths, ListTars(file_system, path));
  }
  if (paths.empty()) return NotFound(path, ": holds no tar files");
  auto dataset = std::make_unique<WebDataset>(file_system, std::move(paths));
  SHARDKIT_RETURN_IF_ERROR(dataset->Describe(options));
  return dataset;
}

}  // namespace shardkit
