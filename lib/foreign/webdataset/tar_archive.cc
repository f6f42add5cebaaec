#include "foreign/webdataset/tar_archive.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/buffer.h"
#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/exceptions.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "foreign/webdataset/tar_samples.h"
#include "foreign/webdataset/webdataset_names.h"
#include "format/chunk.h"
#include "format/constants.h"
#include "shardkit/filesystem.h"

namespace shardkit::foreign {
namespace {

struct ArchiveDeleter {
  void operator()(archive* reader) const { archive_read_free(reader); }
};
using Archive = std::unique_ptr<archive, ArchiveDeleter>;

// Gives the next of bytes that can only be had from front to back: fewer than asked for only at the end.
using ReadNext = std::function<absl::StatusOr<size_t>(std::span<char> buffer)>;

// Feeds a file to libarchive. Must not move while an archive reads from it.
class ArchiveInput {
 public:
  // The first read, and the first read after skipped bytes, has `least_read` bytes, or fewer at the end of the file.
  // Each further read has twice as many bytes as the one before, up to what the file prefers and `most_read`. Gaps that
  // are cheaper to read than to skip (ReadHints::bridge_gap_bytes) are read. With `forward` the bytes come from there,
  // nothing is skipped, and `file` is for messages. `file` must outlive the input.
  ArchiveInput(const RandomAccessFile& file, size_t least_read, size_t most_read, ReadNext forward = nullptr);
  ArchiveInput(const ArchiveInput&) = delete;
  ArchiveInput& operator=(const ArchiveInput&) = delete;

  // Makes `reader` read from this input, from `begin` on. Call it before archive_read_open1.
  void Attach(archive* reader, uint64_t begin);

  // Without libarchive: the tar's block at `offset`, which is not before that of the last call; valid until the next
  // one. Empty where the file ends before. Not with `forward`.
  absl::StatusOr<std::string_view> BlockAt(uint64_t offset);
  // The bytes behind the last block, read on in the same way.
  absl::Status ReadBehind(uint64_t offset, std::span<char> memory);

  // Whether a tar's block is zeros: the one at `begin`, or, where that is no longer held, the first one behind it that
  // is. Held are the last two reads.
  bool BlockIsZero(uint64_t begin) const;
  // Whether all bytes from `begin` on that are held are zeros.
  bool RestIsZero(uint64_t begin) const;

  // The error of the first read that failed.
  const absl::Status& error() const { return error_; }
  const std::string& path() const { return file_.path(); }

  // The file's read error, if there is one. Otherwise "PATH: WHERE: libarchive's message", ResourceExhausted when there
  // was no memory, else DataLoss.
  absl::Status Describe(archive* reader, std::string_view where) const;

 private:
  static la_ssize_t Read(archive* reader, void* data, const void** out);
  static la_int64_t Skip(archive* reader, void* data, la_int64_t request);

  struct Piece {
    uint64_t begin = 0;
    size_t length = 0;
    Buffer bytes;
  };

  absl::StatusOr<size_t> ReadInto(std::span<char> buffer);
  absl::StatusOr<size_t> ReadPiece();
  uint64_t held() const;
  bool HeldAreZero(uint64_t begin, uint64_t end) const;

