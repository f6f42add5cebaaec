#include "foreign/webdataset/tar_archive.h"

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
#include "foreign/webdataset/archive_input.h"
#include "foreign/webdataset/tar_samples.h"
#include "foreign/webdataset/webdataset_names.h"
#include "format/constants.h"

namespace shardkit::foreign {
namespace {

// After skipped data only one header is needed, so reads start small. They grow while nothing is skipped: then members
// are small and close together, or their data is read.
constexpr size_t kLeastRead = 4096;
constexpr size_t kMostRead = size_t{1} << 20;

// So many members are remembered for links that lead to them, about 60 bytes each.
constexpr size_t kMostRemembered = size_t{1} << 20;

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
  if (compression == TarCompression::kLz4) result = archive_read_support_filter_lz4(a);
  if (compression == TarCompression::kLzma) result = archive_read_support_filter_lzma(a);
  if (compression == TarCompression::kCompress) result = archive_read_support_filter_compress(a);
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
class Decompressor {
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

  absl::StatusOr<size_t> ReadNext(std::span<char> buffer) {
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

std::string_view Describe(archive_entry* entry) {
  if (archive_entry_hardlink(entry) != nullptr) return "a hard link to no file before it";
  switch (archive_entry_filetype(entry)) {
    case AE_IFLNK:
      return "a symbolic link to no file before it";
    case AE_IFCHR:
    case AE_IFBLK:
      return "a device";
    case AE_IFIFO:
      return "a named pipe";
    case AE_IFSOCK:
      return "a socket";
    default:
      return "of a kind that is not known";
  }
}

}  // namespace

absl::StatusOr<TarCompression> DetectCompression(const RandomAccessFile& file) {
  using enum TarCompression;
  std::string first(static_cast<size_t>(std::min<uint64_t>(file.size(), kTarBlockBytes)), '\0');
  SHARDKIT_RETURN_IF_ERROR(file.ReadAt(0, first));
  // The name of a tar's first member, with which the file begins, may begin as a compressed file does.
  constexpr size_t kMagicOfTar = 257;
  if (std::string_view(first).substr(std::min(first.size(), kMagicOfTar)).starts_with("ustar")) return kNone;
  constexpr std::pair<std::string_view, TarCompression> kMagics[] = {
      {"\x1f\x8b", kGzip},
      {"BZh", kBzip2},
      {{"\xfd"
        "7zXZ\0",
        6},
       kXz},
      {"\x28\xb5\x2f\xfd", kZstd},
      {"\x04\x22\x4d\x18", kLz4},
      {{"\x5d\0\0", 3}, kLzma},
      {"\x1f\x9d", kCompress},
  };
  const auto* const found =
      std::ranges::find_if(kMagics, [&](const auto& magic) { return first.starts_with(magic.first); });
  return found == std::end(kMagics) ? kNone : found->second;
}

absl::Status CutAfter(const absl::Status& damage, uint64_t whole_samples) {
  return DataLoss(ToStd(damage.message()), "; ", whole_samples, whole_samples == 1 ? " sample" : " samples",
                  " before it can be read");
}

struct TarReader::State {
  State(const RandomAccessFile& from, TarCompression how, std::unique_ptr<Decompressor> bytes)
      : file(from),
        compression(how),
        decompressor(std::move(bytes)),
        input(from, kLeastRead, kMostRead, decompressor ? FromDecompressor() : nullptr) {}

  // A file, or a link that leads to one.
  struct Earlier {
    uint64_t ordinal = 0;
    uint64_t length = 0;
    std::optional<uint64_t> offset;  // unless it is sparse
  };

