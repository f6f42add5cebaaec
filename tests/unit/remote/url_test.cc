// URLs of objects and the addresses that their requests go to.
#include "remote/url.h"

#include "shardkit/remote.h"

namespace shardkit::remote {
namespace {

TEST(UrlTest, RecognizesSchemes) {
  for (const char* path : {"s3://b/k", "gs://b", "http://h/p", "https://h", "hf://datasets/a/b"})
    EXPECT_TRUE(IsRemotePath(path)) << path;
  for (const char* path : {"", "/s3://b", "s3:/b", "S3://b", "file:///a", "ftp://h/p", "a/s3://b/k"})
    EXPECT_FALSE(IsRemotePath(path)) << path;
}

TEST(UrlTest, ParsesAndDescribes) {
  const auto s3 = ParseObjectUrl("s3://bucket/a b/c=1?x#y%20+ü");
  ASSERT_TRUE(s3.ok()) << s3.status();
  EXPECT_EQ(s3->bucket, "bucket");
  EXPECT_EQ(s3->key, "a b/c=1?x#y%20+ü") << "keys are taken as they are";
  EXPECT_EQ(Describe(*s3), "s3://bucket/a b/c=1?x#y%20+ü");
  EXPECT_EQ(ParseObjectUrl("gs://bucket")->key, "");
  const auto http = ParseObjectUrl("https://host:8443/a%20b?signature=S");
  EXPECT_EQ(http->bucket, "https://host:8443");
  EXPECT_EQ(http->key, "a%20b?signature=S");
  EXPECT_EQ(Describe(*http), "https://host:8443/a%20b?…");
  const auto face = ParseObjectUrl("hf://datasets/owner/name@refs/pr");
  EXPECT_EQ(face->bucket, "owner/name");
  EXPECT_EQ(face->revision, "refs");
  EXPECT_EQ(face->key, "pr");
  EXPECT_EQ(Describe(*ParseObjectUrl("hf://datasets/owner/name/a/b")), "hf://datasets/owner/name/a/b");
}

TEST(UrlTest, QueriesAreKeptApart) {
  const auto key = [](const std::string& url) { return ParseObjectUrl(url)->key; };
  EXPECT_EQ(KeepQuery("https://kept/d/x.tar?a=1&sig=S#f"), "https://kept/d/x.tar");
  EXPECT_EQ(KeepQuery("https://kept/folder/?sig=F"), "https://kept/folder/");
  for (const char* path : {"https://kept/none", "s3://bucket/key?a=1", "/folder/x?a", "", "x?y"})
    EXPECT_EQ(KeepQuery(path), path);
  EXPECT_EQ(key("https://kept/d/x.tar"), "d/x.tar?a=1&sig=S");
  EXPECT_FALSE(ParseObjectUrl("https://kept/d/x.tar")->derived);
  EXPECT_EQ(key("https://kept/d/x.tar.shardidx"), "d/x.tar.shardidx?a=1&sig=S");
  EXPECT_TRUE(ParseObjectUrl("https://kept/d/x.tar.shardidx")->derived);
  EXPECT_EQ(key("https://kept/folder/a/b.shard"), "folder/a/b.shard?sig=F");
  EXPECT_EQ(key("https://kept/folder"), "folder?sig=F");
  EXPECT_EQ(key("https://kept/d/x.tar?own=1"), "d/x.tar?own=1");
  for (const char* url : {"https://kept/d/x.tarball", "https://kept/d/x", "https://kept/d", "http://kept/d/x.tar",
                          "https://other/d/x.tar"})
    EXPECT_EQ(key(url).find('?'), std::string::npos) << url;
  KeepQuery("https://kept/d/x.tar?sig=T");
  EXPECT_EQ(key("https://kept/d/x.tar"), "d/x.tar?sig=T");
  EXPECT_EQ(Describe(*ParseObjectUrl("https://kept/d/x.tar")), "https://kept/d/x.tar?…");
}

TEST(UrlTest, RefusesWhatItCannotReach) {
  for (const char* url : {"ftp://h/p", "s3://", "s3:///key", "s3://a@b/k", "s3://a:1/k", "https://", "https:///p",
                          "http://user:secret@host/p", "hf://models/a/b", "hf://datasets/a", "hf://datasets//b/c",
                          "hf://datasets/a//c", "hf://datasets/a/b@/c", "s3://b/a\nb"}) {
    const auto parsed = ParseObjectUrl(url);
    EXPECT_TRUE(absl::IsInvalidArgument(parsed.status())) << url;
    EXPECT_EQ(std::string(parsed.status().message()).find("secret"), std::string::npos) << parsed.status();
  }
}

TEST(UrlTest, EncodesKeysAsSignaturesWantThem) {
  const Endpoint amazon = {"", "eu-west-1", false};
  EXPECT_EQ(S3Target(amazon, "bucket", "a b/c=1+ü~%2F.._-").Url(),
            "https://bucket.s3.eu-west-1.amazonaws.com/a%20b/c%3D1%2B%C3%BC~%252F.._-");
  EXPECT_EQ(S3Target(amazon, "dotted.bucket", "k").Url(), "https://s3.eu-west-1.amazonaws.com/dotted.bucket/k");
  EXPECT_EQ(S3Target(amazon, "Bucket", "").Url(), "https://s3.eu-west-1.amazonaws.com/Bucket");
  EXPECT_EQ(S3Target({"", "cn-north-1", false}, "b", "k").Host(), "b.s3.cn-north-1.amazonaws.com.cn");
  EXPECT_EQ(S3Target({"http://localhost:9000", "", true}, "bucket", "k").Url(), "http://localhost:9000/bucket/k");
  EXPECT_EQ(S3Target({"http://localhost:9000", "", false}, "bucket", "").Url(), "http://bucket.localhost:9000/");
  Target list = S3Target(amazon, "bucket", "");
  list.query = {{"prefix", "a=b c/"}, {"list-type", "2"}};
  EXPECT_EQ(list.Url(), "https://bucket.s3.eu-west-1.amazonaws.com/?list-type=2&prefix=a%3Db%20c%2F");
  EXPECT_EQ(HuggingFaceTarget("https://huggingface.co", *ParseObjectUrl("hf://datasets/o/n@v1/a b/c")).Url(),
            "https://huggingface.co/datasets/o/n/resolve/v1/a%20b/c");
}

TEST(UrlTest, ChecksOrigins) {
  EXPECT_EQ(*CheckOrigin("http://localhost:9000/", "AWS_ENDPOINT_URL"), "http://localhost:9000");
  for (const char* origin : {"", "localhost:9000", "http://", "ftp://h", "http://h/p", "http://u:p@h", "http://h?x"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckOrigin(origin, "AWS_ENDPOINT_URL").status())) << origin;
  }
}

TEST(UrlTest, AddressesOfTheInternet) {
  for (const char* address : {"1.1.1.1", "9.255.255.255", "172.15.0.1", "172.32.0.1", "192.167.1.1", "100.63.0.1",
                              "100.128.0.1", "169.253.1.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"}) {
    EXPECT_TRUE(IsPublicAddress(address)) << address;
  }
  for (const char* address : {"",
                              "host",
                              "0.0.0.0",
                              "10.1.2.3",
                              "127.0.0.1",
                              "127.9.9.9",
                              "169.254.169.254",
                              "172.16.0.1",
                              "172.31.255.255",
                              "192.168.0.1",
                              "100.64.0.1",
                              "224.0.0.1",
                              "255.255.255.255",
                              "::",
                              "::1",
                              "fe80::1",
                              "fe80::1%eth0",
                              "fd00::1",
                              "fec0::1",
                              "ff02::1",
                              "::ffff:127.0.0.1",
                              "::ffff:a00:1",
                              "64:ff9b::7f00:1"}) {
    EXPECT_FALSE(IsPublicAddress(address)) << address;
  }
}

TEST(UrlTest, RedirectsStayAsSafeAsTheyWere) {
  EXPECT_EQ(*ResolveRedirect("https://h/a/b?x", "../c?d"), "https://h/c?d");
  EXPECT_EQ(*ResolveRedirect("http://h/a", "https://i/b"), "https://i/b");
  EXPECT_TRUE(absl::IsInvalidArgument(ResolveRedirect("https://h/a", "http://h/a").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ResolveRedirect("http://h/a", "file:///etc/passwd").status()));
  EXPECT_TRUE(SameOrigin("https://H/a", "https://h:443/b"));
  EXPECT_FALSE(SameOrigin("https://h/a", "http://h/a"));
  EXPECT_FALSE(SameOrigin("https://h/a", "https://h:444/a"));
  EXPECT_FALSE(SameOrigin("https://h/a", "https://h.evil/a"));
  EXPECT_FALSE(SameOrigin("https://h/a", "https://h@evil/a"));
}

}  // namespace
}  // namespace shardkit::remote
