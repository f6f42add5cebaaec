#include "remote/http_client.h"

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "remote/await.h"
#include "remote/transfer.h"

namespace shardkit::remote {
namespace {

using SteadyClock = std::chrono::steady_clock;

// More idle handles are not worth their memory.
constexpr size_t kMostIdleHandles = 64;

struct MultiHandleDeleter {
  void operator()(CURLM* handle) const { curl_multi_cleanup(handle); }
};

// libcurl wants it once per process, before any thread uses it.
bool InitializeCurl() {
  static const bool initialized = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return initialized;
}

}  // namespace

class HttpClient::Engine {
 public:
  explicit Engine(const Options& options) : options_(options), multi_(curl_multi_init()) {}

  ~Engine() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    Wake();
    if (thread_.joinable()) thread_.join();
    idle_.clear();
  }

  absl::Status Launch() {
    if (!multi_) return ResourceExhausted("libcurl: no memory for a client");
    // libcurl's own limit is four for each request that runs now, so a pause would end most connections.
    curl_multi_setopt(multi_.get(), CURLMOPT_MAXCONNECTS, static_cast<long>(options_.requests_in_flight));
    try {
      thread_ = std::thread([this] { Run(); });
    } catch (const std::system_error& error) {
      return ResourceExhausted("the thread of the HTTP client cannot be started: ", error.what());
    }
    return absl::OkStatus();
  }

  Id Start(HttpRequest request, Done done) {
    Id id = 0;
    {
      std::lock_guard lock(mutex_);
      id = ++last_id_;
      started_.push_back(std::make_unique<Transfer>(id, std::move(request), std::move(done)));
    }
    Wake();
    return id;
  }

  void Cancel(Id id) {
    {
      std::lock_guard lock(mutex_);
      cancelled_.push_back(id);
    }
    Wake();
  }

  void After(std::chrono::milliseconds delay, std::function<void()> function) {
    {
      std::lock_guard lock(mutex_);
      timers_.emplace(SteadyClock::now() + delay, std::move(function));
    }
    Wake();
  }

 private:
  // From the thread itself too: its next wait then ends at once.
  void Wake() { curl_multi_wakeup(multi_.get()); }

  void Run() {
    bool stopping = false;
    while (true) {
      stopping = TakeCommands();
      RunTimers(stopping);
      if (stopping) {
        FinishAll();
        std::lock_guard lock(mutex_);
        if (started_.empty() && timers_.empty()) return;
        continue;
      }
      StartWaiting();
      int running = 0;
      curl_multi_perform(multi_.get(), &running);
      TakeFinished();
      const bool more = !waiting_.empty() && !AtLimit();
      curl_multi_poll(multi_.get(), nullptr, 0, more ? 0 : MillisecondsToTimer(), nullptr);
    }
  }

  bool AtLimit() const { return running_.size() >= static_cast<size_t>(options_.requests_in_flight); }

  // Returns whether the client is being destroyed.
  bool TakeCommands() {
    std::vector<Id> cancelled;
    bool stopping = false;
    {
      std::lock_guard lock(mutex_);
      for (auto& transfer : started_) waiting_.push_back(std::move(transfer));
      started_.clear();
      cancelled.swap(cancelled_);
      stopping = stopping_;
    }
    for (const Id id : cancelled) {
      if (const auto found = running_.find(id); found != running_.end()) {
        std::unique_ptr<Transfer> transfer = std::move(found->second);
        running_.erase(found);
        curl_multi_remove_handle(multi_.get(), transfer->handle());
        FinishCancelled(*transfer);
        continue;
      }
      for (auto waiting = waiting_.begin(); waiting != waiting_.end(); ++waiting) {
        if ((*waiting)->id() != id) continue;
        const std::unique_ptr<Transfer> transfer = std::move(*waiting);
        waiting_.erase(waiting);
        FinishCancelled(*transfer);
        break;
      }
    }
    return stopping;
  }

  void RunTimers(bool all) {
    std::vector<std::function<void()>> due;
    {
      std::lock_guard lock(mutex_);
      const auto end = all ? timers_.end() : timers_.upper_bound(SteadyClock::now());
      for (auto timer = timers_.begin(); timer != end; ++timer) due.push_back(std::move(timer->second));
      timers_.erase(timers_.begin(), end);
    }
    for (const auto& function : due) {
      (void)Guarded("a timer", [&]() -> absl::Status {
        function();
        return absl::OkStatus();
      });
    }
  }

