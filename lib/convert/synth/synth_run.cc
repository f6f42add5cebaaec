#include "convert/synth/synth_run.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "shardkit/processors.h"

namespace shardkit::convert {

int SynthThreadCount(int wanted, uint64_t count) {
  const auto threads = static_cast<uint64_t>(wanted > 0 ? wanted : AvailableProcessors());
  return static_cast<int>(std::max<uint64_t>(std::min({threads, count, uint64_t{1024}}), 1));
}

absl::Status RunSynth(uint64_t count, int threads,
                      const std::function<absl::StatusOr<uint64_t>(uint64_t index, int worker)>& make,
                      const SynthProgressCallback& progress, const Cancellation* cancellation) {
  std::atomic<uint64_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  SynthProgress done;
  done.samples = count;
  uint64_t error_index = count;
  absl::Status error;
  const auto make_one = [&](uint64_t index, int worker) -> absl::Status {
    if (cancellation != nullptr) SHARDKIT_RETURN_IF_ERROR(cancellation->Check("making synthetic input"));
    SHARDKIT_ASSIGN_OR_RETURN(const uint64_t bytes, make(index, worker));
    std::lock_guard lock(mutex);
    ++done.samples_done;
    done.bytes += bytes;
    if (progress) progress(done);
    return absl::OkStatus();
  };
  const auto work = [&](int worker) -> absl::Status {
    while (!failed.load(std::memory_order_relaxed)) {
      const uint64_t index = next.fetch_add(1, std::memory_order_relaxed);
      if (index >= count) break;
      const absl::Status made = Guarded("making synthetic input", [&] { return make_one(index, worker); });
      if (made.ok()) continue;
      failed.store(true, std::memory_order_relaxed);
      std::lock_guard lock(mutex);
      if (index >= error_index) break;
      error_index = index;
      error = made;
    }
    return absl::OkStatus();
  };
  {
    ThreadPool pool(threads);
    for (int worker = 0; worker < threads; ++worker) {
      (void)Pending<absl::Status>::Run(pool, "making synthetic input", [&work, worker] { return work(worker); });
    }
  }  // joins
  return error;
}

absl::StatusOr<std::unique_ptr<PartialFile>> PartialFile::Create(FileSystem& file_system, const std::string& directory,
                                                                 const std::string& name, bool overwrite) {
  std::string path = JoinPath(directory, name);
  if (!overwrite) {
    const absl::Status status = file_system.Stat(path, /*follow=*/false).status();
    if (status.ok()) {
      return absl::AlreadyExistsError(
          ToAbsl(StrCat(path, ": exists already; choose an empty directory, or ask to overwrite")));
    }
    if (!absl::IsNotFound(status)) return status;
  }
  std::unique_ptr<PartialFile> partial(
      new PartialFile(file_system, JoinPath(directory, StrCat(".", name, ".partial")), std::move(path)));
  auto file = file_system.Create(partial->temporary_);
  if (absl::IsAlreadyExists(file.status())) {
    SHARDKIT_RETURN_IF_ERROR(file_system.RemoveFile(partial->temporary_));
    file = file_system.Create(partial->temporary_);
  }
  SHARDKIT_RETURN_IF_ERROR(file.status());
  partial->file_ = *std::move(file);
  return partial;
}

PartialFile::~PartialFile() {
  if (file_ == nullptr || published_) return;
  file_.reset();
  // The error that led here is the one to report.
  (void)Guarded("removing", [this] { return file_system_.RemoveFile(temporary_); });
}

absl::Status PartialFile::Publish() {
  SHARDKIT_RETURN_IF_ERROR(file_system_.Rename(temporary_, path_));
  published_ = true;
  return absl::OkStatus();
}

void PartialFile::Withdraw() { file_system_.RemoveFile(path_).IgnoreError(); }

}  // namespace shardkit::convert
