#include "remote/http/http_client.h"

#include <curl/curl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "remote/http/await.h"
#include "remote/url.h"

namespace shardkit::remote {
namespace {

// Headers that the client goes by.
bool IsUsed(std::string_view header) {
  constexpr std::string_view kUsed[] = {"content-range",    "etag", "location", "retry-after", "x-amz-bucket-region",
                                        "x-goog-generation"};
  return std::ranges::find(kUsed, header) != std::end(kUsed);
}

constexpr size_t kHeaderLimit = size_t{64} << 10;
constexpr int kMostRedirects = 5;

// The file of the authorities that this system trusts. libcurl knows that of the system it was built for, and a program
// may run on another. Null where there is none of these: then libcurl's is used.
const char* SystemAuthorities() {
  static const char* const found = [] {
    const char* present = nullptr;
    // Of Debian, of Red Hat and of SUSE.
    for (const char* path :
         {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem"}) {
      if (present == nullptr && access(path, R_OK) == 0) present = path;
    }
    return present;
  }();
  return found;
}

absl::Status ErrorOf(CURLcode code, const std::string& url) {
  const std::string message = StrCat(WithoutSecrets(url), ": ", curl_easy_strerror(code));
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
      return absl::DeadlineExceededError(ToAbsl(message));
    case CURLE_PARTIAL_FILE:
      return DataLoss(message, ": the connection ended in the middle of the body");
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
      return FailedPrecondition(message,
                                ": the server's certificate is not trusted; name the file of your authority in "
                                "AWS_CA_BUNDLE or SSL_CERT_FILE");
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return InvalidArgument(message);
    case CURLE_OUT_OF_MEMORY:
      return ResourceExhausted(message);
    default:
      return Unavailable(message);
  }
}

struct EasyHandleDeleter {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
using EasyHandle = std::unique_ptr<CURL, EasyHandleDeleter>;

// One request on its way: its libcurl handle, and what has come back so far. For one thread. Does not move while its
// handle is in use.
class Transfer {
 public:
  Transfer(HttpClient::Id id, HttpRequest request, HttpClient::Done done);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  HttpClient::Id id() const { return id_; }
  CURL* handle() const { return handle_.get(); }

  // Makes the handle ready to be driven. The handle's earlier settings are lost, its connections are not.
  absl::Status Prepare(EasyHandle handle, const HttpClient::Options& options);

  // libcurl has ended it. True when it was redirected and prepared again, and is to be driven again.
  bool Redirected(const HttpClient::Options& options);

  // What came of it. `code` is libcurl's.
  absl::StatusOr<HttpResponse> Result(CURLcode code);

  // Calls the function that waits for the result, once. The handle comes back for another request.
  EasyHandle Finish(absl::StatusOr<HttpResponse> result);

 private:
  // Called before a request is sent, when it has a connection.
  static int CheckAddress(void* transfer, char* address, char* own_address, int port, int own_port);
  static size_t TakeHeader(char* bytes, size_t one, size_t count, void* transfer);
  static size_t TakeBody(char* bytes, size_t one, size_t count, void* transfer);

  // Remembers what the request sends in secret.
  void NoteSecrets();
  // The text without what was sent in secret: servers echo it.
  std::string Blanked(std::string text) const;

  absl::Status AddHeader(std::string_view line);
  absl::Status AddBody(std::string_view bytes);

