#include "foreign/webdataset/tar_shard_writer.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/buffer.h"
#include "base/checked.h"
#include "base/errors.h"
#include "base/exceptions.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "foreign/webdataset/tar_index.h"
#include "foreign/webdataset/tar_samples.h"
#include "foreign/webdataset/webdataset_names.h"
#include "io/publish_file.h"
#include "shardkit/schema.h"
#include "shardkit/tar_index.h"

namespace shardkit::foreign {
namespace {

// Tars consist of records of 20 blocks. Writing a hundred records at once saves system calls.
constexpr int kRecordBytes = 10240;
constexpr int kWriteBytes = 100 * kRecordBytes;

// The longest name that fits in a member's header.
constexpr size_t kPlainNameBytes = 100;

constexpr uint64_t kTarWritebackInterval = uint64_t{16} << 20;

struct WriterDeleter {
  void operator()(archive* writer) const { archive_write_free(writer); }
};
struct EntryDeleter {
  void operator()(archive_entry* entry) const { archive_entry_free(entry); }
};

}  // namespace

struct TarShardWriter::State {
  FileSystem* file_system = nullptr;
  std::string path;
  std::string temporary_path;
  std::unique_ptr<WritableFile> file;
  absl::Status error;       // of the file; libarchive does not pass it on
  std::string first, last;  // up to kTarIdentityBytes of what was written
  uint64_t since_writeback = 0;
  std::unique_ptr<archive_entry, EntryDeleter> entry;
  TarIndex index;
  absl::flat_hash_map<std::string, uint32_t> columns;  // from name to number in the index
  std::string name;                                    // scratch
  Buffer piece;
  std::unique_ptr<archive, WriterDeleter> writer;  // last, so that it is freed first, while the file is open

  static la_ssize_t Write(archive* writer, void* data, const void* bytes, size_t length) {
    auto* const self = static_cast<State*>(data);
    // Freeing the archive writes its rest. After Abort these bytes are dropped.
    if (self->file == nullptr || !self->error.ok()) return static_cast<la_ssize_t>(length);
    self->error = self->file->Append({static_cast<const char*>(bytes), length});
    if (!self->error.ok()) {
      archive_set_error(writer, EIO, "write error");
      return -1;
    }
    self->KeepEnds({static_cast<const char*>(bytes), length});
    self->since_writeback += length;
    if (self->since_writeback >= kTarWritebackInterval) {
      self->file->StartWriteback();
      self->since_writeback = 0;
    }
    return static_cast<la_ssize_t>(length);
  }

  void KeepEnds(std::string_view bytes) {
    first += bytes.substr(0, kTarIdentityBytes - first.size());
    last += bytes.substr(bytes.size() - std::min<size_t>(bytes.size(), kTarIdentityBytes));
    last.erase(0, last.size() - std::min<size_t>(last.size(), kTarIdentityBytes));
  }

  absl::Status Error() const {
    if (!error.ok()) return error;
    const char* const text = archive_error_string(writer.get());
    if (archive_errno(writer.get()) == ENOMEM) return ResourceExhausted(path, ": no memory to write a tar");
    return Internal(path, ": ", text != nullptr ? text : "the tar cannot be written");
  }

  absl::Status WriteData(std::string_view bytes) {
    while (!bytes.empty()) {
      const la_ssize_t written = archive_write_data(writer.get(), bytes.data(), bytes.size());
      if (written <= 0) return Error();
      bytes.remove_prefix(static_cast<size_t>(written));
    }
    return absl::OkStatus();
  }

