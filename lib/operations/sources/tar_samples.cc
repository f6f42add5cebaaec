#include "operations/sources/tar_samples.h"

#include "base/endian.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "foreign/webdataset/webdataset_names.h"
#include "operations/sources/source_names.h"

namespace shardkit::operations {

// Directory and stem.
std::string_view TarSamples::KeyOf(std::string_view name) const {
  return name.substr(0, DirectoryPart(name).size() + DivideName(BasePart(name), split_).stem.size());
}

std::pair<uint64_t, uint64_t> SeenKeys::Hash(std::string_view key) {
  const Hash128Bytes hash = Hash128(key);
  return {LoadLittle<uint64_t>(hash.data()), LoadLittle<uint64_t>(hash.data() + 8)};
}

std::optional<uint64_t> SeenKeys::Insert(std::string_view key, uint64_t ordinal) {
  if (members_.size() >= most_) return Find(key);
  const auto [found, inserted] = members_.try_emplace(Hash(key), ordinal);
  return inserted ? std::nullopt : std::optional(found->second);
}

std::optional<uint64_t> SeenKeys::Find(std::string_view key) const {
  const auto found = members_.find(Hash(key));
  return found == members_.end() ? std::nullopt : std::optional(found->second);
}

absl::StatusOr<std::unique_ptr<TarSamples>> TarSamples::Open(const std::string& path, const SourceOptions& options,
                                                             bool headers_only, PassedOver* passed_over) {
  std::unique_ptr<TarSamples> samples(new TarSamples());
  samples->path_ = path;
  samples->stream_above_ = options.stream_above;
  samples->headers_only_ = headers_only;
  samples->split_ = SplitOf(options);
  SHARDKIT_ASSIGN_OR_RETURN(samples->reader_, TarMembers::OpenDamaged(path, options, passed_over, &samples->damage_));
  return samples;
}

// Moves to the next member that is not a directory.
absl::Status TarSamples::Advance() {
  TarMember member;
  do {
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, reader_->Next(&member));
    if (!more) {
      member_.reset();
      return absl::OkStatus();
    }
  } while (member.kind == TarMember::Kind::kDirectory);
  member_ = std::move(member);
  return absl::OkStatus();
}

absl::Status TarSamples::CheckMember(const TarSample& sample, std::string_view column) const {
  SHARDKIT_RETURN_IF_ERROR(foreign::CheckMemberName(member_->name));
  if (member_->kind == TarMember::Kind::kOther) {
    return InvalidArgument("is ", member_->what, "; only regular files can be packed");
  }
  SHARDKIT_RETURN_IF_ERROR(CheckKey(sample.key));
  SHARDKIT_RETURN_IF_ERROR(CheckExtension(column));
  for (const TarValue& value : sample.values) {
    if (value.column == column) {
      return InvalidArgument("there is another member '", member_->name, "' in front of it (this is number ",
                             member_->ordinal, ")");
    }
  }
  return absl::OkStatus();
}

absl::Status TarSamples::Take(ByteArena* arena, TarSample* sample) {
  const std::string_view name = arena->Copy(member_->name);
  const std::string_view column = ColumnOfFile(DivideName(BasePart(name), split_), split_);
  if (absl::Status status = CheckMember(*sample, column); !status.ok()) {
    if (sample->status.ok()) sample->status = Annotate(status, StrCat(path_, ": member '", name, "'"));
    return absl::OkStatus();
  }
  TarValue value;
  value.column = column;
  value.extension = LastExtension(BasePart(name));
  if (!headers_only_ && sample->status.ok()) {
    auto read = reader_->Read(*member_, stream_above_, arena);
    if (!read.ok()) {
      // Data that is too large to hold fails only this sample. Damage affects everything after it.
      const bool local = absl::IsResourceExhausted(read.status()) || absl::IsUnimplemented(read.status());
      if (!local) return read.status();
      sample->status = read.status();
      return absl::OkStatus();
    }
    value.value = *std::move(read);
  }
  sample->values.push_back(std::move(value));
  return absl::OkStatus();
}

absl::Status TarSamples::EndHere(const absl::Status& status, TarSample* sample) {
  if (!absl::IsDataLoss(status) && damage_.ok()) return status;
  sample->status = foreign::CutAfter(status, whole_);
  member_.reset();
  return absl::OkStatus();
}

absl::StatusOr<bool> TarSamples::Next(ByteArena* arena, TarSample* sample) {
  *sample = {};
  if (!started_) {
    started_ = true;
    const absl::Status status = damage_.ok() ? Advance() : damage_;
    if (!status.ok()) {
      sample->key = arena->Copy(BasePart(path_));
      SHARDKIT_RETURN_IF_ERROR(EndHere(status, sample));
      return true;
    }
  }
  if (!member_) return false;
  sample->key = arena->Copy(KeyOf(member_->name));
  if (const std::optional<uint64_t> before = seen_.Insert(sample->key, member_->ordinal)) {
    sample->status =
        InvalidArgument(path_, ": member '", member_->name, "' (number ", member_->ordinal, ") has the key '",
                        sample->key, "' of the sample that began with member number ", *before,
                        " and had ended: the files of a sample must stand next to each other, each once");
  }
  do {
    absl::Status status = Take(arena, sample);
    if (status.ok()) status = Advance();
    if (!status.ok()) {
      SHARDKIT_RETURN_IF_ERROR(EndHere(status, sample));
      return true;
    }
  } while (member_ && KeyOf(member_->name) == sample->key);
  if (sample->status.ok()) ++whole_;
  return true;
}

}  // namespace shardkit::operations
