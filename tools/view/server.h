// The HTTP server of `shardctl view`.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "view/http.h"

namespace shardctl {

// Answers with the replies of `handler`, on up to 32 threads, to those whom Guard lets in.
class ViewServer {
 public:
  using Handler = std::function<Reply(const Request&)>;

  // `port` 0: any free one. Unavailable, with the reason, when nothing can listen there.
  static absl::StatusOr<std::unique_ptr<ViewServer>> Start(const std::string& host, int port, Handler handler);

  // Stops to listen and waits for the requests that are under way.
  virtual ~ViewServer() = default;

  // With the token.
  virtual std::string url() const = 0;
};

}  // namespace shardctl