  const RandomAccessFile& file_;
  const ReadNext forward_;  // may be null
  const size_t least_read_;
  const size_t most_read_;
  bool at_end_ = false;  // of `forward_`
  Piece last_, before_;  // the last two reads
  uint64_t position_ = 0;
  size_t next_;
  absl::Status error_;
};

ArchiveInput::ArchiveInput(const RandomAccessFile& file, size_t least_read, size_t most_read, ReadNext forward)
    : file_(file),
      forward_(std::move(forward)),
      least_read_(least_read),
      most_read_(std::clamp<size_t>(file.hints().preferred_bytes, least_read, most_read)),
      next_(least_read) {}

void ArchiveInput::Attach(archive* reader, uint64_t begin) {
  position_ = begin;
  last_.length = before_.length = 0;
  archive_read_set_read_callback(reader, Read);
  archive_read_set_skip_callback(reader, Skip);
  archive_read_set_callback_data(reader, this);
}

absl::StatusOr<size_t> ArchiveInput::ReadInto(std::span<char> buffer) {
  if (forward_ != nullptr) return forward_(buffer);
  SHARDKIT_RETURN_IF_ERROR(file_.ReadAt(position_, buffer));
  return buffer.size();
}

// Reads the next piece into last_. Returns its length, 0 at the end: then the last two stay held.
absl::StatusOr<size_t> ArchiveInput::ReadPiece() {
  const uint64_t left = forward_ != nullptr ? UINT64_MAX : file_.size() - position_;
  const size_t wanted = static_cast<size_t>(std::min<uint64_t>(next_, left));
  if (wanted == 0 || at_end_) return size_t{0};
  Piece& piece = before_;
  piece.begin = position_;
  piece.length = 0;
  piece.bytes.resize_discard(wanted);
  SHARDKIT_ASSIGN_OR_RETURN(piece.length, ReadInto({piece.bytes.data(), wanted}));
  const size_t length = piece.length;
  position_ += length;
  next_ = std::min(2 * next_, most_read_);
  at_end_ = length < wanted;
  if (length > 0) std::swap(before_, last_);
  return length;
}

la_ssize_t ArchiveInput::Read(archive* reader, void* data, const void** out) {
  auto* const self = static_cast<ArchiveInput*>(data);
  size_t length = 0;
  // libarchive is C: no exception may pass through it.
  self->error_.Update(Guarded("reading an archive", [&]() -> absl::Status {
    SHARDKIT_ASSIGN_OR_RETURN(length, self->ReadPiece());
    return absl::OkStatus();
  }));
  if (!self->error_.ok()) {
    archive_set_error(reader, EIO, "read error");
    return ARCHIVE_FATAL;
  }
  *out = self->last_.bytes.data();
  return static_cast<la_ssize_t>(length);
}

absl::StatusOr<std::string_view> ArchiveInput::BlockAt(uint64_t offset) {
  // Pieces begin and end between blocks.
  if (offset >= position_) {
    if (offset - position_ > file_.hints().bridge_gap_bytes) next_ = least_read_;
    position_ = std::min(offset, file_.size());
    SHARDKIT_RETURN_IF_ERROR(ReadPiece().status());
  }
  const std::string_view held(last_.bytes.data(), last_.length);
  if (offset < last_.begin || offset + kTarBlockBytes > last_.begin + last_.length) return std::string_view();
  return held.substr(offset - last_.begin, kTarBlockBytes);
}

absl::Status ArchiveInput::ReadBehind(uint64_t offset, std::span<char> memory) {
  while (!memory.empty()) {
    if (offset >= position_) {
      SHARDKIT_ASSIGN_OR_RETURN(const size_t length, ReadPiece());
      if (length == 0) return DataLoss(path(), ": was changed while it was read; read it again");
    }
    const size_t skipped = static_cast<size_t>(offset - last_.begin);
    const size_t taken = std::min(memory.size(), last_.length - skipped);
    std::memcpy(memory.data(), last_.bytes.data() + skipped, taken);
    memory = memory.subspan(taken);
    offset += taken;
  }
  return absl::OkStatus();
}

// Where the bytes begin that are held. The last two reads may have a gap between them.
uint64_t ArchiveInput::held() const {
  return before_.begin + before_.length == last_.begin ? before_.begin : last_.begin;
}

bool ArchiveInput::HeldAreZero(uint64_t begin, uint64_t end) const {
  for (const Piece* const piece : {&before_, &last_}) {
    const uint64_t first = std::max({begin, piece->begin, held()});
    const uint64_t last = std::min(end, piece->begin + piece->length);
    if (first >= last) continue;
    const char* const bytes = piece->bytes.data() + (first - piece->begin);
    if (!format::AllZero({bytes, static_cast<size_t>(last - first)})) return false;
  }
  return true;
}

bool ArchiveInput::BlockIsZero(uint64_t begin) const {
  if (begin < held()) begin += RoundUp(held() - begin, kTarBlockBytes);
  return begin + kTarBlockBytes <= position_ && HeldAreZero(begin, begin + kTarBlockBytes);
}

bool ArchiveInput::RestIsZero(uint64_t begin) const { return HeldAreZero(begin, position_); }

la_int64_t ArchiveInput::Skip(archive* /*reader*/, void* data, la_int64_t request) {
  auto* const self = static_cast<ArchiveInput*>(data);
  if (self->forward_ != nullptr) return 0;
  const uint64_t wanted = request < 0 ? 0 : static_cast<uint64_t>(request);
  const uint64_t length = std::min<uint64_t>(wanted, self->file_.size() - self->position_);
  // What costs less than another request is read along; libarchive discards it.
  if (length <= self->file_.hints().bridge_gap_bytes) return 0;
  self->position_ += length;
  if (length > 0) self->next_ = self->least_read_;
  return static_cast<la_int64_t>(length);
}

absl::Status ArchiveInput::Describe(archive* reader, std::string_view where) const {
  if (!error_.ok()) {
    std::string_view message = ToStd(error_.message());
    if (forward_ == nullptr || !absl::IsDataLoss(error_) || !message.starts_with(StrCat(path(), ": "))) return error_;
    message.remove_prefix(path().size() + 2);
    return DataLoss(path(), ": ", where, ": ", message);
  }
  const char* const text = archive_error_string(reader);
  const std::string_view what = text != nullptr ? text : "damaged or cut off";
  if (archive_errno(reader) == ENOMEM) return ResourceExhausted(path(), ": ", where, ": ", what);
  return DataLoss(path(), ": ", where, ": ", what);
}

// The bytes of the name as in the tar. In the "C" locale, libarchive returns the UTF-8 names of pax headers only from
// archive_entry_pathname_utf8.
const char* ArchiveName(archive_entry* entry) {
  const char* const name = archive_entry_pathname(entry);
  return name != nullptr ? name : archive_entry_pathname_utf8(entry);
}

// Of a hard or symbolic link the name of the member that it leads to, as MemberName gives it: that of a
// symbolic link is found from the folder of `name`. Empty for other members, and where the link leads out of the
// archive.
std::string LinkTarget(archive_entry* entry, std::string_view name) {
  const char* hard = archive_entry_hardlink(entry);
  if (hard == nullptr) hard = archive_entry_hardlink_utf8(entry);
  if (hard != nullptr) return std::string(MemberName(hard));
  if (archive_entry_filetype(entry) != AE_IFLNK) return {};
  const char* soft = archive_entry_symlink(entry);
  if (soft == nullptr) soft = archive_entry_symlink_utf8(entry);
  if (soft == nullptr || *soft == '/') return {};
  name = MemberName(name);
  const std::string path = StrCat(name.substr(0, name.rfind('/') + 1), soft);
  std::string target;
  for (std::string_view rest = path; !rest.empty();) {
    const size_t slash = std::min(rest.find('/'), rest.size());
    const std::string_view component = rest.substr(0, slash);
    rest.remove_prefix(std::min(slash + 1, rest.size()));
    if (component.empty() || component == ".") continue;
    if (component == "..") {
      if (target.empty()) return {};
      target.erase(target.find('/') == std::string::npos ? 0 : target.rfind('/'));
      continue;
    }
    if (!target.empty()) target += '/';
    target += component;
  }
  return target;
}

// After skipped data only one header is needed, so reads start small. They grow while nothing is skipped: then members
// are small and close together, or their data is read.
constexpr size_t kLeastRead = 4096;
constexpr int kMostSkippedFrames = 1024;  // before the first that is not
constexpr size_t kMostRead = size_t{1} << 20;

// So many members are remembered for links that lead to them, about 60 bytes each.
constexpr size_t kMostRemembered = size_t{1} << 20;

constexpr size_t kDiscardPiece = size_t{64} << 10;

enum class Content { kBytes, kTar };

// The header of a member that is nothing but a file or a directory.
struct PlainHeader {
  std::string_view prefix;  // of the name, without the slash between them
  std::string_view name;
  uint64_t length = 0;
  bool directory = false;
};

std::string_view UpToZero(std::string_view field) { return field.substr(0, field.find('\0')); }

// An octal number, as all programs write it but for very large ones: spaces, digits, spaces or zeros.
std::optional<uint64_t> OctalField(std::string_view field) {
  const size_t begin = std::min(field.find_first_not_of(' '), field.size());
  uint64_t number = 0;
  size_t i = begin;
  for (; i < field.size() && field[i] >= '0' && field[i] <= '7'; ++i) {
    number = number * 8 + static_cast<uint64_t>(field[i] - '0');
  }
  if (i == begin) return std::nullopt;
  for (; i < field.size(); ++i) {
    if (field[i] != ' ' && field[i] != '\0') return std::nullopt;
  }
  return number;
}

// Whether libarchive knows a header with this field, of numbers that nobody needs here, as one of a tar.
bool IsPlainNumber(std::string_view field) {
  const auto first = static_cast<uint8_t>(field[0]);
  const bool binary = first == 0x80 || first == 0xff;
  return binary || first == 0 || OctalField(field) || field.find_first_not_of(std::string_view(" \0", 2)) == field.npos;
}

// Nothing for a header that is to be read by libarchive, which takes microseconds for each. Most tars have no others.
std::optional<PlainHeader> ParsePlainHeader(std::string_view block) {
  if (block.size() != kTarBlockBytes) return std::nullopt;
  const char type = block[156];
  const std::string_view magic = block.substr(257, 8);
  const bool gnu = magic == std::string_view("ustar  \0", 8);
  // Of GNU: the first hole, whether more holes follow, and the length with all of them.
  constexpr size_t kSparse = 386, kExtended = 482, kRealSize = 483;
  const bool sparse = gnu && (block[kSparse] != '\0' || block[kExtended] != '\0' || block[kRealSize] != '\0');
  if ((type != '0' && type != '5') || sparse || (!gnu && magic != std::string_view("ustar\00000", 8))) {
    return std::nullopt;
  }
  // Mode, owner, group, time and device. libarchive is opened at the header before one that is left to it, and must
  // know that as one of a tar.
  constexpr std::pair<size_t, size_t> kNumbers[] = {{100, 8}, {108, 8}, {116, 8}, {136, 12}, {329, 8}, {337, 8}};
  for (const auto& [begin, bytes] : kNumbers) {
    if (!IsPlainNumber(block.substr(begin, bytes))) return std::nullopt;
  }
  constexpr size_t kChecksum = 148, kChecksumBytes = 8;
  uint64_t sum = kChecksumBytes * ' ';
  for (size_t i = 0; i < kTarBlockBytes; ++i) sum += static_cast<uint8_t>(block[i]);
  for (size_t i = kChecksum; i < kChecksum + kChecksumBytes; ++i) sum -= static_cast<uint8_t>(block[i]);
  if (OctalField(block.substr(kChecksum, kChecksumBytes)) != sum) return std::nullopt;
  const std::optional<uint64_t> length = OctalField(block.substr(124, 12));
  PlainHeader header{.name = UpToZero(block.substr(0, 100)), .length = length.value_or(0), .directory = type == '5'};
  if (!gnu) header.prefix = UpToZero(block.substr(345, 155));
  if (!length || header.name.empty() || header.prefix.ends_with('/')) return std::nullopt;
  // Of a file it would say that it is a directory.
  if (header.directory ? header.length > 0 : header.name.ends_with('/')) return std::nullopt;
  return header;
}

absl::StatusOr<Archive> OpenArchive(ArchiveInput& input, TarCompression compression, Content content,
                                    uint64_t begin = 0) {
  Archive reader(archive_read_new());
  archive* const a = reader.get();
  if (a == nullptr) return ResourceExhausted(input.path(), ": no memory for a tar reader");
  // Only the filter that is needed: for a filter that libarchive lacks, it would start a program.
  int result = ARCHIVE_OK;
  if (compression == TarCompression::kGzip) result = archive_read_support_filter_gzip(a);
  if (compression == TarCompression::kBzip2) result = archive_read_support_filter_bzip2(a);
  if (compression == TarCompression::kXz) result = archive_read_support_filter_xz(a);
  // Before version 3.7 libarchive does not recognize a frame that is skipped.
  if (compression == TarCompression::kZstd) result = archive_read_append_filter(a, ARCHIVE_FILTER_ZSTD);
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
  input.Attach(a, begin);
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
  std::string first;
  // Frames that are skipped, with which pzstd begins: RFC 8878, section 3.1.2. LZ4 has them too.
  uint64_t begin = 0;
  for (int frames = 0; frames < kMostSkippedFrames && begin <= file.size(); ++frames) {
    first.resize(static_cast<size_t>(std::min<uint64_t>(file.size() - begin, kTarBlockBytes)));
    SHARDKIT_RETURN_IF_ERROR(file.ReadAt(begin, first));
    if (first.size() < 8 || (LoadLittle<uint32_t>(first.data()) & ~uint32_t{15}) != 0x184D2A50) break;
    begin += 8 + uint64_t{LoadLittle<uint32_t>(first.data() + 4)};
  }
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
  if (found == std::end(kMagics) || (begin > 0 && found->second != kZstd && found->second != kLz4)) return kNone;
  return found->second;
}

struct ByteStream::State {
  const RandomAccessFile& file;
  std::unique_ptr<Decompressor> decompressor;  // null for a file that is not compressed
  uint64_t position = 0;
};

ByteStream::ByteStream(std::unique_ptr<State> state) : state_(std::move(state)) {}
ByteStream::~ByteStream() = default;

absl::StatusOr<std::unique_ptr<ByteStream>> ByteStream::Open(const RandomAccessFile& file) {
  std::unique_ptr<State> state(new State{file, nullptr});
  SHARDKIT_ASSIGN_OR_RETURN(const TarCompression compression, DetectCompression(file));
  if (compression != TarCompression::kNone) {
    SHARDKIT_ASSIGN_OR_RETURN(state->decompressor, Decompressor::Open(file, compression));
  }
  return std::unique_ptr<ByteStream>(new ByteStream(std::move(state)));
}

absl::StatusOr<size_t> ByteStream::ReadNext(std::span<char> buffer) {
  if (state_->decompressor) return state_->decompressor->ReadNext(buffer);
  const auto count = static_cast<size_t>(std::min<uint64_t>(buffer.size(), state_->file.size() - state_->position));
  SHARDKIT_RETURN_IF_ERROR(state_->file.ReadAt(state_->position, buffer.first(count)));
  state_->position += count;
  return count;
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
  Archive reader;       // null as long as all headers are plain
  uint64_t opened = 0;  // where it has begun
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

  uint64_t position() const { return opened + static_cast<uint64_t>(archive_filter_bytes(reader.get(), 0)); }

  // Lets libarchive read on: from the current member on, so that it knows of a header before what it does not know.
  absl::Status OpenReader() {
    opened = header_offset;
    SHARDKIT_ASSIGN_OR_RETURN(reader, OpenArchive(input, TarCompression::kNone, Content::kTar, opened));
    archive_entry* entry = nullptr;
    if (members > 0 && archive_read_next_header(reader.get(), &entry) < ARCHIVE_WARN) return ErrorBehind(opened);
    pending = members > 0;
    return absl::OkStatus();
  }

  // The next member, if its header is plain. Only as long as there is no reader.
  absl::StatusOr<bool> NextPlain(TarMember* member) {
    const uint64_t before = members == 0 ? 0 : RoundUp(begin + file_of_it.length, kTarBlockBytes);
    SHARDKIT_ASSIGN_OR_RETURN(const std::string_view block, input.BlockAt(before));
    const std::optional<PlainHeader> header = ParsePlainHeader(block);
    const uint64_t data = before + kTarBlockBytes;
    if (!header || !RangeWithin(data, RoundUp(header->length, kTarBlockBytes), file.size())) return false;
    name.assign(header->prefix);
    if (!name.empty()) name += '/';
    name += header->name;
    header_offset = before;
    begin = data;
    ++members;
    *member = {.name = name,
               .kind = header->directory ? TarMember::Kind::kDirectory : TarMember::Kind::kFile,
               .ordinal = members,
               .header_offset = before,
               .length = header->length};
    file_of_it = {};
    if (header->directory) return true;
    file_of_it = {.ordinal = members, .length = header->length, .offset = data};
    Remember();
    return true;
  }

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

  // Nothing is pending of plain members.
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
  std::optional<PlainHeader> first;
  if (compression == TarCompression::kNone) {
    SHARDKIT_ASSIGN_OR_RETURN(const std::string_view block, state->input.BlockAt(0));
    first = ParsePlainHeader(block);
  }
  if (!first) SHARDKIT_RETURN_IF_ERROR(state->OpenReader());
  return std::unique_ptr<TarReader>(new TarReader(std::move(state)));
}

absl::StatusOr<bool> TarReader::Next(TarMember* member) {
  if (state_->reader == nullptr) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool plain, state_->NextPlain(member));
    if (plain) return true;
    SHARDKIT_RETURN_IF_ERROR(state_->OpenReader());
  }
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
             .pax = archive_format(reader) == ARCHIVE_FORMAT_TAR_PAX_INTERCHANGE,
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
  if (state_->reader == nullptr) return state_->input.ReadBehind(state_->begin, memory);
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
