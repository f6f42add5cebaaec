#include "convert/sources/tar_reader.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/checked.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "container/foreign/archive_input.h"
#include "container/foreign/tar_archive.h"
#include "convert/sources/source_unit.h"
#include "format/foreign/webdataset_names.h"

namespace shardkit::convert {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr uint64_t kTarBlock = 512;
// Larger members of a tar without compression stay in the file.
constexpr uint64_t kLargestCopied = uint64_t{64} << 20;
// So many members are remembered for links that lead to them, about 50 bytes each.
constexpr size_t kMostRemembered = size_t{1} << 20;
// Members of a compressed tar must be held in memory whole: never more than this.
constexpr uint64_t kLargestCompressed = uint64_t{1} << 30;

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

struct TarReader::State {
  State(ReadableFileSystem* from, std::unique_ptr<RandomAccessFile> opened, uint64_t most_decompressed)
      : file_system(from),
        file(std::move(opened)),
        max_decompression(most_decompressed),
        path(file->path()),
        input(std::make_unique<container::ArchiveInput>(*file, kBufferBytes, kBufferBytes)) {}

  // A regular member, or a link that leads to one.
  struct Earlier {
    uint64_t ordinal = 0;
    uint64_t size = 0;
    uint64_t offset = UINT64_MAX;  // in the file, where it is known: not of a compressed tar, or a sparse member
  };

  ReadableFileSystem* const file_system;
  const std::unique_ptr<RandomAccessFile> file;
  const uint64_t max_decompression;
  const std::string path;
  std::unique_ptr<container::ForwardBytes> forward;  // null where libarchive itself decompresses, if need be
  std::unique_ptr<container::ArchiveInput> input;
  container::Archive reader;
  bool joined = false;  // an end mark lay between members
  // By the hash of the name. Of a tar with more members links to later ones are not followed.
  absl::flat_hash_map<Hash128Bytes, Earlier> earlier;
  Earlier* last_regular = nullptr;   // in `earlier`, if the current member is there and its place is not known yet
  uint64_t last_begin = 0;           // where its data begins, or its header
  std::unique_ptr<TarReader> again;  // of a compressed tar: reads targets of links a second time
  uint64_t again_read = 0;           // the number of the member that it read last
  uint64_t members = 0;
  std::string last_name;      // for messages
  bool data_pending = false;  // the current member's data was not skipped yet
  bool keep_hidden = false;
  PassedOver* passed_over = nullptr;
  // What was read to decide whether the current member is AppleDouble, for Read.
  std::optional<absl::StatusOr<Value>> looked_at;
  ByteArena looked_at_bytes;

  // Bytes of the tar, without compression, that were consumed.
  uint64_t position() const { return static_cast<uint64_t>(archive_filter_bytes(reader.get(), 0)); }

  uint64_t most_memory() const {
    return std::min(kLargestCompressed, file->size() + std::min(max_decompression, kLargestCompressed));
  }

  bool plain() const { return forward == nullptr && archive_filter_count(reader.get()) == 1; }

  bool SkipData() {
    if (!std::exchange(data_pending, false)) return true;
    return archive_read_data_skip(reader.get()) >= ARCHIVE_WARN;
  }
};

TarReader::TarReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
TarReader::~TarReader() = default;

absl::Status TarReader::Error(std::string_view where) const {
  return state_->input->Describe(state_->reader.get(), where);
}

absl::StatusOr<std::unique_ptr<TarReader>> TarReader::Open(ReadableFileSystem* file_system, const std::string& path,
                                                           uint64_t max_decompression, bool keep_hidden,
                                                           PassedOver* passed_over) {
  SHARDKIT_ASSIGN_OR_RETURN(auto file, file_system->OpenForReading(path));
  auto state = std::make_unique<State>(file_system, std::move(file), max_decompression);
  state->keep_hidden = keep_hidden;
  state->passed_over = passed_over;
  state->reader.reset(archive_read_new());
  archive* const reader = state->reader.get();
  if (reader == nullptr) return ResourceExhausted(path, ": no memory for a tar reader");
  SHARDKIT_ASSIGN_OR_RETURN(const container::TarCompression compression, container::DetectCompression(*state->file));
  if (compression != container::TarCompression::kNone) {
    SHARDKIT_ASSIGN_OR_RETURN(state->forward, container::OpenForward(*state->file, compression));
    state->input = std::make_unique<container::ArchiveInput>(*state->file, kBufferBytes, kBufferBytes, *state->forward);
  }
  // One by one: "all" would include filters that start other programs.
  archive_read_support_filter_compress(reader);
  archive_read_support_filter_lzma(reader);
  archive_read_support_filter_lz4(reader);
  archive_read_support_format_tar(reader);
  // Without this option everything after the first end mark would be ignored silently.
  archive_read_set_options(reader, "tar:read_concatenated_archives");
  state->input->Attach(reader);
  const int result = archive_read_open1(reader);
  std::unique_ptr<TarReader> tar(new TarReader(std::move(state)));
  if (result == ARCHIVE_OK) return tar;
  absl::Status error = tar->Error("cannot be opened as a tar");
  if (ToStd(error.message()).ends_with("Unrecognized archive format")) return InvalidArgument(path, ": not a tar file");
  return error;
}

absl::StatusOr<std::unique_ptr<TarReader>> TarReader::OpenDamaged(ReadableFileSystem* file_system,
                                                                  const std::string& path, uint64_t max_decompression,
                                                                  bool keep_hidden, PassedOver* passed_over,
                                                                  bool skip_errors, absl::Status* damage) {
  auto opened = Open(file_system, path, max_decompression, keep_hidden, passed_over);
  if (opened.ok()) return opened;
  *damage = opened.status();
  if (absl::IsDataLoss(*damage) || (skip_errors && absl::IsInvalidArgument(*damage))) return nullptr;
  return *damage;
}

absl::Status CutAfter(const absl::Status& damage, uint64_t whole_samples) {
  return DataLoss(ToStd(damage.message()), "; ", whole_samples, whole_samples == 1 ? " sample" : " samples",
                  " before it can be read");
}

absl::StatusOr<bool> TarReader::Next(TarEntry* member) {
  while (true) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, NextMember(member));
    if (!more || member->kind == TarEntry::Kind::kDirectory || state_->keep_hidden || !IsLeftover(*member)) return more;
    PassedOver* const passed = state_->passed_over;
    if (passed != nullptr && passed->count++ == 0) {
      passed->first = StrCat(state_->path, ": member '", member->name, "'");
    }
  }
}

