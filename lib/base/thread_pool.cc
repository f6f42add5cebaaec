#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/strings.h"
#include "shardkit/job.h"

namespace shardkit {
namespace {

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Microseconds of processors in each period; 0 where there is no limit.
struct Quota {
  int64_t quota = 0;
  int64_t period = 0;
};

// "MAX PERIOD", where MAX may be "max".
Quota Version2(const std::string& folder) {
  Quota read;
  std::istringstream text(TextOf(folder + "/cpu.max"));
  text >> read.quota >> read.period;
  return text ? read : Quota{};
}

// A quota of -1 is none.
Quota Version1(const std::string& folder) {
  Quota read;
  std::istringstream text(TextOf(folder + "/cpu.cfs_quota_us") + " " + TextOf(folder + "/cpu.cfs_period_us"));
  text >> read.quota >> read.period;
  return text ? read : Quota{};
}

// Whether a list such as "cpu,cpuacct" has "cpu".
bool HasCpu(absl::string_view controllers) {
  const std::vector<absl::string_view> each = absl::StrSplit(controllers, ',');
  return std::ranges::find(each, "cpu") != each.end();
}

int Affinity() {
  cpu_set_t set;
  // EINVAL on machines with more processors than a set of this size has: then all count.
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

int LocalRanks() {
  const char* const text = std::getenv("LOCAL_WORLD_SIZE");
  int ranks = 1;
  return text != nullptr && absl::SimpleAtoi(text, &ranks) ? std::max(ranks, 1) : 1;
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  threads_.reserve(static_cast<size_t>(threads));
  try {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
  } catch (const std::system_error&) {
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Submit(std::function<void()> task) {
  if (threads_.empty()) return task();
  if (const auto& cancellation = CancellationScope::Current()) {
    task = [cancellation, task = std::move(task)] {
      const CancellationScope scope(cancellation);
      task();
    };
  }
  {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  work_.notify_one();
}

void ThreadPool::Run() {
  for (;;) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      work_.wait(lock, [this] { return closing_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

std::optional<int> CgroupProcessors(std::string_view cgroups, const std::string& mount) {
  double least = std::numeric_limits<double>::infinity();
  // Lines of "NUMBER:CONTROLLERS:PATH"; version 2 has no controllers.
  for (const absl::string_view line : absl::StrSplit(ToAbsl(cgroups), '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    const absl::string_view controllers = fields[1];
    if (!controllers.empty() && !HasCpu(controllers)) continue;
    // Within a container the path may be that of the machine: folders that are not there have no limit.
    std::string path(fields[2]);
    while (true) {
      while (!path.empty() && path.back() == '/') path.pop_back();
      const Quota quota = controllers.empty() ? Version2(mount + path) : Version1(mount + "/cpu" + path);
      if (quota.quota > 0 && quota.period > 0) {
        least = std::min(least, static_cast<double>(quota.quota) / static_cast<double>(quota.period));
      }
      if (path.empty()) break;
      path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  }
  if (!(least < std::numeric_limits<int>::max())) return std::nullopt;
  return std::max(1, static_cast<int>(std::ceil(least)));
}

int AvailableProcessors() {
  int processors = Affinity();
  if (const auto limit = CgroupProcessors(TextOf("/proc/self/cgroup"), "/sys/fs/cgroup")) {
    processors = std::min(processors, *limit);
  }
  return std::max(1, processors / LocalRanks());
}

}  // namespace shardkit
