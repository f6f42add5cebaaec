// Objects in S3, Google Cloud Storage, Hugging Face's hub and behind any web server: their sizes, ranges and listings.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/thread_pool.h"
#include "remote/credentials/credential_sources.h"
#include "remote/http/answers.h"
#include "remote/http/retrying_client.h"
#include "remote/url.h"

namespace shardkit::remote {

// What a store answers about objects, such as a page of a listing, has at most so many bytes.
inline constexpr uint64_t kLongestPage = uint64_t{16} << 20;

// How the requests of a scheme are made. Thread-safe.
struct Provider {
  std::string settings;  // all that the other members come from
  Endpoint endpoint;
  std::unique_ptr<CredentialCache> credentials;  // null: requests are anonymous
  std::string certificates;                      // HttpRequest::certificates
  bool requester_pays = false;
  std::vector<HttpHeader> headers;  // of kHttp, as its user gave them
  std::string query;                // of kHttp: is added to that of each URL

  std::mutex mutex;                            // guards regions
  std::map<std::string, std::string> regions;  // by bucket, as far as answers have told
};

// Thread-safe, but for the destructor. Credentials are fetched on the caller's thread, which therefore must not be the
// client's (that of `done`).
//
// Errors: those of StatusOfAnswer and HttpClient, in the form "URL, bytes A-B: what, what to do".
class ObjectStore {
 public:
  struct Options {
    Environment environment = &ProcessEnvironment;
    ReadableFileSystem* files = PosixFileSystem();  // for profiles and tokens; must outlive the store
    HttpClient::Options http;
    RetryOptions retry;
    // Of one attempt to read, to write or to copy. Long, because 64 requests of 8 MiB may share a slow line;
    // HttpClient::Options::stall_timeout ends those that get nothing.
    std::chrono::milliseconds request_deadline{300'000};
    // Of one listing. A store has at most 1,000 names in each; one that never ends would keep its reader for ever.
    uint64_t most_pages = 100'000;
  };

  using Id = RetryingClient::Id;

  static absl::StatusOr<std::unique_ptr<ObjectStore>> Create(const Options& options);

  // Reads that are not done end with Cancelled.
  ~ObjectStore();

  // ParseObjectUrl, with the provider as the environment and the files of credentials are now; while those stay the
  // same, so does it. InvalidArgument also when a setting makes no sense.
  absl::StatusOr<ObjectUrl> Resolve(std::string_view url);

  absl::StatusOr<ObjectVersion> Stat(const ObjectUrl& url);

  // Fills `buffer`, which is not empty, from `offset`. `done` is called once, on the client's thread, with the object's
  // version as the server says it; until then the buffer must stay. When `expected` has an ETag, the object must have
  // it (FailedPrecondition otherwise), and when `expected.size` is not 0, that size.
  Id StartRead(const ObjectUrl& url, const ObjectVersion& expected, uint64_t offset, std::span<char> buffer,
               std::function<void(absl::StatusOr<ObjectVersion>)> done);

  // Waits for it.
  absl::StatusOr<ObjectVersion> Read(const ObjectUrl& url, const ObjectVersion& expected, uint64_t offset,
                                     std::span<char> buffer);

  using Query = std::vector<std::pair<std::string, std::string>>;
  using Check = std::function<absl::Status(const HttpResponse&)>;

  // Starts any other request for an object of s3:// or gs:// (or a bucket, without a key): method, headers and body of
  // `pattern`, whose body must stay until `done`. `check`, which may be empty, may refuse an answer before
  // StatusOfAnswer sees it, as RetryableRequest::check does.
  Id Start(const ObjectUrl& url, HttpRequest pattern, const Query& query, Check check, HttpClient::Done done);

  // Waits for it.
  absl::StatusOr<HttpResponse> Send(const ObjectUrl& url, HttpRequest pattern, const Query& query, Check check = {});

  // Whether writers may rely on the conditions of requests: not with SHARDKIT_NO_CONDITIONAL in the environment.
  bool conditional() const { return !internal::IsSet(options_.environment, "SHARDKIT_NO_CONDITIONAL"); }

  // The request ends with Cancelled soon, unless it is done before.
  void Cancel(Id id) { client_->Cancel(id); }

  // Calls `take` for what lies in the folder `url`, page by page, in the store's order; with `recursive` for all
  // objects whose keys begin with the folder's, and no folders. Names are what follows the folder's. For s3:// and
  // gs://. Stops at the first error of `take`.
  absl::Status List(const ObjectUrl& url, bool recursive, const std::function<absl::Status(const ListedObject&)>& take);

  // Tells an object from that of the same URL in another store, or of another account. Empty where the credentials
  // cannot be fetched. May fetch them.
  std::string OwnerOf(const ObjectUrl& url);

  RetryingClient::Counts counts() const { return client_->counts(); }

 private:
  struct Sender;

  explicit ObjectStore(const Options& options) : options_(options) {}

  // The present one of a scheme.
  absl::StatusOr<std::shared_ptr<Provider>> ProviderOf(Scheme scheme);

  // A request for an object; each call of `make` signs it. Not with a query for http:// and https://.
  absl::StatusOr<RetryableRequest> NewRequest(const ObjectUrl& url, const HttpRequest& pattern, const Query& query);

  const Options options_;
  std::mutex mutex_;  // guards all below but the client
  std::map<Scheme, std::shared_ptr<Provider>> providers_;
  std::unique_ptr<ThreadPool> renewing_;  // fetches credentials in place of refused ones, from the first on
  bool ending_ = false;

  // Last: its thread uses the members above.
  std::unique_ptr<RetryingClient> client_;
};

}  // namespace shardkit::remote
