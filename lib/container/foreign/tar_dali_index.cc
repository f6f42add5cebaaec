#include "container/foreign/tar_dali_index.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "base/checked.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "container/foreign/tar_sample_grouper.h"
#include "format/foreign/webdataset_names.h"

namespace shardkit::container {
namespace {

using format::DaliMember;
using format::DaliSample;
using format::kTarBlockBytes;
using format::TarIndex;
using format::TarValue;

constexpr uint64_t kMaxDaliIndexBytes = uint64_t{8} << 30;
constexpr std::string_view kTarEnding = ".tar";

std::string DaliIndexAdvice(const std::string& tar) {
  return StrCat("; run shardctl index --dali ", tar, ", or remove it");
}

// Adds path and advice to an error of the index. An error of the tar itself begins with the tar's path and stays as it
// is.
absl::Status OfIndex(const absl::Status& status, const std::string& index_path, const std::string& tar) {
  if (status.ok() || absl::StartsWith(status.message(), ToAbsl(tar))) return status;
  const bool named = absl::StartsWith(status.message(), ToAbsl(index_path));
  return absl::Status(status.code(), ToAbsl(StrCat(named ? "" : index_path, named ? "" : ": ", ToStd(status.message()),
                                                   DaliIndexAdvice(tar))));
}

// The text of the index; empty when there is no index of this version.
absl::StatusOr<std::optional<std::string>> ReadIndex(ReadableFileSystem& file_system, const std::string& index_path) {
  if (index_path.empty()) return std::nullopt;
  absl::StatusOr<std::string> text = file_system.ReadFile(index_path, kMaxDaliIndexBytes);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  if (!text.ok()) return text.status();
  if (!format::IsDaliIndex(*text)) return std::nullopt;
  return std::optional<std::string>(*std::move(text));
}

// Checks that each member lies in the tar, after the member before it and with room for its header.
class PlaceChecker {
 public:
  explicit PlaceChecker(uint64_t tar_length) : tar_length_(tar_length) {}

  absl::Status Add(const DaliMember& member) {
    if (member.offset % kTarBlockBytes != 0) {
      return DataLoss("the data of '", member.name, "' would begin at byte ", member.offset,
                      ", which is no multiple of 512");
    }
    if (member.offset < end_ + kTarBlockBytes) {
      return DataLoss("the data of '", member.name, "' would begin at byte ", member.offset,
                      ", within the member before, which ends at ", end_);
    }
    if (!RangeWithin(member.offset, member.length, tar_length_)) {
      return DataLoss("the ", member.length, " bytes of '", member.name, "' at byte ", member.offset,
                      " would pass the end of the tar, which has ", tar_length_);
    }
    end_ = RoundUp(member.offset + member.length, kTarBlockBytes);
    return absl::OkStatus();
  }

 private:
  const uint64_t tar_length_;
  uint64_t end_ = 0;
};

absl::Status ParseInto(std::string_view text, const std::string& index_path, uint64_t tar_length, TarIndex* index) {
  PlaceChecker places(tar_length);
  TarSampleGrouper builder(index_path, index);
  return format::ParseDaliIndex(text, [&](uint64_t line, const DaliMember& member) {
    if (absl::Status status = places.Add(member); !status.ok()) return Annotate(status, StrCat("line ", line));
    TarHeader header;
    header.name = member.name;
    header.regular = true;
    header.header_offset = member.offset - kTarBlockBytes;
    header.offset = member.offset;
    header.length = member.length;
    return builder.Add(header);
  });
}

absl::Status CheckMembers(const RandomAccessFile& file, const TarContents& contents, uint64_t value, uint64_t end_value,
                          bool to_end) {
  const TarIndex& index = contents.index;
  const auto has_key = [&](std::string_view stored, uint64_t sample) {
    return contents.escaped_keys ? format::UnescapeWebDatasetKey(stored) == index.key(sample)
                                 : stored == index.key(sample);
  };
  const auto end_of = [&](uint64_t i) {
    return RoundUp(index.values[i].offset + index.values[i].length, kTarBlockBytes);
  };
  SHARDKIT_ASSIGN_OR_RETURN(const auto headers,
                            TarHeaders::Open(file, TarCompression::kNone, value == 0 ? 0 : end_of(value - 1)));
  TarHeader header;
  auto sample = static_cast<uint64_t>(std::ranges::upper_bound(index.value_ends, value) - index.value_ends.begin()) - 1;
  while (value < end_value || to_end) {
    if (value < end_value && index.value_ends[sample + 1] == value) ++sample;
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, headers->Next(&header));
    if (!more) {
      if (value == end_value) return absl::OkStatus();
      const TarValue& missing = index.values[value];
      return DataLoss("says that '", index.key(sample), ".", index.columns[missing.column], "' has data at byte ",
                      missing.offset, ", but ", file.path(), " ends before");
    }
    // DALI leaves links out. Without what lies before this place it is not known whether one can be followed.
    const bool seen = header.regular || header.link;
    const auto name = seen ? format::SplitWebDatasetName(header.name) : std::nullopt;
    if (!name) continue;
    if (value == end_value) {
      return DataLoss("does not have member '", header.name, "', which is at byte ", header.header_offset, " of ",
                      file.path());
    }
    const TarValue& expected = index.values[value++];
    if (header.offset == expected.offset && header.length == expected.length && has_key(name->key, sample) &&
        format::WebDatasetColumn(name->extension) == index.columns[expected.column]) {
      continue;
    }
    return DataLoss("has '", index.key(sample), ".", index.columns[expected.column], "', ", expected.length,
                    " bytes at byte ", expected.offset, ", where ", file.path(), " has member '", header.name, "', ",
                    header.length, " bytes at byte ", header.offset, ": it is of another tar, or the tar was changed");
  }
  return absl::OkStatus();
}

std::string Describe(const DaliMember& member) {
  return StrCat("'", member.name, "', ", member.length, " bytes at byte ", member.offset);
}

}  // namespace

