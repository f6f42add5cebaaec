// The signer against the examples of AWS's documentation, and with keys that others get wrong.
#include "remote/credentials/signature.h"

#include <algorithm>

namespace shardkit::remote {
namespace {

const KeyCredentials kExampleKeys = {"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};
const SigningScope kExampleScope = {"us-east-1", "s3",
                                    std::chrono::system_clock::from_time_t(1369353600)};  // 2013-05-24
const Target kExampleBucket = {"https://examplebucket.s3.amazonaws.com", "/", {}};

std::string Value(const std::vector<HttpHeader>& headers, std::string_view name) {
  const auto found = std::ranges::find(headers, name, &HttpHeader::name);
  return found == headers.end() ? "" : found->value;
}

std::string SignatureOf(std::string_view method, const Target& target, std::vector<HttpHeader> headers,
                        std::string_view body, const SigningScope& scope = kExampleScope,
                        const KeyCredentials& keys = kExampleKeys) {
  EXPECT_TRUE(Sign(scope, keys, method, target, Sha256Hex(body), &headers).ok());
  const std::string authorization = Value(headers, "authorization");
  return authorization.substr(authorization.find("Signature=") + 10);
}

// "Examples: Signature Calculations" of the S3 API reference.
TEST(SignatureTest, ExamplesOfTheS3Reference) {
  Target target = kExampleBucket;
  target.path = "/test.txt";
  EXPECT_EQ(SignatureOf("GET", target, {{"range", "bytes=0-9"}}, ""),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  target.path = "/" + PercentEncode("test$file.text", true);
  EXPECT_EQ(SignatureOf("PUT", target,
                        {{"date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                        "Welcome to Amazon S3."),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
  target = kExampleBucket;
  target.query = {{"lifecycle", ""}};
  EXPECT_EQ(SignatureOf("GET", target, {}, ""), "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  target.query = {{"prefix", "J"}, {"max-keys", "2"}};
  EXPECT_EQ(SignatureOf("GET", target, {}, ""), "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

// "get-vanilla" of the aws4_testsuite.
TEST(SignatureTest, TestSuiteOfTheAlgorithm) {
  const SigningScope scope = {"us-east-1", "service", {}};
  const Target target = {"https://example.amazonaws.com", "/", {}};
  const std::string request = internal::CanonicalRequest(
      "GET", target, {{"x-amz-date", "20150830T123600Z"}, {"host", "example.amazonaws.com"}}, Sha256Hex(""));
  EXPECT_EQ(request,
            "GET\n/\n\nhost:example.amazonaws.com\nx-amz-date:20150830T123600Z\n\nhost;x-amz-date\n"
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(internal::Signature("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "20150830T123600Z", scope, request),
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
}

TEST(SignatureTest, CanonicalRequestSortsEncodesAndTrims) {
  const Target target = {"https://h",
                         "/a%20b%3D%2Bc/%C3%BC%252F",
                         {{"prefix", "a=b c/"}, {"list-type", "2"}, {"a+", ""}, {"a", "2"}, {"a", "1"}}};
  EXPECT_EQ(internal::CanonicalRequest(
                "GET", target, {{"range", "  bytes=0-1 "}, {"host", "h"}, {"x-amz-meta", "a  b"}}, kUnsignedPayload),
            "GET\n/a%20b%3D%2Bc/%C3%BC%252F\na=1&a=2&a%2B=&list-type=2&prefix=a%3Db%20c%2F\n"
            "host:h\nrange:bytes=0-1\nx-amz-meta:a b\n\nhost;range;x-amz-meta\nUNSIGNED-PAYLOAD");
}

TEST(SignatureTest, SessionTokenIsSignedAndSecret) {
  KeyCredentials keys = kExampleKeys;
  keys.session_token = "TOKEN/+=";
  std::vector<HttpHeader> headers = {{"range", "bytes=0-9"}};
  ASSERT_TRUE(Sign(kExampleScope, keys, "GET", kExampleBucket, kUnsignedPayload, &headers).ok());
  EXPECT_EQ(Value(headers, "x-amz-security-token"), "TOKEN/+=");
  EXPECT_EQ(Value(headers, "x-amz-content-sha256"), "UNSIGNED-PAYLOAD");
  EXPECT_EQ(Value(headers, "x-amz-date"), "20130524T000000Z");
  EXPECT_NE(Value(headers, "authorization")
                .find("SignedHeaders=host;range;x-amz-content-sha256;x-amz-date;x-amz-security-token,"),
            std::string::npos);
  for (const HttpHeader& header : headers) {
    EXPECT_EQ(header.secret, header.name == "authorization" || header.name == "x-amz-security-token") << header.name;
  }
}

}  // namespace
}  // namespace shardkit::remote
