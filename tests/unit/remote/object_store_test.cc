// Objects of a server that misbehaves: whatever it does, the bytes are right or there is an error.
#include "remote/object_store.h"

#include <atomic>
#include <future>
#include <string>
#include <vector>

#include "unit/remote/test_server.h"

namespace shardkit::remote {
namespace {

using std::chrono::milliseconds;

// An environment that a program changes while it reads. Thread-safe.
class Variables {
 public:
  Variables(const TestServer& server, std::map<std::string, std::string> variables = {})
      : variables_(std::move(variables)) {
    variables_.try_emplace("AWS_ENDPOINT_URL", server.origin());
    variables_.try_emplace("HF_ENDPOINT", server.origin());
    variables_.try_emplace("AWS_EC2_METADATA_DISABLED", "true");
  }
  void Set(const std::string& name, const std::string& value) {
    const std::lock_guard lock(mutex_);
    variables_[name] = value;
  }
  std::optional<std::string> Get(const char* name) const {
    const std::lock_guard lock(mutex_);
    const auto found = variables_.find(name);
    return found == variables_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> variables_;
};

std::unique_ptr<ObjectStore> NewStore(std::shared_ptr<Variables> variables) {
  ObjectStore::Options options;
  options.environment = [variables](const char* name) { return variables->Get(name); };
  options.retry = {.attempts = 4, .first_delay = milliseconds(1), .longest_delay = milliseconds(2)};
  options.request_deadline = milliseconds(20'000);
  options.most_pages = 50;
  auto store = ObjectStore::Create(options);
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

std::unique_ptr<ObjectStore> NewStore(const TestServer& server, std::map<std::string, std::string> environment = {}) {
  return NewStore(std::make_shared<Variables>(server, std::move(environment)));
}

ObjectUrl Url(const std::string& text) { return *ParseObjectUrl(text); }

TEST(ObjectStoreTest, ReadsRangesWithCredentials) {
  TestServer server([](const ServedRequest& request) { return ServeObject(request, kObject, "\"v1\""); });
  const auto store = NewStore(
      server, {{"AWS_ACCESS_KEY_ID", "ID"}, {"AWS_SECRET_ACCESS_KEY", "KEY"}, {"AWS_REQUEST_PAYER", "requester"}});
  const auto stat = store->Stat(Url("s3://bucket/a b=c"));
  ASSERT_TRUE(stat.ok()) << stat.status();
  EXPECT_EQ(stat->size, kObject.size());
  EXPECT_EQ(stat->etag, "\"v1\"");
  std::string buffer(5, '?');
  ASSERT_TRUE(store->Read(Url("s3://bucket/a b=c"), *stat, 4, buffer).ok());
  EXPECT_EQ(buffer, kObject.substr(4, 5));
  const ServedRequest request = server.requests().back();
  EXPECT_EQ(request.target, "/bucket/a%20b%3Dc");
  EXPECT_EQ(request.headers.at("range"), "bytes=4-8");
  EXPECT_EQ(request.headers.at("if-match"), "\"v1\"");
  EXPECT_EQ(request.headers.at("x-amz-request-payer"), "requester");
  EXPECT_EQ(request.headers.at("authorization").find("AWS4-HMAC-SHA256 Credential=ID/"), 0u);
  EXPECT_EQ(request.headers.at("authorization").find("KEY"), std::string::npos);
}

TEST(ObjectStoreTest, ReadsFromWebServersAndTheHub) {
  TestServer server([](const ServedRequest& request) { return ServeObject(request, kObject, "W/\"weak\""); });
  const auto store = NewStore(server, {{"HF_TOKEN", "hf_x"}});
  std::string buffer(3, '?');
  ASSERT_TRUE(store->Read(Url(server.origin() + "/a%20b?sig=S"), {0, "W/\"weak\""}, 0, buffer).ok());
  EXPECT_EQ(buffer, "the");
  EXPECT_EQ(server.requests().back().target, "/a%20b?sig=S");
  EXPECT_FALSE(server.requests().back().headers.contains("if-match")) << "never holds for a weak ETag";
  EXPECT_FALSE(server.requests().back().headers.contains("authorization"));
  ASSERT_TRUE(store->Read(Url("hf://datasets/o/n/a b"), {}, 0, buffer).ok());
  EXPECT_EQ(server.requests().back().target, "/datasets/o/n/resolve/main/a%20b");
  EXPECT_EQ(server.requests().back().headers.at("authorization"), "Bearer hf_x");
}

TEST(ObjectStoreTest, AnObjectThatChangedIsAnError) {
  std::atomic<int> version = 1;
  std::atomic<bool> honours = true;
  TestServer server([&](ServedRequest request) {
    if (!honours) request.headers.erase("if-match");
    return ServeObject(request, kObject + std::string(version == 3 ? 1 : 0, '!'), version == 2 ? "\"2\"" : "\"1\"");
  });
  const auto store = NewStore(server);
  const ObjectVersion opened = *store->Stat(Url("s3://b/k"));
  std::string buffer(3, '?');
  for (const int now : {2, 3}) {
    version = now;
    for (const bool server_honours : {true, false}) {
      honours = server_honours;
      const absl::Status status = store->Read(Url("s3://b/k"), opened, 0, buffer).status();
      EXPECT_TRUE(absl::IsFailedPrecondition(status)) << now << status;
      EXPECT_NE(status.ToString().find("s3://b/k, bytes 0-2: "), std::string::npos) << status;
      EXPECT_NE(status.ToString().find("REQUEST-1"), std::string::npos) << status;
    }
  }
}

TEST(ObjectStoreTest, ServersThatIgnoreRanges) {
  std::string object = kObject;
  TestServer server([&](const ServedRequest&) {
    return ServedAnswer{200, {{"ETag", "\"1\""}}, object, {}, {}, false};
  });
  const auto store = NewStore(server);
  const ObjectUrl url = Url(server.origin() + "/o?token=SECRET");
  std::string buffer(5, '?');
  const auto small = store->Read(url, {}, 4, buffer);
  ASSERT_TRUE(small.ok()) << small.status();
  EXPECT_EQ(buffer, kObject.substr(4, 5));
  EXPECT_EQ(small->size, kObject.size());
  EXPECT_TRUE(absl::IsOutOfRange(store->Read(url, {}, kObject.size() - 2, buffer).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(store->Read(url, {1, ""}, 0, buffer).status()));
  object.assign(2 << 20, 'x');
  const absl::Status large = store->Read(url, {}, 4, buffer).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(large)) << large;
  EXPECT_NE(large.ToString().find("whole object"), std::string::npos) << large;
  EXPECT_EQ(large.ToString().find("SECRET"), std::string::npos) << large;
}

// As the S3 server of rclone does.
TEST(ObjectStoreTest, RangesUnderAStatusOf200) {
  const std::string object(3 << 20, 'x');
  TestServer server([&](const ServedRequest& request) {
    ServedAnswer answer = ServeObject(request, object + "end", "\"1\"");
    answer.status = 200;
    return answer;
  });
  const auto store = NewStore(server);
  EXPECT_EQ(store->Stat(Url("s3://b/k"))->size, object.size() + 3);
  std::string buffer(2 << 20, '?');
  ASSERT_TRUE(store->Read(Url("s3://b/k"), {}, object.size() + 3 - buffer.size(), buffer).ok());
  EXPECT_EQ(buffer.substr(buffer.size() - 5), "xxend");
}

TEST(ObjectStoreTest, WrongAndShortRangesAreNotTaken) {
  std::atomic<int> fault = 0;
  TestServer server([&](const ServedRequest& request) {
    ServedAnswer answer = ServeObject(request, kObject, "\"1\"");
    for (auto& header : answer.headers) {
      if (header.first != "Content-Range") continue;
      if (fault == 0) header.second = "bytes 1-5/23";
      if (fault == 1) header.second = "nonsense";
      if (fault == 2) header.second = "bytes 0-4/*";
    }
    if (fault == 3) answer.body.pop_back();
    if (fault == 4) answer.body += "more";
    return answer;
  });
  const auto store = NewStore(server);
  std::string buffer(5, '?');
  for (fault = 0; fault < 5; ++fault) {
    const absl::Status status = store->Read(Url("s3://b/k"), {}, 0, buffer).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << fault << status;
    EXPECT_NE(status.ToString().find("after 4 attempts"), std::string::npos) << status;
  }
  EXPECT_TRUE(store->Read(Url("s3://b/k"), {}, 0, buffer).ok());
}

TEST(ObjectStoreTest, FindsTheRegionOfABucket) {
  TestServer server([](const ServedRequest& request) {
    if (request.headers.at("authorization").find("/eu-central-1/s3/") != std::string::npos)
      return ServeObject(request, kObject, "\"1\"");
    return ServedAnswer{400, {{"x-amz-bucket-region", "eu-central-1"}}, "", {}, {}, false};
  });
  const auto store = NewStore(server, {{"AWS_ACCESS_KEY_ID", "ID"}, {"AWS_SECRET_ACCESS_KEY", "KEY"}});
  EXPECT_TRUE(store->Stat(Url("s3://b/k")).ok());
  EXPECT_TRUE(store->Stat(Url("s3://b/k")).ok());
  EXPECT_EQ(server.requests().size(), 3u) << "the region is known from then on";
}

TEST(ObjectStoreTest, SaysWhenThereWereNoCredentials) {
  TestServer server([](const ServedRequest&) { return ServedAnswer{403, {}, "", {}, {}, false}; });
  const absl::Status status = NewStore(server)->Stat(Url("s3://b/k")).status();
  EXPECT_TRUE(absl::IsPermissionDenied(status));
  EXPECT_NE(status.ToString().find("without credentials"), std::string::npos) << status;
}

ServedAnswer Refused(int status, const std::string& code) {
  return {status, {}, "<Error><Code>" + code + "</Code></Error>", {}, {}, false};
}

std::string AuthorizationOf(const ServedRequest& request) {
  const auto found = request.headers.find("authorization");
  return found == request.headers.end() ? "" : found->second;
}

TEST(ObjectStoreTest, CredentialsThatEndedAreLookedForOnceForAllRequests) {
  constexpr int kReads = 8;
  std::atomic<int> refused = 0, fetched = 0;
  TestServer server([&](const ServedRequest& request) {
    if (request.target == "/credentials") {
      return ServedAnswer{
          200, {}, R"({"AccessKeyId":")" + std::string(++fetched == 1 ? "OLD" : "NEW") + R"(","SecretAccessKey":"S"})",
          {},  {}, false};
    }
    if (AuthorizationOf(request).find("Credential=OLD/") == std::string::npos)
      return ServeObject(request, kObject, "\"1\"");
    // All of them are under way when the first is refused.
    ++refused;
    while (refused < kReads) std::this_thread::yield();
    return Refused(400, "ExpiredToken");
  });
  const auto store = NewStore(server, {{"AWS_CONTAINER_CREDENTIALS_FULL_URI", server.origin() + "/credentials"}});
  const ObjectUrl url = *store->Resolve("s3://b/k");
  std::vector<std::string> buffers(kReads, "?");
  std::vector<std::promise<absl::Status>> ends(kReads);
  for (int i = 0; i < kReads; ++i) {
    store->StartRead(url, {}, 0, buffers[i],
                     [&ends, i](const absl::StatusOr<ObjectVersion>& version) { ends[i].set_value(version.status()); });
  }
  for (auto& end : ends) EXPECT_EQ(end.get_future().get(), absl::OkStatus());
  EXPECT_EQ(fetched, 2);
  EXPECT_EQ(buffers, std::vector<std::string>(kReads, "t"));
}

TEST(ObjectStoreTest, EndsWhileCredentialsAreLookedFor) {
  std::promise<void> asked;
  std::atomic<int> fetched = 0;
  TestServer server([&](const ServedRequest& request) {
    if (request.target != "/credentials") return Refused(403, "AccessDenied");
    if (++fetched == 2) asked.set_value();
    return ServedAnswer{
        200, {}, R"({"AccessKeyId":"ID","SecretAccessKey":"S"})", milliseconds(fetched == 2 ? 200 : 0), {}, false};
  });
  auto store = NewStore(server, {{"AWS_CONTAINER_CREDENTIALS_FULL_URI", server.origin() + "/credentials"}});
  std::string buffer = "?";
  std::promise<absl::Status> end;
  store->StartRead(Url("s3://b/k"), {}, 0, buffer,
                   [&end](const absl::StatusOr<ObjectVersion>& version) { end.set_value(version.status()); });
  asked.get_future().wait();
  store.reset();
  EXPECT_FALSE(end.get_future().get().ok());
}

TEST(ObjectStoreTest, CredentialsThatStayRefusedAreAnErrorAfterOneLook) {
  std::atomic<int> fetched = 0;
  TestServer server([&](const ServedRequest& request) {
    if (request.target != "/credentials") return Refused(403, "AccessDenied");
    ++fetched;
    return ServedAnswer{200, {}, R"({"AccessKeyId":"ID","SecretAccessKey":"S"})", {}, {}, false};
  });
  const auto store = NewStore(server, {{"AWS_CONTAINER_CREDENTIALS_FULL_URI", server.origin() + "/credentials"}});
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(absl::IsPermissionDenied(store->Stat(Url("s3://b/k")).status()));
  EXPECT_EQ(fetched, 2);
  EXPECT_EQ(server.requests().size(), 7u);
}

TEST(ObjectStoreTest, CredentialsThatComeLaterAreFound) {
  TestServer server([](const ServedRequest& request) {
    const std::string authorization = AuthorizationOf(request);
    const bool known = authorization.find("Credential=ID/") != std::string::npos || authorization == "Bearer hf_x";
    return known ? ServeObject(request, kObject, "\"1\"") : Refused(401, "AccessDenied");
  });
  const auto variables = std::make_shared<Variables>(server);
  const auto store = NewStore(variables);
  const char* const urls[] = {"s3://b/k", "hf://datasets/o/n/k"};
  for (const char* url : urls) EXPECT_TRUE(absl::IsPermissionDenied(store->Stat(*store->Resolve(url)).status()));
  variables->Set("AWS_ACCESS_KEY_ID", "ID");
  variables->Set("AWS_SECRET_ACCESS_KEY", "KEY");
  variables->Set("HF_TOKEN", "hf_x");
  for (const char* url : urls) {
    const absl::Status status = store->Stat(*store->Resolve(url)).status();
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(ObjectStoreTest, EachOpeningTakesTheEnvironmentAsItIs) {
  const auto serve = [](const ServedRequest& request) { return ServeObject(request, kObject, "\"1\""); };
  TestServer first(serve), second(serve);
  const auto variables = std::make_shared<Variables>(
      first, std::map<std::string, std::string>{{"AWS_ACCESS_KEY_ID", "ONE"}, {"AWS_SECRET_ACCESS_KEY", "KEY"}});
  const auto store = NewStore(variables);
  const ObjectUrl opened = *store->Resolve("s3://b/k");
  ASSERT_TRUE(store->Stat(opened).ok());
  variables->Set("AWS_ENDPOINT_URL", second.origin());
  variables->Set("AWS_REGION", "eu-west-1");
  variables->Set("AWS_ACCESS_KEY_ID", "TWO");
  ASSERT_TRUE(store->Stat(*store->Resolve("s3://b/k")).ok());
  ASSERT_EQ(second.requests().size(), 1u);
  EXPECT_EQ(AuthorizationOf(second.requests()[0]).find("AWS4-HMAC-SHA256 Credential=TWO/"), 0u);
  EXPECT_NE(AuthorizationOf(second.requests()[0]).find("/eu-west-1/s3/"), std::string::npos);
  ASSERT_TRUE(store->Stat(opened).ok()) << "a file that is open stays where it was opened";
  EXPECT_EQ(AuthorizationOf(first.requests().back()).find("AWS4-HMAC-SHA256 Credential=ONE/"), 0u);
  variables->Set("AWS_ENDPOINT_URL", "nowhere");
  EXPECT_TRUE(absl::IsInvalidArgument(store->Resolve("s3://b/k").status()));
  EXPECT_TRUE(store->Resolve("hf://datasets/o/n/k").ok());
}

TEST(ObjectStoreTest, HeadersAndAQueryForWebServers) {
  TestServer server([](const ServedRequest& request) {
    const auto key = request.headers.find("x-key");
    const bool known =
        key != request.headers.end() && key->second == "SECRET: 1" && request.target.ends_with("sig=S%2B");
    return known ? ServeObject(request, kObject, "\"1\"") : ServedAnswer{403, {}, "", {}, {}, false};
  });
  const auto variables = std::make_shared<Variables>(server);
  const auto store = NewStore(variables);
  const auto stat = [&](const std::string& url) {
    const auto resolved = store->Resolve(url);
    return resolved.ok() ? store->Stat(*resolved).status() : resolved.status();
  };
  const absl::Status refused = stat(server.origin() + "/o");
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  EXPECT_NE(refused.ToString().find("SHARDKIT_HTTP_HEADERS"), std::string::npos) << refused;
  variables->Set("SHARDKIT_HTTP_HEADERS", "Accept: a/b\r\n\nX-Key:  SECRET: 1 ");
  variables->Set("SHARDKIT_HTTP_QUERY", "?v=1&sig=S%2B");
  EXPECT_EQ(stat(server.origin() + "/o"), absl::OkStatus());
  EXPECT_EQ(server.requests().back().target, "/o?v=1&sig=S%2B");
  EXPECT_EQ(server.requests().back().headers.at("accept"), "a/b");
  EXPECT_EQ(stat(server.origin() + "/o?a=b"), absl::OkStatus());
  EXPECT_EQ(server.requests().back().target, "/o?a=b&v=1&sig=S%2B");
  variables->Set("HF_TOKEN", "hf_x");
  EXPECT_FALSE(stat("hf://datasets/o/n/k").ok());
  EXPECT_FALSE(server.requests().back().headers.contains("x-key")) << "only for web servers";
  for (const char* wrong : {"SECRET", ": SECRET", "a b: SECRET", "a: SECRET\x01"}) {
    variables->Set("SHARDKIT_HTTP_HEADERS", wrong);
    const absl::Status status = stat(server.origin() + "/o");
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << wrong;
    EXPECT_EQ(status.ToString().find("SECRET"), std::string::npos) << status;
  }
  variables->Set("SHARDKIT_HTTP_HEADERS", "");
  variables->Set("SHARDKIT_HTTP_QUERY", "a b");
  EXPECT_TRUE(absl::IsInvalidArgument(stat(server.origin() + "/o")));
}

TEST(ObjectStoreTest, AQueryForAWholeFolderIsAdvised) {
  TestServer server([](const ServedRequest&) { return ServedAnswer{404, {}, "", {}, {}, false}; });
  const absl::Status status = NewStore(server)->Stat(Url(server.origin() + "/folder?sig=SECRET")).status();
  EXPECT_NE(status.ToString().find("SHARDKIT_HTTP_QUERY"), std::string::npos) << status;
  EXPECT_EQ(status.ToString().find("SECRET"), std::string::npos) << status;
}

// Each page has a name that was not there before, and says that there is another one.
TEST(ObjectStoreTest, AListingThatNeverEndsIsEnded) {
  std::atomic<int> pages = 0;
  TestServer server([&pages](const ServedRequest&) {
    const std::string number = std::to_string(1000 + ++pages);
    return ServedAnswer{200,
                        {},
                        "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>" + number +
                            "</NextContinuationToken><Contents><Key>d/" + number +
                            "</Key><Size>1</Size></Contents></ListBucketResult>",
                        {},
                        {},
                        false};
  });
  int names = 0;
  const absl::Status status = NewStore(server)->List(Url("s3://b/d"), true, [&](const ListedObject&) {
    ++names;
    return absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_NE(status.message().find("more than 50 pages"), std::string_view::npos) << status;
  EXPECT_EQ(names, 50);
}

TEST(ObjectStoreTest, ListsPages) {
  TestServer server([](const ServedRequest& request) {
    const bool second = request.target.find("continuation-token=T%2B") != std::string::npos;
    const std::string inside = second ? "<Contents><Key>d/z</Key><Size>2</Size></Contents>"
                                      : "<IsTruncated>true</IsTruncated><NextContinuationToken>T+</"
                                        "NextContinuationToken><Contents><Key>d/</Key><Size>0</Size>"
                                        "</Contents><Contents><Key>d/a</Key><Size>1</Size></"
                                        "Contents><CommonPrefixes><Prefix>d/sub/</Prefix></CommonPrefixes>";
    return ServedAnswer{200, {}, "<ListBucketResult>" + inside + "</ListBucketResult>", {}, {}, false};
  });
  const auto store = NewStore(server);
  std::vector<std::string> names;
  const auto take = [&names](const ListedObject& object) {
    names.push_back(object.name + (object.folder ? "/" : "") + ":" + std::to_string(object.size));
    return absl::OkStatus();
  };
  ASSERT_TRUE(store->List(Url("s3://b/d"), false, take).ok());
  EXPECT_EQ(names, (std::vector<std::string>{"a:1", "sub/:0", "z:2"}));
  EXPECT_EQ(server.requests()[0].target, "/b?delimiter=%2F&encoding-type=url&list-type=2&prefix=d%2F");
  EXPECT_TRUE(absl::IsDataLoss(store->List(Url("s3://b/elsewhere"), false, take)));
  EXPECT_TRUE(absl::IsUnimplemented(store->List(Url("http://h/d"), false, take)));
  const auto stop = [](const ListedObject&) { return absl::AbortedError("stop"); };
  EXPECT_TRUE(absl::IsAborted(store->List(Url("s3://b/d"), true, stop)));
}

TEST(ObjectStoreTest, CancelAndEndWaitForNoServer) {
  TestServer server([](const ServedRequest&) { return ServedAnswer{200, {}, "", milliseconds(60'000), {}, false}; });
  auto store = NewStore(server);
  std::string buffers[2] = {"?", "?"};
  std::promise<absl::Status> ends[2];
  ObjectStore::Id first = 0;
  for (int i = 0; i < 2; ++i) {
    const auto id = store->StartRead(
        Url("s3://b/k"), {}, 0, buffers[i],
        [&ends, i](const absl::StatusOr<ObjectVersion>& version) { ends[i].set_value(version.status()); });
    if (i == 0) first = id;
  }
  store->Cancel(first);
  EXPECT_TRUE(absl::IsCancelled(ends[0].get_future().get()));
  store.reset();
  EXPECT_TRUE(absl::IsCancelled(ends[1].get_future().get()));
}

}  // namespace
}  // namespace shardkit::remote
