#include "view/guard.h"

#include <arpa/inet.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"

namespace shardctl {
namespace {

// An address needs no name, so nobody can turn it elsewhere.
bool IsAddress(const std::string& host) {
  std::array<unsigned char, 16> address;
  if (inet_pton(AF_INET, host.c_str(), address.data()) == 1) return true;
  return host.size() > 2 && host.front() == '[' && host.back() == ']' &&
         inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), address.data()) == 1;
}

bool IsLoopback(std::string_view host) { return host == "127.0.0.1" || host == "localhost" || host == "[::1]"; }

std::string OwnName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : "localhost";
}

// 128 random bits of the system, as hexadecimal digits.
std::string RandomText() {
  std::array<unsigned char, 16> bytes{};
  for (size_t filled = 0; filled < bytes.size();) {
    const ssize_t got = getrandom(bytes.data() + filled, bytes.size() - filled, 0);
    if (got > 0) filled += static_cast<size_t>(got);
  }
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

bool IsSecret(std::string_view text, std::string_view secret) {
  if (text.size() != secret.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    difference = static_cast<unsigned char>(difference | (text[i] ^ secret[i]));
  }
  return difference == 0;
}

}  // namespace

Guard::Guard(std::string host, int port)
    : host_(std::move(host)),
      port_(port),
      token_(RandomText()),
      cookie_(RandomText()),
      folder_("/" + RandomText() + "/") {}

bool Guard::KnowsHost(std::string_view host) const {
  const std::string port = ":" + std::to_string(port_);
  if (!host.ends_with(port)) return false;
  const std::string name(host.substr(0, host.size() - port.size()));
  // Browsers write names in lower case.
  if (IsLoopback(name) || absl::EqualsIgnoreCase(name, host_)) return true;
  if (IsLoopback(host_)) return false;
  // The user let other machines in: they may use any address, and this machine's name.
  return IsAddress(name) || absl::EqualsIgnoreCase(name, OwnName());
}

bool Guard::KnowsOrigin(std::string_view origin, std::string_view host) const {
  return origin.empty() || origin == "http://" + std::string(host);
}

bool Guard::KnowsToken(std::string_view token) const { return IsSecret(token, token_); }

bool Guard::KnowsCookie(std::string_view cookies) const {
  const std::string name = CookieName() + "=";
  while (!cookies.empty()) {
    const size_t end = cookies.find(';');
    std::string_view cookie = cookies.substr(0, end);
    while (cookie.starts_with(' ')) cookie.remove_prefix(1);
    if (cookie.starts_with(name) && IsSecret(cookie.substr(name.size()), cookie_)) return true;
    if (end == cookies.npos) break;
    cookies.remove_prefix(end + 1);
  }
  return false;
}

std::string Guard::Cookie() const {
  return CookieName() + "=" + cookie_ + "; Path=" + folder_ + "; HttpOnly; SameSite=Lax";
}

std::string Guard::Url() const {
  // No browser on another machine can go to "all addresses".
  const bool all = host_ == "0.0.0.0" || host_ == "[::]";
  return "http://" + (all ? OwnName() : host_) + ":" + std::to_string(port_) + "/?token=" + token_;
}

}  // namespace shardctl
