#include "dataset/repair/repair_header.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "format/block_header.h"
#include "format/chunk.h"
#include "io/publish_file.h"

namespace shardkit::dataset {
namespace {

// A header that might be the shard's.
struct Candidate {
  format::FileHeader header;
  bool alignment_known = false;
  std::string source;
};

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

absl::StatusOr<format::FileHeader> ReadHeader(const RandomAccessFile& file, uint64_t offset) {
  const uint64_t available = file.size() - offset;
  std::string bytes(std::min(available, format::kFileHeaderPrefix), '\0');
  SHARDKIT_RETURN_IF_ERROR(file.ReadAt(offset, {bytes.data(), bytes.size()}));
  SHARDKIT_ASSIGN_OR_RETURN(const uint64_t length, format::PeekFileHeaderLength(bytes));
  if (length > available) return DataLoss("header: the file ends at byte ", file.size(), " within the header");
  bytes.resize(length);
  SHARDKIT_RETURN_IF_ERROR(file.ReadAt(offset, {bytes.data(), bytes.size()}));
  return format::DecodeFileHeader(bytes);
}

// Whether `place` has a block header with a right checksum, with any columns. *read gets its bytes.
absl::StatusOr<bool> IsBlockHeader(const RandomAccessFile& file, uint64_t place, std::string* read) {
  std::string& bytes = *read;
  bytes.assign(12, '\0');
  if (!RangeWithin(place, bytes.size(), file.size())) return false;
  SHARDKIT_RETURN_IF_ERROR(file.ReadAt(place, {bytes.data(), bytes.size()}));
  const uint64_t length = LoadLittle<uint32_t>(bytes.data() + 8);
  if (length < format::BlockHeaderLength(1) || length > format::BlockHeaderLength(kMaxColumns) ||
      !RangeWithin(place, length, file.size())) {
    return false;
  }
  bytes.resize(length);
  SHARDKIT_RETURN_IF_ERROR(file.ReadAt(place, {bytes.data(), bytes.size()}));
  return Hash64(bytes.data(), length - 8) == LoadLittle<uint64_t>(bytes.data() + length - 8);
}

// Finds a whole header that lies before any block: bytes were inserted in front of the shard. A header after a block
// does not count, because it may belong to a shard within a value. Empty when there is none.
absl::StatusOr<std::optional<std::pair<uint64_t, format::FileHeader>>> FindMovedHeader(const RandomAccessFile& file) {
  constexpr uint64_t kWindow = uint64_t{1} << 20;
  constexpr int kMostTries = 1000;  // bytes that only begin like a header or a block
  std::string window;
  int tries = 0;
  for (uint64_t begin = format::kMinAlignment; begin + 8 <= file.size() && tries < kMostTries; begin += window.size()) {
    window.resize(std::min(kWindow, file.size() - begin));
    SHARDKIT_RETURN_IF_ERROR(file.ReadAt(begin, {window.data(), window.size()}));
    for (uint64_t at = 0; at + 8 <= window.size() && tries < kMostTries; at += format::kMinAlignment) {
      const std::string_view magic = std::string_view(window).substr(at, 8);
      if (magic == format::kHeaderMagic) {
        ++tries;
        absl::StatusOr<format::FileHeader> header = ReadHeader(file, begin + at);
        if (header.ok()) return std::pair(begin + at, *std::move(header));
        if (!absl::IsDataLoss(header.status())) return header.status();
      } else if (magic == format::kBlockMagic) {
        ++tries;
        std::string header;
        SHARDKIT_ASSIGN_OR_RETURN(const bool block, IsBlockHeader(file, begin + at, &header));
        if (block) return std::optional<std::pair<uint64_t, format::FileHeader>>();
      }
    }
  }
  return std::optional<std::pair<uint64_t, format::FileHeader>>();
}

// Calls `visit` with the place and the bytes of block headers with right checksums, until it returns true.
absl::Status ForEachBlockHeader(const RandomAccessFile& file,
                                const std::function<absl::StatusOr<bool>(uint64_t, std::string_view)>& visit) {
  constexpr uint64_t kWindow = uint64_t{1} << 20;
  constexpr int kMostTries = 1000;
  std::string window, header;
  int tries = 0;
  for (uint64_t begin = 0; begin + 8 <= file.size() && tries < kMostTries; begin += window.size()) {
    window.resize(std::min(kWindow, file.size() - begin));
    SHARDKIT_RETURN_IF_ERROR(file.ReadAt(begin, {window.data(), window.size()}));
    for (uint64_t at = 0; at + 8 <= window.size() && tries < kMostTries; at += format::kMinAlignment) {
      if (std::string_view(window).substr(at, 8) != format::kBlockMagic) continue;
      ++tries;
      SHARDKIT_ASSIGN_OR_RETURN(const bool whole, IsBlockHeader(file, begin + at, &header));
      if (!whole) continue;
      SHARDKIT_ASSIGN_OR_RETURN(const bool done, visit(begin + at, header));
      if (done) return absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

class Search {
 public:
  Search(ReadableFileSystem& file_system, const RandomAccessFile& file, const EndOfShard* end)
      : file_system_(file_system), file_(file), end_(end) {}

  void AddSchema(const Schema& schema, const std::string& source) {
    Candidate candidate{.header = {}, .alignment_known = false, .source = source};
    candidate.header.schema = schema;
    candidates_.push_back(std::move(candidate));
  }

  // Adds the schema with each other choice of storages, which every shard makes by its own values. With more columns to
  // choose for than kMostChoices, those of the last ones stay as they are.
  absl::Status AddStorages(const Schema& schema, const std::string& source) {
    constexpr size_t kMostChoices = 8;
    const std::vector<size_t>& open = schema.values_columns();
    const size_t count = std::min(open.size(), kMostChoices);
    for (size_t choice = 1; choice < size_t{1} << count; ++choice) {
      std::vector<Column> columns = schema.columns();
      for (size_t bit = 0; bit < count; ++bit) {
        Storage& storage = columns[open[bit]].storage;
        if ((choice >> bit & 1) != 0) storage = storage == Storage::kBlob ? Storage::kInline : Storage::kBlob;
      }
      SHARDKIT_ASSIGN_OR_RETURN(const Schema other, Schema::Create(std::move(columns)));
      AddSchema(other, source);
    }
    return absl::OkStatus();
  }

  absl::Status AddShard(const std::string& path) {
    SHARDKIT_ASSIGN_OR_RETURN(const auto shard, file_system_.OpenForReading(path));
    absl::StatusOr<format::FileHeader> header = ReadHeader(*shard, 0);
    if (!header.ok()) return Annotate(header.status(), path);
    candidates_.push_back({.header = *std::move(header), .alignment_known = true, .source = path});
    const Schema schema = candidates_.back().header.schema;
    AddSchema(schema, path);
    return AddStorages(schema, path);
  }

  // The manifest has the merged columns of all shards. A single shard may have fewer or narrower columns, and another
  // shard may have the same ones.
  absl::Status AddDataset(const std::string& directory, const Manifest& manifest) {
    const std::string manifest_path = JoinPath(directory, kManifestName);
    AddSchema(manifest.schema, manifest_path);
    SHARDKIT_RETURN_IF_ERROR(AddStorages(manifest.schema, manifest_path));
    for (const ManifestShard& shard : manifest.shards) {
      const std::string path = JoinPath(directory, shard.name);
      if (path == file_.path()) continue;
      const absl::Status status = AddShard(path);
      if (!status.ok() && !absl::IsNotFound(status) && !absl::IsDataLoss(status)) return status;
    }
    return absl::OkStatus();
  }

  // The candidate that is proved to be the shard's own header.
  absl::StatusOr<std::optional<Candidate>> Proved() const {
    for (const Candidate& candidate : candidates_) {
      const uint32_t from = candidate.alignment_known ? candidate.header.alignment : format::kMinAlignment;
      const uint32_t to = candidate.alignment_known ? candidate.header.alignment : format::kMaxAlignment;
      for (uint32_t alignment = from; alignment <= to; alignment *= 2) {
        Candidate guess = candidate;
        guess.header.alignment = alignment;
        guess.alignment_known = true;
        (void)format::EncodeFileHeader(guess.header);
        SHARDKIT_ASSIGN_OR_RETURN(const bool proved, IsProved(guess.header));
        if (proved) return guess;
      }
    }
    return std::optional<Candidate>();
  }

  // The first candidate without proof. Of the storages that its columns may have, those which fit a block of the file
  // are taken.
  absl::StatusOr<Candidate> Likely() const {
    const auto of_source = [&](const Candidate& other) { return other.source == candidates_.front().source; };
    std::optional<Candidate> found;
    SHARDKIT_RETURN_IF_ERROR(
        ForEachBlockHeader(file_, [&](uint64_t place, std::string_view bytes) -> absl::StatusOr<bool> {
          for (const Candidate& candidate : candidates_) {
            if (!of_source(candidate)) continue;
            SHARDKIT_ASSIGN_OR_RETURN(const bool fits, Fits(candidate.header.schema, place, bytes));
            if (!fits) continue;
            found = candidate;
            return true;
          }
          return false;
        }));
    return found.value_or(candidates_.front());
  }

 private:
  // Whether a block that begins at `place` with the header `bytes` is one of these columns: whether its heads say where
  // the values of the columns with values chunks lie, which heads of the other storage do not.
  absl::StatusOr<bool> Fits(const Schema& schema, uint64_t place, std::string_view bytes) const {
    format::BlockHeader header;
    if (!format::DecodeBlockHeader(schema, bytes, &header).ok()) return false;
    for (const size_t i : schema.values_columns()) {
      const format::ColumnEntry& entry = header.columns[i];
      if (!RangeWithin(place + entry.offset, entry.stored_length, file_.size())) return false;
      std::string head(entry.stored_length, '\0');
      SHARDKIT_RETURN_IF_ERROR(file_.ReadAt(place + entry.offset, {head.data(), head.size()}));
      const bool fits = schema[i].is_paged()
                            ? format::ParsePagedHead(schema[i], header.sample_count, head, entry.values_length).ok()
                            : format::ParseColumn(schema[i], header.sample_count, head, {}, entry.values_length).ok();
      if (!fits) return false;
    }
    return true;
  }

  // Both the trailer and the first block carry the checksum of the header.
  absl::StatusOr<bool> IsProved(const format::FileHeader& header) const {
    if (end_ != nullptr) return end_->trailer.header_checksum == header.checksum;
    const uint64_t offset = RoundUp(header.length, header.alignment);
    std::string bytes(format::BlockHeaderLength(header.schema.size()), '\0');
    if (!RangeWithin(offset, bytes.size(), file_.size())) return false;
    SHARDKIT_RETURN_IF_ERROR(file_.ReadAt(offset, {bytes.data(), bytes.size()}));
    format::BlockHeader block;
    return format::DecodeBlockHeader(header.schema, bytes, &block).ok() && block.first_sample == 0 &&
           block.previous == header.checksum;
  }

  ReadableFileSystem& file_system_;
  const RandomAccessFile& file_;
  const EndOfShard* const end_;
  std::vector<Candidate> candidates_;
};

absl::Status AddSource(ReadableFileSystem& file_system, const std::string& schema_from, Search* search) {
  SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, file_system.Stat(schema_from));
  const bool is_manifest = info.type != FileType::kDirectory && BaseName(schema_from) == kManifestName;
  absl::Status status;
  if (info.type == FileType::kDirectory || is_manifest) {
    const std::string directory = is_manifest ? io::ParentDirectory(schema_from) : schema_from;
    const absl::StatusOr<Manifest> manifest = ReadManifest(file_system, directory);
    status = manifest.ok() ? search->AddDataset(directory, *manifest) : manifest.status();
  } else {
    status = search->AddShard(schema_from);
  }
  if (absl::IsDataLoss(status)) {
    return InvalidArgument(ToStd(status.message()), "; name a whole shard or dataset to take the columns from");
  }
  return status;
}

}  // namespace

absl::StatusOr<std::optional<ListedShard>> FindListing(ReadableFileSystem& file_system, const std::string& path) {
  ListedShard listing;
  listing.directory = io::ParentDirectory(path);
  absl::StatusOr<Manifest> manifest = ReadManifest(file_system, listing.directory);
  if (absl::IsNotFound(manifest.status()) || absl::IsDataLoss(manifest.status()) ||
      absl::IsUnimplemented(manifest.status())) {
    return std::optional<ListedShard>();
  }
  if (!manifest.ok()) return manifest.status();
  listing.manifest = *std::move(manifest);
  const auto entry = std::ranges::find(listing.manifest.shards, BaseName(path), &ManifestShard::name);
  if (entry == listing.manifest.shards.end()) return std::optional<ListedShard>();
  listing.entry = *entry;
  return listing;
}

absl::StatusOr<EndOfShard> ReadEndOfShard(const RandomAccessFile& file) {
  const uint64_t size = file.size();
  if (size < format::kTrailerBytes) return DataLoss("trailer: the file is too short to have one");
  std::string bytes(format::kTrailerBytes, '\0');
  EndOfShard end;
  end.begin = size - format::kTrailerBytes;
  SHARDKIT_RETURN_IF_ERROR(file.ReadAt(end.begin, {bytes.data(), bytes.size()}));
  // Passes the stored file length as the file's length: the real one differs when bytes were inserted or removed.
  const uint64_t said_length = LoadLittle<uint64_t>(bytes.data() + 64);
  const bool plausible = said_length >= format::kTrailerBytes && said_length <= format::kMaxLength;
  SHARDKIT_ASSIGN_OR_RETURN(end.trailer, format::DecodeTrailer(bytes, plausible ? said_length : size));
  if (end.trailer.footer_length > end.begin) return DataLoss("trailer: the footer is longer than the file");
  end.shift = size - said_length;
  return end;
}

namespace {

void Take(format::FileHeader header, uint64_t base, HeaderFinding* finding) {
  finding->header = std::move(header);
  finding->base = base;
  finding->certain = finding->alignment_known = true;
  finding->notes.push_back(StrCat("the shard begins at byte ", base, " of the file"));
}

// Takes a header that bytes inserted in front of the shard have moved. With a trailer, the header must be the one that
// the trailer names.
absl::StatusOr<bool> TakeMovedHeader(const RandomAccessFile& file, const EndOfShard* end, HeaderFinding* finding) {
  if (end != nullptr && end->shift < file.size()) {
    absl::StatusOr<format::FileHeader> header = ReadHeader(file, end->shift);
    if (!header.ok() && !absl::IsDataLoss(header.status())) return Annotate(header.status(), file.path());
    if (header.ok() && header->checksum == end->trailer.header_checksum) {
      Take(*std::move(header), end->shift, finding);
      return true;
    }
  }
  SHARDKIT_ASSIGN_OR_RETURN(auto moved, FindMovedHeader(file));
  if (!moved || (end != nullptr && moved->second.checksum != end->trailer.header_checksum)) return false;
  Take(std::move(moved->second), moved->first, finding);
  return true;
}

}  // namespace

absl::StatusOr<HeaderFinding> FindHeader(ReadableFileSystem& file_system, const RandomAccessFile& file,
                                         const EndOfShard* end, const std::string& schema_from,
                                         const ListedShard* listing) {
  HeaderFinding finding;
  absl::StatusOr<format::FileHeader> own = ReadHeader(file, 0);
  if (own.ok()) {
    finding.header = *std::move(own);
    finding.in_place = true;
    finding.certain = finding.alignment_known = true;
    return finding;
  }
  if (!absl::IsDataLoss(own.status())) return Annotate(own.status(), file.path());
  finding.problems.emplace_back(ToStd(own.status().message()));

  // If nothing was inserted or removed, the header was at the front of the file, and there is nothing to search.
  if (end != nullptr && end->shift != 0) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool found, TakeMovedHeader(file, end, &finding));
    if (found) return finding;
  }

