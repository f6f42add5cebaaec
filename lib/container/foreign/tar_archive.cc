#include "container/foreign/tar_archive.h"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/checked.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "container/foreign/archive_input.h"
#include "format/constants.h"
#include "format/foreign/tar_samples.h"
#include "format/foreign/webdataset_names.h"

namespace shardkit::container {
namespace {

using format::kTarBlockBytes;

// After skipped data only one header is needed, so reads start small. They grow while nothing is skipped: then members
// are small and close together.
constexpr size_t kLeastRead = 4096;
constexpr size_t kMostRead = size_t{256} << 10;

constexpr size_t kDiscardPiece = size_t{64} << 10;

enum class Content { kBytes, kTar };

absl::StatusOr<Archive> OpenArchive(ArchiveInput& input, TarCompression compression, Content content) {
  Archive reader(archive_read_new());
  archive* const a = reader.get();
  if (a == nullptr) return ResourceExhausted(input.path(), ": no memory for a tar reader");
  // Only the filter that is needed: for a filter that libarchive lacks, it would start a program.
  int result = ARCHIVE_OK;
  if (compression == TarCompression::kGzip) result = archive_read_support_filter_gzip(a);
  if (compression == TarCompression::kBzip2) result = archive_read_support_filter_bzip2(a);
  if (compression == TarCompression::kXz) result = archive_read_support_filter_xz(a);
  if (compression == TarCompression::kZstd) result = archive_read_support_filter_zstd(a);
  if (result != ARCHIVE_OK)
    return Unimplemented(input.path(), ": this libarchive does not decompress it: decompress the tar first");
  if (content == Content::kBytes) {
    archive_read_support_format_raw(a);
  } else {
    archive_read_support_format_tar(a);
  }
  // Without this, what lies behind the first end mark would be passed over.
  if (content == Content::kTar) archive_read_set_options(a, "tar:read_concatenated_archives");
  input.Attach(a);
  if (archive_read_open1(a) == ARCHIVE_OK) return reader;
  return input.Describe(
      a, content == Content::kTar ? "is not a tar, or its beginning is damaged" : "cannot be decompressed");
}

// Decompresses a file from its beginning.
class Decompressor final : public ForwardBytes {
 public:
  static absl::StatusOr<std::unique_ptr<Decompressor>> Open(const RandomAccessFile& file, TarCompression compression) {
    std::unique_ptr<Decompressor> opened(new Decompressor(file));
    SHARDKIT_ASSIGN_OR_RETURN(opened->reader_, OpenArchive(opened->input_, compression, Content::kBytes));
    archive_entry* entry = nullptr;
    if (archive_read_next_header(opened->reader_.get(), &entry) < ARCHIVE_WARN) {
      return opened->input_.Describe(opened->reader_.get(), "cannot be decompressed");
    }
    return opened;
  }

  absl::StatusOr<size_t> ReadNext(std::span<char> buffer) override {
    size_t done = 0;
    while (done < buffer.size()) {
      const la_ssize_t count = archive_read_data(reader_.get(), buffer.data() + done, buffer.size() - done);
      if (count < 0) {
        return input_.Describe(reader_.get(), StrCat("byte ", position_, " of the decompressed tar"));
      }
      if (count == 0) break;
      position_ += static_cast<uint64_t>(count);
      done += static_cast<size_t>(count);
    }
    SHARDKIT_RETURN_IF_ERROR(input_.error());
    return done;
  }

  uint64_t position() const { return position_; }

 private:
  explicit Decompressor(const RandomAccessFile& file) : input_(file, kLeastRead, kMostRead) {}