bool TarReader::IsLeftover(const TarEntry& member) {
  const std::string_view base = BasePart(member.name);
  std::string_view folders = DirectoryPart(member.name);
  for (; !folders.empty(); folders.remove_prefix(folders.find('/') + 1)) {
    if (IsLeftoverName(folders.substr(0, folders.find('/')), /*directory=*/true)) return true;
  }
  if (IsLeftoverName(base, /*directory=*/false)) return true;
  if (member.kind != TarEntry::Kind::kRegular || !base.starts_with(kAppleDoublePrefix)) return false;
  state_->looked_at_bytes.Clear();
  state_->looked_at = ReadData(member, kLargestCopied, &state_->looked_at_bytes);
  if (!state_->looked_at->ok()) return false;  // for who reads it
  const Value& value = **state_->looked_at;
  if (value.length() < kAppleDoubleMagic.size()) return false;
  std::string begin(kAppleDoubleMagic.size(), '\0');
  if (value.file) return value.file->ReadAt(0, begin).ok() && begin == kAppleDoubleMagic;
  return value.bytes.starts_with(kAppleDoubleMagic);
}

absl::StatusOr<bool> TarReader::NextMember(TarEntry* member) {
  state_->looked_at.reset();
  archive* const reader = state_->reader.get();
  const std::string where = state_->members == 0
                                ? std::string("first member")
                                : StrCat("after member ", state_->members, " '", state_->last_name, "'");
  // Skips the rest of the previous member, so that the size of the end mark can be measured.
  if (!state_->SkipData()) return Error(StrCat("member '", state_->last_name, "'"));
  const uint64_t end_of_members = state_->position();
  if (State::Earlier* const last = std::exchange(state_->last_regular, nullptr)) {
    // Without compression the tar has the bytes as they are, padded to whole blocks. The header may or may not have
    // been counted as consumed. A sparse member has fewer bytes.
    const uint64_t stored = RoundUp(last->size, kTarBlock);
    const bool whole = end_of_members >= stored && end_of_members - stored >= state_->last_begin &&
                       end_of_members - stored <= state_->last_begin + kTarBlock;
    if (whole) last->offset = end_of_members - stored;
  }
  archive_entry* entry = nullptr;
  const int result = archive_read_next_header(reader, &entry);
  if (result == ARCHIVE_EOF) {
    // POSIX closes a tar with two blocks of zeros. Without them the file was cut off between two members.
    if (state_->members > 0 && state_->position() < end_of_members + kTarBlock) {
      return DataLoss(state_->path, ": ", where, ": the tar ends without an end mark: it was cut off; get it again");
    }
    return false;
  }
  if (result < ARCHIVE_WARN) {
    return Error(where);
  }
  const bool joined = state_->members > 0 && !state_->joined && (state_->plain() || state_->forward != nullptr) &&
                      state_->input->BlockIsZero(end_of_members);
  ++state_->members;
  state_->data_pending = true;
  const char* const name = container::ArchiveName(entry);
  if (name == nullptr) return Error(where);
  member->name = format::MemberName(name);
  state_->last_name = member->name;
  member->ordinal = state_->members;
  member->size = static_cast<uint64_t>(std::max<la_int64_t>(archive_entry_size(entry), 0));
  member->what = {};
  member->target.reset();
  if (joined) {
    state_->joined = true;
    if (state_->passed_over != nullptr && state_->passed_over->joined_tars++ == 0) {
      state_->passed_over->first_joined = StrCat(state_->path, ": member '", member->name, "'");
    }
  }
  const bool link = archive_entry_hardlink(entry) != nullptr || archive_entry_filetype(entry) == AE_IFLNK;
  const auto found = link ? state_->earlier.find(Hash128(container::LinkTarget(entry, name))) : state_->earlier.end();
  const auto remember = [&](const State::Earlier& earlier) -> State::Earlier* {
    const Hash128Bytes hash = Hash128(member->name);
    if (state_->earlier.size() >= kMostRemembered && !state_->earlier.contains(hash)) return nullptr;
    return &(state_->earlier[hash] = earlier);
  };
  if (found != state_->earlier.end()) {
    const State::Earlier target = found->second;
    member->kind = TarEntry::Kind::kRegular;
    member->size = target.size;
    member->target = target.ordinal;
    remember(target);
  } else if (!link && archive_entry_filetype(entry) == AE_IFREG) {
    member->kind = TarEntry::Kind::kRegular;
    State::Earlier* const earlier = remember({.ordinal = member->ordinal, .size = member->size});
    if (state_->plain()) state_->last_regular = earlier;
    state_->last_begin = state_->position();
  } else if (archive_entry_filetype(entry) == AE_IFDIR) {
    member->kind = TarEntry::Kind::kDirectory;
  } else {
    member->kind = TarEntry::Kind::kOther;
    member->what = Describe(entry);
  }
  return true;
}

