// Objects of a server that misbehaves: whatever it does, the bytes are right or there is an error.
#include "remote/object_store.h"

#include <future>
#include <string>
#include <vector>

#include "unit/remote/test_server.h"

namespace shardkit::remote {
namespace {

using std::chrono::milliseconds;

std::unique_ptr<ObjectStore> NewStore(const TestServer& server, std::map<std::string, std::string> environment = {}) {
  environment.try_emplace("AWS_ENDPOINT_URL", server.origin());
  environment.try_emplace("HF_ENDPOINT", server.origin());
  environment.try_emplace("AWS_EC2_METADATA_DISABLED", "true");
  ObjectStore::Options options;
  options.environment = [environment](const char* name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  };
  options.retry = {.attempts = 4, .first_delay = milliseconds(1), .longest_delay = milliseconds(2)};
  options.request_deadline = milliseconds(20'000);
  auto store = ObjectStore::Create(options);
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
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
