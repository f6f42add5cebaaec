// What reaches the handler through a real socket, and what comes back.
#include "view/server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <map>
#include <thread>
#include <vector>

#include "absl/strings/ascii.h"

namespace shardctl {
namespace {

// A connection to the server.
class Client {
 public:
  explicit Client(int port, bool ipv6 = false) {
    if (ipv6) {
      sockaddr_in6 address{};
      address.sin6_family = AF_INET6;
      address.sin6_addr = in6addr_loopback;
      address.sin6_port = htons(static_cast<uint16_t>(port));
      Connect(reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    } else {
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      address.sin_port = htons(static_cast<uint16_t>(port));
      Connect(reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    }
  }
  ~Client() { close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // False once the server has closed the connection.
  bool Send(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t sent = send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  // What comes until the connection ends, or `until` has come.
  std::string Receive(std::string_view until = {}) const {
    std::string text;
    char bytes[4096];
    for (ssize_t count = 1; count > 0 && (until.empty() || text.find(until) == text.npos);) {
      count = recv(socket_, bytes, sizeof(bytes), 0);
      if (count > 0) text.append(bytes, static_cast<size_t>(count));
    }
    return text;
  }

 private:
  void Connect(const sockaddr* address, socklen_t size) {
    socket_ = socket(address->sa_family, SOCK_STREAM, 0);
    EXPECT_EQ(connect(socket_, address, size), 0);
  }

  int socket_ = -1;
};

struct Answer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  bool whole = true;

  std::string Header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

// Of a server that closes the connection afterwards.
Answer ParseAnswer(std::string_view text) {
  Answer answer;
  const size_t end = text.find("\r\n\r\n");
  EXPECT_NE(end, text.npos) << text;
  if (end == text.npos) return answer;
  answer.status = std::stoi(std::string(text.substr(9, 3)));
  for (size_t at = text.find("\r\n"); at < end;) {
    const size_t next = text.find("\r\n", at + 2);
    const std::string_view line = text.substr(at + 2, next - at - 2);
    const size_t colon = line.find(": ");
    answer.headers[absl::AsciiStrToLower(std::string(line.substr(0, colon)))] = line.substr(colon + 2);
    at = next;
  }
  text.remove_prefix(end + 4);
  if (answer.Header("transfer-encoding") != "chunked") {
    answer.body = text;
    return answer;
  }
  while (!text.empty()) {
    const size_t size = std::stoul(std::string(text), nullptr, 16);
    text.remove_prefix(text.find("\r\n") + 2);
    answer.body += text.substr(0, size);
    text.remove_prefix(std::min(size + 2, text.size()));
    if (size == 0) return answer;
  }
  answer.whole = false;
  return answer;
}

using Headers = std::vector<std::pair<std::string, std::string>>;

class ServerTest : public testing::Test {
 protected:
  ServerTest() {
    auto server = ViewServer::Start("127.0.0.1", 0, [this](const Request& request) { return Handle(request); });
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    const std::string url = server_->url();
    token_ = url.substr(url.find("token=") + 6);
    port_ = std::stoi(url.substr(std::string("http://127.0.0.1:").size()));
    const Answer entered = Get("/?token=" + token_);
    cookie_ = entered.Header("set-cookie").substr(0, entered.Header("set-cookie").find(';'));
    folder_ = entered.Header("location");
  }

  Reply Handle(const Request& request) {
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

  std::string Text(const std::string& method, const std::string& path, const Headers& headers) const {
    std::string text = method + " " + path + " HTTP/1.1\r\n";
    bool has_host = false;
    for (const auto& [name, value] : headers) {
      text += name + ": " + value + "\r\n";
      has_host = has_host || name == "Host";
    }
    return text + (has_host ? "" : "Host: 127.0.0.1:" + std::to_string(port_) + "\r\n");
  }
  std::string Raw(const std::string& text) const {
    const Client client(port_);
    client.Send(text);
    return client.Receive();
  }
  Answer Get(const std::string& path, const Headers& headers = {}, const std::string& method = "GET") const {
    return ParseAnswer(Raw(Text(method, path, headers) + "Connection: close\r\n\r\n"));
  }
  Answer GetIn(const std::string& path) const { return Get(folder_ + path.substr(1), {{"Cookie", cookie_}}); }

  std::atomic<int> answered_ = 0;
  int port_ = 0;
  std::string token_, cookie_, folder_;
  std::unique_ptr<ViewServer> server_;
};

TEST_F(ServerTest, TheTokenIsExchangedForACookieOfAFolder) {
  const Answer reply = Get("/?token=" + token_);
  EXPECT_EQ(reply.status, 303);
  EXPECT_EQ(folder_.size(), 34u) << folder_;
  EXPECT_EQ(cookie_.find("shardkit-view-" + std::to_string(port_) + "="), 0u) << cookie_;
  EXPECT_EQ(reply.Header("set-cookie"), cookie_ + "; Path=" + folder_ + "; HttpOnly; SameSite=Lax");
  EXPECT_EQ((cookie_ + folder_).find(token_), std::string::npos);
  EXPECT_EQ(GetIn("/").status, 200);
  EXPECT_EQ(Get(folder_, {{"Cookie", "shardkit-view-" + std::to_string(port_) + "=" + token_}}).status, 403);
}

TEST_F(ServerTest, NobodyElseReachesTheHandler) {
  EXPECT_EQ(Get("/").status, 403);
  EXPECT_EQ(Get("/api/datasets").status, 403);
  EXPECT_EQ(Get("/", {{"Cookie", cookie_}}).status, 403)
      << "a server on another port may be sent the cookie of a guess";
  EXPECT_EQ(Get(folder_).status, 403);
  EXPECT_EQ(Get("/?token=0123").status, 403);
  EXPECT_EQ(Get(folder_, {{"Cookie", cookie_}, {"Host", "evil.example:" + std::to_string(port_)}}).status, 403);
  EXPECT_EQ(Get(folder_, {{"Cookie", cookie_}, {"Origin", "http://evil.example"}}).status, 403);
  const std::string posted = Text("POST", folder_, {{"Cookie", cookie_}, {"Content-Length", "18"}});
  EXPECT_EQ(ParseAnswer(Raw(posted + "\r\nGET / HTTP/1.1\r\n\r\n")).status, 405);
  EXPECT_EQ(answered_, 0);
}

TEST_F(ServerTest, WhatIsNoRequestIsRefused) {
  const std::string host = "127.0.0.1:" + std::to_string(port_);
  for (const std::string& text :
       {Text("GET", folder_, {{"Host", host}, {"Host", host}, {"Cookie", cookie_}}) + "\r\n",
        Text("GET", folder_, {{"Origin", "http://" + host}, {"Origin", "null"}, {"Cookie", cookie_}}) + "\r\n",
        Text("GET", "http://" + host + folder_, {{"Cookie", cookie_}}) + "\r\n", std::string("GET / HTTP/1.0\r\n\r\n"),
        std::string("GET  / HTTP/1.1\r\n\r\n"), std::string("\r\n\r\n"),
        Text("GET", folder_, {{"Cookie", cookie_}}) + " folded\r\n\r\n",
        Text("GET", folder_, {{"Cookie ", cookie_}}) + "\r\n"}) {
    EXPECT_EQ(ParseAnswer(Raw(text)).status, 400) << text;
  }
  EXPECT_EQ(answered_, 0);
}

TEST_F(ServerTest, HeadersAreLimitedBeforeTheTokenIsKnown) {
  for (const std::string& piece : {std::string(4096, 'x'), std::string("a: b\r\n")}) {
    const Client client(port_);
    client.Send("GET / HTTP/1.1\r\n");
    size_t sent = 0;
    while (sent < (size_t{16} << 20) && client.Send(piece)) sent += piece.size();
    // The system takes some of it before the server has closed the connection.
    EXPECT_LT(sent, size_t{16} << 20) << "all was taken";
    EXPECT_EQ(client.Receive(), "");
  }
}

TEST_F(ServerTest, ConnectionsThatWaitHoldNothing) {
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < 400; ++i) {
    slow.push_back(std::make_unique<Client>(port_));
    slow.back()->Send("GET / HTTP/1.1\r\nA: ");
  }
  EXPECT_EQ(GetIn("/").status, 200);
  EXPECT_EQ(slow.front()->Receive(), "") << "the first has been closed for the last";
}

TEST_F(ServerTest, AHeaderThatComesByteByByteHasADeadline) {
  const Client client(port_);
  client.Send("GET / HTTP/1.1\r\nA: ");
  while (client.Send("x")) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(client.Receive(), "");
}

TEST_F(ServerTest, AConnectionIsUsedAgainUntilARefusal) {
  const Client client(port_);
  const std::string request = Text("GET", folder_ + "api", {{"Cookie", cookie_}}) + "\r\n";
  for (int i = 0; i < 3; ++i) {
    client.Send(request);
    EXPECT_NE(client.Receive("/api|").find("200 OK"), std::string::npos);
  }
  // Two at once, and a refusal behind them.
  client.Send(request + request + Text("GET", "/", {}) + "\r\n" + request);
  const std::string rest = client.Receive();
  EXPECT_NE(rest.find("403"), std::string::npos);
  EXPECT_EQ(answered_, 5);
}

TEST_F(ServerTest, AHeadHasNoBody) {
  for (const char* path : {"api", "api/stream"}) {
    const std::string text = Raw(Text("HEAD", folder_ + path, {{"Cookie", cookie_}, {"Connection", "close"}}) + "\r\n");
    EXPECT_TRUE(text.starts_with("HTTP/1.1 200 ")) << text;
    EXPECT_TRUE(text.ends_with("\r\n\r\n")) << text;
  }
}

TEST_F(ServerTest, EachReplyHasTheHeadersThatKeepOtherPagesOut) {
  for (const Answer& reply : {GetIn("/"), Get("/"), GetIn("/api/stream"), Get("/?token=" + token_)}) {
    EXPECT_EQ(reply.Header("x-content-type-options"), "nosniff");
    EXPECT_EQ(reply.Header("referrer-policy"), "no-referrer");
    EXPECT_EQ(reply.Header("x-frame-options"), "DENY");
    EXPECT_EQ(reply.Header("cache-control"), "no-store");
    EXPECT_EQ(reply.Header("cross-origin-resource-policy"), "same-origin");
    const std::string policy = reply.Header("content-security-policy");
    EXPECT_NE(policy.find("default-src 'none'"), std::string::npos);
    EXPECT_EQ(policy.find("script-src 'unsafe"), std::string::npos);
  }
  EXPECT_TRUE(GetIn("/api/stream").Header("content-security-policy").starts_with("sandbox"));
}

TEST_F(ServerTest, ParametersAreDecoded) {
  EXPECT_EQ(GetIn("/api/0/find?q=a%20%3E%20%22%C3%A4%22%2B1").body, "/api/0/find|a > \"ä\"+1");
}

TEST_F(ServerTest, ValuesComeInPiecesAndTheirNamesStayInTheirHeader) {
  const Answer reply = GetIn("/api/stream");
  EXPECT_TRUE(reply.whole);
  EXPECT_EQ(reply.body, "piecepiecepiece");
  EXPECT_EQ(reply.Header("content-disposition"), "attachment; filename*=UTF-8''a%20%22b%22%0D%0ASet-Cookie%3A%20x.bin");
  EXPECT_EQ(reply.Header("set-cookie"), "");
}

TEST_F(ServerTest, AValueThatIsDamagedDoesNotArriveAsAWhole) { EXPECT_FALSE(GetIn("/api/broken").whole); }

TEST_F(ServerTest, PartsOfAReplyCanBeAskedFor) {
  const auto part = [this](const std::string& range) {
    return Get(folder_ + "api/0?q=12345", {{"Cookie", cookie_}, {"Range", range}});
  };
  const std::string all = "/api/0|12345";
  for (const auto& [range, expected] : std::map<std::string, std::string>{{"bytes=7-9", "123"},
                                                                          {"bytes=7-", "12345"},
                                                                          {"bytes=-2", "45"},
                                                                          {"bytes=9-99", "345"},
                                                                          {"bytes=0-0", "/"},
                                                                          {"bytes=-99", all}}) {
    const Answer reply = part(range);
    EXPECT_EQ(reply.status, 206) << range;
    EXPECT_EQ(reply.body, expected) << range;
    EXPECT_TRUE(reply.Header("content-range").ends_with("/12")) << range;
  }
  EXPECT_EQ(part("bytes=7-9").Header("content-range"), "bytes 7-9/12");
  for (const char* range :
       {"bytes=12-", "bytes=9-7", "bytes=-0", "bytes=-", "bytes=0-1,3-4", "lines=1-2", "bytes=x-1", "-"}) {
    const Answer reply = part(range);
    EXPECT_EQ(reply.status, 200) << range;
    EXPECT_EQ(reply.body, all) << range;
  }
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
    const Client client(port, host.find(':') != host.npos);
    client.Send("GET " + url.substr(slash) +
                " HTTP/1.1\r\nConnection: close\r\nHost: " + absl::AsciiStrToLower(authority) + "\r\n\r\n");
    EXPECT_EQ(ParseAnswer(client.Receive()).status, 303) << host;
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
