#include "remote/object_store.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "remote/credentials/profile_files.h"
#include "remote/credentials/signature.h"
#include "remote/http/answers.h"
#include "remote/http/await.h"

namespace shardkit::remote {
namespace {

// Whole bodies up to this size are used in place of a range.
constexpr uint64_t kSmallObject = uint64_t{1} << 20;

// A weak ETag does not promise equal bytes, and If-Match never holds for it.
bool IsStrong(std::string_view etag) { return !etag.empty() && etag.substr(0, 2) != "W/"; }

std::string DescribeRange(const ObjectUrl& url, uint64_t offset, uint64_t length) {
  return StrCat(Describe(url), ", bytes ", offset, "-", offset + length - 1);
}

// What the credentials and addresses of a scheme may come from, besides files.
std::span<const char* const> VariablesOf(Scheme scheme) {
  static constexpr const char* kGoogleVariables[] = {
      "GS_ACCESS_KEY_ID",  "GS_SECRET_ACCESS_KEY",           "GOOGLE_OAUTH_ACCESS_TOKEN",
      "GCE_METADATA_HOST", "GOOGLE_APPLICATION_CREDENTIALS", "STORAGE_EMULATOR_HOST"};
  static constexpr const char* kHuggingFaceVariables[] = {"HF_TOKEN", "HF_TOKEN_PATH", "HF_HOME", "HF_ENDPOINT",
                                                          "HOME"};
  static constexpr const char* kHttpVariables[] = {"SHARDKIT_HTTP_HEADERS", "SHARDKIT_HTTP_QUERY"};
  switch (scheme) {
    case Scheme::kS3:
      return kAmazonVariables;
    case Scheme::kGoogle:
      return kGoogleVariables;
    case Scheme::kHuggingFace:
      return kHuggingFaceVariables;
    case Scheme::kHttp:
      return kHttpVariables;
  }
  return {};
}

// "NAME: VALUE", one a line. Errors do not quote them.
absl::StatusOr<std::vector<HttpHeader>> ParseHeaders(std::string_view text) {
  std::vector<HttpHeader> headers;
  for (int line = 1; !text.empty(); ++line) {
    std::string_view header = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(header.size() + 1, text.size()));
    if (header.ends_with('\r')) header.remove_suffix(1);
    if (header.empty()) continue;
    const size_t colon = header.find(':');
    std::string name = absl::AsciiStrToLower(ToAbsl(header.substr(0, colon)));
    const bool named = !name.empty() && std::ranges::all_of(name, [](char c) {
      return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
    });
    const std::string_view value =
        ToStd(absl::StripAsciiWhitespace(ToAbsl(header.substr(std::min(colon + 1, header.size())))));
    if (colon == header.npos || !named || std::ranges::any_of(value, [](char c) { return c >= 0 && c < ' '; })) {
      return InvalidArgument("SHARDKIT_HTTP_HEADERS: line ", line, " is no header; write NAME: VALUE");
    }
    headers.push_back({std::move(name), std::string(value), /*secret=*/true});
  }
  return headers;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ObjectStore>> ObjectStore::Create(const Options& options) {
  std::unique_ptr<ObjectStore> store(new ObjectStore(options));
  HttpClient::Options http = options.http;
  RetryOptions retry = options.retry;
  if (internal::IsSet(options.environment, "SHARDKIT_TEST_HASTE")) {  // of tests of programs, which only wait meanwhile
    http.stall_timeout /= 10;
    retry.first_delay /= 10;
    retry.longest_delay /= 10;
  }
  SHARDKIT_ASSIGN_OR_RETURN(std::unique_ptr<HttpClient> client, HttpClient::Create(http));
  store->client_ = std::make_unique<RetryingClient>(std::move(client), retry);
  return store;
}

ObjectStore::~ObjectStore() {
  // Ends before the client, to which it gives its results, and which could call for it.
  std::unique_ptr<ThreadPool> renewing;
  const std::lock_guard lock(mutex_);
  ending_ = true;
  renewing = std::move(renewing_);
}

absl::StatusOr<ObjectUrl> ObjectStore::Resolve(std::string_view url) {
  SHARDKIT_ASSIGN_OR_RETURN(ObjectUrl resolved, ParseObjectUrl(url));
  SHARDKIT_ASSIGN_OR_RETURN(resolved.provider, ProviderOf(resolved.scheme));
  return resolved;
}

absl::StatusOr<std::shared_ptr<Provider>> ObjectStore::ProviderOf(Scheme scheme) {
  const Environment& environment = options_.environment;
  const auto provider = std::make_shared<Provider>();
  Profile profile;
  // A profile that cannot be read matters only to those who use it, and its credentials fail with the reason.
  if (scheme == Scheme::kS3) {
    profile = LoadProfile(environment, *options_.files, ProfileName(environment)).value_or(Profile());
  }
  provider->certificates = FirstOf(environment, {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"}, "");
  if (provider->certificates.empty()) provider->certificates = ValueOf(profile, "ca_bundle");
  // A text of all that the rest comes from tells whether anything has changed.
  std::string& settings = provider->settings = provider->certificates;
  for (const char* name : VariablesOf(scheme)) settings += StrCat("\n", name, "=", environment(name).value_or("\n"));
  for (const auto& [name, value] : profile) settings += StrCat("\n", name, "=", value);
  if (scheme == Scheme::kHuggingFace) settings += internal::HuggingFaceToken(environment, *options_.files).value_or("");
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Provider>& present = providers_[scheme];
  if (present != nullptr && present->settings == settings) return present;

  const CredentialContext context = {environment, options_.files, &client_->http(), provider->certificates};
  Endpoint& endpoint = provider->endpoint;
  endpoint.path_style = true;
  const auto address_in = [&environment](const char* variable, std::string_view otherwise) {
    return CheckOrigin(FirstOf(environment, {variable}, otherwise), variable);
  };
  switch (scheme) {
    case Scheme::kS3: {
      SHARDKIT_RETURN_IF_ERROR(CheckSettings(environment, profile));
      SHARDKIT_ASSIGN_OR_RETURN(endpoint.origin, EndpointOf(environment, profile, "s3"));
      endpoint.region = RegionOf(environment, profile);
      const std::string style = ValueOf(profile, "s3.addressing_style");
      endpoint.path_style = style == "path" || (style != "virtual" && !endpoint.origin.empty());
      provider->requester_pays = environment("AWS_REQUEST_PAYER").value_or("") == "requester";
      provider->credentials = std::make_unique<CredentialCache>(NewAmazonCredentials(context));
      break;
    }
    case Scheme::kGoogle: {
      SHARDKIT_ASSIGN_OR_RETURN(endpoint.origin, address_in("STORAGE_EMULATOR_HOST", "https://storage.googleapis.com"));
      endpoint.region = "auto";
      provider->credentials = std::make_unique<CredentialCache>(NewGoogleCredentials(context));
      break;
    }
    case Scheme::kHuggingFace: {
      SHARDKIT_ASSIGN_OR_RETURN(endpoint.origin, address_in("HF_ENDPOINT", "https://huggingface.co"));
      provider->credentials = std::make_unique<CredentialCache>(NewHuggingFaceCredentials(context));
      break;
    }
    case Scheme::kHttp: {
      SHARDKIT_ASSIGN_OR_RETURN(provider->headers, ParseHeaders(environment("SHARDKIT_HTTP_HEADERS").value_or("")));
      provider->query = environment("SHARDKIT_HTTP_QUERY").value_or("");
      if (provider->query.starts_with('?')) provider->query.erase(0, 1);
      if (std::ranges::any_of(provider->query,
                              [](char c) { return (c >= 0 && c <= ' ') || c == '#' || c == '\x7f'; })) {
        return InvalidArgument("SHARDKIT_HTTP_QUERY: it has a character that stands in no query; percent-encode it");
      }
      break;
    }
  }
  return present = provider;
}

// Makes the attempts of a request and judges their answers, on the client's thread; between attempts, it may get other
// credentials.
struct ObjectStore::Sender {
  ObjectUrl url;
  HttpRequest pattern;
  Query query;
  Credentials credentials;
  std::string payload_hash;  // Sha256Hex(pattern.body), for signatures

  // Not on the client's thread, which drives all other requests.
  void Use(Credentials given) {
    credentials = std::move(given);
    if (!credentials.keys.key_id.empty()) payload_hash = Sha256Hex(pattern.body);
  }

  absl::StatusOr<HttpRequest> Make() {
    Provider& provider = *url.provider;
    HttpRequest made = pattern;
    made.certificates = provider.certificates;
    if (url.scheme == Scheme::kHttp) {
      made.url = url.bucket + "/" + url.key;
      if (!provider.query.empty()) {
        made.url += StrCat(url.key.find('?') == std::string::npos ? "?" : "&", provider.query);
      }
      made.headers.insert(made.headers.end(), provider.headers.begin(), provider.headers.end());
      return made;
    }
    Endpoint endpoint = provider.endpoint;
    if (url.scheme == Scheme::kS3) {
      const std::lock_guard lock(provider.mutex);
      const auto found = provider.regions.find(url.bucket);
      if (found != provider.regions.end()) endpoint.region = found->second;
    }
    Target target = url.scheme == Scheme::kHuggingFace ? HuggingFaceTarget(endpoint.origin, url)
                                                       : S3Target(endpoint, url.bucket, url.key);
    target.query = query;
    made.url = target.Url();
    // A signature holds for one host, so following would only end in a refusal.
    made.follow_redirects = url.scheme == Scheme::kHuggingFace;
    if (provider.requester_pays) made.headers.push_back({"x-amz-request-payer", "requester"});
    if (!credentials.bearer_token.empty()) {
      made.headers.push_back({"authorization", "Bearer " + credentials.bearer_token, /*secret=*/true});
    } else if (!credentials.anonymous()) {
      const SigningScope scope = {endpoint.region, "s3", std::chrono::system_clock::now()};
      SHARDKIT_RETURN_IF_ERROR(Sign(scope, credentials.keys, made.method, target, payload_hash, &made.headers));
    }
    return made;
  }

  // StatusOfAnswer, except that the answer may tell where the bucket is: then the request is worth another attempt.
  absl::Status Check(const HttpResponse& response) {
    const absl::Status status = StatusOfAnswer(response);
    const std::string region(response.Header("x-amz-bucket-region"));
    const bool elsewhere = response.status == 301 || response.status == 307 || response.status == 400;
    if (url.scheme == Scheme::kS3 && elsewhere && !region.empty()) {
      const std::lock_guard lock(url.provider->mutex);
      std::string& known = url.provider->regions[url.bucket];
      if (std::exchange(known, region) != region) return Unavailable("the bucket is in region ", region);
    }
    if (url.provider->credentials != nullptr && credentials.anonymous() && absl::IsPermissionDenied(status))
      return Annotate(status, "asked without credentials, for none were found");
    if (url.scheme == Scheme::kHttp && !status.ok()) return WithAdvice(status);
    return status;
  }

  // What a web server may want besides.
  absl::Status WithAdvice(const absl::Status& status) const {
    const Provider& provider = *url.provider;
    // A signature for one object does not hold for what would lie below it or beside it.
    if (absl::IsPermissionDenied(status) && url.derived) return NotFound(ToStd(status.message()));
    std::string_view advice;
    if (absl::IsPermissionDenied(status) && provider.headers.empty() && provider.query.empty()) {
      advice =
          "; a login goes into --header or SHARDKIT_HTTP_HEADERS, a signature for all objects into --query or "
          "SHARDKIT_HTTP_QUERY";
    } else if (absl::IsNotFound(status) && !url.derived && url.key.find('?') != std::string::npos) {
      advice =
          "; a query in the URL is that of one object: one for all objects of a folder goes into --query or "
          "SHARDKIT_HTTP_QUERY";
    }
    return absl::Status(status.code(), ToAbsl(StrCat(ToStd(status.message()), advice)));
  }

  // Whether there are other credentials than those that were refused.
  absl::StatusOr<bool> Renew() {
    SHARDKIT_ASSIGN_OR_RETURN(Credentials others, url.provider->credentials->Renew(credentials));
    if (others == credentials) return false;
    Use(std::move(others));
    return true;
  }
};

absl::StatusOr<RetryableRequest> ObjectStore::NewRequest(const ObjectUrl& url, const HttpRequest& pattern,
                                                         const Query& query) {
  const auto sender = std::make_shared<Sender>(Sender{url, pattern, query, {}, {}});
  if (url.provider == nullptr) {
    SHARDKIT_ASSIGN_OR_RETURN(sender->url.provider, ProviderOf(url.scheme));
  }
  RetryableRequest request;
  request.description = Describe(url);
  request.make = [sender] { return sender->Make(); };
  request.check = [sender](const HttpResponse& response) { return sender->Check(response); };
  if (sender->url.provider->credentials == nullptr) return request;
  absl::StatusOr<Credentials> credentials = sender->url.provider->credentials->Get();
  if (!credentials.ok()) return Annotate(credentials.status(), Describe(url));
  sender->Use(*std::move(credentials));
  request.renew = [this, sender](std::function<void(absl::StatusOr<bool>)> done) {
    const std::lock_guard lock(mutex_);
    if (ending_) return done(false);
    if (renewing_ == nullptr) renewing_ = std::make_unique<ThreadPool>(1);
    if (!renewing_->has_threads()) return done(false);  // this thread is the client's, for which fetching would wait
    Pending<absl::Status>::Run(*renewing_, "fetching credentials", [sender, done = std::move(done)] {
      absl::StatusOr<bool> renewed = false;
      const absl::Status fetched =
          Guarded("fetching credentials", [&] { return (renewed = sender->Renew()).status(); });
      done(fetched.ok() ? std::move(renewed) : fetched);
      return absl::OkStatus();
    });
  };
  return request;
}

std::string ObjectStore::OwnerOf(const ObjectUrl& url) {
  if (url.provider == nullptr || url.provider->credentials == nullptr) return "web";
  const absl::StatusOr<Credentials> credentials = url.provider->credentials->Get();
  if (!credentials.ok()) return {};
  // Amazon's own buckets have their names once in all regions of a part of the world.
  const Endpoint& endpoint = url.provider->endpoint;
  return StrCat(endpoint.origin.empty() ? AmazonDomain(endpoint.region) : endpoint.origin, " ",
                AccountOf(*credentials));
}

absl::StatusOr<ObjectVersion> ObjectStore::Stat(const ObjectUrl& url) {
  // One byte rather than a HEAD: addresses that are signed for GET do not take a HEAD, and errors come with a body.
  std::string byte(1, '\0');
  absl::StatusOr<ObjectVersion> version = Read(url, {}, 0, byte);
  if (!absl::IsOutOfRange(version.status())) return version;
  return ObjectVersion();  // it is empty
}

ObjectStore::Id ObjectStore::StartRead(const ObjectUrl& url, const ObjectVersion& expected, uint64_t offset,
                                       std::span<char> buffer,
                                       std::function<void(absl::StatusOr<ObjectVersion>)> done) {
  HttpRequest pattern;
  pattern.headers = {{"range", StrCat("bytes=", offset, "-", offset + buffer.size() - 1)}};
  // Hugging Face answers with a redirect, to which the ETag does not belong.
  if (IsStrong(expected.etag) && url.scheme != Scheme::kHuggingFace)
    pattern.headers.push_back({"if-match", expected.etag});
  pattern.buffer = buffer;
  pattern.body_limit = kSmallObject;
  pattern.deadline = options_.request_deadline;
  absl::StatusOr<RetryableRequest> request = NewRequest(url, pattern, {});
  if (!request.ok()) {
    done(std::move(request).status());
    return 0;
  }
  request->description = DescribeRange(url, offset, buffer.size());
  request->hedge = true;
  request->check = [expected, offset, length = buffer.size(),
                    check = std::move(request->check)](const HttpResponse& response) {
    SHARDKIT_RETURN_IF_ERROR(check(response));
    return CheckRange(expected, offset, length, response);
  };
  return client_->Start(*std::move(request), [offset, buffer, description = DescribeRange(url, offset, buffer.size()),
                                              done = std::move(done)](absl::StatusOr<HttpResponse> response) {
    if (absl::IsResourceExhausted(response.status())) {
      return done(
          FailedPrecondition(description,
                             ": the server sends the whole object in place of a range; copy it to a server that "
                             "knows ranges, or to a disk"));
    }
    if (!response.ok()) return done(std::move(response).status());
    if (!response->partial())
      std::memcpy(buffer.data(), response->body.data() + offset,
                  std::min<uint64_t>(buffer.size(), response->body.size() - offset));
    done(VersionOf(*response));
  });
}

absl::StatusOr<ObjectVersion> ObjectStore::Read(const ObjectUrl& url, const ObjectVersion& expected, uint64_t offset,
                                                std::span<char> buffer) {
  using Version = absl::StatusOr<ObjectVersion>;
  return Await<Version>(
      [&](std::function<void(Version)> done) { StartRead(url, expected, offset, buffer, std::move(done)); });
}

ObjectStore::Id ObjectStore::Start(const ObjectUrl& url, HttpRequest pattern, const Query& query, Check check,
                                   HttpClient::Done done) {
  pattern.deadline = options_.request_deadline;
  // libcurl would call it a form, and stores keep the type.
  if (pattern.method == "PUT" || pattern.method == "POST") {
    pattern.headers.push_back({"content-type", "application/octet-stream"});
  }
  absl::StatusOr<RetryableRequest> request = NewRequest(url, pattern, query);
  if (!request.ok()) {
    done(std::move(request).status());
    return 0;
  }
  if (check) {
    request->check = [first = std::move(check), then = std::move(request->check)](const HttpResponse& response) {
      SHARDKIT_RETURN_IF_ERROR(first(response));
      return then(response);
    };
  }
  return client_->Start(*std::move(request), std::move(done));
}

absl::StatusOr<HttpResponse> ObjectStore::Send(const ObjectUrl& url, HttpRequest pattern, const Query& query,
                                               Check check) {
  return Await<absl::StatusOr<HttpResponse>>(
      [&](HttpClient::Done done) { Start(url, std::move(pattern), query, std::move(check), std::move(done)); });
}

absl::Status ObjectStore::List(const ObjectUrl& url, bool recursive,
                               const std::function<absl::Status(const ListedObject&)>& take) {
  if (url.scheme != Scheme::kS3 && url.scheme != Scheme::kGoogle) {
    return Unimplemented(Describe(url),
                         ": web servers do not list their files; name a dataset with a manifest, or files");
  }
  std::string prefix = url.key;
  if (!prefix.empty() && !prefix.ends_with('/')) prefix += '/';
  ObjectUrl bucket = url;
  bucket.key.clear();
  std::string continuation;
  uint64_t pages = 0;
  do {
    if (++pages > options_.most_pages) {
      return ResourceExhausted(Describe(url), ": the store lists more than ", options_.most_pages,
                               " pages of names: name a folder below it");
    }
    Query query = {{"list-type", "2"}, {"encoding-type", "url"}, {"prefix", prefix}};
    if (!recursive) query.emplace_back("delimiter", "/");
    if (!continuation.empty()) query.emplace_back("continuation-token", continuation);
    HttpRequest pattern;
    pattern.body_limit = kLongestPage;
    pattern.deadline = options_.request_deadline;
    SHARDKIT_ASSIGN_OR_RETURN(RetryableRequest request, NewRequest(bucket, pattern, query));
    request.description = Describe(url);
    SHARDKIT_ASSIGN_OR_RETURN(const HttpResponse response, client_->Send(std::move(request)));
    absl::StatusOr<ListingPage> page = ParseListing(response.body);
    if (!page.ok()) return Annotate(page.status(), StrCat(Describe(url), ": the listing cannot be read"));
    for (ListedObject& object : page->objects) {
      if (object.name.substr(0, prefix.size()) != prefix)
        return DataLoss(Describe(url), ": the store lists \"", object.name, "\", which is elsewhere");
      object.name.erase(0, prefix.size());
      if (object.folder && object.name.ends_with('/')) object.name.pop_back();
      if (object.name.empty()) continue;  // some tools mark a folder by an object of its name
      SHARDKIT_RETURN_IF_ERROR(take(object));
    }
    if (!page->continuation.empty() && page->continuation == continuation) {
      return DataLoss(Describe(url), ": the store lists the same page again; ask its operator");
    }
    continuation = std::move(page->continuation);
  } while (!continuation.empty());
  return absl::OkStatus();
}

}  // namespace shardkit::remote
