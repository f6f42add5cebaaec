// Retries and hedges against a server that misbehaves.
#include "remote/http/retrying_client.h"

#include <atomic>
#include <future>
#include <string>
#include <thread>

#include "base/thread_pool.h"
#include "remote/http/answers.h"
#include "shardkit/job.h"
#include "unit/remote/test_server.h"

namespace shardkit::remote {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kForEver = std::chrono::hours(24);

RetryOptions ShortDelays(int attempts = 8) {
  RetryOptions options;
  options.attempts = attempts;
  options.first_delay = milliseconds(1);
  options.longest_delay = milliseconds(4);
  return options;
}

std::unique_ptr<RetryingClient> NewRetryingClient(const RetryOptions& options = ShortDelays(),
                                                  const HttpClient::Options& http_options = {}) {
  auto http = HttpClient::Create(http_options);
  EXPECT_TRUE(http.ok()) << http.status();
  return std::make_unique<RetryingClient>(*std::move(http), options);
}

// Reads the object's first bytes into the buffer.
RetryableRequest Read(const TestServer& server, std::string* buffer) {
  RetryableRequest request;
  request.description = "object, bytes 0-" + std::to_string(buffer->size() - 1);
  request.hedge = true;
  request.make = [url = server.origin() + "/o", buffer]() -> absl::StatusOr<HttpRequest> {
    HttpRequest http;
    http.url = url;
    http.headers = {{"range", "bytes=0-" + std::to_string(buffer->size() - 1)}};
    http.buffer = *buffer;
    http.deadline = milliseconds(20'000);
    return http;
  };
  request.check = &StatusOfAnswer;
  return request;
}

TEST(RetryingClientTest, GoesOnAfterEachFault) {
  std::atomic<int> calls = 0;
  TestServer server([&](const ServedRequest& request) {
    ServedAnswer answer = ServeObject(request, kObject, "\"1\"");
    switch (++calls) {
      case 1:
        return ServedAnswer{503, {}, "<Error><Code>SlowDown</Code></Error>", {}, {}, false};
      case 2:
        return ServedAnswer{429, {{"Retry-After", "0"}}, "", {}, {}, false};
      case 3:
        answer.cut_after = 3;
        return answer;
      case 4:
        answer.cut_after = 3;
        answer.reset = true;
        return answer;
      case 5:
        return ServedAnswer{500, {}, "", {}, {}, false};
      default:
        return answer;
    }
  });
  const auto client = NewRetryingClient();
  std::string buffer(kObject.size(), '?');
  const auto response = client->Send(Read(server, &buffer));
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(buffer, kObject);
  EXPECT_EQ(response->buffer_bytes, kObject.size());
  EXPECT_EQ(client->counts().retries, 5u);
  EXPECT_EQ(server.connections(), 6) << "each retry takes a fresh connection";
}

TEST(RetryingClientTest, GivesUpWithWords) {
  std::atomic<int> status = 503;
  TestServer server([&](const ServedRequest&) {
    return ServedAnswer{status, {{"x-amz-request-id", "R1"}}, "", {}, {}, false};
  });
  const auto client = NewRetryingClient(ShortDelays(3));
  std::string buffer(4, '?');
  const absl::Status busy = client->Send(Read(server, &buffer)).status();
  EXPECT_TRUE(absl::IsUnavailable(busy)) << busy;
  EXPECT_EQ(std::string(busy.message()),
            "object, bytes 0-3: status 503 (request id R1): the server failed; try later, after 3 attempts");
  EXPECT_EQ(server.requests().size(), 3u);
  status = 404;
  const absl::Status missing = client->Send(Read(server, &buffer)).status();
  EXPECT_TRUE(absl::IsNotFound(missing)) << missing;
  EXPECT_EQ(server.requests().size(), 4u) << "what will not change is not asked for again";
}

// No attempt would begin before the deadline, so there is no waiting for one.
TEST(RetryingClientTest, NoAttemptComesBeforeTheTimeThatTheServerSays) {
  TestServer server([](const ServedRequest&) { return ServedAnswer{503, {{"Retry-After", "60"}}, "", {}, {}, false}; });
  RetryOptions options = ShortDelays();
  options.deadline = milliseconds(30'000);
  const auto client = NewRetryingClient(options);
  std::string buffer(4, '?');
  const absl::Status busy = client->Send(Read(server, &buffer)).status();
  EXPECT_TRUE(absl::IsUnavailable(busy)) << busy;
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(RetryingClientTest, BodiesThatStayCutAreDataLoss) {
  TestServer server([&](const ServedRequest& request) {
    ServedAnswer answer = ServeObject(request, kObject, "\"1\"");
    answer.cut_after = 3;
    return answer;
  });
  const auto client = NewRetryingClient(ShortDelays(3));
  std::string buffer(kObject.size(), '?');
  EXPECT_TRUE(absl::IsDataLoss(client->Send(Read(server, &buffer)).status()));
}

TEST(RetryingClientTest, CancelEndsAttemptsAndWaits) {
  TestServer server([](const ServedRequest& request) {
    if (request.target == "/o") return ServedAnswer{200, {}, "", milliseconds(60'000), {}, false};
    return ServedAnswer{503, {}, "", {}, {}, false};
  });
  auto client = NewRetryingClient({.first_delay = kForEver, .longest_delay = kForEver, .deadline = 2 * kForEver});
  std::string buffer(4, '?');
  RetryableRequest waiting = Read(server, &buffer);
  waiting.make = [&server]() -> absl::StatusOr<HttpRequest> {
    HttpRequest request;
    request.url = server.origin() + "/busy";
    return request;
  };
  std::promise<absl::Status> ends[3];
  const auto end = [&ends](int which) {
    return [&ends, which](const absl::StatusOr<HttpResponse>& result) { ends[which].set_value(result.status()); };
  };
  const auto runs = client->Start(Read(server, &buffer), end(0));
  const auto waits = client->Start(waiting, end(1));
  while (server.requests().size() < 2) std::this_thread::sleep_for(milliseconds(1));
  client->Cancel(runs);
  EXPECT_TRUE(absl::IsCancelled(ends[0].get_future().get()));
  client->Cancel(waits);
  EXPECT_TRUE(absl::IsCancelled(ends[1].get_future().get()));
  client->Cancel(waits);  // nothing happens
  client->Start(Read(server, &buffer), end(2));
  client.reset();
  EXPECT_TRUE(absl::IsCancelled(ends[2].get_future().get()));
}

TEST(RetryingClientTest, ReadsEndWithTheCancellationOfTheirThread) {
  std::atomic<bool> silent = true;
  TestServer server([&](const ServedRequest& request) {
    ServedAnswer answer = ServeObject(request, kObject, "\"1\"");
    if (silent && request.method == "GET") answer.latency = milliseconds(60'000);
    return answer;
  });
  const auto cancellation = std::make_shared<Cancellation>();
  std::string buffer(4, '?'), other(4, '?');
  std::promise<absl::Status> others;  // outlives the client, which ends what is left
  const auto client = NewRetryingClient();
  client->Start(Read(server, &other),
                [&](const absl::StatusOr<HttpResponse>& result) { others.set_value(result.status()); });
  std::thread canceller([&] {
    while (server.requests().size() < 2) std::this_thread::sleep_for(milliseconds(1));
    cancellation->Cancel();
  });
  {
    const CancellationScope scope(cancellation);
    ThreadPool pool(1);  // to which it goes with the task
    auto pending =
        Pending<absl::Status>::Run(pool, "reading", [&] { return client->Send(Read(server, &buffer)).status(); });
    EXPECT_TRUE(absl::IsCancelled(pending.Take()));
    canceller.join();
    silent = false;
    // Begun afterwards, as to put things in order, it has half a second, which a busy machine may need for itself.
    absl::Status late = absl::UnknownError("");
    for (int attempt = 0; attempt < 20 && !late.ok(); ++attempt) late = client->Send(Read(server, &buffer)).status();
    EXPECT_TRUE(late.ok()) << late;
  }
  EXPECT_EQ(CancellationScope::Current(), nullptr);
  EXPECT_EQ(others.get_future().wait_for(milliseconds(0)), std::future_status::timeout) << "of another thread";
}

TEST(RetryingClientTest, WritesDoNotEndWithTheCancellationOfTheirThread) {
  const auto cancellation = std::make_shared<Cancellation>();
  TestServer server([&](const ServedRequest&) {
    cancellation->Cancel();
    return ServedAnswer{200, {}, "", milliseconds(500), {}, false};
  });
  const auto client = NewRetryingClient();
  RetryableRequest write;
  write.description = "object";
  write.make = [&server]() -> absl::StatusOr<HttpRequest> {
    HttpRequest request;
    request.method = "PUT";
    request.url = server.origin() + "/o";
    return request;
  };
  write.check = &StatusOfAnswer;
  const CancellationScope scope(cancellation);
  EXPECT_TRUE(client->Send(write).ok());
}

// Of the two only the second one ends by itself, so the test ends because the first is cancelled.
TEST(RetryingClientTest, SendsASecondRequestWhenTheFirstStalls) {
  std::atomic<bool> stall = false;
  TestServer server([&](const ServedRequest& request) {
    ServedAnswer answer = ServeObject(request, kObject, "\"1\"");
    if (stall.exchange(false)) answer.latency = kForEver;
    return answer;
  });
  HttpClient::Options patient;
  patient.stall_timeout = std::chrono::hours(24);
  const auto client = NewRetryingClient(ShortDelays(1), patient);
  std::string buffer(kObject.size(), '?');
  for (int i = 0; i < 200; ++i) {
    RetryableRequest read = Read(server, &buffer);
    read.hedge = false;
    ASSERT_TRUE(client->Send(read).ok());
  }
  buffer.assign(kObject.size(), '?');
  stall = true;
  RetryableRequest stalls = Read(server, &buffer);
  stalls.make = [make = stalls.make]() -> absl::StatusOr<HttpRequest> {
    absl::StatusOr<HttpRequest> request = make();
    request->deadline = kForEver;
    return request;
  };
  const auto response = client->Send(stalls);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(buffer, kObject);
  // Behind another request the first one has come to its end, too.
  RetryableRequest last = Read(server, &buffer);
  last.hedge = false;
  ASSERT_TRUE(client->Send(last).ok());
  EXPECT_EQ(client->counts().hedges_won, 1u) << "the read has ended once";
  EXPECT_EQ(client->counts().requests, 203u);
}

}  // namespace
}  // namespace shardkit::remote
