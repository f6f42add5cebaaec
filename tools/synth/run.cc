#include "synth/run.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "shardkit/job.h"

namespace shardctl {

int SynthThreadCount(int wanted, uint64_t count) {
  const auto threads = static_cast<uint64_t>(wanted > 0 ? wanted : shardkit::AvailableProcessors());
  return static_cast<int>(std::max<uint64_t>(std::min({threads, count, uint64_t{1024}}), 1));
}

absl::Status RunSynth(uint64_t count, int threads,
                      const std::function<absl::StatusOr<uint64_t>(uint64_t index, int worker)>& make,
                      const SynthProgressCallback& progress, const shardkit::Cancellation* cancellation) {
  std::atomic<uint64_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  SynthProgress done;
  done.samples = count;
  uint64_t error_index = count;
  absl::Status error;
  const auto make_one = [&](uint64_t index, int worker) -> absl::Status {
    if (cancellation != nullptr)
      if (absl::Status status = cancellation->Check("making synthetic input"); !status.ok()) return status;
    const absl::StatusOr<uint64_t> bytes = make(index, worker);
    if (!bytes.ok()) return bytes.status();
    std::lock_guard lock(mutex);
    ++done.samples_done;
    done.bytes += *bytes;
    if (progress) progress(done);
    return absl::OkStatus();
  };
  const auto work = [&](int worker) {
    while (!failed.load(std::memory_order_relaxed)) {
      const uint64_t index = next.fetch_add(1, std::memory_order_relaxed);
      if (index >= count) break;
      const absl::Status made = make_one(index, worker);
      if (made.ok()) continue;
      failed.store(true, std::memory_order_relaxed);
      std::lock_guard lock(mutex);
      if (index >= error_index) break;
      error_index = index;
      error = made;
    }
  };
  std::vector<std::jthread> others;
  try {
    for (int worker = 1; worker < threads; ++worker) others.emplace_back(work, worker);
  } catch (const std::system_error&) {  // fewer do, too
  }
  work(0);
  others.clear();  // joins
  return error;
}

absl::StatusOr<std::unique_ptr<PartialFile>> PartialFile::Create(shardkit::FileSystem& file_system,
                                                                 const std::string& directory, const std::string& name,
                                                                 bool overwrite) {
  std::string path = shardkit::JoinPath(directory, name);
  if (!overwrite) {
    const absl::Status status = file_system.Stat(path, /*follow=*/false).status();
    if (status.ok()) {
      return absl::AlreadyExistsError(
          absl::StrCat(path, ": exists already; choose an empty directory, or ask to overwrite"));
    }
    if (!absl::IsNotFound(status)) return status;
  }
  std::unique_ptr<PartialFile> partial(new PartialFile(
      file_system, shardkit::JoinPath(directory, absl::StrCat(".", name, ".partial")), std::move(path)));
  auto file = file_system.Create(partial->temporary_);
  if (absl::IsAlreadyExists(file.status())) {
    if (absl::Status status = file_system.RemoveFile(partial->temporary_); !status.ok()) return status;
    file = file_system.Create(partial->temporary_);
  }
  if (absl::Status status = file.status(); !status.ok()) return status;
  partial->file_ = *std::move(file);
  return partial;
}

PartialFile::~PartialFile() {
  if (file_ == nullptr || published_) return;
  file_.reset();
  // The error that led here is the one to report.
  file_system_.RemoveFile(temporary_).IgnoreError();
}

absl::Status PartialFile::Publish() {
  if (absl::Status status = file_system_.Rename(temporary_, path_); !status.ok()) return status;
  published_ = true;
  return absl::OkStatus();
}

void PartialFile::Withdraw() { file_system_.RemoveFile(path_).IgnoreError(); }

}  // namespace shardctl