  absl::Status WriteMember(const NamedTarValue& member, const Cancellation* cancellation);
  absl::Status Check(std::string_view key, std::span<const NamedTarValue> members) const;
};

// Check has accepted the sample, so an error here comes from a file.
absl::Status TarShardWriter::State::WriteMember(const NamedTarValue& member, const Cancellation* cancellation) {
  archive_entry* const header = archive_entry_clear(entry.get());
  archive_entry_set_pathname(header, name.c_str());
  archive_entry_set_size(header, static_cast<la_int64_t>(member.value.length()));
  archive_entry_set_filetype(header, AE_IFREG);
  archive_entry_set_perm(header, 0644);
  archive_entry_set_mtime(header, 0, 0);
  if (archive_write_header(writer.get(), header) != ARCHIVE_OK) return Error();
  const uint64_t offset = static_cast<uint64_t>(archive_filter_bytes(writer.get(), 0));
  StreamingHash hash;
  if (member.value.file) {
    const uint64_t size = member.value.file->size();
    for (uint64_t done = 0; done < size;) {
      if (cancellation != nullptr) SHARDKIT_RETURN_IF_ERROR(cancellation->Check("copying a large value"));
      piece.resize_discard(std::min(kCopyPiece, size - done));
      SHARDKIT_RETURN_IF_ERROR(member.value.file->ReadAt(done, {piece.data(), piece.size()}));
      hash.Update(piece.view());
      SHARDKIT_RETURN_IF_ERROR(WriteData(piece.view()));
      done += piece.size();
    }
  } else {
    hash.Update(member.value.bytes);
    SHARDKIT_RETURN_IF_ERROR(WriteData(member.value.bytes));
  }
  if (archive_write_finish_entry(writer.get()) != ARCHIVE_OK) return Error();
  std::string column = WebDatasetColumn(member.extension);
  const auto [found, added] = columns.try_emplace(column, static_cast<uint32_t>(columns.size()));
  if (added) index.columns.push_back(std::move(column));
  index.values.push_back({offset, member.value.length(), found->second});
  index.checksums.push_back(hash.Digest());
  return absl::OkStatus();
}

absl::Status TarShardWriter::State::Check(std::string_view key, std::span<const NamedTarValue> members) const {
  const auto refuse = [&](const auto&... parts) { return InvalidArgument("key \"", key, "\": ", parts...); };
  if (members.empty()) return refuse("a sample without values has no place in a tar");
  if (key.size() > kMaxTarKeyBytes) return refuse("has ", key.size(), " bytes, more than ", kMaxTarKeyBytes);
  if (index.sample_count() > 0 && index.key(index.sample_count() - 1) == key) {
    return refuse("is also that of the sample before it: in a tar the two would be one");
  }
  size_t added = 0;
  for (const NamedTarValue& member : members) {
    const std::string member_name = StrCat(key, ".", member.extension);
    if (member_name.find('\0') != member_name.npos) return refuse("a name in a tar cannot hold a zero byte");
    const auto parts = SplitWebDatasetName(member_name);
    if (!parts) return refuse("\"", member_name, "\" is passed over when a WebDataset is read");
    if (parts->key != key || parts->extension != member.extension) {
      return refuse("\"", member_name, "\" would be read as key \"", parts->key, "\", extension \"", parts->extension,
                    "\": the key ends at the first dot of the name's last part");
    }
    const absl::Status unpacked = CheckMemberName(member_name);
    if (!unpacked.ok()) return refuse("\"", member_name, "\": ", ToStd(unpacked.message()));
    const std::string column = WebDatasetColumn(member.extension);
    if (column.size() > kMaxColumnNameBytes) return refuse("an extension of ", column.size(), " bytes");
    added += columns.contains(column) ? 0 : 1;
    for (const NamedTarValue& before : members.first(static_cast<size_t>(&member - members.data()))) {
      if (WebDatasetColumn(before.extension) == column) return refuse("extension \"", column, "\" occurs twice");
    }
  }
  if (columns.size() + added > kMaxColumns - 1)
    return refuse("more than ", kMaxColumns - 1, " different extensions in one tar");
  if (index.values.size() + members.size() > kMaxTarValues)
    return refuse("more than ", kMaxTarValues, " values in one tar");
  return absl::OkStatus();
}

TarShardWriter::TarShardWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}

TarShardWriter::~TarShardWriter() {
  (void)Guarded("giving up", [this] { return Abort(); });
}

