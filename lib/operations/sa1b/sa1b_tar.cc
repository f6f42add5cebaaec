#include "operations/sa1b/sa1b_tar.h"

#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "foreign/webdataset/webdataset_names.h"
#include "operations/sources/source_names.h"

namespace shardkit::operations {

Sa1bRole RoleOfName(std::string_view base_name) {
  const NameParts parts = DivideName(base_name, NameSplit::kLastDot);
  if (parts.has_dot && parts.rest == "jpg") return Sa1bRole::kImage;
  if (parts.has_dot && parts.rest == "json") return Sa1bRole::kJson;
  return Sa1bRole::kNeither;
}

absl::StatusOr<std::unique_ptr<Sa1bTar>> Sa1bTar::Open(const std::string& path, const SourceOptions& options,
                                                       bool headers_only, PassedOver* passed_over) {
  std::unique_ptr<Sa1bTar> tar(new Sa1bTar(path, options, headers_only));
  SHARDKIT_ASSIGN_OR_RETURN(tar->reader_, TarMembers::OpenDamaged(path, options, passed_over, &tar->damage_));
  return tar;
}

absl::Status Sa1bTar::CheckMember(const TarMember& member) const {
  const auto check = [&]() -> absl::Status {
    SHARDKIT_RETURN_IF_ERROR(foreign::CheckMemberName(member.name));
    if (member.kind != TarMember::Kind::kFile) {
      return InvalidArgument("is ", member.what, "; only regular files can be packed");
    }
    SHARDKIT_RETURN_IF_ERROR(CheckKey(member.name));
    if (RoleOfName(BasePart(member.name)) == Sa1bRole::kNeither) {
      return InvalidArgument("neither .jpg nor .json: not a file of SA-1B");
    }
    return absl::OkStatus();
  };
  return Annotate(check(), StrCat(path_, ": member '", member.name, "'"));
}

absl::Status Sa1bTar::TooMuchPending(const std::string& name) const {
  return ResourceExhausted(path_, ": member '", name, "': ", pending_bytes_, " bytes of files wait for the other half ",
                           "of their pair, the first being '", pending_order_.begin()->second,
                           "': extract the tar and pack the directory, or raise the limit of ",
                           options_.pending_pair_bytes, " bytes");
}

absl::StatusOr<Sa1bFile> Sa1bTar::Read(const TarMember& member) {
  Sa1bFile half;
  half.present = true;
  half.name = member.name;
  half.ordinal = member.ordinal;
  if (headers_only_) return half;
  arena_.Clear();
  // Annotations are converted in memory whatever their size.
  const bool image = RoleOfName(BasePart(member.name)) == Sa1bRole::kImage;
  SHARDKIT_ASSIGN_OR_RETURN(Value value, reader_->Read(member, image ? options_.stream_above : UINT64_MAX, &arena_));
  half.file = std::move(value.file);
  half.bytes.assign(value.bytes);
  return half;
}

absl::StatusOr<bool> Sa1bTar::Take(const TarMember& member, Sa1bPair* pair) {
  *pair = {};
  pair->key = member.name;
  pair->status = CheckMember(member);
  if (!pair->status.ok()) return true;

  const bool image = RoleOfName(BasePart(member.name)) == Sa1bRole::kImage;
  std::string key = member.name.substr(0, member.name.rfind('.'));
  if (const auto before = whole_.Find(key)) {
    pair->status =
        InvalidArgument(path_, ": member '", member.name, "' (number ", member.ordinal,
                        ") belongs to a pair that was complete before; it began with member number ", *before);
    return true;
  }
  Sa1bPair& waiting = pending_[key];
  Sa1bFile& half = image ? waiting.image : waiting.json;
  const bool first = !waiting.image.present && !waiting.json.present;
  if (half.present) {
    pair->status = InvalidArgument(path_, ": member '", member.name, "' (number ", member.ordinal,
                                   ") appears twice, first as number ", half.ordinal);
    return true;
  }
  auto read = Read(member);
  if (!read.ok()) {
    if (first) pending_.erase(key);
    const bool local = absl::IsResourceExhausted(read.status()) || absl::IsUnimplemented(read.status());
    if (!local) return read.status();
    pair->status = read.status();
    return true;
  }
  half = *std::move(read);
  if (first) {
    pending_bytes_ += half.held();
    pending_order_.emplace(member.ordinal, std::move(key));
    if (pending_bytes_ > options_.pending_pair_bytes) return TooMuchPending(member.name);
    return false;
  }
  *pair = std::move(waiting);
  pending_.erase(key);
  const Sa1bFile& other = image ? pair->json : pair->image;
  pending_bytes_ -= other.held();
  pending_order_.erase(other.ordinal);
  whole_.Insert(key, other.ordinal);
  pair->key = std::move(key);
  return true;
}

absl::Status Sa1bTar::EndHere(const absl::Status& status, std::string key, Sa1bPair* pair) {
  if (!absl::IsDataLoss(status) && damage_.ok()) return status;
  at_end_ = true;
  *pair = {};
  pair->key = std::move(key);
  pair->status = foreign::CutAfter(status, pairs_);
  return absl::OkStatus();
}

absl::StatusOr<bool> Sa1bTar::Next(Sa1bPair* pair) {
  TarMember member;
  while (!at_end_) {
    const absl::StatusOr<bool> more = damage_.ok() ? reader_->Next(&member) : damage_;
    if (!more.ok()) {
      SHARDKIT_RETURN_IF_ERROR(EndHere(more.status(), std::string(BasePart(path_)), pair));
      return true;
    }
    if (!*more) {
      at_end_ = true;
      break;
    }
    if (member.kind == TarMember::Kind::kDirectory) continue;
    const absl::StatusOr<bool> ready = Take(member, pair);
    if (!ready.ok()) {
      SHARDKIT_RETURN_IF_ERROR(EndHere(ready.status(), member.name, pair));
      return true;
    }
    if (!*ready) continue;
    if (pair->status.ok()) ++pairs_;
    return true;
  }
  if (pending_order_.empty()) return false;
  const auto first = pending_order_.begin();
  const auto found = pending_.find(first->second);
  *pair = std::move(found->second);
  const bool image = pair->image.present;
  pair->key = first->second;
  pair->status = NotFound(path_, ": member '", (image ? pair->image : pair->json).name, "': the tar has no '",
                          first->second, image ? ".json" : ".jpg", "' to go with it");
  pending_.erase(found);
  pending_order_.erase(first);
  return true;
}

}  // namespace shardkit::operations
