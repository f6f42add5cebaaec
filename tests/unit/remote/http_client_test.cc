// The client against a server that misbehaves.
#include "remote/http/http_client.h"

#include <condition_variable>
#include <cstdlib>
#include <future>
#include <mutex>
#include <string>
#include <vector>

#include "unit/remote/test_server.h"

namespace shardkit::remote {
namespace {

using std::chrono::milliseconds;

std::unique_ptr<HttpClient> NewClient(int requests_in_flight = 64) {
  HttpClient::Options options;
  options.requests_in_flight = requests_in_flight;
  auto client = HttpClient::Create(options);
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

HttpRequest Get(const std::string& url) {
  HttpRequest request;
  request.url = url;
  request.deadline = milliseconds(10'000);
  return request;
}

TEST(HttpClientTest, GivesStatusHeadersAndBody) {
  TestServer server([](const ServedRequest& request) {
    return ServedAnswer{404, {{"X-Thing", " a b "}}, "body of " + request.target, {}, {}, false};
  });
  const auto client = NewClient();
  HttpRequest request = Get(server.origin() + "/a%2Fb/../c?x=1");
  request.headers = {{"x-empty", ""}, {"x-value", "1"}};
  const auto response = client->Send(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->status, 404);
  EXPECT_EQ(response->Header("x-thing"), "a b");
  EXPECT_EQ(response->Header("x-other"), "");
  EXPECT_EQ(response->body, "body of /a%2Fb/../c?x=1") << "the path goes out as it is";
  const ServedRequest served = server.requests().at(0);
  EXPECT_EQ(served.headers.at("x-value"), "1");
  EXPECT_EQ(served.headers.at("x-empty"), "");
  EXPECT_FALSE(served.headers.contains("expect"));
}

TEST(HttpClientTest, SendsBodiesAndAsksForHeads) {
  TestServer server(
      [](const ServedRequest& request) { return ServedAnswer{200, {}, request.method + request.body, {}, {}, false}; });
  const auto client = NewClient();
  HttpRequest request = Get(server.origin() + "/");
  request.method = "PUT";
  request.body = std::string_view("a\0b", 3);
  EXPECT_EQ(client->Send(request)->body, "PUT" + std::string(request.body));
  request.method = "HEAD";
  const auto head = client->Send(request);
  ASSERT_TRUE(head.ok()) << head.status();
  EXPECT_EQ(head->Header("content-length"), "4");
  EXPECT_EQ(head->body, "");
}

TEST(HttpClientTest, FillsTheBufferOfARange) {
  const std::string object = "0123456789";
  TestServer server([&](const ServedRequest& request) { return ServeObject(request, object, "\"1\""); });
  const auto client = NewClient();
  std::string buffer(4, '?');
  HttpRequest request = Get(server.origin() + "/o");
  request.headers = {{"range", "bytes=3-6"}};
  request.buffer = buffer;
  const auto response = client->Send(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->status, 206);
  EXPECT_EQ(response->buffer_bytes, 4u);
  EXPECT_EQ(buffer, "3456");
  // More bytes than the buffer has are never written.
  request.headers = {{"range", "bytes=3-7"}};
  EXPECT_TRUE(absl::IsDataLoss(client->Send(request).status()));
  // A whole body in place of the range does not go into the buffer.
  request.headers.clear();
  EXPECT_EQ(client->Send(request)->body, object);
  request.body_limit = 9;
  EXPECT_TRUE(absl::IsResourceExhausted(client->Send(request).status()));
}

TEST(HttpClientTest, UsesConnectionsAgainUnlessTold) {
  TestServer server([](const ServedRequest&) { return ServedAnswer(); });
  const auto client = NewClient();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(client->Send(Get(server.origin() + "/")).ok());
  EXPECT_EQ(server.connections(), 1);
  HttpRequest fresh = Get(server.origin() + "/");
  fresh.fresh_connection = true;
  ASSERT_TRUE(client->Send(fresh).ok());
  EXPECT_EQ(server.connections(), 2);
}

TEST(HttpClientTest, SaysWhatHappenedToTheConnection) {
  TestServer server([](const ServedRequest& request) {
    ServedAnswer answer{200, {}, std::string(1000, 'x'), {}, {}, false};
    if (request.target == "/cut?secret") answer.cut_after = 500;
    if (request.target == "/reset") answer.cut_after = 500, answer.reset = true;
    if (request.target == "/slow") answer.latency = milliseconds(60'000);
    return answer;
  });
  const auto client = NewClient();
  const absl::Status cut = client->Send(Get(server.origin() + "/cut?secret")).status();
  EXPECT_TRUE(absl::IsDataLoss(cut)) << cut;
  EXPECT_NE(cut.message().find(server.origin() + "/cut?…"), cut.message().npos) << cut;
  EXPECT_EQ(cut.message().find("secret"), cut.message().npos) << cut;
  const absl::Status reset = client->Send(Get(server.origin() + "/reset")).status();
  EXPECT_TRUE(absl::IsUnavailable(reset)) << reset;
  HttpRequest slow = Get(server.origin() + "/slow");
  slow.deadline = milliseconds(50);
  EXPECT_TRUE(absl::IsDeadlineExceeded(client->Send(slow).status()));
  EXPECT_TRUE(absl::IsUnavailable(client->Send(Get("http://127.0.0.1:1/")).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(client->Send(Get("nonsense://x/")).status()));
  HttpRequest broken = Get(server.origin());
  broken.headers = {{"x-a", "b\r\nx-c: d"}};
  EXPECT_TRUE(absl::IsInvalidArgument(client->Send(broken).status()));
}

TEST(HttpClientTest, EndsWhatStallsLongBeforeTheDeadline) {
  TestServer server([](const ServedRequest&) { return ServedAnswer{200, {}, "", milliseconds(60'000), {}, false}; });
  HttpClient::Options options;
  options.stall_timeout = std::chrono::seconds(1);
  auto client = HttpClient::Create(options);
  ASSERT_TRUE(client.ok()) << client.status();
  HttpRequest request = Get(server.origin() + "/");
  request.deadline = std::chrono::hours(1);  // which the test's own limit would not wait for
  EXPECT_TRUE(absl::IsDeadlineExceeded((*client)->Send(request).status()));
}

TEST(HttpClientTest, CancelsWhatWaitsAndWhatRuns) {
  TestServer server([](const ServedRequest&) { return ServedAnswer{200, {}, "", milliseconds(60'000), {}, false}; });
  auto client = NewClient(1);
  std::vector<std::promise<absl::Status>> ends(3);
  std::vector<HttpClient::Id> ids;
  for (auto& end : ends) {
    ids.push_back(client->Start(Get(server.origin() + "/"), [&end](const absl::StatusOr<HttpResponse>& result) {
      end.set_value(result.status());
    }));
  }
  for (const int one : {1, 0}) {
    client->Cancel(ids[one]);
    EXPECT_TRUE(absl::IsCancelled(ends[one].get_future().get()));
  }
  client.reset();
  EXPECT_TRUE(absl::IsCancelled(ends[2].get_future().get())) << "the client's end cancels the rest";
}

TEST(HttpClientTest, FollowsRedirectsWithoutTakingSecretsElsewhere) {
  TestServer elsewhere(
      [](const ServedRequest& request) { return ServedAnswer{200, {}, "at " + request.target, {}, {}, false}; });
  TestServer server([&](const ServedRequest& request) {
    if (request.target == "/here") return ServedAnswer{302, {{"Location", "there?q=1"}}, "moved", {}, {}, false};
    if (request.target == "/away")
      return ServedAnswer{307, {{"Location", elsewhere.origin() + "/b"}}, "", {}, {}, false};
    if (request.target == "/round") return ServedAnswer{301, {{"Location", "/round"}}, "", {}, {}, false};
    if (request.target == "/file") return ServedAnswer{301, {{"Location", "file:///etc/passwd"}}, "", {}, {}, false};
    return ServedAnswer{200, {}, "at " + request.target, {}, {}, false};
  });
  const auto client = NewClient();
  HttpRequest request = Get(server.origin() + "/here");
  request.headers = {{"authorization", "Bearer T", /*secret=*/true}, {"range", "bytes=0-1"}};
  EXPECT_EQ(client->Send(request)->body, "at /there?q=1");
  EXPECT_EQ(server.requests().back().headers.at("authorization"), "Bearer T");
  request.url = server.origin() + "/away";
  EXPECT_EQ(client->Send(request)->body, "at /b");
  EXPECT_FALSE(elsewhere.requests().back().headers.contains("authorization"));
  EXPECT_TRUE(elsewhere.requests().back().headers.contains("range"));
  request.url = server.origin() + "/round";
  EXPECT_TRUE(absl::IsInvalidArgument(client->Send(request).status()));
  request.url = server.origin() + "/file";
  EXPECT_TRUE(absl::IsInvalidArgument(client->Send(request).status()));
  request.follow_redirects = false;
  EXPECT_EQ(client->Send(request)->status, 301);
}

TEST(HttpClientTest, WhatAServerEchoesOfSecretsIsBlanked) {
  std::atomic<int> status = 403;
  TestServer server([&](const ServedRequest& request) {
    if (request.target.starts_with("/moved"))
      return ServedAnswer{302, {{"Location", "/there?sig=QUERY%2BSECRET"}}, "", {}, {}, false};
    std::string echo = request.target;
    for (const char* name : {"authorization", "x-amz-security-token"}) {
      const auto found = request.headers.find(name);
      if (found != request.headers.end())
        echo += "|" + found->second + "|" + found->second.substr(found->second.rfind('=') + 1);
    }
    return ServedAnswer{status, {{"X-Request-Id", echo}}, "denied: " + echo + "|QUERY+SECRET", {}, {}, false};
  });
  const auto client = NewClient();
  for (const char* authorization :
       {"Bearer hf_TOKENSECRET",
        "AWS4-HMAC-SHA256 Credential=ID/20260101/r/s3/aws4_request,SignedHeaders=host,Signature=0123SECRET"}) {
    for (const char* path : {"/a?sig=QUERY%2BSECRET", "/moved"}) {
      HttpRequest request = Get(server.origin() + path);
      request.headers = {{"authorization", authorization, true}, {"x-amz-security-token", "SESSION/SECRET==", true}};
      status = 403;
      const auto refused = client->Send(request);
      ASSERT_TRUE(refused.ok()) << refused.status();
      EXPECT_EQ(refused->body.find("SECRET"), std::string::npos) << refused->body;
      EXPECT_EQ(refused->body.find("denied: /"), 0u) << refused->body;
      EXPECT_EQ(refused->Header("x-request-id").find("SECRET"), std::string::npos);
      status = 200;
      EXPECT_NE(client->Send(request)->body.find("SECRET"), std::string::npos) << "data stays as it is";
    }
  }
}

TEST(HttpClientTest, ARedirectWithAUserNameIsNotFollowed) {
  std::string origin;
  TestServer server([&](const ServedRequest& request) {
    std::string there = "http://user:PASSWORD@" + origin.substr(7) + "/there";
    return request.target == "/" ? ServedAnswer{302, {{"Location", there}}, "", {}, {}, false}
                                 : ServedAnswer{200, {}, "", {}, {}, false};
  });
  origin = server.origin();
  const absl::Status status = NewClient()->Send(Get(origin + "/")).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(status.ToString().find("PASSWORD"), std::string::npos) << status;
  EXPECT_EQ(server.requests().size(), 1u);
  EXPECT_TRUE(absl::IsInvalidArgument(NewClient()->Send(Get("http://user@" + origin.substr(7))).status()));
}

TEST(HttpClientTest, GoesPastTheProxyWhenTold) {
  TestServer server([](const ServedRequest&) { return ServedAnswer(); });
  const auto client = NewClient();
  HttpRequest request = Get(server.origin() + "/");
  setenv("http_proxy", "http://127.0.0.1:1", 1);
  const absl::Status through = client->Send(request).status();
  request.proxy = false;
  const auto past = client->Send(request);
  unsetenv("http_proxy");
  EXPECT_TRUE(absl::IsUnavailable(through)) << through;
  EXPECT_TRUE(past.ok()) << past.status();
}

TEST(HttpClientTest, ManyAtOnce) {
  TestServer server(
      [](const ServedRequest& request) { return ServedAnswer{200, {}, request.target, milliseconds(1), {}, false}; });
  const auto client = NewClient(8);
  std::vector<std::promise<std::string>> bodies(200);
  for (size_t i = 0; i < bodies.size(); ++i) {
    client->Start(Get(server.origin() + "/" + std::to_string(i)), [&bodies, i](absl::StatusOr<HttpResponse> result) {
      bodies[i].set_value(result.ok() ? result->body : std::string(result.status().message()));
    });
  }
  for (size_t i = 0; i < bodies.size(); ++i) EXPECT_EQ(bodies[i].get_future().get(), "/" + std::to_string(i));
  EXPECT_LE(server.connections(), 8);
}

// libcurl alone keeps four connections for each request that runs: a single one would end the others.
TEST(HttpClientTest, ConnectionsOutliveAPause) {
  constexpr int kTogether = 8;
  std::mutex mutex;
  std::condition_variable changed;
  int awaited = 1, arrived = 0;  // each request is answered when `awaited` of them have arrived
  TestServer server([&](const ServedRequest& request) {
    std::unique_lock lock(mutex);
    ++arrived;
    changed.notify_all();
    changed.wait(lock, [&] { return arrived >= awaited; });
    return ServedAnswer{200, {}, request.target, milliseconds(0), {}, false};
  });
  const auto client = NewClient(kTogether);
  const auto request = [&](int count) {
    {
      const std::lock_guard lock(mutex);
      awaited = arrived + count;
    }
    std::vector<std::promise<bool>> finished(count);
    for (auto& each : finished) {
      client->Start(Get(server.origin() + "/"),
                    [&](absl::StatusOr<HttpResponse> result) { each.set_value(result.ok()); });
    }
    for (auto& each : finished) EXPECT_TRUE(each.get_future().get());
  };
  request(kTogether);
  for (int i = 0; i < kTogether; ++i) request(1);
  request(kTogether);
  EXPECT_EQ(server.connections(), kTogether);
}

}  // namespace
}  // namespace shardkit::remote
