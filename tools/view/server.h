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

  // `host` is an address of this machine or a name of it; IPv6 addresses may have the brackets of URLs. `port` 0: any
  // free one. InvalidArgument for what is no address, Unavailable, with the reason, when nothing can listen there.
  static absl::StatusOr<std::unique_ptr<ViewServer>> Start(const std::string& host, int port, Handler handler);

  // Stops to listen and waits for the requests that are under way.
  virtual ~ViewServer() = default;

  // What the user opens (Guard::Url).
  virtual std::string url() const = 0;
};

}  // namespace shardctl