std::string DaliIndexPath(const std::string& path) {
  if (!path.ends_with(kTarEnding)) return {};
  return StrCat(path.substr(0, path.size() - kTarEnding.size()), kDaliIndexSuffix);
}

absl::StatusOr<bool> LoadDaliContents(ReadableFileSystem& file_system, const RandomAccessFile& file,
                                      TarContents* contents) {
  const std::string index_path = DaliIndexPath(file.path());
  SHARDKIT_ASSIGN_OR_RETURN(const std::optional<std::string> text, ReadIndex(file_system, index_path));
  if (!text) return false;
  contents->index.tar_length = file.size();
  contents->dali_index = index_path;
  SHARDKIT_RETURN_IF_ERROR(
      OfIndex(ParseInto(*text, index_path, file.size(), &contents->index), index_path, file.path()));
  const uint64_t count = contents->index.values.size();
  SHARDKIT_RETURN_IF_ERROR(CheckTarMembers(file, *contents, 0, std::min<uint64_t>(count, 1), /*to_end=*/count == 0));
  if (count > 0) SHARDKIT_RETURN_IF_ERROR(CheckTarMembers(file, *contents, count - 1, count, /*to_end=*/true));
  return true;
}

absl::Status CheckTarMembers(const RandomAccessFile& file, const TarContents& contents, uint64_t first_value,
                             uint64_t end_value, bool to_end) {
  absl::Status status = CheckMembers(file, contents, first_value, end_value, to_end);
  if (absl::IsDataLoss(status) && absl::StartsWith(status.message(), ToAbsl(file.path()))) {
    // When there is no header at that place, either the index or the tar may be wrong.
    return DataLoss(ToStd(status.message()), "; or ", contents.dali_index, " is of another tar",
                    DaliIndexAdvice(file.path()));
  }
  return OfIndex(status, contents.dali_index, file.path());
}

absl::StatusOr<DaliView> FindDaliSamples(const RandomAccessFile& file) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto headers, TarHeaders::Open(file, TarCompression::kNone));
  DaliView view;
  std::string last_stem;
  TarHeader header;
  bool behind = false;  // an end mark
  while (true) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, headers->Next(&header));
    if (!more) return view;
    if (!header.regular) continue;
    const bool of_sample = format::SplitWebDatasetName(header.name).has_value();
    behind = behind || header.after_end_mark;
    if (behind || header.link) {
      if (of_sample) {
        view.missing.push_back(
            {header.name, header.header_offset,
             behind ? "lies behind an end mark, where DALI stops" : "is a link, which DALI leaves out"});
      }
      continue;
    }
    const format::DaliName name = format::SplitDaliName(header.name);
    if (format::IsHiddenForDali(name)) {
      if (of_sample)
        view.missing.push_back({header.name, header.header_offset, "is hidden for DALI, which would leave it out"});
      continue;
    }
    if (!of_sample)
      view.additional.push_back({header.name, header.header_offset, "is no part of a sample, but is one for DALI"});
    if (view.samples.empty() || last_stem != name.stem) {
      view.samples.emplace_back();
      last_stem = name.stem;
    }
    view.samples.back().members.push_back({std::string(name.extension), header.offset, header.length, header.name});
  }
}

absl::Status CheckDaliIndex(ReadableFileSystem& file_system, const RandomAccessFile& file,
                            const std::function<void(std::string)>& report) {
  const std::string index_path = DaliIndexPath(file.path());
  SHARDKIT_ASSIGN_OR_RETURN(const std::optional<std::string> text, ReadIndex(file_system, index_path));
  if (!text) return absl::OkStatus();
  SHARDKIT_ASSIGN_OR_RETURN(const DaliView view, FindDaliSamples(file));
  const std::vector<DaliSample>& samples = view.samples;
  size_t sample = 0, member = 0;
  absl::Status status = format::ParseDaliIndex(*text, [&](uint64_t line, const DaliMember& listed) -> absl::Status {
    if (sample < samples.size() && member == samples[sample].members.size()) ++sample, member = 0;
    if (sample == samples.size()) return DataLoss("line ", line, ": ", Describe(listed), " is not in ", file.path());
    const DaliMember& found = samples[sample].members[member++];
    if (listed == found) return absl::OkStatus();
    return DataLoss("line ", line, ": ", Describe(listed), ", but ", file.path(), " has ", Describe(found));
  });
  if (status.ok() && sample < samples.size() && member == samples[sample].members.size()) ++sample, member = 0;
  if (status.ok() && sample < samples.size()) {
    status = DataLoss("does not have ", Describe(samples[sample].members[member]), ", of ", file.path());
  }
  status = OfIndex(status, index_path, file.path());
  if (!absl::IsDataLoss(status)) return status;
  report(std::string(ToStd(status.message())));
  return absl::OkStatus();
}

}  // namespace shardkit::container
