#include "view/server.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "view/guard.h"

namespace shardctl {
namespace {

using Clock = std::chrono::steady_clock;

// A browser keeps six connections open, and asks for a sample on each of them.
constexpr size_t kThreads = 32;
// Those of which no whole header has come. Beyond it, the one that has waited longest is closed.
constexpr size_t kMostWaiting = 256;
constexpr size_t kLongestHeader = size_t{64} << 10;
constexpr std::chrono::seconds kHeaderDeadline{10};
constexpr timeval kSendDeadline{.tv_sec = 30, .tv_usec = 0};

Reply TextReply(int status, const std::string& text) {
  Reply reply;
  reply.status = status;
  reply.type = "text/plain; charset=utf-8";
  reply.body = text;
  return reply;
}

// No other page may hold this one in a frame, learn addresses from it, or run anything in it. Values of the dataset
// that a browser opens as pages of their own can do nothing at all.
std::string SafetyHeaders(std::string_view path) {
  const bool value = path.find("/api/") != path.npos;
  return std::string("Content-Security-Policy: ") +
         (value ? "sandbox; default-src 'none'; img-src 'self' data:; media-src 'self'; style-src 'unsafe-inline'"
                : "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src 'self' "
                  "blob:; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
                  "frame-ancestors 'none'") +
         "\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n"
         "Cross-Origin-Resource-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\n"
         "Cache-Control: no-store\r\n";
}

// RFC 6266 with the encoding of RFC 8187: a name cannot leave the header.
std::string Attachment(const std::string& name) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') || byte == '.' ||
        byte == '_' || byte == '-') {
      encoded += c;
    } else {
      encoded += '%';
      encoded += kHex[byte >> 4];
      encoded += kHex[byte & 15];
    }
  }
  return "attachment; filename*=UTF-8''" + encoded;
}

std::string_view ReasonOf(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 206:
      return "Partial Content";
    case 303:
      return "See Other";
    default:
      return status < 500 ? "Refused" : "Failed";
  }
}

class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

bool IsIpv6(const std::string& address) {
  in6_addr parsed;
  return inet_pton(AF_INET6, address.c_str(), &parsed) == 1;
}

