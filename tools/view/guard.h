// Who may ask `shardctl view` for data: pages that it served itself, to a browser that was given the token.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shardctl {

// Pure, and thread-safe. What it is asked about is untrusted.
class Guard {
 public:
  // `host` is the address or name that the server listens on, as a URL has it (RFC 3986, section 3.2.2).
  Guard(std::string token, std::string host, int port);

  // 128 random bits of the system, as hexadecimal digits.
  static std::string NewToken();

  // Whether the Host header names this server. Another name that leads to the same address is refused: it may be that
  // of a foreign page that turned its name to this machine (DNS rebinding).
  bool KnowsHost(std::string_view host) const;

  // Whether a request with this Origin header, empty when it has none, comes from a page of the server that `host`
  // names.
  bool KnowsOrigin(std::string_view origin, std::string_view host) const;

  // In a time that does not tell how much of it is right.
  bool KnowsToken(std::string_view token) const;

  // Whether the Cookie header has the token. Browsers keep cookies of all ports of a host together, so its name has the
  // port.
  bool KnowsCookie(std::string_view cookies) const;

  // The Set-Cookie header for a browser that knew the token.
  std::string Cookie() const;

  // What the user opens: the page, with the token. A server on all addresses is told by this machine's name.
  std::string Url() const;

 private:
  std::string CookieName() const { return "shardkit-view-" + std::to_string(port_); }

  const std::string token_;
  const std::string host_;
  const int port_;
};

}  // namespace shardctl
