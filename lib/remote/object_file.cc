#include "remote/object_file.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "io/started_read.h"

namespace shardkit::remote {
namespace {

// AWS advises ranges of 8 to 16 MB. Skipping a megabyte saves less time than the first byte of a request takes.
constexpr ReadHints kHints = {.preferred_bytes = uint64_t{8} << 20,
                              .bridge_gap_bytes = uint64_t{1} << 20,
                              .requests_in_flight = 32,
                              .worth_reading_again = true};

class ObjectFile : public RandomAccessFile {
 public:
  ObjectFile(ObjectStore& store, std::string path, ObjectUrl url, ObjectVersion version)
      : store_(store),
        path_(std::move(path)),
        url_(std::move(url)),
        size_(version.size),
        etag_(std::move(version.etag)) {}

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return size_; }
  std::string identity() const override {
    const std::string version = etag();
    if (version.empty() || version.starts_with("W/")) return {};
    const std::string owner = store_.OwnerOf(url_);
    return owner.empty() ? std::string() : StrCat(path_, " ", owner, " ", version);
  }
  ReadHints hints() const override { return kHints; }

  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    const ReadRequest request = {offset, buffer};
    return ReadBatch({&request, 1});
  }

  // The client has a deadline for each request, so the read ends.
  absl::Status ReadBatch(std::span<const ReadRequest> requests) const override {
    return io::StartedRead(*this, requests).Wait();
  }

  void StartRead(std::span<const ReadRequest> requests, std::function<void(absl::Status)> done) const override {
    std::vector<ReadRequest> pieces;
    for (const ReadRequest& request : requests) {
      if (!RangeWithin(request.offset, request.buffer.size(), size_)) {
        return done(OutOfRange(Describe(url_), ": cannot read ", request.buffer.size(), " bytes at ", request.offset,
                               ": it has ", size_));
      }
      for (size_t begin = 0; begin < request.buffer.size(); begin += kHints.preferred_bytes) {
        pieces.push_back(
            {request.offset + begin,
             request.buffer.subspan(begin, std::min<size_t>(kHints.preferred_bytes, request.buffer.size() - begin))});
      }
    }
    if (pieces.empty()) return done(absl::OkStatus());
    const auto read = std::make_shared<Read>();
    read->left = pieces.size();
    read->done = std::move(done);
    {
      const std::lock_guard lock(mutex_);
      reads_.insert(read);
    }
    for (const ReadRequest& piece : pieces) {
      const ObjectStore::Id id =
          store_.StartRead(url_, {size_, etag()}, piece.offset, piece.buffer,
                           [this, read](absl::StatusOr<ObjectVersion> version) { End(read, std::move(version)); });
      const std::lock_guard lock(mutex_);
      read->requests.push_back(id);
      if (cancelled_) store_.Cancel(id);
    }
  }

  void CancelReads() const override {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    for (const auto& read : reads_) {
      for (const ObjectStore::Id id : read->requests) store_.Cancel(id);
    }
  }

 private:
  // Of StartRead. Guarded by mutex_.
  struct Read {
    size_t left = 0;  // pieces
    std::vector<ObjectStore::Id> requests;
    absl::Status error;
    std::function<void(absl::Status)> done;
  };

  void End(const std::shared_ptr<Read>& read, absl::StatusOr<ObjectVersion> version) const {
    absl::Status status = version.ok() ? Learn(version->etag) : std::move(version).status();
    {
      const std::lock_guard lock(mutex_);
      read->error.Update(std::move(status));
      if (--read->left > 0) return;
      reads_.erase(read);
    }
    read->done(std::move(read->error));
  }

  std::string etag() const {
    std::lock_guard lock(mutex_);
    return etag_;
  }

  // The first answer decides which version this is, where opening has sent no request.
  absl::Status Learn(const std::string& etag) const {
    std::lock_guard lock(mutex_);
    if (etag_.empty()) etag_ = etag;
    if (etag_ == etag) return absl::OkStatus();
    return FailedPrecondition(Describe(url_), ": the object has changed since it was opened; open the dataset again");
  }

  ObjectStore& store_;
  const std::string path_;
  const ObjectUrl url_;
  const uint64_t size_;
  mutable std::mutex mutex_;  // guards all below
  mutable std::string etag_;
  mutable std::set<std::shared_ptr<Read>> reads_;  // under way
  mutable bool cancelled_ = false;
};

}  // namespace

std::unique_ptr<RandomAccessFile> NewObjectFile(ObjectStore& store, std::string path, ObjectUrl url,
                                                ObjectVersion version) {
  return std::make_unique<ObjectFile>(store, std::move(path), std::move(url), std::move(version));
}

}  // namespace shardkit::remote
