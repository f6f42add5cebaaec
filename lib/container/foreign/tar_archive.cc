#include "container/foreign/tar_archive.h"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "container/foreign/archive_input.h"
#include "format/constants.h"
#include "format/foreign/tar_index_layout.h"

namespace shardkit::container {
namespace {

using format::kTarBlockBytes;

// After skipped data only one header is needed, so reads start small. They grow while nothing is skipped: then members
// are small and close together.
constexpr size_t kLeastRead = 4096;
constexpr size_t kMostRead = size_t{256} << 10;

constexpr size_t kDiscardPiece = size_t{64} << 10;

enum class Content { kBytes, kTar, kWithinTar };

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
  // Without this, libarchive would not accept a member of unknown type as the beginning of a tar.
  if (content == Content::kWithinTar) archive_read_set_format(a, ARCHIVE_FORMAT_TAR);
  input.Attach(a);
  if (archive_read_open1(a) == ARCHIVE_OK) return reader;
  return input.Describe(
      a, content != Content::kBytes ? "is not a tar, or its beginning is damaged" : "cannot be decompressed");
}

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
  State(const RandomAccessFile& from, uint64_t first)
      : file(from), begin(first), input(from, kLeastRead, kMostRead, first) {}

  const RandomAccessFile& file;
  const uint64_t begin;
  ArchiveInput input;
  Archive reader;
  bool compressed = false;
  uint64_t members = 0;
  std::string last_name;  // for messages

  std::string After() const {
    return members == 0 ? std::string("first member") : StrCat("after member '", last_name, "'");
  }
};

TarHeaders::TarHeaders(std::unique_ptr<State> state) : state_(std::move(state)) {}
TarHeaders::~TarHeaders() = default;

uint64_t TarHeaders::position() const {
  return state_->begin + static_cast<uint64_t>(archive_filter_bytes(state_->reader.get(), 0));
}

absl::StatusOr<std::unique_ptr<TarHeaders>> TarHeaders::Open(const RandomAccessFile& file, TarCompression compression,
                                                             uint64_t begin) {
  auto state = std::make_unique<State>(file, begin);
  state->compressed = compression != TarCompression::kNone;
  SHARDKIT_ASSIGN_OR_RETURN(state->reader,
                            OpenArchive(state->input, compression, begin == 0 ? Content::kTar : Content::kWithinTar));
  return std::unique_ptr<TarHeaders>(new TarHeaders(std::move(state)));
}

absl::StatusOr<bool> TarHeaders::Next(TarHeader* header) {
  archive* const reader = state_->reader.get();
  const uint64_t before = position();
  const std::string_view path = state_->input.path();
  archive_entry* entry = nullptr;
  const int result = archive_read_next_header(reader, &entry);
  // libarchive may take a read error for the end of the tar.
  SHARDKIT_RETURN_IF_ERROR(state_->input.error());
  if (result == ARCHIVE_EOF) {
    // POSIX ends a tar with two blocks of zeros; Python's tarfile asks for one. Without any, the file was cut off
    // between two members.
    if (position() >= before + kTarBlockBytes) return false;
    return DataLoss(path, ": ", state_->After(), ", at byte ", before,
                    ": the tar ends without an end mark: it was cut off; get it again");
  }
  const char* const name = result == ARCHIVE_OK || result == ARCHIVE_WARN ? ArchiveName(entry) : nullptr;
  if (name == nullptr) return state_->input.Describe(reader, StrCat(state_->After(), ", at byte ", before));
  ++state_->members;
  header->name = name;
  state_->last_name = header->name;
  header->header_offset = before;
  header->regular = archive_entry_hardlink(entry) == nullptr && archive_entry_filetype(entry) == AE_IFREG;
  header->length = static_cast<uint64_t>(std::max<la_int64_t>(archive_entry_size(entry), 0));
  const uint64_t begin = position();
  const auto where = [&] { return StrCat("member '", header->name, "' at byte ", before); };
  header->sparse = archive_entry_sparse_count(entry) > 0;
  const bool plain = header->regular && !header->sparse;
  if (plain && !RangeWithin(begin, header->length, state_->compressed ? format::kMaxLength : state_->file.size())) {
    return DataLoss(path, ": ", where(), ": has ", header->length,
                    " bytes of data by its header, but the tar ends before: it was cut off; get it again");
  }
  if (archive_read_data_skip(reader) < ARCHIVE_WARN) return state_->input.Describe(reader, where());
  header->offset = begin;
  if (!plain) return true;
  // Data fills whole blocks that end at `end`, and begins right after its header. `begin` may be before or after that
  // header. The data of a sparse member does not lie like this.
  const uint64_t end = position();
  const uint64_t stored = RoundUp(header->length, kTarBlockBytes);
  header->offset = end - std::min(end, stored);
  header->sparse = header->offset != begin && header->offset != begin + kTarBlockBytes;
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
    if (reader_ == nullptr || offset < position_) SHARDKIT_RETURN_IF_ERROR(Restart());
    if (offset == position_) return absl::OkStatus();
    std::vector<char> discarded(kDiscardPiece);
    while (position_ < offset) {
      SHARDKIT_RETURN_IF_ERROR(
          Read({discarded.data(), static_cast<size_t>(std::min<uint64_t>(kDiscardPiece, offset - position_))}));
    }
    return absl::OkStatus();
  }

  absl::Status Restart() const {
    reader_.reset();  // before the input that it reads from
    input_ = std::make_unique<ArchiveInput>(*file_, kLeastRead, kMostRead);
    position_ = 0;
    SHARDKIT_ASSIGN_OR_RETURN(reader_, OpenArchive(*input_, compression_, Content::kBytes));
    archive_entry* entry = nullptr;
    if (archive_read_next_header(reader_.get(), &entry) < ARCHIVE_WARN)
      return input_->Describe(reader_.get(), "cannot be decompressed");
    return absl::OkStatus();
  }

  absl::Status Read(std::span<char> buffer) const {
    while (!buffer.empty()) {
      const la_ssize_t count = archive_read_data(reader_.get(), buffer.data(), buffer.size());
      if (count <= 0) return input_->Describe(reader_.get(), StrCat("byte ", position_, " of the decompressed tar"));
      position_ += static_cast<uint64_t>(count);
      buffer = buffer.subspan(static_cast<size_t>(count));
    }
    return input_->error();
  }

  const std::unique_ptr<RandomAccessFile> file_;
  const TarCompression compression_;
  const uint64_t length_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<ArchiveInput> input_;
  mutable Archive reader_;  // declared after input_, so that it is destroyed first
  mutable uint64_t position_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenDecompressed(std::unique_ptr<RandomAccessFile> file,
                                                                   TarCompression compression, uint64_t length) {
  return std::make_unique<DecompressedFile>(std::move(file), compression, length);
}

}  // namespace shardkit::container
