#include "remote/transfer.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
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

}  // namespace

std::string_view HttpResponse::Header(std::string_view name) const {
  const auto found = std::ranges::find(headers, name, &HttpHeader::name);
  return found == headers.end() ? std::string_view() : std::string_view(found->value);
}

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
  if (!request_.certificates.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, request_.certificates.c_str());
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

}  // namespace shardkit::remote
