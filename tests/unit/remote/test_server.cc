#include "unit/remote/test_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace shardkit::remote {
namespace {

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool SendAll(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

}  // namespace

TestServer::TestServer(Handler handler) : handler_(std::move(handler)) {
  listener_ = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(listener_, 128) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    std::perror("the test server cannot listen");
  }
  port_ = ntohs(address.sin_port);
  accepting_ = std::thread([this] { Accept(); });
}

TestServer::~TestServer() {
  stopping_ = true;
  accepting_.join();
  for (std::thread& thread : threads_) thread.join();
  close(listener_);
}

std::string TestServer::origin() const { return "http://127.0.0.1:" + std::to_string(port_); }

std::vector<ServedRequest> TestServer::requests() const {
  std::lock_guard lock(mutex_);
  return requests_;
}

void TestServer::Accept() {
  while (!stopping_) {
    pollfd waiting{listener_, POLLIN, 0};
    if (poll(&waiting, 1, 20) <= 0) continue;
    const int socket = accept(listener_, nullptr, nullptr);
    if (socket < 0) continue;
    const int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    ++connections_;
    std::lock_guard lock(mutex_);
    threads_.emplace_back([this, socket] { Serve(socket); });
  }
}

void TestServer::Serve(int socket) {
  std::string received;
  while (!stopping_) {
    pollfd waiting{socket, POLLIN, 0};
    if (poll(&waiting, 1, 20) <= 0) continue;
    char bytes[4096];
    const ssize_t count = recv(socket, bytes, sizeof(bytes), 0);
    if (count <= 0) break;
    received.append(bytes, static_cast<size_t>(count));
    const size_t end = received.find("\r\n\r\n");
    if (end == received.npos) continue;
    ServedRequest request;
    size_t line = received.find("\r\n");
    const std::string first = received.substr(0, line);
    request.method = first.substr(0, first.find(' '));
    request.target = first.substr(request.method.size() + 1, first.rfind(' ') - request.method.size() - 1);
    while (line < end) {
      const size_t next = received.find("\r\n", line + 2);
      const std::string header = received.substr(line + 2, next - line - 2);
      const size_t colon = header.find(':');
      const size_t value = std::min(header.find_first_not_of(' ', colon + 1), header.size());
      request.headers[Lower(header.substr(0, colon))] = header.substr(value);
      line = next;
    }
    const auto length = request.headers.find("content-length");
    const size_t body = length == request.headers.end() ? 0 : std::stoul(length->second);
    if (received.size() < end + 4 + body) continue;
    request.body = received.substr(end + 4, body);
    received.erase(0, end + 4 + body);
    if (!Answer(socket, request)) break;
  }
  close(socket);
}

bool TestServer::Answer(int socket, const ServedRequest& request) {
  {
    std::lock_guard lock(mutex_);
    requests_.push_back(request);
  }
  const ServedAnswer answer = handler_(request);
  const auto until = std::chrono::steady_clock::now() + answer.latency;
  while (!stopping_ && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::string head = "HTTP/1.1 " + std::to_string(answer.status) +
                     " Text\r\ncontent-length: " + std::to_string(answer.body.size()) + "\r\n";
  for (const auto& header : answer.headers) head += header.first + ": " + header.second + "\r\n";
  const size_t sent =
      request.method == "HEAD" ? 0 : std::min(answer.cut_after.value_or(answer.body.size()), answer.body.size());
  const bool whole = SendAll(socket, head + "\r\n") && SendAll(socket, std::string_view(answer.body).substr(0, sent));
  if (answer.reset) {
    const linger at_once{1, 0};
    setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  }
  return whole && !answer.cut_after && !answer.reset;
}

ServedAnswer ServeObject(const ServedRequest& request, const std::string& object, const std::string& etag) {
  ServedAnswer answer;
  answer.headers = {{"ETag", etag}, {"Accept-Ranges", "bytes"}, {"x-amz-request-id", "REQUEST-1"}};
  const auto match = request.headers.find("if-match");
  if (match != request.headers.end() && match->second != etag) {
    answer.status = 412;
    return answer;
  }
  const auto range = request.headers.find("range");
  if (range == request.headers.end()) {
    answer.body = object;
    return answer;
  }
  unsigned long long first = 0, last = object.size() - 1;
  if (std::sscanf(range->second.c_str(), "bytes=-%llu", &last) == 1) {
    first = object.size() - std::min<size_t>(last, object.size());
    last = object.size() - 1;
  } else {
    std::sscanf(range->second.c_str(), "bytes=%llu-%llu", &first, &last);
  }
  if (first >= object.size()) {
    answer.status = 416;
    return answer;
  }
  last = std::min<unsigned long long>(last, object.size() - 1);
  answer.status = 206;
  answer.body = object.substr(first, last - first + 1);
  answer.headers.emplace_back("Content-Range", "bytes " + std::to_string(first) + "-" + std::to_string(last) + "/" +
                                                   std::to_string(object.size()));
  return answer;
}

}  // namespace shardkit::remote