  const HttpClient::Id id_;
  HttpRequest request_;
  HttpClient::Done done_;
  EasyHandle handle_;
  curl_slist* header_list_ = nullptr;
  HttpResponse response_;
  size_t header_bytes_ = 0;
  int redirects_ = 0;
  bool public_ = false;               // the URL that was asked for leads to a public address
  std::vector<std::string> secrets_;  // in headers and queries of requests before the present one
  absl::Status refused_;              // why a callback stopped the transfer
};

Transfer::Transfer(HttpClient::Id id, HttpRequest request, HttpClient::Done done)
    : id_(id), request_(std::move(request)), done_(std::move(done)) {}

Transfer::~Transfer() { curl_slist_free_all(header_list_); }

absl::Status Transfer::Prepare(EasyHandle handle, const HttpClient::Options& options) {
  handle_ = std::move(handle);
  CURL* const curl = handle_.get();
  response_ = HttpResponse();
  header_bytes_ = 0;
  // libcurl would send it as a login.
  const size_t authority = request_.url.find("://");
  if (request_.url.substr(0, request_.url.find_first_of("/?#", authority + 3)).find('@') != std::string::npos) {
    return InvalidArgument(WithoutSecrets(request_.url), redirects_ > 0 ? ": a server redirects there with" : ": has",
                           " a user name, which is not sent");
  }
  curl_slist_free_all(header_list_);
  header_list_ = nullptr;
  // An "expect" would cost a round trip.
  std::vector<std::string> lines = {"expect:"};
  for (const HttpHeader& header : request_.headers) {
    // A line feed in a value would begin another header.
    if (header.value.find_first_of("\r\n") != header.value.npos) {
      return InvalidArgument(WithoutSecrets(request_.url), ": the value of the header ", header.name,
                             " has a line break");
    }
    lines.push_back(header.value.empty() ? header.name + ";" : StrCat(header.name, ": ", header.value));
  }
  for (const std::string& line : lines) {
    curl_slist* const longer = curl_slist_append(header_list_, line.c_str());
    if (longer == nullptr) return ResourceExhausted(WithoutSecrets(request_.url), ": no memory for a request");
    header_list_ = longer;
  }
  curl_easy_reset(curl);
  curl_easy_setopt(curl, CURLOPT_PRIVATE, this);
  curl_easy_setopt(curl, CURLOPT_URL, request_.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);  // keys may have ".." in them
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "shardkit");
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, header_list_);
  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
  curl_easy_setopt(curl, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 256L << 10);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options.connect_timeout.count()));
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(std::max<int64_t>(request_.deadline.count(), 1)));
  // A store may be busy for long before it says that it has what was written.
  if (request_.method == "GET") {
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(options.stall_timeout.count()));
  }
  curl_easy_setopt(curl, CURLOPT_PREREQFUNCTION, &CheckAddress);
  curl_easy_setopt(curl, CURLOPT_PREREQDATA, this);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &TakeHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &TakeBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, this);
  const char* const authorities = request_.certificates.empty() ? SystemAuthorities() : request_.certificates.c_str();
  if (authorities != nullptr) curl_easy_setopt(curl, CURLOPT_CAINFO, authorities);
  if (!request_.proxy) curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
  if (request_.fresh_connection) {
    curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(curl, CURLOPT_DNS_CACHE_TIMEOUT, 0L);
  }
  if (request_.method == "HEAD") {
    curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
  } else if (request_.method != "GET") {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_.body.size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request_.body.empty() ? "" : request_.body.data());
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request_.method.c_str());
  }
  return absl::OkStatus();
}

