#include "remote/object_file.h"

#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/errors.h"
#include "base/exceptions.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "io/read_again.h"
#include "io/request_counter.h"
#include "io/started_read.h"
#include "shardkit/job.h"

namespace shardkit::remote {
namespace {

// AWS advises ranges of 8 to 16 MB. Skipping a megabyte saves less time than the first byte of a request takes.
constexpr ReadHints kHints = {.preferred_bytes = uint64_t{8} << 20,
                              .bridge_gap_bytes = uint64_t{1} << 20,
                              .requests_in_flight = 32,
                              .worth_reading_again = true};

// Has the system give the memory of `bytes`, which are to be written soon, and leaves in them what they hold. It takes
// half of the time of page faults, and the thread that waits for the bytes has that time, which the client's has not.
void TakeMemory([[maybe_unused]] std::span<char> bytes) {
#if defined(__linux__) && defined(MADV_POPULATE_WRITE)
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(bytes.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(bytes.data() + bytes.size()) / page * page;
  if (begin < end) (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE);
#endif
}

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
    io::StartedRead read(*this, requests);
    for (const ReadRequest& request : requests) TakeMemory(request.buffer);
    return read.Wait();
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

// How often a piece that another process fetches is looked for. A lock of another process gives no notice.
constexpr std::chrono::milliseconds kLookForOthersAgain{2};

class CachedFile final : public RandomAccessFile {
 public:
  CachedFile(std::unique_ptr<RandomAccessFile> object, std::string url, std::shared_ptr<DiskCache> cache)
      : object_(std::move(object)), url_(std::move(url)), cache_(std::move(cache)) {}

  const std::string& path() const override { return object_->path(); }
  uint64_t size() const override { return object_->size(); }
  std::string identity() const override { return object_->identity(); }
  ReadHints hints() const override { return object_->hints(); }

  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    const ReadRequest request{offset, buffer};
    return ReadBatch({&request, 1});
  }

  absl::Status ReadBatch(std::span<const ReadRequest> requests) const override {
    return ReadThrough(requests, io::BypassCaches::on());
  }

  void StartRead(std::span<const ReadRequest> requests, std::function<void(absl::Status)> done) const override {
    const std::vector<ReadRequest> copy(requests.begin(), requests.end());
    Pending<absl::Status>::Run(cache_->pool(), "reading through the cache",
                               [this, copy, again = io::BypassCaches::on(), done = std::move(done)] {
                                 done(Guarded("reading through the cache", [&] { return ReadThrough(copy, again); }));
                                 return absl::OkStatus();
                               });
  }

  void CancelReads() const override {
    {
      const std::lock_guard lock(mutex_);
      cancelled_ = true;
    }
    changed_.notify_all();
    object_->CancelReads();
  }

 private:
  // Bytes [begin, end) of the object, all of one line, that go to `to`.
  struct Wanted {
    uint64_t begin = 0, end = 0;
    char* to = nullptr;
  };

  // Pieces that this thread fetches. Nobody else has them while it lives.
  struct Fetch {
    Fetch(std::shared_ptr<CacheLine> from, LineName line_name, PieceRun pieces, Wanted bytes)
        : line(std::move(from)), name(std::move(line_name)), run(pieces), wanted(bytes) {}
    Fetch(Fetch&& other) noexcept = default;
    ~Fetch() {
      if (line != nullptr) line->Release(run);
    }
    uint64_t begin() const { return name.begin + run.begin * kPieceBytes; }
    uint64_t end() const { return name.begin + std::min(run.end * kPieceBytes, name.bytes()); }

    std::shared_ptr<CacheLine> line;
    LineName name;
    PieceRun run;
    Wanted wanted;
    std::string bytes;
  };

  absl::Status ReadThrough(std::span<const ReadRequest> requests, bool again) const {
    for (const ReadRequest& request : requests) {
      if (!RangeWithin(request.offset, request.buffer.size(), size())) {
        return OutOfRange(url_, ": cannot read ", request.buffer.size(), " bytes at ", request.offset, ": it has ",
                          size());
      }
    }
    SHARDKIT_ASSIGN_OR_RETURN(const std::optional<Hash128Bytes> version, Version());
    if (!version) return object_->ReadBatch(requests);
    io::SentRequests sent;
    std::vector<Wanted> wanted;
    for (const ReadRequest& request : requests) {
      const uint64_t end = request.offset + request.buffer.size();
      for (uint64_t begin = request.offset; begin < end;) {
        const uint64_t next = std::min(end, (begin / kLineBytes + 1) * kLineBytes);
        wanted.push_back({begin, next, request.buffer.data() + (begin - request.offset)});
        begin = next;
      }
    }
    while (!wanted.empty()) {
      std::vector<Fetch> fetches;
      std::vector<Wanted> later;
      std::vector<ReadRequest> past;  // the cache
      for (const Wanted& each : wanted) Look(each, *version, again, &fetches, &later, &past);
      if (fetches.empty() && past.empty() && !later.empty()) SHARDKIT_RETURN_IF_ERROR(WaitForOthers());
      SHARDKIT_RETURN_IF_ERROR(FetchAll(fetches, std::move(past), &sent));
      wanted = std::move(later);
    }
    io::sent_for_read = sent;
    return absl::OkStatus();
  }

  // Empty when nothing can be cached. The first call reads a byte, unless the object was opened with its version.
  absl::StatusOr<std::optional<Hash128Bytes>> Version() const {
    const std::lock_guard lock(version_mutex_);
    if (asked_) return version_;
    std::string identity = object_->identity();
    if (identity.empty() && size() > 0) {
      char byte;
      SHARDKIT_RETURN_IF_ERROR(object_->ReadAt(0, {&byte, 1}));
      identity = object_->identity();
    }
    asked_ = true;
    if (!identity.empty()) version_ = Hash128(identity);
    return version_;
  }

  // Copies what is present, takes what is missing (`fetches`), and leaves to `later` what others are fetching, and to
  // `past` what cannot be cached.
  void Look(const Wanted& wanted, const Hash128Bytes& version, bool again, std::vector<Fetch>* fetches,
            std::vector<Wanted>* later, std::vector<ReadRequest>* past) const {
    const LineName name{url_, size(), wanted.begin / kLineBytes * kLineBytes, version};
    const std::shared_ptr<CacheLine> line = cache_->Find(name);
    if (line == nullptr) return past->push_back({wanted.begin, {wanted.to, wanted.end - wanted.begin}});
    const auto end = static_cast<uint32_t>((wanted.end - name.begin + kPieceBytes - 1) / kPieceBytes);
    for (auto piece = static_cast<uint32_t>((wanted.begin - name.begin) / kPieceBytes); piece < end;) {
      const auto [alike, found] = line->AlikeFrom(piece, end);
      const PieceRun run = again ? PieceRun{piece, end} : alike;
      const bool present = found && !again;
      piece = run.end;
      Wanted part = wanted;
      part.begin = std::max(wanted.begin, name.begin + run.begin * kPieceBytes);
      part.end = std::min(wanted.end, name.begin + run.end * kPieceBytes);
      part.to = wanted.to + (part.begin - wanted.begin);
      if (present) {
        const bool whole = line->Read(part.begin - name.begin, {part.to, part.end - part.begin});
        if (whole) cache_->bytes_found += part.end - part.begin;
        if (!whole) later->push_back(part);
        if (!(whole ? line->Touch() : line->InUse())) cache_->Drop(name);
        continue;
      }
      if (!line->Take(run)) {
        later->push_back(part);
        continue;
      }
      Fetch fetch(line, name, run, part);
      const auto [left, came] = line->AlikeFrom(run.begin, run.end);
      if (!line->InUse()) {
        cache_->Drop(name);
        later->push_back(part);
      } else if (!again && (came || left.end != run.end)) {
        later->push_back(part);  // somebody has fetched some of it meanwhile
      } else {
        fetches->push_back(std::move(fetch));
      }
    }
  }

  absl::Status FetchAll(std::vector<Fetch>& fetches, std::vector<ReadRequest> requests, io::SentRequests* sent) const {
    for (Fetch& fetch : fetches) {
      fetch.bytes.resize(fetch.end() - fetch.begin());
      requests.push_back({fetch.begin(), fetch.bytes});
    }
    if (requests.empty()) return absl::OkStatus();
    SHARDKIT_RETURN_IF_ERROR(object_->ReadBatch(requests));
    sent->requests += requests.size();
    for (const ReadRequest& request : requests) {
      sent->bytes += request.buffer.size();
      cache_->bytes_fetched += request.buffer.size();
    }
    for (Fetch& fetch : fetches) {
      if (cache_->Reserve(*fetch.line, fetch.name, fetch.run)) (void)fetch.line->Write(fetch.run, fetch.bytes);
      const Wanted& wanted = fetch.wanted;
      std::memcpy(wanted.to, fetch.bytes.data() + (wanted.begin - fetch.begin()), wanted.end - wanted.begin);
    }
    return absl::OkStatus();
  }

  absl::Status WaitForOthers() const {
    if (const auto& cancellation = CancellationScope::Current()) {
      SHARDKIT_RETURN_IF_ERROR(cancellation->Check("another process fetches it into the cache"));
    }
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kLookForOthersAgain, [this] { return cancelled_; });
    return cancelled_ ? Cancelled(url_, ": cancelled while another process fetches it into the cache")
                      : absl::OkStatus();
  }

  const std::unique_ptr<RandomAccessFile> object_;
  const std::string url_;
  const std::shared_ptr<DiskCache> cache_;
  mutable std::mutex version_mutex_;  // guards the next two; held while the first byte is read
  mutable bool asked_ = false;
  mutable std::optional<Hash128Bytes> version_;
  mutable std::mutex mutex_;  // guards cancelled_
  mutable std::condition_variable changed_;
  mutable bool cancelled_ = false;
};

}  // namespace

std::unique_ptr<RandomAccessFile> NewObjectFile(ObjectStore& store, std::string path, ObjectUrl url,
                                                ObjectVersion version) {
  return std::make_unique<ObjectFile>(store, std::move(path), std::move(url), std::move(version));
}

std::unique_ptr<RandomAccessFile> NewCachedFile(std::unique_ptr<RandomAccessFile> object, std::string url,
                                                std::shared_ptr<DiskCache> cache) {
  return std::make_unique<CachedFile>(std::move(object), std::move(url), std::move(cache));
}

}  // namespace shardkit::remote