  Search search(file_system, file, end);
  if (!schema_from.empty()) {
    SHARDKIT_RETURN_IF_ERROR(AddSource(file_system, schema_from, &search));
  } else if (listing != nullptr) {
    SHARDKIT_RETURN_IF_ERROR(search.AddDataset(listing->directory, listing->manifest));
  }
  SHARDKIT_ASSIGN_OR_RETURN(std::optional<Candidate> proved, search.Proved());
  if (proved) {
    finding.header = std::move(proved->header);
    finding.certain = finding.alignment_known = true;
    finding.notes.push_back(
        StrCat("the header was made anew from ", proved->source, "; its checksum is the one that the shard names"));
    return finding;
  }
  if (end == nullptr) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool found, TakeMovedHeader(file, nullptr, &finding));
    if (found) return finding;
  }
  if (schema_from.empty()) {
    return DataLoss(file.path(), ": ", finding.problems[0],
                    listing == nullptr ? ""
                                       : "; the dataset.json beside it lists the shard, but nothing left of "
                                         "the shard proves its columns",
                    "; give --schema-from another shard of the dataset, its directory or its dataset.json");
  }
  SHARDKIT_ASSIGN_OR_RETURN(const Candidate chosen, search.Likely());
  finding.header = chosen.header;
  finding.alignment_known = chosen.alignment_known;
  // Dictionaries of another shard might decode to wrong bytes.
  finding.header.dictionaries.clear();
  (void)format::EncodeFileHeader(finding.header);
  finding.notes.push_back(
      StrCat("the columns are those of ", chosen.source, "; nothing left of the shard proves that they are its own"));
  return finding;
}

}  // namespace shardkit::dataset
