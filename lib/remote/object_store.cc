#include "remote/object_store.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "remote/await.h"
#include "remote/object_error.h"
#include "remote/profile_files.h"
#include "remote/range_answer.h"
#include "remote/signature.h"

namespace shardkit::remote {
namespace {

// Whole bodies up to this size are used in place of a range.
constexpr uint64_t kSmallObject = uint64_t{1} << 20;

// A weak ETag does not promise equal bytes, and If-Match never holds for it.
bool IsStrong(std::string_view etag) { return !etag.empty() && etag.substr(0, 2) != "W/"; }

std::string DescribeRange(const ObjectUrl& url, uint64_t offset, uint64_t length) {
  return StrCat(Describe(url), ", bytes ", offset, "-", offset + length - 1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ObjectStore>> ObjectStore::Create(const Options& options) {
  std::unique_ptr<ObjectStore> store(new ObjectStore(options));
  SHARDKIT_RETURN_IF_ERROR(store->Configure());
  return store;
}

ObjectStore::~ObjectStore() = default;

absl::Status ObjectStore::Configure() {
  const Environment& environment = options_.environment;
  conditional_ = !internal::IsSet(environment, "SHARDKIT_NO_CONDITIONAL");
  const auto first = [&environment](std::initializer_list<const char*> names) -> std::optional<std::string> {
    for (const char* name : names) {
      std::optional<std::string> value = environment(name);
      if (value && !value->empty()) return value;
    }
    return std::nullopt;
  };
  HttpClient::Options http = options_.http;
  if (http.certificates.empty())
    http.certificates = first({"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"}).value_or("");
  RetryOptions retry = options_.retry;
  if (internal::IsSet(environment, "SHARDKIT_TEST_HASTE")) {  // of tests of programs, which only wait meanwhile
    http.stall_timeout /= 10;
    retry.first_delay /= 10;
    retry.longest_delay /= 10;
  }
  SHARDKIT_ASSIGN_OR_RETURN(std::unique_ptr<HttpClient> client, HttpClient::Create(http));
  client_ = std::make_unique<RetryingClient>(std::move(client), retry);
  const CredentialContext context = {environment, options_.files, &client_->http()};

  // A profile that cannot be read matters only to those who use it, and its credentials fail with the reason.
  const Profile profile = LoadProfile(environment, *options_.files).value_or(Profile());
  const auto setting = [&profile](const char* name) {
    const auto found = profile.find(name);
    return found == profile.end() ? std::string() : found->second;
  };
  Provider amazon;
  amazon.endpoint.region = first({"AWS_REGION", "AWS_DEFAULT_REGION"}).value_or(setting("region"));
  if (amazon.endpoint.region.empty()) amazon.endpoint.region = "us-east-1";
  const std::string origin = first({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}).value_or(setting("endpoint_url"));
  if (!origin.empty()) {
    SHARDKIT_ASSIGN_OR_RETURN(amazon.endpoint.origin, CheckOrigin(origin, "AWS_ENDPOINT_URL"));
    amazon.endpoint.path_style = true;
  }
  amazon.credentials = std::make_unique<CredentialCache>(NewAmazonCredentials(context));
  amazon.requester_pays = environment("AWS_REQUEST_PAYER").value_or("") == "requester";
  providers_[Scheme::kS3] = std::move(amazon);

  Provider google;
  SHARDKIT_ASSIGN_OR_RETURN(google.endpoint.origin,
                            CheckOrigin(first({"STORAGE_EMULATOR_HOST"}).value_or("https://storage.googleapis.com"),
                                        "STORAGE_EMULATOR_HOST"));
  google.endpoint.region = "auto";
  google.endpoint.path_style = true;
  google.credentials = std::make_unique<CredentialCache>(NewGoogleCredentials(context));
  providers_[Scheme::kGoogle] = std::move(google);

  Provider hugging_face;
  SHARDKIT_ASSIGN_OR_RETURN(hugging_face.endpoint.origin,
                            CheckOrigin(first({"HF_ENDPOINT"}).value_or("https://huggingface.co"), "HF_ENDPOINT"));
  hugging_face.credentials = std::make_unique<CredentialCache>(NewHuggingFaceCredentials(context));
  providers_[Scheme::kHuggingFace] = std::move(hugging_face);
  return absl::OkStatus();
}

std::string ObjectStore::RegionOf(const Provider& provider, const std::string& bucket) {
  std::lock_guard lock(mutex_);
  const auto found = regions_.find(bucket);
  return found == regions_.end() ? provider.endpoint.region : found->second;
}

absl::StatusOr<RetryableRequest> ObjectStore::NewRequest(const ObjectUrl& url, const HttpRequest& pattern,
                                                         const Query& query) {
  RetryableRequest request;
  request.description = Describe(url);
  if (url.scheme == Scheme::kHttp) {
    request.make = [url, pattern]() -> absl::StatusOr<HttpRequest> {
      HttpRequest made = pattern;
      made.url = url.bucket + "/" + url.key;
      return made;
    };
    request.check = [this, url](const HttpResponse& response) {
      return CheckAnswer(url, /*anonymous=*/true, response);
    };
    return request;
  }
  const Provider& provider = providers_.at(url.scheme);
  absl::StatusOr<Credentials> credentials = provider.credentials->Get();
  if (!credentials.ok()) return Annotate(credentials.status(), Describe(url));
  request.check = [this, url, anonymous = credentials->anonymous()](const HttpResponse& response) {
    return CheckAnswer(url, anonymous, response);
  };
  // Here and not on the client's thread, which drives all other requests.
  std::string payload_hash = credentials->keys.key_id.empty() ? "" : Sha256Hex(pattern.body);
  request.make = [this, url, pattern, query, &provider, payload_hash = std::move(payload_hash),
                  credentials = *std::move(credentials)]() -> absl::StatusOr<HttpRequest> {
    HttpRequest made = pattern;
    Endpoint endpoint = provider.endpoint;
    if (url.scheme == Scheme::kS3) endpoint.region = RegionOf(provider, url.bucket);
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
  };
  return request;
}

absl::Status ObjectStore::CheckAnswer(const ObjectUrl& url, bool anonymous, const HttpResponse& response) {
  const absl::Status status = StatusOfAnswer(response);
  const std::string region(response.Header("x-amz-bucket-region"));
  const bool elsewhere = response.status == 301 || response.status == 307 || response.status == 400;
  if (url.scheme == Scheme::kS3 && elsewhere && !region.empty()) {
    std::lock_guard lock(mutex_);
    std::string& known = regions_[url.bucket];
    if (std::exchange(known, region) != region) return Unavailable("the bucket is in region ", region);
  }
  if (anonymous && absl::IsPermissionDenied(status))
    return Annotate(status, "asked without credentials, for none were found");
  return status;
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
  do {
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
      return DataLoss(Describe(url), ": the store lists the same page again; ask who runs it");
    }
    continuation = std::move(page->continuation);
  } while (!continuation.empty());
  return absl::OkStatus();
}

}  // namespace shardkit::remote
