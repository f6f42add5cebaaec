#include "container/foreign/archive_input.h"

#include <algorithm>
#include <cerrno>

#include "base/errors.h"
#include "base/exceptions.h"

namespace shardkit::container {

ArchiveInput::ArchiveInput(const RandomAccessFile& file, size_t least_read, size_t most_read, uint64_t begin)
    : file_(file),
      least_read_(least_read),
      buffer_(most_read),
      position_(std::min(begin, file.size())),
      next_(least_read) {}

void ArchiveInput::Attach(archive* reader) {
  archive_read_set_read_callback(reader, Read);
  archive_read_set_skip_callback(reader, Skip);
  archive_read_set_callback_data(reader, this);
}

la_ssize_t ArchiveInput::Read(archive* reader, void* data, const void** out) {
  auto* const self = static_cast<ArchiveInput*>(data);
  const size_t length = static_cast<size_t>(std::min<uint64_t>(self->next_, self->file_.size() - self->position_));
  *out = self->buffer_.data();
  // libarchive is C: no exception may pass through it.
  self->error_.Update(Guarded("reading an archive", [&] {
    return self->file_.ReadAt(self->position_, {self->buffer_.data(), length});
  }));
  if (!self->error_.ok()) {
    archive_set_error(reader, EIO, "read error");
    return ARCHIVE_FATAL;
  }
  self->position_ += length;
  self->next_ = std::min(2 * self->next_, self->buffer_.size());
  return static_cast<la_ssize_t>(length);
}

la_int64_t ArchiveInput::Skip(archive* /*reader*/, void* data, la_int64_t request) {
  auto* const self = static_cast<ArchiveInput*>(data);
  const uint64_t wanted = request < 0 ? 0 : static_cast<uint64_t>(request);
  const uint64_t length = std::min<uint64_t>(wanted, self->file_.size() - self->position_);
  // What costs less than another request is read along; libarchive discards it.
  if (length <= self->file_.hints().bridge_gap_bytes) return 0;
  self->position_ += length;
  if (length > 0) self->next_ = self->least_read_;
  return static_cast<la_int64_t>(length);
}

absl::Status ArchiveInput::Describe(archive* reader, std::string_view where) const {
  if (!error_.ok()) return error_;
  const char* const text = archive_error_string(reader);
  const std::string_view what = text != nullptr ? text : "damaged or cut off";
  if (archive_errno(reader) == ENOMEM) return ResourceExhausted(path(), ": ", where, ": ", what);
  return DataLoss(path(), ": ", where, ": ", what);
}

const char* ArchiveName(archive_entry* entry) {
  const char* const name = archive_entry_pathname(entry);
  return name != nullptr ? name : archive_entry_pathname_utf8(entry);
}

}  // namespace shardkit::container
