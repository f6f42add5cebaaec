// Serves a folder over HTTP on a loopback port as object stores do: ranges, ETags, and a latency before each answer. It
// counts requests and bytes, so that all programs of bench/remote are measured by the same server.
//
//   object_server FOLDER [LATENCY_MS [STALL_SHARE STALL_MS]]
//
// Prints its port and serves until stdin ends. "GET /-/counts" answers and resets {"requests", "bytes"}. Of the
// requests for data, STALL_SHARE (0 to 1) pause for STALL_MS in the middle. Signatures are not looked at.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>

namespace {

using std::chrono::duration;

std::string folder;
double latency = 0, stall_share = 0, stall = 0;  // seconds
std::atomic<uint64_t> requests = 0, bytes = 0, drawn = 0;

void Sleep(double seconds) {
  if (seconds > 0) std::this_thread::sleep_for(duration<double>(seconds));
}

// The same requests in the same order stall in every run.
bool Stalls() {
  uint64_t x = ++drawn * 0x9e3779b97f4a7c15;
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9;
  return static_cast<double>((x ^ x >> 32) >> 11) < stall_share * 0x1p53;
}

bool SendAll(int socket, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = send(socket, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    text.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

bool SendFile(int socket, int file, off_t begin, off_t end) {
  while (begin < end) {
    if (sendfile(socket, file, &begin, static_cast<size_t>(end - begin)) <= 0) return false;
  }
  return true;
}

std::string Decode(std::string_view path) {
  std::string decoded;
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i] == '%' && i + 2 < path.size()) {
      decoded += static_cast<char>(std::stoi(std::string(path.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      decoded += path[i];
    }
  }
  return decoded;
}

// The value of a header, whose name is given in lower case with its colon.
std::string_view Header(std::string_view head, std::string_view lower_head, std::string_view name) {
  const size_t at = lower_head.find(name);
  if (at == lower_head.npos) return {};
  std::string_view value = head.substr(at + name.size());
  value = value.substr(0, value.find('\r'));
  return value.substr(std::min(value.find_first_not_of(' '), value.size()));
}

// Returns whether the connection may be used again.
bool Answer(int socket, std::string_view head) {
  const bool wants_head = head.starts_with("HEAD ");
  std::string_view target = head.substr(head.find(' ') + 1);
  target = target.substr(0, target.find_first_of(" ?"));
  if (target == "/-/counts") {
    const std::string body = "{\"requests\": " + std::to_string(requests.exchange(0)) +
                             ", \"bytes\": " + std::to_string(bytes.exchange(0)) + "}";
    return SendAll(socket, "HTTP/1.1 200 OK\r\ncontent-length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  ++requests;
  Sleep(latency);
  const int file = open((folder + Decode(target)).c_str(), O_RDONLY | O_CLOEXEC);
  struct stat info {};
  if (file < 0 || fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
    if (file >= 0) close(file);
    return SendAll(socket, "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
  }
  std::string lower(head);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  long long first = 0, last = info.st_size - 1;
  const std::string range(Header(head, lower, "\r\nrange:"));
  const bool partial = std::sscanf(range.c_str(), "bytes=%lld-%lld", &first, &last) >= 1;
  last = std::min<long long>(last, info.st_size - 1);
  const auto whole = std::to_string(info.st_size);
  char date[64];
  std::strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", std::gmtime(&info.st_mtime));
  std::string answer = partial ? "HTTP/1.1 206 Partial Content\r\ncontent-range: bytes " + std::to_string(first) + "-" +
                                     std::to_string(last) + "/" + whole + "\r\n"
                               : "HTTP/1.1 200 OK\r\n";
  answer += "accept-ranges: bytes\r\netag: \"" + whole + "\"\r\nlast-modified: " + date +
            "\r\ncontent-length: " + std::to_string(last - first + 1) + "\r\n\r\n";
  bool sent = SendAll(socket, answer);
  if (sent && !wants_head) {
    bytes += static_cast<uint64_t>(last - first + 1);
    const off_t middle = first + (last - first) / 2;
    if (Stalls()) {
      sent = SendFile(socket, file, first, middle);
      Sleep(stall);
      first = middle;
    }
    sent = sent && SendFile(socket, file, first, last + 1);
  }
  close(file);
  return sent;
}

void Serve(int socket) {
  std::string received;
  char piece[16384];
  while (true) {
    const size_t end = received.find("\r\n\r\n");
    if (end != received.npos) {
      if (!Answer(socket, std::string_view(received).substr(0, end + 2))) break;
      received.erase(0, end + 4);
      continue;
    }
    const ssize_t count = recv(socket, piece, sizeof(piece), 0);
    if (count <= 0) break;
    received.append(piece, static_cast<size_t>(count));
  }
  close(socket);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  folder = argv[1];
  if (argc > 2) latency = std::atof(argv[2]) / 1000;
  if (argc > 4) stall_share = std::atof(argv[3]), stall = std::atof(argv[4]) / 1000;
  std::signal(SIGPIPE, SIG_IGN);  // of sendfile
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(listener, 512) != 0) return 3;
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  std::printf("%d\n", ntohs(address.sin_port));
  std::fflush(stdout);
  std::thread([listener] {
    while (true) {
      const int socket = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (socket < 0) continue;
      const int one = 1;
      setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
      std::thread(Serve, socket).detach();
    }
  }).detach();
  while (std::getchar() != EOF) {
  }
  std::_Exit(0);
}
