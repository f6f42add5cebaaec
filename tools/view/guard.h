// Who may ask `shardctl view` for data: pages that it served itself, to a browser that was given the token.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shardctl {

// Thread-safe. What it is asked about is untrusted.
//
// The token of the URL that the user opens is exchanged for a cookie and a folder, each with 128 random bits of its
// own. Browsers send cookies to all ports of a host, but only for pages below the cookie's path: a server on another
// port is not sent this one, for it does not know the folder.
class Guard {
 public:
  // `host` is the address or name that the server listens on, as a URL has it (RFC 3986, section 3.2.2).
  Guard(std::string host, int port);

  // Whether the Host header names this server. Another name that leads to the same address is refused: it may be that
  // of a foreign page that turned its name to this machine (DNS rebinding).
  bool KnowsHost(std::string_view host) const;

  // Whether a request with this Origin header, empty when it has none, comes from a page of the server that `host`
  // names.
  bool KnowsOrigin(std::string_view origin, std::string_view host) const;

  // In a time that does not tell how much of it is right. So does KnowsCookie.
  bool KnowsToken(std::string_view token) const;

  // Whether the Cookie header has this server's.
  bool KnowsCookie(std::string_view cookies) const;

  // The Set-Cookie header for a browser that knew the token.
  std::string Cookie() const;

  // "/…/", what all paths of the page begin with.
  const std::string& Folder() const { return folder_; }

  // What the user opens: the page, with the token. A server on all addresses is told by this machine's name.
  std::string Url() const;

 private:
  std::string CookieName() const { return "shardkit-view-" + std::to_string(port_); }

  const std::string host_;
  const int port_;
  const std::string token_, cookie_, folder_;
};

}  // namespace shardctl