  int MillisecondsToTimer() {
    std::lock_guard lock(mutex_);
    if (timers_.empty()) return 1000;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(timers_.begin()->first - SteadyClock::now());
    return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1000));
  }

  void StartWaiting() {
    while (!waiting_.empty() && !AtLimit()) {
      std::unique_ptr<Transfer> transfer = std::move(waiting_.front());
      waiting_.pop_front();
      EasyHandle handle;
      if (idle_.empty()) {
        handle.reset(curl_easy_init());
      } else {
        handle = std::move(idle_.back());
        idle_.pop_back();
      }
      absl::Status prepared = handle ? transfer->Prepare(std::move(handle), options_)
                                     : ResourceExhausted("libcurl: no memory for a request");
      if (!prepared.ok()) {
        Keep(transfer->Finish(std::move(prepared)));
        continue;
      }
      if (curl_multi_add_handle(multi_.get(), transfer->handle()) != CURLM_OK) {
        transfer->Finish(ResourceExhausted("libcurl: no memory for a request"));
        continue;
      }
      running_.emplace(transfer->id(), std::move(transfer));
    }
  }

  void TakeFinished() {
    int left = 0;
    while (const CURLMsg* const message = curl_multi_info_read(multi_.get(), &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const CURLcode code = message->data.result;
      Transfer* transfer = nullptr;
      curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
      curl_multi_remove_handle(multi_.get(), transfer->handle());
      if (code == CURLE_OK && transfer->Redirected(options_) &&
          curl_multi_add_handle(multi_.get(), transfer->handle()) == CURLM_OK) {
        continue;
      }
      const auto found = running_.find(transfer->id());
      const std::unique_ptr<Transfer> owned = std::move(found->second);
      running_.erase(found);
      Keep(owned->Finish(owned->Result(code)));
    }
  }

  void FinishCancelled(Transfer& transfer) { Keep(transfer.Finish(Cancelled("the request was cancelled"))); }

  void FinishAll() {
    std::vector<std::unique_ptr<Transfer>> ended;
    for (auto& entry : running_) {
      curl_multi_remove_handle(multi_.get(), entry.second->handle());
      ended.push_back(std::move(entry.second));
    }
    running_.clear();
    for (auto& transfer : waiting_) ended.push_back(std::move(transfer));
    waiting_.clear();
    for (const auto& transfer : ended) FinishCancelled(*transfer);
  }

  void Keep(EasyHandle handle) {
    if (handle && idle_.size() < kMostIdleHandles) idle_.push_back(std::move(handle));
  }

  const Options options_;
  const std::unique_ptr<CURLM, MultiHandleDeleter> multi_;

  // Of the thread.
  std::unordered_map<Id, std::unique_ptr<Transfer>> running_;
  std::deque<std::unique_ptr<Transfer>> waiting_;
  std::vector<EasyHandle> idle_;

  std::mutex mutex_;  // guards what follows
  Id last_id_ = 0;
  bool stopping_ = false;
  std::vector<std::unique_ptr<Transfer>> started_;
  std::vector<Id> cancelled_;
  std::multimap<SteadyClock::time_point, std::function<void()>> timers_;

  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<HttpClient>> HttpClient::Create(const Options& options) {
  if (!InitializeCurl()) return Internal("libcurl cannot be initialized");
  auto engine = std::make_unique<Engine>(options);
  SHARDKIT_RETURN_IF_ERROR(engine->Launch());
  return std::unique_ptr<HttpClient>(new HttpClient(std::move(engine)));
}

HttpClient::HttpClient(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}
HttpClient::~HttpClient() = default;

HttpClient::Id HttpClient::Start(HttpRequest request, Done done) {
  return engine_->Start(std::move(request), std::move(done));
}

void HttpClient::Cancel(Id id) { engine_->Cancel(id); }

void HttpClient::After(std::chrono::milliseconds delay, std::function<void()> function) {
  engine_->After(delay, std::move(function));
}

absl::StatusOr<HttpResponse> HttpClient::Send(HttpRequest request) {
  Id id = 0;
  return Await<absl::StatusOr<HttpResponse>>([&](Done done) { id = Start(std::move(request), std::move(done)); },
                                             [&] { Cancel(id); });
}

}  // namespace shardkit::remote