  const RandomAccessFile& file;
  const TarCompression compression;
  const std::unique_ptr<Decompressor> decompressor;  // null for a tar that is not compressed
  ArchiveInput input;
  Archive reader;
  std::optional<uint64_t> left_behind;
  absl::flat_hash_map<Hash128Bytes, Earlier> earlier;  // by the hash of the name
  // The current member.
  std::string name;  // for messages
  uint64_t members = 0;
  uint64_t header_offset = 0;
  bool pending = false;  // its data was not skipped yet
  bool link = false;
  bool sparse = false;  // by its header
  uint64_t begin = 0;   // where its data begins, or its last header
  Earlier file_of_it;
  std::unique_ptr<TarReader> again;  // reads a second time what links lead to
  uint64_t again_read = 0;           // the number of the member that it read last

  ReadNext FromDecompressor() {
    return [this](std::span<char> buffer) { return decompressor->ReadNext(buffer); };
  }

  uint64_t position() const { return static_cast<uint64_t>(archive_filter_bytes(reader.get(), 0)); }

  std::string Place() const { return StrCat("member '", name, "' at byte ", header_offset); }

  // Of what follows the current member.
  absl::Status ErrorBehind(uint64_t offset) const {
    return input.Describe(reader.get(),
                          members == 0 ? "first member" : StrCat("after member '", name, "', at byte ", offset));
  }

  void Remember() {
    const Hash128Bytes hash = Hash128(MemberName(name));
    if (earlier.size() < kMostRemembered || earlier.contains(hash)) earlier[hash] = file_of_it;
  }

  // Before the data of a file of the tar is read or skipped.
  absl::Status CheckWhole() const {
    const uint64_t most = decompressor ? format::kMaxLength : file.size();
    if (link || sparse || RangeWithin(begin, file_of_it.length, most)) return absl::OkStatus();
    return DataLoss(input.path(), ": ", Place(), ": has ", file_of_it.length,
                    " bytes of data by its header, but the tar ends before: it was cut off; get it again");
  }

  absl::Status SkipData() {
    if (!std::exchange(pending, false)) return absl::OkStatus();
    SHARDKIT_RETURN_IF_ERROR(CheckWhole());
    if (archive_read_data_skip(reader.get()) < ARCHIVE_WARN) return input.Describe(reader.get(), Place());
    if (file_of_it.ordinal != members) return absl::OkStatus();  // no file of its own
    // Data fills whole blocks that end at `end`, and begins right after its header. `begin` may be before or after that
    // header. The data of a sparse member does not lie like this.
    const uint64_t end = position();
    const uint64_t offset = end - std::min(end, RoundUp(file_of_it.length, kTarBlockBytes));
    if (!sparse && (offset == begin || offset == begin + kTarBlockBytes)) file_of_it.offset = offset;
    Remember();
    return absl::OkStatus();
  }

