#include "foreign/webdataset/tar_dali_index.h"

#include "base/errors.h"
#include "base/status_macros.h"
#include "foreign/webdataset/tar_archive.h"
#include "foreign/webdataset/webdataset_names.h"

namespace shardkit::foreign {
namespace {

constexpr std::string_view kTarEnding = ".tar";

}  // namespace

std::string DaliIndexPath(const std::string& path) {
  if (!path.ends_with(kTarEnding)) return {};
  return StrCat(path.substr(0, path.size() - kTarEnding.size()), kDaliIndexSuffix);
}

absl::StatusOr<DaliView> FindDaliSamples(const RandomAccessFile& file) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto tar, TarReader::Open(file, TarCompression::kNone));
  DaliView view;
  std::string last_stem;
  TarMember member;
  bool behind = false;  // an end mark
  while (true) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, tar->Next(&member));
    if (!more) return view;
    if (member.kind != TarMember::Kind::kFile) continue;
    const bool of_sample = foreign::SplitWebDatasetName(member.name).has_value();
    behind = behind || member.after_end_mark;
    if (behind || member.link) {
      if (of_sample) {
        view.missing.push_back(
            {member.name, member.header_offset,
             behind ? "lies behind an end mark, where DALI stops" : "is a link, which DALI leaves out"});
      }
      continue;
    }
    const foreign::DaliName name = foreign::SplitDaliName(member.name);
    if (foreign::IsHiddenForDali(name)) {
      if (of_sample)
        view.missing.push_back({member.name, member.header_offset, "is hidden for DALI, which would leave it out"});
      continue;
    }
    if (!of_sample)
      view.additional.push_back({member.name, member.header_offset, "is no part of a sample, but is one for DALI"});
    if (view.samples.empty() || last_stem != name.stem) {
      view.samples.emplace_back();
      last_stem = name.stem;
    }
    SHARDKIT_ASSIGN_OR_RETURN(const std::optional<uint64_t> offset, tar->Locate());
    view.samples.back().members.push_back(
        {std::string(name.extension), offset.value_or(0), member.length, member.name});
  }
}

}  // namespace shardkit::foreign
