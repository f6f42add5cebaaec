#include "remote/object_writes.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "remote/http/answers.h"
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

constexpr size_t kPartBytes = size_t{8} << 20;
constexpr size_t kPartsUnderWay = 8;
constexpr size_t kMostParts = 10'000;

// All of one size but the last where an object has up to 1000, because some stores want that.
size_t PartBytes(size_t parts) { return kPartBytes << (parts / 1000); }

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
    return absl::AbortedError(ToAbsl(StrCat("another run has replaced it meanwhile", id, "; start again")));
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
      return DataLoss(Describe(url), ": the store lists the same page again; ask its operator");
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

Upload::~Upload() {
  (void)Guarded("giving up", [this] { return Abort(); });
}

absl::Status Upload::Append(std::string_view bytes) {
  if (ended_) return FailedPrecondition(Describe(url_), ": the upload has ended");
  size_ += bytes.size();
  while (!bytes.empty()) {
    const size_t part_bytes = PartBytes(parts_.size());
    const size_t count = std::min(bytes.size(), part_bytes - buffer_.size());
    if (buffer_.empty()) buffer_.reserve(std::min(part_bytes, std::max(kPartBytes, count)));
    buffer_ += bytes.substr(0, count);
    bytes.remove_prefix(count);
    // One whole part may be all there is, and is then put in one request.
    if (buffer_.size() == part_bytes && (!bytes.empty() || !parts_.empty())) SHARDKIT_RETURN_IF_ERROR(SendPart());
  }
  return absl::OkStatus();
}

absl::Status Upload::Begin() {
  HttpRequest request;
  request.method = "POST";
  SHARDKIT_ASSIGN_OR_RETURN(const HttpResponse response, store_.Send(url_, std::move(request), {{"uploads", ""}}));
  absl::StatusOr<std::string> id = ElementOf(response.body, "UploadId");
  if (!id.ok()) {
    return Annotate(id.status(), StrCat(Describe(url_), ": the upload cannot begin (", RequestIdOf(response), ")"));
  }
  id_ = *std::move(id);
  return absl::OkStatus();
}

absl::Status Upload::SendPart() {
  if (parts_.size() == kMostParts) {
    return InvalidArgument(Describe(url_), ": is too large for an object; use smaller shards");
  }
  if (id_.empty()) SHARDKIT_RETURN_IF_ERROR(Begin());
  SHARDKIT_RETURN_IF_ERROR(WaitForParts(kPartsUnderWay - 1));
  Part* part = nullptr;
  size_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    parts_.push_back(std::make_unique<Part>());
    part = parts_.back().get();
    if (!spare_.empty()) {
      part->bytes = std::move(spare_.back());
      part->bytes.clear();
      spare_.pop_back();
    }
    number = parts_.size();
    ++under_way_;
  }
  part->bytes.swap(buffer_);
  HttpRequest request;
  request.method = "PUT";
  request.body = part->bytes;
  const ObjectStore::Id started =
      store_.Start(url_, std::move(request), {{"partNumber", StrCat(number)}, {"uploadId", id_}}, {},
                   [this, part](absl::StatusOr<HttpResponse> response) {
                     const std::lock_guard lock(mutex_);
                     spare_.push_back(std::exchange(part->bytes, {}));
                     if (response.ok()) {
                       part->etag = response->Header("etag");
                       if (part->etag.empty())
                         error_.Update(DataLoss(Describe(url_), ": the store gave a part no ETag"));
                     } else {
                       error_.Update(response.status());
                     }
                     --under_way_;
                     part_ended_.notify_one();  // under the lock: afterwards this may be gone
                   });
  const std::lock_guard lock(mutex_);
  part->request = started;
  return absl::OkStatus();
}

absl::Status Upload::WaitForParts(size_t left) {
  std::unique_lock lock(mutex_);
  part_ended_.wait(lock, [&] { return under_way_ <= left; });
  return error_.ok() ? absl::OkStatus() : WithMessage(error_, ToStd(error_.message()));
}

absl::Status Upload::Finish() {
  if (id_.empty()) {
    SHARDKIT_RETURN_IF_ERROR(PutObject(store_, url_, buffer_));
  } else {
    if (!buffer_.empty()) SHARDKIT_RETURN_IF_ERROR(SendPart());
    SHARDKIT_RETURN_IF_ERROR(WaitForParts(0));
    SHARDKIT_RETURN_IF_ERROR(Complete());
  }
  ended_ = true;
  buffer_ = {};
  return absl::OkStatus();
}

absl::Status Upload::Complete() {
  std::string list = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (size_t i = 0; i < parts_.size(); ++i) {
    const std::string& etag = parts_[i]->etag;
    if (etag.find_first_of("&<") != etag.npos) {
      return DataLoss(Describe(url_), ": the store gave a part an ETag that is none");
    }
    list += StrCat("<Part><PartNumber>", i + 1, "</PartNumber><ETag>", etag, "</ETag></Part>");
  }
  list += "</CompleteMultipartUpload>";
  HttpRequest request;
  request.method = "POST";
  request.body = list;
  const absl::Status status = store_.Send(url_, std::move(request), {{"uploadId", id_}}, &CheckLateError).status();
  if (absl::IsNotFound(status)) {
    // The upload is gone: completed by an earlier attempt whose answer was lost, or aborted by somebody.
    const absl::StatusOr<ObjectVersion> version = store_.Stat(url_);
    const std::string suffix = StrCat("-", parts_.size(), "\"");
    if (version.ok() && version->size == size_ && version->etag.ends_with(suffix)) return absl::OkStatus();
    return FailedPrecondition(Describe(url_), ": the upload was aborted by somebody else; write it again (",
                              ToStd(status.message()), ")");
  }
  return status;
}

absl::Status Upload::Abort() {
  if (std::exchange(ended_, true)) return absl::OkStatus();
  buffer_ = {};
  {
    const std::lock_guard lock(mutex_);
    for (const auto& part : parts_) store_.Cancel(part->request);
  }
  (void)WaitForParts(0);
  return id_.empty() ? absl::OkStatus() : AbortUpload(store_, url_, id_);
}

}  // namespace shardkit::remote
