#include "operations/sources/tar_members.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "foreign/webdataset/webdataset_names.h"
#include "operations/sources/source_unit.h"

namespace shardkit::operations {
namespace {

using foreign::TarCompression;
using foreign::TarReader;

// Larger members of a tar without compression stay in the file.
constexpr uint64_t kLargestCopied = uint64_t{64} << 20;
// Members of a compressed tar must be held in memory whole: never more than this.
constexpr uint64_t kLargestCompressed = uint64_t{1} << 30;

void Count(const std::string& where, uint64_t* count, std::string* first) {
  if ((*count)++ == 0) *first = where;
}

}  // namespace

TarMembers::TarMembers(std::unique_ptr<RandomAccessFile> file, const SourceOptions& options, PassedOver* passed_over)
    : file_system_(options.file_system),
      file_(std::move(file)),
      most_memory_(
          std::min(kLargestCompressed, file_->size() + std::min(options.max_decompression, kLargestCompressed))),
      keep_hidden_(options.keep_hidden),
      filter_(options),
      passed_over_(passed_over) {}

absl::StatusOr<std::unique_ptr<TarMembers>> TarMembers::Open(const std::string& path, const SourceOptions& options,
                                                             PassedOver* passed_over) {
  SHARDKIT_ASSIGN_OR_RETURN(auto file, options.file_system->OpenForReading(path));
  std::unique_ptr<TarMembers> tar(new TarMembers(std::move(file), options, passed_over));
  SHARDKIT_ASSIGN_OR_RETURN(tar->names_, NameEncoding::Create(options.names));
  SHARDKIT_ASSIGN_OR_RETURN(tar->compression_, foreign::DetectCompression(*tar->file_));
  auto opened = TarReader::Open(*tar->file_, tar->compression_);
  if (ToStd(opened.status().message()).ends_with("Unrecognized archive format")) {
    return InvalidArgument(path, ": not a tar file");
  }
  SHARDKIT_RETURN_IF_ERROR(opened.status());
  tar->reader_ = *std::move(opened);
  return tar;
}

absl::StatusOr<std::unique_ptr<TarMembers>> TarMembers::OpenDamaged(const std::string& path,
                                                                    const SourceOptions& options,
                                                                    PassedOver* passed_over, absl::Status* damage) {
  auto opened = Open(path, options, passed_over);
  if (opened.ok()) return opened;
  *damage = opened.status();
  if (absl::IsDataLoss(*damage) || (options.skip_errors && absl::IsInvalidArgument(*damage))) return nullptr;
  return *damage;
}

absl::StatusOr<bool> TarMembers::Next(TarMember* member) {
  PassedOver unused;
  PassedOver& passed = passed_over_ != nullptr ? *passed_over_ : unused;
  while (true) {
    looked_at_.reset();
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, reader_->Next(member));
    if (!more) {
      if (const std::optional<uint64_t> begin = reader_->left_behind()) {
        Count(StrCat(file_->path(), ": at byte ", *begin), &passed.left_behind, &passed.first_left_behind);
      }
      return false;
    }
    member->name = foreign::MemberName(member->name);
    if (!names_.empty()) {
      const bool utf8 = member->pax && ValidUtf8(member->name);
      member->name = utf8 ? names_.TextOfUtf8(member->name) : names_.TextOf(member->name);
    }
    const std::string where = StrCat(file_->path(), ": member '", member->name, "'");
    if (member->after_end_mark && !std::exchange(joined_, true)) {
      Count(where, &passed.joined_tars, &passed.first_joined);
    }
    if (filter_.chooses() && !filter_.Takes(member->name, member->kind == TarMember::Kind::kDirectory)) {
      ++passed.not_chosen;
      continue;
    }
    if (member->kind == TarMember::Kind::kDirectory || keep_hidden_ || !IsLeftover(*member)) return true;
    Count(where, &passed.count, &passed.first);
  }
}

bool TarMembers::IsLeftover(const TarMember& member) {
  const std::string_view base = BasePart(member.name);
  std::string_view folders = DirectoryPart(member.name);
  for (; !folders.empty(); folders.remove_prefix(folders.find('/') + 1)) {
    if (IsLeftoverName(folders.substr(0, folders.find('/')), /*directory=*/true)) return true;
  }
  if (IsLeftoverName(base, /*directory=*/false)) return true;
  if (member.kind != TarMember::Kind::kFile || !base.starts_with(kAppleDoublePrefix)) return false;
  looked_at_bytes_.Clear();
  looked_at_ = ReadData(member, kLargestCopied, &looked_at_bytes_);
  if (!looked_at_->ok()) return false;  // for who reads it
  const Value& value = **looked_at_;
  if (value.length() < kAppleDoubleMagic.size()) return false;
  std::string begin(kAppleDoubleMagic.size(), '\0');
  if (value.file) return value.file->ReadAt(0, begin).ok() && begin == kAppleDoubleMagic;
  return value.bytes.starts_with(kAppleDoubleMagic);
}

absl::StatusOr<Value> TarMembers::Read(const TarMember& member, uint64_t stream_above, ByteArena* arena) {
  if (!looked_at_) return ReadData(member, stream_above, arena);
  absl::StatusOr<Value> value = *std::exchange(looked_at_, std::nullopt);
  if (value.ok() && !value->file) value->bytes = arena->Copy(value->bytes);
  return value;
}

absl::StatusOr<Value> TarMembers::ReadData(const TarMember& member, uint64_t stream_above, ByteArena* arena) {
  const auto where = [&] { return StrCat(file_->path(), ": member '", member.name, "'"); };
  Value value;
  if (compression_ == TarCompression::kNone && member.length >= std::min(stream_above, kLargestCopied + 1)) {
    SHARDKIT_ASSIGN_OR_RETURN(const std::optional<uint64_t> offset, reader_->Locate());
    if (!offset) {
      return Unimplemented(where(), ": a sparse member of ", member.length,
                           " bytes: extract the tar and pack the directory");
    }
    value.file = MakeFileSlice(file_system_, file_->path(), *offset, member.length);
    return value;
  }
  if (compression_ != TarCompression::kNone && member.length + arena->allocated() > most_memory_) {
    return ResourceExhausted(where(), ": ", member.length,
                             " bytes in a compressed tar would have to be held in memory, where a sample may take ",
                             most_memory_, ": decompress the tar first, or raise the limit (--max-decompression)");
  }
  const std::span<char> memory = arena->Allocate(member.length);
  SHARDKIT_RETURN_IF_ERROR(reader_->Read(memory));
  value.bytes = {memory.data(), memory.size()};
  return value;
}

}  // namespace shardkit::operations