  absl::Status ReadTarget(std::span<char> memory) {
    if (decompressor == nullptr && file_of_it.offset) return file.ReadAt(*file_of_it.offset, memory);
    if (again == nullptr || again_read >= file_of_it.ordinal) {
      SHARDKIT_ASSIGN_OR_RETURN(again, Open(file, compression));
    }
    again_read = file_of_it.ordinal;
    TarMember target;
    do {
      SHARDKIT_ASSIGN_OR_RETURN(const bool more, again->Next(&target));
      if (!more) return DataLoss(input.path(), ": was changed while it was read; read it again");
    } while (target.ordinal < file_of_it.ordinal);
    return again->Read(memory);
  }
};

TarReader::TarReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
TarReader::~TarReader() = default;

std::optional<uint64_t> TarReader::left_behind() const { return state_->left_behind; }
uint64_t TarReader::memory() const {
  return state_->earlier.capacity() * (sizeof(Hash128Bytes) + sizeof(State::Earlier) + 1);
}

absl::StatusOr<std::unique_ptr<TarReader>> TarReader::Open(const RandomAccessFile& file, TarCompression compression) {
  std::unique_ptr<Decompressor> decompressor;
  if (compression != TarCompression::kNone) {
    SHARDKIT_ASSIGN_OR_RETURN(decompressor, Decompressor::Open(file, compression));
  }
  auto state = std::make_unique<State>(file, compression, std::move(decompressor));
  SHARDKIT_ASSIGN_OR_RETURN(state->reader, OpenArchive(state->input, TarCompression::kNone, Content::kTar));
  return std::unique_ptr<TarReader>(new TarReader(std::move(state)));
}

absl::StatusOr<bool> TarReader::Next(TarMember* member) {
  SHARDKIT_RETURN_IF_ERROR(state_->SkipData());
  archive* const reader = state_->reader.get();
  const uint64_t before = state_->position();
  archive_entry* entry = nullptr;
  const int result = archive_read_next_header(reader, &entry);
  // libarchive may take a read error for the end of the tar.
  if (!state_->input.error().ok()) return state_->ErrorBehind(before);
  const bool mark = state_->input.BlockIsZero(before);
  if (result == ARCHIVE_EOF) {
    // POSIX ends a tar with two blocks of zeros; Python's tarfile asks for one. Without any, the file was cut off
    // between two members.
    if (state_->position() >= before + kTarBlockBytes) return false;
    return DataLoss(state_->input.path(), ": after member '", state_->name, "', at byte ", before,
                    ": the tar ends without an end mark: it was cut off; get it again");
  }
  const char* const name = result == ARCHIVE_OK || result == ARCHIVE_WARN ? ArchiveName(entry) : nullptr;
  if (name == nullptr) {
    if (!mark) return state_->ErrorBehind(before);
    if (!state_->input.RestIsZero(before)) state_->left_behind = before;
    return false;
  }
  State& state = *state_;
  state.name = name;
  state.header_offset = before;
  state.pending = true;
  state.link = archive_entry_hardlink(entry) != nullptr || archive_entry_filetype(entry) == AE_IFLNK;
  state.sparse = archive_entry_sparse_count(entry) > 0;
  state.begin = state.position();
  state.file_of_it = {};
  ++state.members;
  *member = {.name = state.name,
             .link = state.link,
             .after_end_mark = state.members > 1 && mark,
             .ordinal = state.members,
             .header_offset = before,
             .length = static_cast<uint64_t>(std::max<la_int64_t>(archive_entry_size(entry), 0))};
  const auto target = state.link ? state.earlier.find(Hash128(LinkTarget(entry, name))) : state.earlier.end();
  if (target != state.earlier.end()) {
    member->kind = TarMember::Kind::kFile;
    state.file_of_it = target->second;
    member->length = state.file_of_it.length;
    state.Remember();
  } else if (!state.link && archive_entry_filetype(entry) == AE_IFREG) {
    member->kind = TarMember::Kind::kFile;
    state.file_of_it = {.ordinal = member->ordinal, .length = member->length};
  } else if (!state.link && archive_entry_filetype(entry) == AE_IFDIR) {
    member->kind = TarMember::Kind::kDirectory;
  } else {
    member->what = Describe(entry);
  }
  return true;
}

absl::StatusOr<std::optional<uint64_t>> TarReader::Locate() {
  SHARDKIT_RETURN_IF_ERROR(state_->SkipData());
  return state_->file_of_it.offset;
}

absl::Status TarReader::Read(std::span<char> memory) {
  if (state_->link) return state_->ReadTarget(memory);
  SHARDKIT_RETURN_IF_ERROR(state_->CheckWhole());
  size_t done = 0;
  while (done < memory.size()) {
    const la_ssize_t count = archive_read_data(state_->reader.get(), memory.data() + done, memory.size() - done);
    if (count <= 0) return state_->input.Describe(state_->reader.get(), state_->Place());
    done += static_cast<size_t>(count);
  }
  return absl::OkStatus();
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

absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenDecompressed(std::unique_ptr<RandomAccessFile> file,
                                                                   TarCompression compression, uint64_t length) {
  return std::make_unique<DecompressedFile>(std::move(file), compression, length);
}

}  // namespace shardkit::foreign
