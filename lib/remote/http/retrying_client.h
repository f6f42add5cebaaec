// Requests that are sent again when they fail, and once more when they are slow.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "remote/http/http_client.h"

namespace shardkit::remote {

// When a request has taken so long that a second one is worth sending.
//
// For one thread.
class HedgePolicy {
 public:
  using Duration = std::chrono::steady_clock::duration;

  // A request for so many bytes has begun. 5 % of the requests may be sent a second time.
  void Begin() { budget_ = budget_ < kMostBudget ? budget_ + 1 : budget_; }

  // A request for so many bytes took so long.
  void Record(uint64_t bytes, Duration duration);

  // Four times the median of the latest requests of about this size, or 0.1 s more than it, whichever is later; once a
  // hundred are known also the time that 1 % of them took longer than, if that is sooner. nullopt while there are too
  // few.
  std::optional<Duration> HedgeAfter(uint64_t bytes) const;

  // Whether the budget allows another second request; then it is spent.
  bool Spend();

 private:
  static constexpr size_t kRemembered = 200;  // of each size; 1 % are two
  static constexpr size_t kEnoughForMedian = 20;
  static constexpr size_t kEnoughForSlowest = 100;
  // Below this a wait is more likely due to this machine's own work than to a server or connection that stalls.
  static constexpr std::chrono::milliseconds kLeastAboveMedian{100};
  static constexpr uint64_t kCost = 20;  // requests that pay for one hedge
  static constexpr uint64_t kMostBudget = 10 * kCost;

  struct Class {
    std::vector<Duration> durations;  // a ring
    size_t next = 0;
  };

  // Sizes that differ by up to a factor of four are together.
  static size_t ClassOf(uint64_t bytes);

  std::array<Class, 33> classes_;
  uint64_t budget_ = 0;
};

struct RetryOptions {
  int attempts = 8;  // at least 1
  // The n-th wait is a random time of up to first_delay · 2ⁿ, at most longest_delay: clients that failed together do
  // not come back together.
  std::chrono::milliseconds first_delay{100};
  std::chrono::milliseconds longest_delay{10'000};
  std::chrono::milliseconds deadline{300'000};  // no attempt begins later after the first
};

// What is sent. Both functions are called on the client's thread, where they must not wait.
struct RetryableRequest {
  // For each attempt, because signatures hold the time.
  std::function<absl::StatusOr<HttpRequest>()> make;

  // What an answer means. After Unavailable, DeadlineExceeded and DataLoss the request is sent again.
  std::function<absl::Status(const HttpResponse&)> check;

  // Called at most once, when `check` says PermissionDenied; may be empty. Calls its argument, on any thread: with true
  // when the next attempt has other credentials, with false or an error when that is the end. Must not wait.
  std::function<void(std::function<void(absl::StatusOr<bool>)>)> renew;

  // Begins the messages of errors, with "attempts" where there were several.
  std::string description;

  // Sends a second request when the answer is slower than 99 of 100 for as many bytes. For reads into
  // HttpRequest::buffer.
  bool hedge = false;
};

// Thread-safe, but for the destructor.
class RetryingClient {
 public:
  using Done = HttpClient::Done;
  using Id = uint64_t;

  struct Counts {
    uint64_t requests = 0;  // all that were sent
    uint64_t retries = 0;
    uint64_t hedges = 0;
    uint64_t hedges_won = 0;
  };

  RetryingClient(std::unique_ptr<HttpClient> client, const RetryOptions& options);

  // Requests that are not done end with Cancelled.
  ~RetryingClient();

  // `done` is called once, on the client's thread, where it must not wait. From then on the buffer is not written to.
  // One that reads ends as if by Cancel soon after the cancellation that the caller's thread belongs to.
  Id Start(RetryableRequest request, Done done);

  // The request ends with Cancelled soon, unless it is done before.
  void Cancel(Id id);

  // Starts a request and waits for its end. Not on the client's thread.
  absl::StatusOr<HttpResponse> Send(RetryableRequest request);

  // Since the beginning.
  Counts counts() const;

  // For requests of another kind, such as those for credentials.
  HttpClient& http() { return *client_; }

 private:
  struct Operation;
  using OperationPointer = std::shared_ptr<Operation>;

  // All on the client's thread.
  void GuardedBegin(const OperationPointer& operation);
  void Begin(const OperationPointer& operation);
  void Send(const OperationPointer& operation, HttpRequest request, bool hedge);
  void EndWhenCancelled(const OperationPointer& operation);
  void Cancel(const OperationPointer& operation);
  void ScheduleHedge(const OperationPointer& operation, HedgePolicy::Duration wait);
  void Answer(const OperationPointer& operation, bool hedge, absl::StatusOr<HttpResponse> answer);
  void Settle(const OperationPointer& operation);
  void Renewed(const OperationPointer& operation, const absl::StatusOr<bool>& renewed);
  void Fail(const OperationPointer& operation);
  void Finish(const OperationPointer& operation, absl::StatusOr<HttpResponse> result);
  std::chrono::milliseconds Delay(const Operation& operation);

  const RetryOptions options_;
  std::atomic<Id> last_id_{0};
  std::atomic<uint64_t> requests_{0}, retries_{0}, hedges_{0}, hedges_won_{0};

  // Of the client's thread.
  HedgePolicy hedge_policy_;
  std::mt19937_64 random_{std::random_device()()};
  std::unordered_map<Id, OperationPointer> operations_;

  // Last, so that its thread ends before the members above.
  const std::unique_ptr<HttpClient> client_;
};

}  // namespace shardkit::remote
