// HTTP requests over libcurl. One thread drives all of them; connections are kept and used again.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace shardkit::remote {

struct HttpHeader {
  std::string name;  // in lower case
  std::string value;
  bool secret = false;  // is left out when a redirect leads to another scheme, host or port
};

struct HttpRequest {
  std::string method = "GET";
  std::string url;  // of http or https, percent-encoded, without a user name
  std::vector<HttpHeader> headers;
  std::string_view body;     // must stay until the request is done
  std::string certificates;  // file of trusted certificates (PEM); empty: the system's

  // The body of a partial answer (HttpResponse::partial) goes here, and of one that is longer, DataLoss. Valid until
  // the request is done. All other bodies go into HttpResponse::body.
  std::span<char> buffer;

  // Above so many bytes of HttpResponse::body the request fails with ResourceExhausted.
  uint64_t body_limit = uint64_t{1} << 20;

  // From the moment when it is sent (at most Options::requests_in_flight are) to the last byte.
  std::chrono::milliseconds deadline{60'000};

  bool follow_redirects = true;   // of GET and HEAD, five at most
  bool proxy = true;              // as http_proxy, https_proxy and no_proxy in the environment say
  bool fresh_connection = false;  // with a new lookup of the name, for another server behind the same name
};

struct HttpResponse {
  int status = 0;
  std::vector<HttpHeader> headers;  // of the last answer, names in lower case
  std::string body;
  uint64_t buffer_bytes = 0;  // at the start of HttpRequest::buffer

  // Whether the body is a range: status 206, or 200 as some servers say (rclone's), and a header "content-range".
  bool partial() const { return (status == 206 || status == 200) && !Header("content-range").empty(); }

  // The value of the first header of that name; empty when there is none.
  std::string_view Header(std::string_view name) const;
};

// Thread-safe, but for the destructor.
//
// Errors say what happened to the connection, never what the answer's status means: Unavailable (no connection, reset),
// DeadlineExceeded, DataLoss (the body was cut), FailedPrecondition (the certificate is not trusted), ResourceExhausted
// (body_limit), Cancelled, InvalidArgument (the URL, or a redirect that is not followed). Each begins with the URL,
// without its query.
class HttpClient {
 public:
  struct Options {
    int requests_in_flight = 64;  // more wait
    std::chrono::milliseconds connect_timeout{5'000};
    std::chrono::seconds stall_timeout{20};  // of a GET, without a single byte, the first included; at least 1
  };

  // Called once, on the client's thread, where it must not wait.
  using Done = std::function<void(absl::StatusOr<HttpResponse>)>;

  // Names a request. Never 0.
  using Id = uint64_t;

  static absl::StatusOr<std::unique_ptr<HttpClient>> Create(const Options& options);

  // Requests that are not done end with Cancelled before this returns. Not on the client's thread.
  ~HttpClient();

  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  Id Start(HttpRequest request, Done done);

  // The request ends with Cancelled soon, unless it is done before. Does not wait. Nothing happens when it is done.
  void Cancel(Id id);

  // Calls the function on the client's thread after the time; sooner when the client is destroyed. It must not wait.
  void After(std::chrono::milliseconds delay, std::function<void()> function);

  // Starts a request and waits for its end, which comes at the deadline at the latest. Not on the client's thread.
  absl::StatusOr<HttpResponse> Send(HttpRequest request);

 private:
  class Engine;

  explicit HttpClient(std::unique_ptr<Engine> engine);

  const std::unique_ptr<Engine> engine_;
};

}  // namespace shardkit::remote
