// An HTTP server on a loopback port that does what a test tells it, faults included.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace shardkit::remote {

struct ServedRequest {
  std::string method;
  std::string target;                          // path and query as they came
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

struct ServedAnswer {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::chrono::milliseconds latency{0};
  std::optional<size_t> cut_after;  // closes the connection after so many bytes of the body
  bool reset = false;               // the connection ends with a reset in place of an orderly end
};

// Thread-safe. The destructor closes all connections.
class TestServer {
 public:
  using Handler = std::function<ServedAnswer(const ServedRequest&)>;

  // The handler is called from a thread for each connection.
  explicit TestServer(Handler handler);
  ~TestServer();

  // "http://127.0.0.1:PORT"
  std::string origin() const;

  int connections() const { return connections_; }
  std::vector<ServedRequest> requests() const;

 private:
  void Accept();
  void Serve(int socket);
  bool Answer(int socket, const ServedRequest& request);

  const Handler handler_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<int> connections_{0};
  mutable std::mutex mutex_;  // guards requests_ and threads_
  std::vector<ServedRequest> requests_;
  std::vector<std::thread> threads_;
  std::thread accepting_;
};

// What the servers of the tests have.
inline const std::string kObject = "the bytes of the object";

// The answer of a store to a GET of an object, with or without a range.
ServedAnswer ServeObject(const ServedRequest& request, const std::string& object, const std::string& etag);

}  // namespace shardkit::remote