  ArchiveInput input_;
  Archive reader_;  // declared after input_, so that it is destroyed first
  uint64_t position_ = 0;
};

// Where the data of a member is.
struct Placed {
  uint64_t offset = 0;
  uint64_t length = 0;
  bool sparse = false;
};

}  // namespace

absl::StatusOr<TarCompression> DetectCompression(const RandomAccessFile& file) {
  char bytes[6] = {};
  SHARDKIT_RETURN_IF_ERROR(
      file.ReadAt(0, {bytes, static_cast<size_t>(std::min<uint64_t>(file.size(), sizeof(bytes)))}));
  const std::string_view first(bytes, sizeof(bytes));
  if (first.starts_with("\x1f\x8b")) return TarCompression::kGzip;
  if (first.starts_with("BZh")) return TarCompression::kBzip2;
  if (first == std::string_view("\xfd"
                                "7zXZ\0",
                                6))
    return TarCompression::kXz;
  if (first.starts_with("\x28\xb5\x2f\xfd")) return TarCompression::kZstd;
  return TarCompression::kNone;
}

struct TarHeaders::State {
  explicit State(const RandomAccessFile& from) : file(from), input(from, kLeastRead, kMostRead) {}
  State(const RandomAccessFile& from, std::unique_ptr<Decompressor> bytes)
      : file(from), decompressor(std::move(bytes)), input(from, kLeastRead, kMostRead, *decompressor) {}

  const RandomAccessFile& file;
  const std::unique_ptr<Decompressor> decompressor;  // null for a tar that is not compressed
  ArchiveInput input;
  Archive reader;
  std::optional<uint64_t> left_behind;
  absl::flat_hash_map<Hash128Bytes, Placed> regular;  // members so far, by their names
  uint64_t members = 0;
  std::string last_name;  // for messages

  std::string After() const {
    return members == 0 ? std::string("first member") : StrCat("after member '", last_name, "'");
  }
};

TarHeaders::TarHeaders(std::unique_ptr<State> state) : state_(std::move(state)) {}
TarHeaders::~TarHeaders() = default;

std::optional<uint64_t> TarHeaders::left_behind() const { return state_->left_behind; }
uint64_t TarHeaders::memory() const { return state_->regular.capacity() * (sizeof(Hash128Bytes) + sizeof(Placed) + 1); }

uint64_t TarHeaders::position() const { return static_cast<uint64_t>(archive_filter_bytes(state_->reader.get(), 0)); }

absl::StatusOr<std::unique_ptr<TarHeaders>> TarHeaders::Open(const RandomAccessFile& file, TarCompression compression) {
  std::unique_ptr<State> state;
  if (compression == TarCompression::kNone) {
    state = std::make_unique<State>(file);
  } else {
    SHARDKIT_ASSIGN_OR_RETURN(auto decompressor, Decompressor::Open(file, compression));
    state = std::make_unique<State>(file, std::move(decompressor));
  }
  SHARDKIT_ASSIGN_OR_RETURN(state->reader, OpenArchive(state->input, TarCompression::kNone, Content::kTar));
  return std::unique_ptr<TarHeaders>(new TarHeaders(std::move(state)));
}

absl::StatusOr<bool> TarHeaders::Next(TarHeader* header) {
  archive* const reader = state_->reader.get();
  const uint64_t before = position();
  const std::string_view path = state_->input.path();
  archive_entry* entry = nullptr;
  const int result = archive_read_next_header(reader, &entry);
  // libarchive may take a read error for the end of the tar.
  if (!state_->input.error().ok()) {
    return state_->input.Describe(reader, StrCat(state_->After(), ", at byte ", before));
  }
  const bool mark = state_->input.BlockIsZero(before);
  if (result == ARCHIVE_EOF) {
    // POSIX ends a tar with two blocks of zeros; Python's tarfile asks for one. Without any, the file was cut off
    // between two members.
    if (position() >= before + kTarBlockBytes) return false;
    return DataLoss(path, ": ", state_->After(), ", at byte ", before,
                    ": the tar ends without an end mark: it was cut off; get it again");
  }
  const char* const name = result == ARCHIVE_OK || result == ARCHIVE_WARN ? ArchiveName(entry) : nullptr;
  if (name == nullptr) {
    if (!mark) return state_->input.Describe(reader, StrCat(state_->After(), ", at byte ", before));
    if (!state_->input.RestIsZero(before)) state_->left_behind = before;
    return false;
  }
  header->name = name;
  state_->last_name = header->name;
  header->header_offset = before;
  header->after_end_mark = state_->members++ > 0 && mark;
  header->link = archive_entry_hardlink(entry) != nullptr || archive_entry_filetype(entry) == AE_IFLNK;
  header->regular = !header->link && archive_entry_filetype(entry) == AE_IFREG;
  header->special = !header->regular && (header->link || archive_entry_filetype(entry) != AE_IFDIR);
  header->length = static_cast<uint64_t>(std::max<la_int64_t>(archive_entry_size(entry), 0));
  const uint64_t begin = position();
  const auto where = [&] { return StrCat("member '", header->name, "' at byte ", before); };
  header->sparse = archive_entry_sparse_count(entry) > 0;
  const bool plain = header->regular && !header->sparse;
  if (plain && !RangeWithin(begin, header->length, state_->decompressor ? format::kMaxLength : state_->file.size())) {
    return DataLoss(path, ": ", where(), ": has ", header->length,
                    " bytes of data by its header, but the tar ends before: it was cut off; get it again");
  }
  if (archive_read_data_skip(reader) < ARCHIVE_WARN) return state_->input.Describe(reader, where());
  header->offset = begin;
  if (header->link) {
    const auto target = state_->regular.find(Hash128(LinkTarget(entry, header->name)));
    if (target == state_->regular.end()) return true;
    header->regular = true;
    header->offset = target->second.offset;
    header->length = target->second.length;
    header->sparse = target->second.sparse;
    state_->regular.insert_or_assign(Hash128(format::MemberName(header->name)), Placed(target->second));
    return true;
  }
  const auto remember = [&] {
    if (!header->regular) return;
    state_->regular.insert_or_assign(Hash128(format::MemberName(header->name)),
                                     Placed{header->offset, header->length, header->sparse});
  };
  if (!plain) {
    remember();
    return true;
  }
  // Data fills whole blocks that end at `end`, and begins right after its header. `begin` may be before or after that
  // header. The data of a sparse member does not lie like this.
  const uint64_t end = position();
  const uint64_t stored = RoundUp(header->length, kTarBlockBytes);
  header->offset = end - std::min(end, stored);
  header->sparse = header->offset != begin && header->offset != begin + kTarBlockBytes;
  remember();
  return true;
}

namespace {

class DecompressedFile final : public RandomAccessFile {
 public:
  DecompressedFile(std::unique_ptr<RandomAccessFile> file, TarCompression compression, uint64_t length)
      : file_(std::move(file)), compression_(compression), length_(length) {}