absl::StatusOr<std::unique_ptr<TarShardWriter>> TarShardWriter::Create(FileSystem& file_system,
                                                                       const std::string& path) {
  auto state = std::make_unique<State>();
  state->file_system = &file_system;
  state->path = path;
  state->temporary_path = StrCat(path, ".tmp");
  state->writer.reset(archive_write_new());
  state->entry.reset(archive_entry_new());
  archive* const writer = state->writer.get();
  if (writer == nullptr || !state->entry) return ResourceExhausted(path, ": no memory to write a tar");
  // The GNU format keeps the bytes of names as they are, in every locale. Readers that do not know pax headers can read
  // it.
  archive_write_set_format_gnutar(writer);
  archive_write_set_bytes_per_block(writer, kWriteBytes);
  archive_write_set_bytes_in_last_block(writer, kRecordBytes);
  SHARDKIT_ASSIGN_OR_RETURN(state->file, file_system.CreateForStreaming(state->temporary_path));
  std::unique_ptr<TarShardWriter> out(new TarShardWriter(std::move(state)));
  if (archive_write_open(writer, out->state_.get(), nullptr, State::Write, nullptr) != ARCHIVE_OK)
    return out->state_->Error();
  return out;
}

absl::Status TarShardWriter::Append(std::string_view key, std::span<const NamedTarValue> members,
                                    const Cancellation* cancellation) {
  State& state = *state_;
  SHARDKIT_RETURN_IF_ERROR(state.Check(key, members));
  for (const NamedTarValue& member : members) {
    state.name.assign(key).append(".").append(member.extension);
    const absl::Status status = state.WriteMember(member, cancellation);
    // InvalidArgument would blame the sample, which Check has accepted.
    if (absl::IsInvalidArgument(status)) return Internal(ToStd(status.message()));
    if (!status.ok()) return status;
  }
  state.index.keys += key;
  state.index.key_ends.push_back(state.index.keys.size());
  state.index.value_ends.push_back(state.index.values.size());
  return absl::OkStatus();
}

uint64_t TarShardWriter::sample_count() const { return state_->index.sample_count(); }

uint64_t TarShardWriter::LengthWith(std::string_view key, std::span<const NamedTarValue> members) const {
  uint64_t length = static_cast<uint64_t>(archive_filter_bytes(state_->writer.get(), 0));
  for (const NamedTarValue& member : members) {
    const uint64_t name = key.size() + 1 + member.extension.size();
    // A longer name is stored as a member of its own, with a zero byte at its end.
    if (name > kPlainNameBytes) length += kTarBlockBytes + RoundUp(name + 1, kTarBlockBytes);
    length += kTarBlockBytes + RoundUp(member.value.length(), kTarBlockBytes);
  }
  length += 2 * kTarBlockBytes;
  return (length + kRecordBytes - 1) / kRecordBytes * kRecordBytes;
}

absl::StatusOr<TarSummary> TarShardWriter::Finish(bool index) {
  State& state = *state_;
  if (archive_write_close(state.writer.get()) != ARCHIVE_OK) return state.Error();
  SHARDKIT_RETURN_IF_ERROR(state.error);
  TarSummary summary;
  summary.bytes = state.file->size();
  summary.samples = state.index.sample_count();
  SHARDKIT_RETURN_IF_ERROR(state.file->Sync());
  SHARDKIT_RETURN_IF_ERROR(state.file->Close());
  if (index) {
    state.index.tar_length = summary.bytes;
    state.index.identity = TarIdentity(state.first, state.last);
    // The index is published before the tar, so that a finished tar always has its index.
    SHARDKIT_ASSIGN_OR_RETURN(const std::string bytes, EncodeTarIndex(std::move(state.index)));
    SHARDKIT_RETURN_IF_ERROR(io::PublishFile(*state.file_system, StrCat(state.path, kTarIndexSuffix), bytes));
  }
  SHARDKIT_RETURN_IF_ERROR(state.file_system->Rename(state.temporary_path, state.path));
  state.file.reset();
  SHARDKIT_RETURN_IF_ERROR(state.file_system->SyncDirectory(io::ParentDirectory(state.path)));
  return summary;
}

absl::Status TarShardWriter::Abort() {
  State& state = *state_;
  if (!state.file) return absl::OkStatus();
  (void)state.file->Close();
  state.file.reset();
  return state.file_system->RemoveFile(state.temporary_path);
}

}  // namespace shardkit::foreign
