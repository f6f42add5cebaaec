#include "remote/object_writes.h"

#include "base/errors.h"
#include "base/status_macros.h"
#include "remote/object_error.h"
#include "remote/xml.h"

namespace shardkit::remote {
namespace {

constexpr uint64_t kLargestCopy = uint64_t{5} << 30;

HttpRequest Request(std::string method, std::string_view body = {}) {
  HttpRequest request;
  request.method = std::move(method);
  request.body = body;
  return request;
}

bool Holds(ObjectStore& store, const ObjectUrl& url, std::string_view body) {
  const absl::StatusOr<ObjectVersion> version = store.Stat(url);
  if (!version.ok() || version->size != body.size() || body.empty()) return false;
  std::string present(body.size(), '\0');
  return store.Read(url, *version, 0, present).ok() && present == body;
}

}  // namespace

absl::Status PutObject(ObjectStore& store, const ObjectUrl& url, std::string_view body, const PutCondition& condition) {
  HttpRequest request = Request("PUT", body);
  const bool google = url.scheme == Scheme::kGoogle;
  if (condition.absent) {
    request.headers.push_back(google ? HttpHeader{"x-goog-if-generation-match", "0"}
                                     : HttpHeader{"if-none-match", "*"});
  } else if (condition.unchanged) {
    request.headers.push_back(google ? HttpHeader{"x-goog-if-generation-match", condition.unchanged->generation}
                                     : HttpHeader{"if-match", condition.unchanged->etag});
  }
  const bool conditional = condition.absent || condition.unchanged;
  const auto check = [&condition, conditional](const HttpResponse& response) -> absl::Status {
    if (!conditional) return absl::OkStatus();
    if (response.status == 501) return Unimplemented("the server knows no conditions");
    if (response.status != 412) return absl::OkStatus();
    const std::string id = StrCat(" (", RequestIdOf(response), ")");
    if (condition.absent) return absl::AlreadyExistsError(ToAbsl(StrCat("there is an object already", id)));
    return absl::AbortedError(ToAbsl(StrCat("another run has replaced it meanwhile", id, "; begin anew")));
  };
  const absl::Status status = store.Send(url, std::move(request), {}, check).status();
  const bool failed = absl::IsAlreadyExists(status) || absl::IsAborted(status);
  return failed && Holds(store, url, body) ? absl::OkStatus() : status;
}

absl::Status RemoveObject(ObjectStore& store, const ObjectUrl& url) {
  return store.Send(url, Request("DELETE"), {}).status();
}

absl::Status CopyObject(ObjectStore& store, const ObjectUrl& from, const ObjectUrl& to) {
  if (from.scheme != to.scheme) {
    return FailedPrecondition(Describe(from), ": cannot be copied to ", Describe(to), " inside one store");
  }
  SHARDKIT_ASSIGN_OR_RETURN(const ObjectVersion version, store.Stat(from));
  if (version.size > kLargestCopy) {
    return FailedPrecondition(Describe(from), ": has ", version.size, " bytes, and a store copies ", kLargestCopy,
                              " at most in one request");
  }
  HttpRequest request = Request("PUT");
  const std::string prefix = from.scheme == Scheme::kGoogle ? "x-goog-copy-source" : "x-amz-copy-source";
  request.headers.push_back({prefix, StrCat("/", from.bucket, "/", PercentEncode(from.key, true))});
  if (!version.etag.empty()) request.headers.push_back({prefix + "-if-match", version.etag});
  return store.Send(to, std::move(request), {}, &CheckLateError).status();
}

absl::StatusOr<UploadsPage> ParseUploads(std::string_view document) {
  UploadsPage page;
  bool listing = false, truncated = false, encoded = false;
  StartedUpload upload;
  SHARDKIT_RETURN_IF_ERROR(
      ForEachXmlElement(document, [&](std::string_view path, std::string_view text) -> absl::Status {
        constexpr std::string_view kRoot = "ListMultipartUploadsResult";
        if (path.substr(0, kRoot.size()) != kRoot) return DataLoss("it is no listing of uploads");
        path.remove_prefix(kRoot.size());
        if (path.empty()) listing = true;
        if (path == "/IsTruncated") truncated = text == "true";
        if (path == "/EncodingType") encoded = text == "url";
        if (path == "/NextKeyMarker") page.next_key = text;
        if (path == "/NextUploadIdMarker") page.next_id = text;
        if (path == "/Upload/Key") upload.key = text;
        if (path == "/Upload/UploadId") upload.id = text;
        if (path == "/Upload/Initiated") upload.started = text;
        if (path == "/Upload") page.uploads.push_back(std::exchange(upload, {}));
        return absl::OkStatus();
      }));
  if (!listing) return DataLoss("it is no listing of uploads");
  if (!truncated) page.next_key.clear(), page.next_id.clear();
  if (truncated && page.next_key.empty()) return DataLoss("it has more pages, but does not say where they begin");
  if (!encoded) return page;
  for (StartedUpload& started : page.uploads) {
    SHARDKIT_ASSIGN_OR_RETURN(started.key, DecodeListed(started.key));
  }
  SHARDKIT_ASSIGN_OR_RETURN(page.next_key, DecodeListed(page.next_key));
  return page;
}

absl::Status ForEachUpload(ObjectStore& store, const ObjectUrl& url,
                           const std::function<absl::Status(const StartedUpload&)>& take) {
  ObjectUrl bucket = url;
  bucket.key.clear();
  UploadsPage page;
  do {
    ObjectStore::Query query = {{"uploads", ""}, {"encoding-type", "url"}, {"prefix", url.key}};
    if (!page.next_key.empty()) query.emplace_back("key-marker", page.next_key);
    if (!page.next_id.empty()) query.emplace_back("upload-id-marker", page.next_id);
    HttpRequest request = Request("GET");
    request.body_limit = kLongestPage;
    SHARDKIT_ASSIGN_OR_RETURN(const HttpResponse response, store.Send(bucket, std::move(request), query));
    absl::StatusOr<UploadsPage> next = ParseUploads(response.body);
    if (!next.ok()) return Annotate(next.status(), StrCat(Describe(url), ": the uploads cannot be listed"));
    for (const StartedUpload& upload : next->uploads) {
      const bool below = url.key.empty() || upload.key == url.key || url.key.ends_with('/') ||
                         upload.key.substr(0, url.key.size() + 1) == url.key + "/";
      if (below) SHARDKIT_RETURN_IF_ERROR(take(upload));
    }
    if (!next->next_key.empty() && next->next_key == page.next_key && next->next_id == page.next_id) {
      return DataLoss(Describe(url), ": the store lists the same page again; ask who runs it");
    }
    page = *std::move(next);
  } while (!page.next_key.empty());
  return absl::OkStatus();
}

absl::Status AbortUpload(ObjectStore& store, const ObjectUrl& url, const std::string& id) {
  const absl::Status status = store.Send(url, Request("DELETE"), {{"uploadId", id}}).status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::StatusOr<std::string> ElementOf(std::string_view document, std::string_view name) {
  std::string found;
  SHARDKIT_RETURN_IF_ERROR(ForEachXmlElement(document, [&](std::string_view path, std::string_view text) {
    if (path.substr(path.find('/') + 1) == name && found.empty()) found = text;
    return absl::OkStatus();
  }));
  if (found.empty()) return DataLoss("the answer has no ", name);
  return found;
}

absl::Status CheckLateError(const HttpResponse& response) {
  if (response.status != 200 || response.body.find("<Error") == std::string::npos) return absl::OkStatus();
  // As if the status had said so at once: an unknown code is the server's fault.
  HttpResponse failed = response;
  failed.status = 500;
  return StatusOfAnswer(failed);
}

}  // namespace shardkit::remote