// Who serves data on the internet could otherwise make this machine ask its own services, and those of its network.
int Transfer::CheckAddress(void* transfer, char* address, char* /*own_address*/, int /*port*/, int /*own_port*/) {
  auto& self = *static_cast<Transfer*>(transfer);
  const absl::Status allowed = Guarded("an address", [&]() -> absl::Status {
    const bool is_public = IsPublicAddress(address == nullptr ? "" : address);
    if (self.redirects_ == 0) self.public_ = is_public;
    if (is_public || !self.public_) return absl::OkStatus();
    return InvalidArgument(WithoutSecrets(self.request_.url),
                           ": a server of the internet redirects there, to an address of this machine or its network; "
                           "name that URL itself");
  });
  self.refused_.Update(allowed);
  return allowed.ok() ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

void Transfer::NoteSecrets() {
  constexpr size_t kShortest = 8;  // shorter ones would take words out of messages
  const auto note = [&](std::string_view text, const char* separators) {
    while (!text.empty()) {
      const size_t end = std::min(text.find_first_of(separators), text.size());
      const std::string_view part = text.substr(0, end);
      const bool word = part == "Credential" || part == "SignedHeaders" || part == "Signature";
      if (part.size() >= kShortest && !word) secrets_.emplace_back(part);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  };
  for (const HttpHeader& header : request_.headers) {
    if (header.secret) note(header.value, " ,=");
  }
  const size_t query = request_.url.find('?');
  if (query == std::string::npos) return;
  note(std::string_view(request_.url).substr(query + 1), "&=");
  int length = 0;
  char* const decoded = curl_easy_unescape(handle_.get(), request_.url.c_str() + query + 1, 0, &length);
  if (decoded != nullptr) note({decoded, static_cast<size_t>(length)}, "&=");
  curl_free(decoded);
}

std::string Transfer::Blanked(std::string text) const {
  for (const std::string& secret : secrets_) {
    for (size_t at = text.find(secret); at != text.npos; at = text.find(secret, at))
      text.replace(at, secret.size(), "…");
  }
  return text;
}

// An exception must not pass through libcurl. Any other number than that of the bytes ends the transfer.
size_t Transfer::TakeHeader(char* bytes, size_t one, size_t count, void* transfer) {
  auto& self = *static_cast<Transfer*>(transfer);
  self.refused_ = Guarded("a header", [&] { return self.AddHeader({bytes, one * count}); });
  return self.refused_.ok() ? one * count : one * count + 1;
}

size_t Transfer::TakeBody(char* bytes, size_t one, size_t count, void* transfer) {
  auto& self = *static_cast<Transfer*>(transfer);
  self.refused_ = Guarded("a body", [&] { return self.AddBody({bytes, one * count}); });
  return self.refused_.ok() ? one * count : one * count + 1;
}

absl::Status Transfer::AddHeader(std::string_view line) {
  // A status line: what came before belonged to an interim answer.
  if (line.substr(0, 5) == "HTTP/") {
    response_.headers.clear();
    return absl::OkStatus();
  }
  header_bytes_ += line.size();
  if (header_bytes_ > kHeaderLimit) {
    return DataLoss(WithoutSecrets(request_.url), ": the answer has more than ", kHeaderLimit, " bytes of headers");
  }
  const size_t colon = line.find(':');
  if (colon == line.npos) return absl::OkStatus();
  HttpHeader header{std::string(line.substr(0, colon)), {}};
  for (char& c : header.name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  line.remove_prefix(colon + 1);
  const size_t begin = line.find_first_not_of(" \t\r\n");
  if (begin != line.npos) header.value = line.substr(begin, line.find_last_not_of(" \t\r\n") - begin + 1);
  response_.headers.push_back(std::move(header));
  return absl::OkStatus();
}

absl::Status Transfer::AddBody(std::string_view bytes) {
  long status = 0;
  curl_easy_getinfo(handle_.get(), CURLINFO_RESPONSE_CODE, &status);
  response_.status = static_cast<int>(status);
  if (!request_.buffer.empty() && response_.partial()) {
    if (bytes.size() > request_.buffer.size() - response_.buffer_bytes) {
      return DataLoss(WithoutSecrets(request_.url), ": the server sent more than the ", request_.buffer.size(),
                      " bytes asked for");
    }
    std::memcpy(request_.buffer.data() + response_.buffer_bytes, bytes.data(), bytes.size());
    response_.buffer_bytes += bytes.size();
    return absl::OkStatus();
  }
  if (bytes.size() > request_.body_limit - response_.body.size()) {
    return ResourceExhausted(WithoutSecrets(request_.url), ": the answer (status ", status, ") has more than ",
                             request_.body_limit, " bytes");
  }
  response_.body += bytes;
  return absl::OkStatus();
}

bool Transfer::Redirected(const HttpClient::Options& options) {
  long status = 0;
  curl_easy_getinfo(handle_.get(), CURLINFO_RESPONSE_CODE, &status);
  const bool redirect = status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
  if (!redirect || !request_.follow_redirects || (request_.method != "GET" && request_.method != "HEAD")) return false;
  const std::string_view location = response_.Header("location");
  if (location.empty()) return false;
  if (++redirects_ > kMostRedirects) {
    refused_ = InvalidArgument(WithoutSecrets(request_.url), ": more than ", kMostRedirects, " redirects");
    return false;
  }
  absl::StatusOr<std::string> next = ResolveRedirect(request_.url, std::string(location));
  if (!next.ok()) {
    refused_ = next.status();
    return false;
  }
  NoteSecrets();
  if (!SameOrigin(request_.url, *next))
    std::erase_if(request_.headers, [](const HttpHeader& header) { return header.secret; });
  request_.url = *std::move(next);
  refused_ = Prepare(std::move(handle_), options);
  return refused_.ok();
}

absl::StatusOr<HttpResponse> Transfer::Result(CURLcode code) {
  if (!refused_.ok()) {
    NoteSecrets();
    return absl::Status(refused_.code(), ToAbsl(Blanked(std::string(refused_.message()))));
  }
  if (code != CURLE_OK) return ErrorOf(code, request_.url);
  long status = 0;
  curl_easy_getinfo(handle_.get(), CURLINFO_RESPONSE_CODE, &status);
  response_.status = static_cast<int>(status);
  // The body of a good answer is data, but for an error that a store tells late.
  const bool late = request_.method != "GET" && response_.body.find("<Error") != std::string::npos;
  NoteSecrets();
  if (status >= 300 || late) response_.body = Blanked(std::move(response_.body));
  // Messages about good answers quote headers, too. A version or a place may by chance have the text of a query.
  for (HttpHeader& header : response_.headers) {
    if (!IsUsed(header.name)) header.value = Blanked(std::move(header.value));
  }
  return std::move(response_);
}

EasyHandle Transfer::Finish(absl::StatusOr<HttpResponse> result) {
  // The owner of the request cannot be told in another way, so an exception of its function ends here.
  (void)Guarded("the end of a request", [&]() -> absl::Status {
    done_(std::move(result));
    return absl::OkStatus();
  });
  return std::move(handle_);
}

using SteadyClock = std::chrono::steady_clock;

// More idle handles are not worth their memory.
constexpr size_t kMostIdleHandles = 64;

struct MultiHandleDeleter {
  void operator()(CURLM* handle) const { curl_multi_cleanup(handle); }
};

// libcurl wants it once per process, before any thread uses it.
bool InitializeCurl() {
  static const bool initialized = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return initialized;
}

}  // namespace

std::string_view HttpResponse::Header(std::string_view name) const {
  const auto found = std::ranges::find(headers, name, &HttpHeader::name);
  return found == headers.end() ? std::string_view() : std::string_view(found->value);
}

class HttpClient::Engine {
 public:
  explicit Engine(const Options& options) : options_(options), multi_(curl_multi_init()) {}

  ~Engine() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    Wake();
    if (thread_.joinable()) thread_.join();
    idle_.clear();
  }

  absl::Status Launch() {
    if (!multi_) return ResourceExhausted("libcurl: no memory for a client");
    // libcurl's own limit is four for each request that runs now, so a pause would end most connections.
    curl_multi_setopt(multi_.get(), CURLMOPT_MAXCONNECTS, static_cast<long>(options_.requests_in_flight));
    curl_multi_setopt(multi_.get(), CURLMOPT_SOCKETFUNCTION, &TakeSocket);
    curl_multi_setopt(multi_.get(), CURLMOPT_SOCKETDATA, this);
    curl_multi_setopt(multi_.get(), CURLMOPT_TIMERFUNCTION, &TakeTimer);
    curl_multi_setopt(multi_.get(), CURLMOPT_TIMERDATA, this);
    try {
      thread_ = std::thread([this] { Run(); });
    } catch (const std::system_error& error) {
      return ResourceExhausted("the thread of the HTTP client cannot be started: ", error.what());
    }
    return absl::OkStatus();
  }

  Id Start(HttpRequest request, Done done) {
    Id id = 0;
    {
      std::lock_guard lock(mutex_);
      id = ++last_id_;
      started_.push_back(std::make_unique<Transfer>(id, std::move(request), std::move(done)));
    }
    Wake();
    return id;
  }

  void Cancel(Id id) {
    {
      std::lock_guard lock(mutex_);
      cancelled_.push_back(id);
    }
    Wake();
  }

  void After(std::chrono::milliseconds delay, std::function<void()> function) {
    {
      std::lock_guard lock(mutex_);
      timers_.emplace(SteadyClock::now() + delay, std::move(function));
    }
    Wake();
  }

 private:
  // From the thread itself too: its next wait then ends at once.
  void Wake() { curl_multi_wakeup(multi_.get()); }

  void Run() {
    bool stopping = false;
    while (true) {
      stopping = TakeCommands();
      RunTimers(stopping);
      if (stopping) {
        FinishAll();
        std::lock_guard lock(mutex_);
        if (started_.empty() && timers_.empty()) return;
        continue;
      }
      StartWaiting();
      const bool more = !waiting_.empty() && !AtLimit();
      Drive(more ? 0 : std::min(MillisecondsToTimer(), MillisecondsTo(libcurl_timer_)));
    }
  }

  // A connection, and the request that uses it.
  struct Socket {
    Id id = 0;
    curl_waitfd wait;
  };

  // libcurl says which sockets it waits for. An exception must not pass through it.
  static int TakeSocket(CURL* easy, curl_socket_t socket, int what, void* engine, void* /*of_socket*/) {
    auto& sockets = static_cast<Engine*>(engine)->sockets_;
    const absl::Status taken = Guarded("a socket", [&]() -> absl::Status {
      std::erase_if(sockets, [&](const auto& known) { return known.wait.fd == socket; });
      if (what == CURL_POLL_REMOVE) return absl::OkStatus();
      Transfer* transfer = nullptr;
      curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
      const int events =
          ((what & CURL_POLL_IN) != 0 ? CURL_WAIT_POLLIN : 0) | ((what & CURL_POLL_OUT) != 0 ? CURL_WAIT_POLLOUT : 0);
      const Socket added{transfer == nullptr ? 0 : transfer->id(), {socket, static_cast<short>(events), 0}};
      sockets.insert(std::ranges::upper_bound(sockets, added.id, {}, &Socket::id), added);
      return absl::OkStatus();
    });
    return taken.ok() ? 0 : -1;
  }

  static int TakeTimer(CURLM* /*multi*/, long wait, void* engine) {
    auto& timer = static_cast<Engine*>(engine)->libcurl_timer_;
    timer = wait < 0 ? SteadyClock::time_point::max() : SteadyClock::now() + std::chrono::milliseconds(wait);
    return 0;
  }

  // Waits, and receives and sends what can be, for about a millisecond. One connection at a time, and that of the
  // oldest request first: libcurl takes all that has come for it, which may be megabytes. Who waits for one answer need
  // not wait for all others, nor need new requests.
  void Drive(int milliseconds) {
    constexpr std::chrono::milliseconds kPass{1};
    std::vector<curl_waitfd> waits;
    for (const Socket& socket : sockets_) waits.push_back(socket.wait);
    int ready = 0;
    curl_multi_poll(multi_.get(), waits.data(), static_cast<unsigned>(waits.size()), milliseconds, &ready);
    // Errors are not told with the sockets: then libcurl looks at all of them.
    const auto begin = SteadyClock::now();
    const bool look = ready > 0 && std::ranges::all_of(waits, [](const auto& wait) { return wait.revents == 0; });
    // What is sent takes little time, and the server begins its answer.
    std::ranges::stable_sort(waits, std::greater<>(),
                             [](const auto& wait) { return wait.revents & CURL_WAIT_POLLOUT; });
    for (const curl_waitfd& wait : waits) {
      if (wait.revents == 0 && !look) continue;
      if (std::ranges::none_of(sockets_, [&](const auto& known) { return known.wait.fd == wait.fd; })) continue;
      Act(wait.fd, ((wait.revents & CURL_WAIT_POLLIN) != 0 ? CURL_CSELECT_IN : 0) |
                       ((wait.revents & CURL_WAIT_POLLOUT) != 0 ? CURL_CSELECT_OUT : 0));
      if (SteadyClock::now() - begin >= kPass) break;
    }
    // Polling can leave work that is due at once, of which libcurl does not tell by its function for timers.
    long due = -1;
    curl_multi_timeout(multi_.get(), &due);
    if (due == 0 || SteadyClock::now() >= libcurl_timer_) {
      libcurl_timer_ = SteadyClock::time_point::max();
      Act(CURL_SOCKET_TIMEOUT, 0);
    }
  }

  void Act(curl_socket_t socket, int events) {
    int running = 0;
    curl_multi_socket_action(multi_.get(), socket, events, &running);
    TakeFinished();
  }

  bool AtLimit() const { return running_.size() >= static_cast<size_t>(options_.requests_in_flight); }

  // Returns whether the client is being destroyed.
  bool TakeCommands() {
    std::vector<Id> cancelled;
    bool stopping = false;
    {
      std::lock_guard lock(mutex_);
      for (auto& transfer : started_) waiting_.push_back(std::move(transfer));
      started_.clear();
      cancelled.swap(cancelled_);
      stopping = stopping_;
    }
    for (const Id id : cancelled) {
      if (const auto found = running_.find(id); found != running_.end()) {
        std::unique_ptr<Transfer> transfer = std::move(found->second);
        running_.erase(found);
        curl_multi_remove_handle(multi_.get(), transfer->handle());
        FinishCancelled(*transfer);
        continue;
      }
      for (auto waiting = waiting_.begin(); waiting != waiting_.end(); ++waiting) {
        if ((*waiting)->id() != id) continue;
        const std::unique_ptr<Transfer> transfer = std::move(*waiting);
        waiting_.erase(waiting);
        FinishCancelled(*transfer);
        break;
      }
    }
    return stopping;
  }

  void RunTimers(bool all) {
    std::vector<std::function<void()>> due;
    {
      std::lock_guard lock(mutex_);
      const auto end = all ? timers_.end() : timers_.upper_bound(SteadyClock::now());
      for (auto timer = timers_.begin(); timer != end; ++timer) due.push_back(std::move(timer->second));
      timers_.erase(timers_.begin(), end);
    }
    for (const auto& function : due) {
      (void)Guarded("a timer", [&]() -> absl::Status {
        function();
        return absl::OkStatus();
      });
    }
  }

  // At most a second.
  static int MillisecondsTo(SteadyClock::time_point time) {
    const auto now = SteadyClock::now();
    if (time >= now + std::chrono::seconds(1)) return 1000;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(time - now);
    return static_cast<int>(std::max<int64_t>(left.count(), 0));
  }

  int MillisecondsToTimer() {
    std::lock_guard lock(mutex_);
    return timers_.empty() ? 1000 : MillisecondsTo(timers_.begin()->first);
  }

  void StartWaiting() {
    while (!waiting_.empty() && !AtLimit()) {
      std::unique_ptr<Transfer> transfer = std::move(waiting_.front());
      waiting_.pop_front();
      EasyHandle handle;
      if (idle_.empty()) {
        handle.reset(curl_easy_init());
      } else {
        handle = std::move(idle_.back());
        idle_.pop_back();
      }
      absl::Status prepared = handle ? transfer->Prepare(std::move(handle), options_)
                                     : ResourceExhausted("libcurl: no memory for a request");
      if (!prepared.ok()) {
        Keep(transfer->Finish(std::move(prepared)));
        continue;
      }
      if (curl_multi_add_handle(multi_.get(), transfer->handle()) != CURLM_OK) {
        transfer->Finish(ResourceExhausted("libcurl: no memory for a request"));
        continue;
      }
      running_.emplace(transfer->id(), std::move(transfer));
    }
  }

  void TakeFinished() {
    int left = 0;
    while (const CURLMsg* const message = curl_multi_info_read(multi_.get(), &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const CURLcode code = message->data.result;
      Transfer* transfer = nullptr;
      curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
      curl_multi_remove_handle(multi_.get(), transfer->handle());
      if (code == CURLE_OK && transfer->Redirected(options_) &&
          curl_multi_add_handle(multi_.get(), transfer->handle()) == CURLM_OK) {
        continue;
      }
      const auto found = running_.find(transfer->id());
      const std::unique_ptr<Transfer> owned = std::move(found->second);
      running_.erase(found);
      Keep(owned->Finish(owned->Result(code)));
    }
  }

  void FinishCancelled(Transfer& transfer) { Keep(transfer.Finish(Cancelled("the request was cancelled"))); }

  void FinishAll() {
    std::vector<std::unique_ptr<Transfer>> ended;
    for (auto& entry : running_) {
      curl_multi_remove_handle(multi_.get(), entry.second->handle());
      ended.push_back(std::move(entry.second));
    }
    running_.clear();
    for (auto& transfer : waiting_) ended.push_back(std::move(transfer));
    waiting_.clear();
    for (const auto& transfer : ended) FinishCancelled(*transfer);
  }

  void Keep(EasyHandle handle) {
    if (handle && idle_.size() < kMostIdleHandles) idle_.push_back(std::move(handle));
  }

  const Options options_;

  // Of the thread.
  std::unordered_map<Id, std::unique_ptr<Transfer>> running_;
  std::deque<std::unique_ptr<Transfer>> waiting_;
  std::vector<EasyHandle> idle_;
  std::vector<Socket> sockets_;  // that libcurl waits for, by request
  SteadyClock::time_point libcurl_timer_ = SteadyClock::time_point::max();
  const std::unique_ptr<CURLM, MultiHandleDeleter> multi_;  // goes before sockets_, which its end still changes

  std::mutex mutex_;  // guards what follows
  Id last_id_ = 0;
  bool stopping_ = false;
  std::vector<std::unique_ptr<Transfer>> started_;
  std::vector<Id> cancelled_;
  std::multimap<SteadyClock::time_point, std::function<void()>> timers_;

  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<HttpClient>> HttpClient::Create(const Options& options) {
  if (!InitializeCurl()) return Internal("libcurl cannot be initialized");
  auto engine = std::make_unique<Engine>(options);
  SHARDKIT_RETURN_IF_ERROR(engine->Launch());
  return std::unique_ptr<HttpClient>(new HttpClient(std::move(engine)));
}

HttpClient::HttpClient(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}
HttpClient::~HttpClient() = default;

HttpClient::Id HttpClient::Start(HttpRequest request, Done done) {
  return engine_->Start(std::move(request), std::move(done));
}

void HttpClient::Cancel(Id id) { engine_->Cancel(id); }

void HttpClient::After(std::chrono::milliseconds delay, std::function<void()> function) {
  engine_->After(delay, std::move(function));
}

absl::StatusOr<HttpResponse> HttpClient::Send(HttpRequest request) {
  Id id = 0;
  return Await<absl::StatusOr<HttpResponse>>([&](Done done) { id = Start(std::move(request), std::move(done)); },
                                             [&] { Cancel(id); });
}

}  // namespace shardkit::remote
