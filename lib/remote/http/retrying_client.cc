#include "remote/http/retrying_client.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/errors.h"
#include "base/exceptions.h"
#include "remote/http/await.h"
#include "shardkit/job.h"

namespace shardkit::remote {
namespace {

using SteadyClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

bool WorthAnotherAttempt(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsDataLoss(status);
}

// How often a request that may be sent a second time is looked at, as long as that is not known or not allowed.
constexpr milliseconds kLookAgain{100};

// Of a request that reads and begins after the cancellation of its thread.
constexpr milliseconds kTimeToPutInOrder{500};

// What the server asks for, in whole seconds; 0 when nothing.
milliseconds RetryAfter(const HttpResponse& response) {
  uint32_t seconds = 0;
  if (!absl::SimpleAtoi(ToAbsl(response.Header("retry-after")), &seconds)) return milliseconds(0);
  return std::chrono::seconds(std::min<uint32_t>(seconds, 60));
}

}  // namespace

// What there is at most at one time: the request of an attempt and its hedge.
struct RetryingClient::Operation {
  Id id = 0;
  RetryableRequest request;
  Done done;
  std::shared_ptr<const Cancellation> cancellation;  // may be null
  bool late = false;                                 // begun after Cancel(), as to put things in order
  bool reads = false;                                // of others it would not be known what the store has done
  SteadyClock::time_point begin = SteadyClock::now();

