#include "remote/upload.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "remote/object_error.h"
#include "remote/object_writes.h"

namespace shardkit::remote {
namespace {

constexpr size_t kPartBytes = size_t{8} << 20;
constexpr size_t kPartsUnderWay = 8;
constexpr size_t kMostParts = 10'000;

// All of one size but the last where an object has up to 1000, because some stores want that.
size_t PartBytes(size_t parts) { return kPartBytes << (parts / 1000); }

}  // namespace

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
  return error_.ok() ? absl::OkStatus() : Reworded(error_, ToStd(error_.message()));
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