absl::StatusOr<Value> TarReader::Read(const TarEntry& member, uint64_t stream_above, ByteArena* arena) {
  if (!state_->looked_at) return ReadData(member, stream_above, arena);
  absl::StatusOr<Value> value = *std::exchange(state_->looked_at, std::nullopt);
  if (value.ok() && !value->file) value->bytes = arena->Copy(value->bytes);
  return value;
}

absl::StatusOr<Value> TarReader::ReadData(const TarEntry& member, uint64_t stream_above, ByteArena* arena) {
  if (member.target) return ReadTarget(member, stream_above, arena);
  archive* const reader = state_->reader.get();
  const std::string where = StrCat("member '", member.name, "'");
  if (member.size >= stream_above || member.size > kLargestCopied) {
    // Without compression the tar has the bytes as they are, padded to whole blocks. A sparse member has fewer, so that
    // its end is not where its size says.
    if (state_->plain()) {
      const uint64_t begin = state_->position();
      if (!state_->SkipData()) return Error(where);
      const uint64_t end = state_->position();
      const uint64_t stored = RoundUp(member.size, kTarBlock);
      // The header may or may not have been counted as consumed.
      if (end >= stored && end - stored >= begin && end - stored <= begin + kTarBlock) {
        Value value;
        value.file = MakeFileSlice(state_->file_system, state_->path, end - stored, member.size);
        return value;
      }
      return Unimplemented(state_->path, ": ", where, ": a sparse member of ", member.size,
                           " bytes: extract the tar and pack the directory");
    }
  }
  if (!state_->plain() && member.size + arena->allocated() > state_->most_memory()) {
    if (!state_->SkipData()) return Error(where);
    return ResourceExhausted(state_->path, ": ", where, ": ", member.size,
                             " bytes in a compressed tar would have to be held in memory, where a sample may take ",
                             state_->most_memory(),
                             ": decompress the tar first, or raise the limit (--max-decompression)");
  }
  const std::span<char> memory = arena->Allocate(member.size);
  size_t done = 0;
  while (done < memory.size()) {
    const la_ssize_t count = archive_read_data(reader, memory.data() + done, memory.size() - done);
    if (count <= 0) return Error(where);
    done += static_cast<size_t>(count);
  }
  Value value;
  value.bytes = {memory.data(), memory.size()};
  return value;
}

absl::StatusOr<Value> TarReader::ReadTarget(const TarEntry& link, uint64_t stream_above, ByteArena* arena) {
  const auto found = state_->earlier.find(Hash128(link.name));
  const uint64_t offset = found == state_->earlier.end() ? UINT64_MAX : found->second.offset;
  if (state_->plain() && offset != UINT64_MAX) {
    Value value;
    if (link.size >= stream_above || link.size > kLargestCopied) {
      value.file = MakeFileSlice(state_->file_system, state_->path, offset, link.size);
      return value;
    }
    const std::span<char> memory = arena->Allocate(link.size);
    SHARDKIT_RETURN_IF_ERROR(state_->file->ReadAt(offset, memory));
    value.bytes = {memory.data(), memory.size()};
    return value;
  }
  if (state_->again == nullptr || state_->again_read >= *link.target) {
    SHARDKIT_ASSIGN_OR_RETURN(state_->again, Open(state_->file_system, state_->path, state_->max_decompression,
                                                  /*keep_hidden=*/true));
  }
  state_->again_read = *link.target;
  TarEntry target;
  do {
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, state_->again->Next(&target));
    if (!more) return DataLoss(state_->path, ": was changed while it was read; pack it again");
  } while (target.ordinal < *link.target);
  return state_->again->Read(target, stream_above, arena);
}

}  // namespace shardkit::convert