  int attempt = 0;  // from 1
  SteadyClock::time_point attempt_begin;
  std::span<char> buffer;
  HttpClient::Id primary = 0;  // 0: not under way
  HttpClient::Id hedge = 0;
  std::optional<HttpResponse> winner;
  bool hedge_won = false;
  absl::Status error;  // of the attempt's first request that failed
  milliseconds retry_after{0};
  bool renewed = false;
  bool cancelled = false;
};

RetryingClient::RetryingClient(std::unique_ptr<HttpClient> client, const RetryOptions& options)
    : options_(options), client_(std::move(client)) {}

RetryingClient::~RetryingClient() = default;

RetryingClient::Counts RetryingClient::counts() const { return {requests_, retries_, hedges_, hedges_won_}; }

RetryingClient::Id RetryingClient::Start(RetryableRequest request, Done done) {
  const auto operation = std::make_shared<Operation>();
  operation->id = ++last_id_;
  operation->request = std::move(request);
  operation->done = std::move(done);
  operation->cancellation = CancellationScope::Current();
  operation->late = operation->cancellation && operation->cancellation->cancelled();
  client_->After(milliseconds(0), [this, operation] {
    operations_.emplace(operation->id, operation);
    GuardedBegin(operation);
    if (operation->cancellation) EndWhenCancelled(operation);
  });
  return operation->id;
}

void RetryingClient::EndWhenCancelled(const OperationPointer& operation) {
  if (!operation->done) return;
  const bool due = !operation->late || SteadyClock::now() - operation->begin > kTimeToPutInOrder;
  if (operation->reads && due && operation->cancellation->cancelled()) return Cancel(operation);
  client_->After(kLookForCancellation, [this, operation] { EndWhenCancelled(operation); });
}

void RetryingClient::Cancel(Id id) {
  client_->After(milliseconds(0), [this, id] {
    const auto found = operations_.find(id);
    if (found != operations_.end()) Cancel(OperationPointer(found->second));
  });
}

void RetryingClient::Cancel(const OperationPointer& operation) {
  operation->cancelled = true;
  if (operation->primary != 0) client_->Cancel(operation->primary);
  if (operation->hedge != 0) client_->Cancel(operation->hedge);
  if (operation->primary == 0 && operation->hedge == 0) Settle(operation);  // it waits for its next attempt
}

absl::StatusOr<HttpResponse> RetryingClient::Send(RetryableRequest request) {
  return Await<absl::StatusOr<HttpResponse>>([&](Done done) { Start(std::move(request), std::move(done)); });
}

void RetryingClient::GuardedBegin(const OperationPointer& operation) {
  absl::Status begun = Guarded(operation->request.description, [&]() -> absl::Status {
    Begin(operation);
    return absl::OkStatus();
  });
  // Without an end, who waits for it would wait for ever.
  if (!begun.ok() && operation->done) Finish(operation, std::move(begun));
}

void RetryingClient::Begin(const OperationPointer& operation) {
  if (!operation->done) return;  // cancelled while it waited
  ++operation->attempt;
  operation->attempt_begin = SteadyClock::now();
  operation->error = absl::OkStatus();
  operation->retry_after = milliseconds(0);
  absl::StatusOr<HttpRequest> request = operation->request.make();
  if (!request.ok()) return Finish(operation, std::move(request).status());
  operation->buffer = request->buffer;
  operation->reads = request->method == "GET" || request->method == "HEAD";
  if (operation->attempt > 1) {
    request->fresh_connection = true;
    ++retries_;
  }
  hedge_policy_.Begin();
  if (operation->request.hedge && !request->buffer.empty()) {
    ScheduleHedge(operation, hedge_policy_.HedgeAfter(request->buffer.size()).value_or(kLookAgain));
  }
  Send(operation, *std::move(request), /*hedge=*/false);
}

void RetryingClient::Send(const OperationPointer& operation, HttpRequest request, bool hedge) {
  ++requests_;
  const HttpClient::Id id = client_->Start(
      std::move(request),
      [this, operation, hedge](absl::StatusOr<HttpResponse> answer) { Answer(operation, hedge, std::move(answer)); });
  (hedge ? operation->hedge : operation->primary) = id;
}

void RetryingClient::ScheduleHedge(const OperationPointer& operation, HedgePolicy::Duration wait) {
  client_->After(std::chrono::ceil<milliseconds>(wait), [this, operation, attempt = operation->attempt] {
    const bool waits =
        operation->attempt == attempt && operation->primary != 0 && !operation->winner && !operation->cancelled;
    if (!waits) return;
    // What is usual may not be known yet, or the budget be spent: then it is looked at again.
    const auto after = hedge_policy_.HedgeAfter(operation->buffer.size());
    const auto waited = SteadyClock::now() - operation->attempt_begin;
    if (!after || waited < *after) return ScheduleHedge(operation, after ? *after - waited : kLookAgain);
    if (!hedge_policy_.Spend()) return ScheduleHedge(operation, kLookAgain);
    absl::StatusOr<HttpRequest> again = operation->request.make();
    if (!again.ok()) return;
    // The first request goes on to write to the buffer, so the second one's bytes are kept apart until it has won.
    again->body_limit = std::max<uint64_t>(again->body_limit, again->buffer.size());
    again->buffer = {};
    again->fresh_connection = true;
    ++hedges_;
    Send(operation, *std::move(again), /*hedge=*/true);
  });
}

void RetryingClient::Answer(const OperationPointer& operation, bool hedge, absl::StatusOr<HttpResponse> answer) {
  (hedge ? operation->hedge : operation->primary) = 0;
  const HttpClient::Id other = hedge ? operation->primary : operation->hedge;
  if (!operation->winner) {
    absl::Status status = answer.status();
    if (answer.ok()) {
      // As if they had gone into the buffer.
      if (hedge && answer->partial()) answer->buffer_bytes = answer->body.size();
      status = answer->buffer_bytes <= operation->buffer.size() ? operation->request.check(*answer)
                                                                : DataLoss("the server sent more than was asked for");
      operation->retry_after = RetryAfter(*answer);
    }
    if (status.ok()) {
      operation->winner = *std::move(answer);
      operation->hedge_won = hedge;
      if (other != 0) client_->Cancel(other);
    } else if (operation->error.ok()) {
      operation->error = std::move(status);
    }
  }
  // The caller must not get its buffer back while a request still writes to it.
  if (other == 0) Settle(operation);
}

void RetryingClient::Settle(const OperationPointer& operation) {
  if (operation->winner) {
    HttpResponse& response = *operation->winner;
    if (operation->hedge_won) {
      ++hedges_won_;
      if (response.buffer_bytes > 0) {
        std::memcpy(operation->buffer.data(), response.body.data(), response.body.size());
        response.body.clear();
      }
    }
    hedge_policy_.Record(operation->buffer.size(), SteadyClock::now() - operation->attempt_begin);
    return Finish(operation, std::move(response));
  }
  if (operation->cancelled)
    return Finish(operation, Cancelled(operation->request.description, ": the request was cancelled"));
  if (absl::IsPermissionDenied(operation->error) && operation->request.renew &&
      !std::exchange(operation->renewed, true)) {
    return operation->request.renew([this, operation](const absl::StatusOr<bool>& renewed) {
      client_->After(milliseconds(0), [this, operation, renewed] { Renewed(operation, renewed); });
    });
  }
  const milliseconds delay = Delay(*operation);
  const bool again = WorthAnotherAttempt(operation->error) && operation->attempt < options_.attempts &&
                     SteadyClock::now() + delay - operation->begin <= options_.deadline;
  if (again) {
    client_->After(delay, [this, operation] { GuardedBegin(operation); });
    return;
  }
  Fail(operation);
}

void RetryingClient::Renewed(const OperationPointer& operation, const absl::StatusOr<bool>& renewed) {
  if (!operation->done) return;  // cancelled while it waited
  if (renewed.ok() && *renewed) return GuardedBegin(operation);
  if (!renewed.ok()) {
    operation->error = absl::Status(operation->error.code(),
                                    ToAbsl(StrCat(ToStd(operation->error.message()),
                                                  "; looking for others failed: ", ToStd(renewed.status().message()))));
  }
  Fail(operation);
}

void RetryingClient::Fail(const OperationPointer& operation) {
  const std::string attempts = operation->attempt > 1 ? StrCat(", after ", operation->attempt, " attempts") : "";
  Finish(operation, absl::Status(operation->error.code(), ToAbsl(StrCat(operation->request.description, ": ",
                                                                        ToStd(operation->error.message()), attempts))));
}

void RetryingClient::Finish(const OperationPointer& operation, absl::StatusOr<HttpResponse> result) {
  operations_.erase(operation->id);
  const Done done = std::exchange(operation->done, nullptr);
  done(std::move(result));
}

std::chrono::milliseconds RetryingClient::Delay(const Operation& operation) {
  const int doublings = std::clamp(operation.attempt - 1, 0, 20);
  const int64_t longest = std::min(options_.first_delay.count() << doublings, options_.longest_delay.count());
  const milliseconds delay(std::uniform_int_distribution<int64_t>(0, longest)(random_));
  return std::max(delay, operation.retry_after);
}

size_t HedgePolicy::ClassOf(uint64_t bytes) { return static_cast<size_t>(std::bit_width(bytes)) / 2; }

void HedgePolicy::Record(uint64_t bytes, Duration duration) {
  Class& of_size = classes_[ClassOf(bytes)];
  if (of_size.durations.size() < kRemembered) {
    of_size.durations.push_back(duration);
  } else {
    of_size.durations[of_size.next] = duration;
    of_size.next = (of_size.next + 1) % kRemembered;
  }
}

std::optional<HedgePolicy::Duration> HedgePolicy::HedgeAfter(uint64_t bytes) const {
  std::vector<Duration> durations = classes_[ClassOf(bytes)].durations;
  if (durations.size() < kEnoughForMedian) return std::nullopt;
  const auto slowest = durations.begin() + static_cast<ptrdiff_t>(durations.size() / 100);
  std::nth_element(durations.begin(), slowest, durations.end(), std::greater<>());
  const Duration slowest_of_100 = durations.size() < kEnoughForSlowest ? Duration::max() : *slowest;
  const auto middle = durations.begin() + static_cast<ptrdiff_t>(durations.size() / 2);
  std::nth_element(durations.begin(), middle, durations.end());
  return std::min(slowest_of_100, std::max<Duration>(4 * *middle, *middle + kLeastAboveMedian));
}

bool HedgePolicy::Spend() {
  if (budget_ < kCost) return false;
  budget_ -= kCost;
  return true;
}

}  // namespace shardkit::remote
