// What reaches the handler through a real socket, and what comes back.
#include "view/server.h"

#include <gtest/gtest.h>
#include <httplib.h>

#include "absl/strings/ascii.h"

namespace shardctl {
namespace {

class ServerTest : public testing::Test {
 protected:
  ServerTest() {
    auto server = ViewServer::Start("127.0.0.1", 0, [this](const Request& request) { return Answer(request); });
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    const std::string url = server_->url();
    token_ = url.substr(url.find("token=") + 6);
    port_ = std::stoi(url.substr(std::string("http://127.0.0.1:").size()));
    cookie_ = "shardkit-view-" + std::to_string(port_) + "=" + token_;
  }

  Reply Answer(const Request& request) {
    ++answered_;
    Reply reply;
    if (request.path == "/api/stream" || request.path == "/api/broken") {
      reply.type = "application/octet-stream";
      reply.file_name = "a \"b\"\r\nSet-Cookie: x.bin";
      reply.stream = [broken = request.path == "/api/broken"](const shardkit::ByteSink& sink) -> absl::Status {
        for (int i = 0; i < 3; ++i) {
          if (absl::Status status = sink("piece"); !status.ok()) return status;
        }
        return broken ? absl::DataLossError("a wrong checksum") : absl::OkStatus();
      };
      return reply;
    }
    reply.body = request.path + "|" + std::string(request.Text("q"));
    return reply;
  }

  httplib::Result Get(const std::string& path, httplib::Headers headers = {}) {
    httplib::Client client("127.0.0.1", port_);
    return client.Get(path.c_str(), headers);
  }
  httplib::Result GetIn(const std::string& path) { return Get(path, {{"Cookie", cookie_}}); }

  int answered_ = 0;
  int port_ = 0;
  std::string token_;
  std::string cookie_;
  std::unique_ptr<ViewServer> server_;
};

TEST_F(ServerTest, TheTokenIsExchangedForACookie) {
  const auto reply = Get("/?token=" + token_);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 303);
  EXPECT_EQ(reply->get_header_value("Location"), "/");
  EXPECT_EQ(reply->get_header_value("Set-Cookie"), cookie_ + "; Path=/; HttpOnly; SameSite=Strict");
  EXPECT_EQ(GetIn("/")->status, 200);
}

TEST_F(ServerTest, NobodyElseReachesTheHandler) {
  EXPECT_EQ(Get("/")->status, 403);
  EXPECT_EQ(Get("/api/datasets")->status, 403);
  EXPECT_EQ(Get("/?token=0123")->status, 403);
  EXPECT_EQ(Get("/", {{"Cookie", cookie_}, {"Host", "evil.example:" + std::to_string(port_)}})->status, 403);
  EXPECT_EQ(Get("/", {{"Cookie", cookie_}, {"Origin", "http://evil.example"}})->status, 403);
  httplib::Client client("127.0.0.1", port_);
  EXPECT_EQ(client.Post("/", httplib::Headers{{"Cookie", cookie_}}, "GET / HTTP/1.1\r\n\r\n", "text/plain")->status,
            405);
  EXPECT_EQ(answered_, 0);
}

TEST_F(ServerTest, EachReplyHasTheHeadersThatKeepOtherPagesOut) {
  for (const auto& reply : {GetIn("/"), Get("/"), GetIn("/api/stream"), Get("/?token=" + token_)}) {
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->get_header_value("X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(reply->get_header_value("Referrer-Policy"), "no-referrer");
    EXPECT_EQ(reply->get_header_value("X-Frame-Options"), "DENY");
    EXPECT_EQ(reply->get_header_value("Cache-Control"), "no-store");
    EXPECT_EQ(reply->get_header_value("Cross-Origin-Resource-Policy"), "same-origin");
    const std::string policy = reply->get_header_value("Content-Security-Policy");
    EXPECT_NE(policy.find("default-src 'none'"), std::string::npos);
    EXPECT_EQ(policy.find("script-src 'unsafe"), std::string::npos);
  }
  EXPECT_TRUE(GetIn("/api/stream")->get_header_value("Content-Security-Policy").starts_with("sandbox"));
}

TEST_F(ServerTest, ParametersAreDecoded) {
  EXPECT_EQ(GetIn("/api/0/find?q=a%20%3E%20%22%C3%A4%22%2B1")->body, "/api/0/find|a > \"ä\"+1");
}

TEST_F(ServerTest, ValuesComeInPiecesAndTheirNamesStayInTheirHeader) {
  const auto reply = GetIn("/api/stream");
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->body, "piecepiecepiece");
  // The client undoes the encoding.
  EXPECT_EQ(reply->get_header_value("Content-Disposition"),
            "attachment; filename*=UTF-8''" + std::string("a \"b\"\r\nSet-Cookie: x.bin"));
  EXPECT_EQ(reply->get_header_value("Set-Cookie"), "");
}

TEST_F(ServerTest, AValueThatIsDamagedDoesNotArriveAsAWhole) { EXPECT_FALSE(GetIn("/api/broken")); }

TEST_F(ServerTest, PartsOfAReplyCanBeAskedFor) {
  const auto reply = Get("/api/0?q=12345", {{"Cookie", cookie_}, {"Range", "bytes=7-9"}});
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 206);
  EXPECT_EQ(reply->body, "123");
}

TEST(ViewServerTest, APortInUseIsAnError) {
  const auto handler = [](const Request&) { return Reply(); };
  const auto first = ViewServer::Start("127.0.0.1", 0, handler);
  ASSERT_TRUE(first.ok());
  const std::string url = (*first)->url();
  const int port = std::stoi(url.substr(std::string("http://127.0.0.1:").size()));
  const auto second = ViewServer::Start("127.0.0.1", port, handler);
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
}

TEST(ViewServerTest, AddressesAreAnsweredUnderTheNamesThatAreTold) {
  const auto handler = [](const Request&) { return Reply(); };
  for (const std::string host : {"127.0.0.1", "LocalHost", "::1", "[::1]"}) {
    const auto server = ViewServer::Start(host, 0, handler);
    if (host.find(':') != host.npos && absl::IsUnavailable(server.status())) continue;  // a machine without IPv6
    ASSERT_TRUE(server.ok()) << host << ": " << server.status();
    const std::string url = (*server)->url();
    const size_t slash = url.find('/', std::string_view("http://").size());
    const std::string authority = url.substr(7, slash - 7);
    const int port = std::stoi(authority.substr(authority.rfind(':') + 1));
    // A name may stand for several addresses, and the server listens on one of them.
    httplib::Client client(host.find(':') == host.npos ? host : "::1", port);
    const auto reply = client.Get(url.substr(slash), httplib::Headers{{"Host", absl::AsciiStrToLower(authority)}});
    ASSERT_TRUE(reply) << host;
    EXPECT_EQ(reply->status, 303) << host << ": " << reply->body;
  }
}

TEST(ViewServerTest, WhatIsNoAddressIsRefused) {
  for (const std::string host : {"", "[", "[]", "]", "[127.0.0.1]", "[::1", "::1]", "[x]"}) {
    const auto server = ViewServer::Start(host, 0, [](const Request&) { return Reply(); });
    EXPECT_FALSE(server.ok()) << host << ": " << (*server)->url();
  }
}

}  // namespace
}  // namespace shardctl
