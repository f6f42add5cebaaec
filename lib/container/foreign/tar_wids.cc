#include "container/foreign/tar_wids.h"

#include <string>
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "container/foreign/tar_archive.h"
#include "format/foreign/tar_index_layout.h"
#include "format/foreign/webdataset_names.h"

namespace shardkit::container {
namespace {

// Fields of the header right before a member's data. wids reads only this header; libarchive also applies the extension
// headers before it.
constexpr size_t kNameBytes = 100;
constexpr size_t kTypeOffset = 156;

// Of a header that wids passes over.
constexpr char kUnseenType = '1';

// The largest number with eleven octal digits.
constexpr uint64_t kMostBytes = (uint64_t{1} << 33) - 1;

// Counts samples by one rule: a member begins a sample unless it has the key of the member before.
class Grouping {
 public:
  // Returns whether the member is the first of a sample.
  bool Add(std::string_view key) {
    const bool first = !started_ || last_key_ != key;
    started_ = true;
    last_key_ = key;
    count_ += first ? 1 : 0;
    return first;
  }
  uint64_t count() const { return count_; }

 private:
  bool started_ = false;
  std::string last_key_;
  uint64_t count_ = 0;
};

class Comparison {
 public:
  // Returns what differs, or empty. `name` and `type` are what wids reads of the member.
  std::string_view Add(const TarHeader& header, std::string_view name, char type) {
    const auto ours = header.regular ? format::SplitWebDatasetName(header.name) : std::nullopt;
    const bool seen = !name.empty() && (type == '0' || type == '\0');
    const auto theirs = seen ? format::SplitWidsName(name) : std::nullopt;
    const bool ours_first = ours && webdataset_.Add(ours->key);
    const bool theirs_first = theirs && wids_.Add(theirs->key);
    if (ours && !theirs) return "is passed over by wids";
    if (theirs && !ours) return "is a part of a sample for wids, and for webdataset it is none";
    if (ours_first != theirs_first)
      return "begins a sample by one of the two rules only, for wids takes its name for another";
    if (!ours) return {};
    if (!ValidUtf8(name)) return "has a name that is not UTF-8, which wids does not read";
    if (header.length > kMostBytes) return "has 8 GiB or more, which wids does not read";
    if (!names_.emplace(name).second) return "has the name of a member before, which wids takes for the same";
    return {};
  }
  uint64_t wids_samples() const { return wids_.count(); }

 private:
  Grouping webdataset_, wids_;
  absl::flat_hash_set<std::string> names_;
};

}  // namespace

absl::StatusOr<WidsView> ViewAsWids(const RandomAccessFile& file) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto headers, TarHeaders::Open(file, TarCompression::kNone));
  WidsView view;
  Comparison comparison;
  TarHeader header;
  bool behind = false;  // an end mark, where wids stops
  char bytes[format::kTarBlockBytes];
  while (true) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, headers->Next(&header));
    if (!more) break;
    if (!header.regular || header.sparse) continue;
    SHARDKIT_RETURN_IF_ERROR(file.ReadAt(header.offset - format::kTarBlockBytes, bytes));
    std::string_view name(bytes, kNameBytes);
    name = name.substr(0, name.find('\0'));
    behind = behind || header.after_end_mark;
    const char type = header.link || behind ? kUnseenType : bytes[kTypeOffset];
    const std::string_view difference = comparison.Add(header, name, type);
    if (!difference.empty() && !view.difference) {
      view.difference = TarProblem{header.name, header.header_offset, std::string(difference)};
    }
  }
  view.samples = comparison.wids_samples();
  return view;
}

}  // namespace shardkit::container
