// The XML of stores, and what their errors become.
#include "remote/xml.h"

#include <string>
#include <utility>
#include <vector>

#include "remote/http/answers.h"

namespace shardkit::remote {
namespace {

absl::Status Ignore(std::string_view, std::string_view) { return absl::OkStatus(); }

TEST(XmlTest, GivesPathsAndTexts) {
  std::vector<std::pair<std::string, std::string>> seen;
  const absl::Status status = ForEachXmlElement(
      R"(<?xml version="1.0" encoding="UTF-8"?><L xmlns="http://s3/"><p:C xmlns:p="u"><K>a&amp;b&#252;</K></p:C><E/></L>)",
      [&](std::string_view path, std::string_view text) -> absl::Status {
        seen.emplace_back(path, text);
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(seen,
            (std::vector<std::pair<std::string, std::string>>{{"L/C/K", "a&bü"}, {"L/C", ""}, {"L/E", ""}, {"L", ""}}));
}

TEST(XmlTest, RefusesWhatNoStoreSends) {
  std::string deep, text = "<a>" + std::string(70'000, 'x') + "</a>";
  for (int i = 0; i < 17; ++i) deep = "<a>" + deep + "</a>";
  for (const std::string& document : {std::string(), std::string("<a>"), std::string("<a></b>"), std::string("no XML"),
                                      deep, text, std::string("<!DOCTYPE a [<!ENTITY e \"x\">]><a>&e;</a>")}) {
    EXPECT_TRUE(absl::IsDataLoss(ForEachXmlElement(document, &Ignore))) << document.substr(0, 60);
  }
  const auto stop = [](std::string_view, std::string_view) { return absl::AbortedError("stop"); };
  EXPECT_TRUE(absl::IsAborted(ForEachXmlElement("<a><b/></a>", stop)));
}

TEST(ObjectErrorTest, ClassesAndWords) {
  struct Case {
    int status;
    std::string code;
    absl::StatusCode expected;
  };
  for (const Case& one : std::vector<Case>{{404, "NoSuchKey", absl::StatusCode::kNotFound},
                                           {403, "AccessDenied", absl::StatusCode::kPermissionDenied},
                                           {401, "", absl::StatusCode::kPermissionDenied},
                                           {400, "ExpiredToken", absl::StatusCode::kPermissionDenied},
                                           {412, "PreconditionFailed", absl::StatusCode::kFailedPrecondition},
                                           {416, "InvalidRange", absl::StatusCode::kOutOfRange},
                                           {429, "", absl::StatusCode::kUnavailable},
                                           {503, "SlowDown", absl::StatusCode::kUnavailable},
                                           {400, "RequestTimeout", absl::StatusCode::kUnavailable},
                                           {500, "", absl::StatusCode::kUnavailable},
                                           {400, "BadDigest", absl::StatusCode::kInvalidArgument},
                                           {304, "", absl::StatusCode::kInvalidArgument}}) {
    HttpResponse response;
    response.status = one.status;
    response.headers = {{"x-amz-request-id", "ID7"}};
    if (!one.code.empty()) response.body = "<Error><Code>" + one.code + "</Code><Message>In words.</Message></Error>";
    const absl::Status status = StatusOfAnswer(response);
    EXPECT_EQ(status.code(), one.expected) << status;
    const std::string message(status.message());
    EXPECT_NE(message.find("status " + std::to_string(one.status)), message.npos) << message;
    EXPECT_NE(message.find("request id ID7"), message.npos) << message;
    EXPECT_EQ(message.find(one.code + " \"In words.\"") == message.npos, one.code.empty()) << message;
  }
  HttpResponse fine;
  fine.status = 206;
  EXPECT_TRUE(StatusOfAnswer(fine).ok());
}

TEST(ObjectErrorTest, NamesTheRegionAndKeepsSignaturesOut) {
  HttpResponse response;
  response.status = 301;
  response.headers = {{"x-amz-bucket-region", "eu-central-1"}};
  EXPECT_NE(std::string(StatusOfAnswer(response).message()).find("region eu-central-1; set AWS_REGION"),
            std::string::npos);
  response.status = 403;
  response.body = "<Error><Code>SignatureDoesNotMatch</Code><Message>SECRET</Message></Error>";
  EXPECT_EQ(std::string(StatusOfAnswer(response).message()).find("SECRET"), std::string::npos);
}

}  // namespace
}  // namespace shardkit::remote
