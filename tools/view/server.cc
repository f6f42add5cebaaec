#include "view/server.h"

#include <arpa/inet.h>
#include <httplib.h>

#include <chrono>
#include <thread>
#include <utility>

#include "view/guard.h"

namespace shardctl {
namespace {

// A browser keeps six connections open, and each occupies a thread.
constexpr size_t kThreads = 32;

void SetText(httplib::Response& response, int status, const std::string& text) {
  response.status = status;
  response.set_content(text, "text/plain; charset=utf-8");
}

// No other page may hold this one in a frame, learn addresses from it, or run anything in it. Values of the dataset
// that a browser opens as pages of their own can do nothing at all.
void SetHeaders(const std::string& path, httplib::Response& response) {
  const bool value = path.starts_with("/api/");
  response.set_header(
      "Content-Security-Policy",
      value ? "sandbox; default-src 'none'; img-src 'self' data:; media-src 'self'; style-src 'unsafe-inline'"
            : "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src 'self' "
              "blob:; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
              "frame-ancestors 'none'");
  response.set_header("X-Content-Type-Options", "nosniff");
  response.set_header("X-Frame-Options", "DENY");
  response.set_header("Referrer-Policy", "no-referrer");
  response.set_header("Cross-Origin-Resource-Policy", "same-origin");
  response.set_header("Cross-Origin-Opener-Policy", "same-origin");
  response.set_header("Cache-Control", "no-store");
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

void Send(Reply reply, httplib::Response& response) {
  // Where it stays unset, a part that was asked for is answered as one.
  if (reply.status != 200 || reply.stream) response.status = reply.status;
  if (reply.file_name) response.set_header("Content-Disposition", Attachment(*reply.file_name));
  if (!reply.stream) {
    response.set_content(std::move(reply.body), reply.type);
    return;
  }
  response.set_chunked_content_provider(
      reply.type, [stream = std::move(reply.stream)](size_t, httplib::DataSink& sink) {
        const absl::Status status = stream([&](std::string_view piece) {
          return sink.write(piece.data(), piece.size()) ? absl::OkStatus() : absl::CancelledError("the browser left");
        });
        if (status.ok()) sink.done();
        return status.ok();
      });
}

bool IsIpv6(const std::string& address) {
  in6_addr parsed;
  return inet_pton(AF_INET6, address.c_str(), &parsed) == 1;
}

class HttpServer final : public ViewServer {
 public:
  explicit HttpServer(Handler handler) : handler_(std::move(handler)) {}

  ~HttpServer() override {
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Listen(const std::string& host, int port) {
    server_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server_.set_payload_max_length(0);
    server_.set_tcp_nodelay(true);
    // By default, cpp-httplib shares its port with anyone who asks for it.
    server_.set_socket_options([](socket_t socket) {
      const int on = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    });
    server_.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      Answer(request, response);
      return httplib::Server::HandlerResponse::Handled;
    });
    server_.set_error_handler(
        [](const httplib::Request& request, httplib::Response& response) { SetHeaders(request.path, response); });
    const std::string address = host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2) : host;
    if (address.empty() || (address != host && !IsIpv6(address))) {
      return absl::InvalidArgumentError("--host: " + host + " is no address");
    }
    if (port == 0) {
      port = server_.bind_to_any_port(address.c_str());
    } else if (!server_.bind_to_port(address.c_str(), port)) {
      port = -1;
    }
    if (port <= 0) {
      return absl::UnavailableError("cannot listen on " + host +
                                    ": the port is in use, or the address is not this machine's; "
                                    "choose another --port or --host");
    }
    guard_ = std::make_unique<Guard>(Guard::NewToken(), IsIpv6(address) ? "[" + address + "]" : address, port);
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    // Stopping a server that has not begun would have no effect.
    while (!server_.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return absl::OkStatus();
  }

  std::string url() const override { return guard_->Url(); }

 private:
  void Answer(const httplib::Request& request, httplib::Response& response) {
    SetHeaders(request.path, response);
    const std::string host = request.get_header_value("Host");
    if (request.method != "GET" && request.method != "HEAD") {
      // What follows such a request was not read.
      response.set_header("Connection", "close");
      return SetText(response, 405, "only GET and HEAD\n");
    }
    if (!guard_->KnowsHost(host) || !guard_->KnowsOrigin(request.get_header_value("Origin"), host)) {
      return SetText(response, 403, "this server answers only its own page\n");
    }
    if (request.path == "/" && request.has_param("token")) {
      if (!guard_->KnowsToken(request.get_param_value("token"))) {
        return SetText(response, 403, "this is not the token of this run: open the URL that shardctl view printed\n");
      }
      response.set_header("Set-Cookie", guard_->Cookie());
      response.set_header("Location", "/");
      return SetText(response, 303, "");
    }
    if (!guard_->KnowsCookie(request.get_header_value("Cookie"))) {
      return SetText(response, 403, "open the URL that shardctl view printed\n");
    }
    Send(handler_(Request{request.path, {request.params.begin(), request.params.end()}}), response);
  }

  const Handler handler_;
  httplib::Server server_;
  std::unique_ptr<Guard> guard_;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ViewServer>> ViewServer::Start(const std::string& host, int port, Handler handler) {
  auto server = std::make_unique<HttpServer>(std::move(handler));
  if (const absl::Status status = server->Listen(host, port); !status.ok()) return status;
  return server;
}

}  // namespace shardctl