  const std::string& path() const override { return file_->path(); }
  uint64_t size() const override { return length_; }

  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    std::lock_guard lock(mutex_);
    absl::Status status = MoveTo(offset);
    if (status.ok()) status = Read(buffer);
    // After an error the state of libarchive's stream is unknown, so the next read starts again.
    if (!status.ok()) reader_.reset();
    return status;
  }

 private:
  absl::Status MoveTo(uint64_t offset) const {
    if (reader_ == nullptr || offset < reader_->position()) {
      SHARDKIT_ASSIGN_OR_RETURN(reader_, Decompressor::Open(*file_, compression_));
    }
    if (offset == reader_->position()) return absl::OkStatus();
    std::vector<char> discarded(kDiscardPiece);
    while (reader_->position() < offset) {
      SHARDKIT_RETURN_IF_ERROR(Read(
          {discarded.data(), static_cast<size_t>(std::min<uint64_t>(kDiscardPiece, offset - reader_->position()))}));
    }
    return absl::OkStatus();
  }

  absl::Status Read(std::span<char> buffer) const {
    SHARDKIT_ASSIGN_OR_RETURN(const size_t done, reader_->ReadNext(buffer));
    if (done == buffer.size()) return absl::OkStatus();
    return DataLoss(path(), ": byte ", reader_->position(), " of the decompressed tar: damaged or cut off");
  }

  const std::unique_ptr<RandomAccessFile> file_;
  const TarCompression compression_;
  const uint64_t length_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<Decompressor> reader_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ForwardBytes>> OpenForward(const RandomAccessFile& file, TarCompression compression) {
  return Decompressor::Open(file, compression);
}

absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenDecompressed(std::unique_ptr<RandomAccessFile> file,
                                                                   TarCompression compression, uint64_t length) {
  return std::make_unique<DecompressedFile>(std::move(file), compression, length);
}

}  // namespace shardkit::container
