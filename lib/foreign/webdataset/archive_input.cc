#include "foreign/webdataset/archive_input.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/checked.h"
#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "foreign/webdataset/tar_samples.h"
#include "foreign/webdataset/webdataset_names.h"
#include "format/chunk.h"

namespace shardkit::foreign {

ArchiveInput::ArchiveInput(const RandomAccessFile& file, size_t least_read, size_t most_read, ReadNext forward)
    : file_(file), forward_(std::move(forward)), least_read_(least_read), most_read_(most_read), next_(least_read) {}

void ArchiveInput::Attach(archive* reader) {
  archive_read_set_read_callback(reader, Read);
  archive_read_set_skip_callback(reader, Skip);
  archive_read_set_callback_data(reader, this);
}

absl::StatusOr<size_t> ArchiveInput::ReadInto(std::span<char> buffer) {
  if (forward_ != nullptr) return forward_(buffer);
  SHARDKIT_RETURN_IF_ERROR(file_.ReadAt(position_, buffer));
  return buffer.size();
}

la_ssize_t ArchiveInput::Read(archive* reader, void* data, const void** out) {
  auto* const self = static_cast<ArchiveInput*>(data);
  const uint64_t left = self->forward_ != nullptr ? UINT64_MAX : self->file_.size() - self->position_;
  const size_t wanted = static_cast<size_t>(std::min<uint64_t>(self->next_, left));
  // libarchive asks several times at the end. What was read before that stays held.
  if (wanted == 0 || self->at_end_) return 0;
  Piece& piece = self->before_;
  // libarchive is C: no exception may pass through it.
  self->error_.Update(Guarded("reading an archive", [&]() -> absl::Status {
    piece.begin = self->position_;
    piece.length = 0;
    if (piece.bytes.size() < wanted) piece.bytes.resize(wanted);
    SHARDKIT_ASSIGN_OR_RETURN(piece.length, self->ReadInto({piece.bytes.data(), wanted}));
    return absl::OkStatus();
  }));
  if (!self->error_.ok()) {
    archive_set_error(reader, EIO, "read error");
    return ARCHIVE_FATAL;
  }
  *out = piece.bytes.data();
  const size_t length = piece.length;
  self->position_ += length;
  self->next_ = std::min(2 * self->next_, self->most_read_);
  self->at_end_ = length < wanted;
  if (length > 0) std::swap(self->before_, self->last_);
  return static_cast<la_ssize_t>(length);
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

const char* ArchiveName(archive_entry* entry) {
  const char* const name = archive_entry_pathname(entry);
  return name != nullptr ? name : archive_entry_pathname_utf8(entry);
}

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

}  // namespace shardkit::foreign