bool SendAll(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

struct Connection {
  Socket socket;
  Clock::time_point until;  // a whole header must have come
  std::string received;
};

class HttpServer final : public ViewServer {
 public:
  explicit HttpServer(Handler handler) : handler_(std::move(handler)) {}

  ~HttpServer() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    ready_changed_.notify_all();
    Wake();
    for (std::thread& thread : threads_) thread.join();
  }

  absl::Status Listen(const std::string& host, int port) {
    const bool bracketed = host.starts_with('[') && host.ends_with(']');
    const std::string address = bracketed ? host.substr(1, host.size() - 2) : host;
    if (address.empty() || (bracketed && !IsIpv6(address))) {
      return absl::InvalidArgumentError("--host: " + host + " is no address");
    }
    addrinfo wanted{};
    wanted.ai_socktype = SOCK_STREAM;
    wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
    addrinfo* found = nullptr;
    if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &wanted, &found) != 0) found = nullptr;
    for (const addrinfo* each = found; each != nullptr && listener_.get() < 0; each = each->ai_next) {
      Socket socket(::socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      const int on = 1;
      setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
      if (bind(socket.get(), each->ai_addr, each->ai_addrlen) == 0 && listen(socket.get(), SOMAXCONN) == 0) {
        listener_ = std::move(socket);
      }
    }
    if (found != nullptr) freeaddrinfo(found);
    sockaddr_storage bound{};
    socklen_t size = sizeof(bound);
    if (listener_.get() < 0 || getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
      return absl::UnavailableError("cannot listen on " + host +
                                    ": the port is in use, or the address is not this machine's; "
                                    "choose another --port or --host");
    }
    // The port is at the same place in both kinds of addresses.
    const int bound_port = ntohs(reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
    guard_ = std::make_unique<Guard>(IsIpv6(address) ? "[" + address + "]" : address, bound_port);
    try {
      threads_.emplace_back([this] { Wait(); });
      for (size_t i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Work(); });
    } catch (const std::system_error&) {
      if (threads_.size() < 2) return absl::ResourceExhaustedError("the system starts no thread for the server");
    }
    return absl::OkStatus();
  }

  std::string url() const override { return guard_->Url(); }

 private:
  void Wake() {
    const uint64_t one = 1;
    (void)!write(wake_.get(), &one, sizeof(one));
  }

  // The thread of all connections of which no whole header has come.
  void Wait() {
    std::list<Connection> waiting;  // that of the first deadline first
    std::vector<pollfd> polled;
    bool full = false;  // no descriptor for another connection
    for (;;) {
      {
        const std::lock_guard lock(mutex_);
        if (stopping_) return;
        for (Connection& connection : answered_) Add(std::move(connection), &waiting);
        answered_.clear();
      }
      polled.assign({{full ? -1 : listener_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}});
      for (const Connection& connection : waiting) polled.push_back({connection.socket.get(), POLLIN, 0});
      int left = -1;
      if (!waiting.empty()) {
        const auto time = std::chrono::ceil<std::chrono::milliseconds>(waiting.front().until - Clock::now());
        left = static_cast<int>(std::max<int64_t>(time.count(), 0));
      }
      constexpr int kLookAgain = 100;  // milliseconds
      if (full) left = left < 0 ? kLookAgain : std::min(left, kLookAgain);
      full = false;
      if (poll(polled.data(), polled.size(), left) < 0) continue;
      size_t place = 2;
      for (auto connection = waiting.begin(); connection != waiting.end(); ++place) {
        const auto next = std::next(connection);
        const bool ended = polled[place].revents != 0 ? !Receive(&*connection) : connection->until <= Clock::now();
        if (ended) {
          waiting.erase(connection);
        } else if (HasHeader(*connection)) {
          GiveToWorkers(std::move(*connection));
          waiting.erase(connection);
        }
        connection = next;
      }
      uint64_t count = 0;
      if (polled[1].revents != 0) (void)!read(wake_.get(), &count, sizeof(count));
      if (polled[0].revents != 0) full = !Accept(&waiting);
    }
  }

  static void Add(Connection connection, std::list<Connection>* waiting) {
    connection.until = Clock::now() + kHeaderDeadline;
    waiting->push_back(std::move(connection));
    if (waiting->size() > kMostWaiting) waiting->pop_front();
  }

  // False when there is no descriptor for the connection, which stays in the queue of the system. A waiting one goes.
  bool Accept(std::list<Connection>* waiting) {
    Socket socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket.get() < 0) {
      if (errno != EMFILE && errno != ENFILE) return true;
      if (waiting->empty()) return false;
      waiting->pop_front();
      return true;
    }
    const int on = 1;
    setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kSendDeadline, sizeof(kSendDeadline));
    Add({std::move(socket), {}, {}}, waiting);
    return true;
  }

  // False when the connection has ended, or its header is too long.
  static bool Receive(Connection* connection) {
    char bytes[16384];
    const ssize_t count = recv(connection->socket.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (count <= 0) return false;
    connection->received.append(bytes, static_cast<size_t>(count));
    return HasHeader(*connection) || connection->received.size() <= kLongestHeader;
  }

  static bool HasHeader(const Connection& connection) {
    return connection.received.find("\r\n\r\n") != std::string::npos;
  }

  void GiveToWorkers(Connection connection) {
    {
      const std::lock_guard lock(mutex_);
      ready_.push_back(std::move(connection));
    }
    ready_changed_.notify_one();
  }

  void Work() {
    for (;;) {
      std::unique_lock lock(mutex_);
      ready_changed_.wait(lock, [this] { return stopping_ || !ready_.empty(); });
      if (stopping_) return;
      Connection connection = std::move(ready_.front());
      ready_.pop_front();
      lock.unlock();
      const size_t end = connection.received.find("\r\n\r\n") + 4;
      const std::string header = connection.received.substr(0, end);
      connection.received.erase(0, end);
      bool stays = false;
      try {
        stays = Serve(connection.socket.get(), header);
      } catch (const std::exception&) {
        // Of memory, or of a text that is no UTF-8. The browser sees that the connection ends.
      }
      if (!stays) continue;
      if (HasHeader(connection)) {
        GiveToWorkers(std::move(connection));
        continue;
      }
      lock.lock();
      answered_.push_back(std::move(connection));
      lock.unlock();
      Wake();
    }
  }

  // Whether the connection can be used for another request: not after a refusal, so that those who may not ask hold
  // nothing.
  bool Serve(int socket, const std::string& header) {
    const absl::StatusOr<RequestHead> head = ParseRequestHead(header);
    if (!head.ok()) {
      return Send(socket, {}, TextReply(400, std::string(head.status().message()) + "\n"), "");
    }
    if (head->method != "GET" && head->method != "HEAD") {
      return Send(socket, *head, TextReply(405, "only GET and HEAD\n"), "");
    }
    if (!guard_->KnowsHost(head->host) || !guard_->KnowsOrigin(head->origin, head->host)) {
      return Send(socket, *head, TextReply(403, "this server answers only its own page\n"), "");
    }
    Request request = head->request;
    if (request.path == "/" && request.Has("token")) {
      if (!guard_->KnowsToken(request.Text("token"))) {
        const char* const advice = "this is not the token of this run: open the URL that shardctl view printed\n";
        return Send(socket, *head, TextReply(403, advice), "");
      }
      return Send(socket, *head, TextReply(303, ""),
                  "Set-Cookie: " + guard_->Cookie() + "\r\nLocation: " + guard_->Folder() + "\r\n");
    }
    if (!request.path.starts_with(guard_->Folder()) || !guard_->KnowsCookie(head->cookie)) {
      return Send(socket, *head, TextReply(403, "open the URL that shardctl view printed\n"), "");
    }
    request.path.erase(0, guard_->Folder().size() - 1);
    Reply reply = handler_(request);
    std::string headers;
    if (reply.file_name) headers = "Content-Disposition: " + Attachment(*reply.file_name) + "\r\n";
    if (!reply.stream && reply.status == 200) {
      headers += "Accept-Ranges: bytes\r\n";
      if (const auto part = PartOf(head->range, reply.body.size())) {
        headers += "Content-Range: bytes " + std::to_string(part->first) + "-" + std::to_string(part->second - 1) +
                   "/" + std::to_string(reply.body.size()) + "\r\n";
        reply.body = reply.body.substr(part->first, part->second - part->first);
        reply.status = 206;
      }
    }
    return Send(socket, *head, reply, headers);
  }

  static bool Send(int socket, const RequestHead& head, const Reply& reply, const std::string& headers) {
    const bool stays = reply.status < 400 && !head.closes;
    std::string text = "HTTP/1.1 " + std::to_string(reply.status) + " " + std::string(ReasonOf(reply.status)) + "\r\n" +
                       headers + SafetyHeaders(head.request.path) + "Content-Type: " + reply.type + "\r\n" +
                       (reply.stream ? "Transfer-Encoding: chunked\r\n"
                                     : "Content-Length: " + std::to_string(reply.body.size()) + "\r\n") +
                       (stays ? "\r\n" : "Connection: close\r\n\r\n");
    const bool body = head.method != "HEAD";
    if (body && !reply.stream) text += reply.body;
    if (!SendAll(socket, text)) return false;
    if (body && reply.stream) {
      const absl::Status sent = reply.stream([socket](std::string_view piece) {
        char size[20];
        if (piece.empty()) return absl::OkStatus();  // would be the end
        (void)std::snprintf(size, sizeof(size), "%zx\r\n", piece.size());
        return SendAll(socket, size) && SendAll(socket, piece) && SendAll(socket, "\r\n")
                   ? absl::OkStatus()
                   : absl::CancelledError("the browser left");
      });
      // Without the end, the browser sees that it is not whole.
      if (!sent.ok() || !SendAll(socket, "0\r\n\r\n")) return false;
    }
    if (!stays) shutdown(socket, SHUT_WR);
    return stays;
  }

  const Handler handler_;
  std::unique_ptr<Guard> guard_;
  Socket listener_{-1};
  const Socket wake_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::mutex mutex_;  // guards the next three
  bool stopping_ = false;
  std::deque<Connection> ready_;      // with a whole header
  std::vector<Connection> answered_;  // that wait again
  std::condition_variable ready_changed_;
  std::vector<std::thread> threads_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ViewServer>> ViewServer::Start(const std::string& host, int port, Handler handler) {
  auto server = std::make_unique<HttpServer>(std::move(handler));
  if (const absl::Status status = server->Listen(host, port); !status.ok()) return status;
  return server;
}

}  // namespace shardctl
