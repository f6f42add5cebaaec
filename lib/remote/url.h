// URLs of objects, and where their requests go.
//
// All functions are pure and thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace shardkit::remote {

enum class Scheme { kHttp, kS3, kGoogle, kHuggingFace };

struct Provider;  // remote/object_store.h

// An object as its user names it. For kS3 and kGoogle, `bucket` and `key` are as the store has them, without any
// encoding: "s3://b/a%20b" has a percent sign in its key. For kHuggingFace, `bucket` is "OWNER/NAME". For kHttp,
// `bucket` is the origin ("https://host:port"), and `key` is the rest as it was given, with its query.
struct ObjectUrl {
  Scheme scheme = Scheme::kHttp;
  std::string bucket;
  std::string key;       // without the slash before it
  bool derived = false;  // kHttp: lies below or beside another URL that came with a query (KeepQuery)
  std::string revision;  // kHuggingFace: a branch, tag or commit; "main" when the URL has none

  // Where its store is and who asks, as it was when the object was opened (ObjectStore::Resolve); null: as it is when a
  // request is made.
  std::shared_ptr<Provider> provider = nullptr;
};

// Whether a path has one of the schemes, which are "s3", "gs", "http", "https" and "hf".
bool IsRemotePath(std::string_view path);

// With the query that KeepQuery has taken out. InvalidArgument for other schemes, a user name in the URL, an empty
// bucket and control characters.
absl::StatusOr<ObjectUrl> ParseObjectUrl(std::string_view url);

// The URL as its user would write it; the query of a kHttp URL, which may hold a signature, becomes "?…".
std::string Describe(const ObjectUrl& url);

// Any URL of a request for messages: without user name, password, query and fragment.
std::string WithoutSecrets(std::string_view url);

// Where a request goes.
struct Target {
  std::string origin;                                      // "https://host" or "http://host:port"
  std::string path;                                        // percent-encoded, begins with '/'
  std::vector<std::pair<std::string, std::string>> query;  // decoded, in any order

  // What stands in the header "Host".
  std::string Host() const;

  // With the query encoded and sorted.
  std::string Url() const;
};

// Percent-encodes all but the unreserved characters of RFC 3986, as S3's signatures want it.
std::string PercentEncode(std::string_view text, bool keep_slashes);

// "name=value&…", both parts encoded, sorted by encoded name, then value.
std::string EncodeQuery(const std::vector<std::pair<std::string, std::string>>& query);

// How a store is reached. The members come from the environment and profile files.
struct Endpoint {
  std::string origin;       // empty for AWS's own
  std::string region;       // of AWS's own host names and of signatures
  bool path_style = false;  // bucket in the path and not in the host name; buckets with dots are always in the path
};

// What ends the names of Amazon's hosts in a region.
std::string_view AmazonDomain(std::string_view region);

// The address of an object, or of its bucket when `key` is empty.
Target S3Target(const Endpoint& endpoint, std::string_view bucket, std::string_view key);

// `origin`: "https://huggingface.co" or a mirror.
Target HuggingFaceTarget(std::string_view origin, const ObjectUrl& url);

// InvalidArgument unless it is http:// or https:// with a host and without a user name, path or query. A slash at the
// end is dropped. `what` names the setting.
absl::StatusOr<std::string> CheckOrigin(std::string_view origin, std::string_view what);

// The address that a redirect leads to. InvalidArgument when it is malformed or leads from https to another scheme.
absl::StatusOr<std::string> ResolveRedirect(const std::string& from, const std::string& location);

// Whether an IP address is one of the internet: not of loopback, a link, a private network or none at all. False for
// what is no address.
bool IsPublicAddress(const std::string& address);

// Whether credentials for one address may be sent to the other: scheme, host and port are equal.
bool SameOrigin(std::string_view a, std::string_view b);

}  // namespace shardkit::remote
