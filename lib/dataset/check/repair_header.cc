#include "dataset/check/repair_header.h"

#include <algorithm>
#include <map>
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

// Of what begins like a header or a block at most so many are looked at, and so many times the file's length in bytes.
constexpr int kMostTries = 1000;
constexpr uint64_t kMostTriedShare = 16;

// Kind and flags of the copy of the header in a section table (spec.md, section 5).
constexpr uint64_t kEntryOfHeader = uint64_t{1} << 32 | static_cast<uint64_t>(format::SectionKind::kHeader);

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// `tried`, which may be null, grows by the bytes that were read.
absl::StatusOr<format::FileHeader> ReadHeader(const RandomAccessFile& file, uint64_t offset,
                                              uint64_t* tried = nullptr) {
  const uint64_t available = file.size() - offset;
  std::string bytes(std::min(available, format::kFileHeaderPrefix), '\0');
  SHARDKIT_RETURN_IF_ERROR(file.ReadAt(offset, {bytes.data(), bytes.size()}));
  SHARDKIT_ASSIGN_OR_RETURN(const uint64_t length, format::PeekFileHeaderLength(bytes));
  if (length > available) return DataLoss("header: the file ends at byte ", file.size(), " within the header");
  if (tried != nullptr) *tried += length;
  bytes.resize(length);
  SHARDKIT_RETURN_IF_ERROR(file.ReadAt(offset, {bytes.data(), bytes.size()}));
  return format::DecodeFileHeader(bytes);
}

// The header of a block with a right checksum, whatever its columns are. Empty when there is none at `place`.
absl::StatusOr<std::string> ReadBlockHeader(const RandomAccessFile& file, uint64_t place) {
  std::string bytes(12, '\0');
  if (!RangeWithin(place, bytes.size(), file.size())) return std::string();
  SHARDKIT_RETURN_IF_ERROR(file.ReadAt(place, {bytes.data(), bytes.size()}));
  const uint64_t length = LoadLittle<uint32_t>(bytes.data() + 8);
  if (!bytes.starts_with(format::kBlockMagic) || length < format::BlockHeaderLength(1) ||
      length > format::BlockHeaderLength(kMaxColumns) || !RangeWithin(place, length, file.size())) {
    return std::string();
  }
  bytes.resize(length);
  SHARDKIT_RETURN_IF_ERROR(file.ReadAt(place, {bytes.data(), bytes.size()}));
  const bool whole = Hash64(bytes.data(), length - 8) == LoadLittle<uint64_t>(bytes.data() + length - 8);
  return whole ? bytes : std::string();
}

uint64_t ShardIdOf(std::string_view block_header) { return LoadLittle<uint64_t>(block_header.data() + 48); }

std::string_view EntriesOf(std::string_view block_header) { return block_header.substr(56, block_header.size() - 64); }

// What is in the file of a shard whose header is not at its front.
struct Survey {
  std::optional<uint64_t> id;  // the shard's
  std::string first_block;     // the header of the first block with this id; empty when there is none
  // A header with this id, and its place: the copy in the footer, or the shard's own, which was moved.
  std::optional<std::pair<uint64_t, format::FileHeader>> header;
};

// Looks at every eighth byte, and at those that a trailer tells have moved. The id is that of the trailer or, without
// one, of the last header that a section table of this file lists as its copy or, without one, of the first block.
absl::StatusOr<Survey> LookAround(const RandomAccessFile& file, const EndOfShard* end) {
  constexpr uint64_t kWindow = uint64_t{1} << 20, kEntryFront = 24;
  Survey survey;
  if (end != nullptr) survey.id = end->trailer.shard_id;
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> headers;  // by place: length and id
  std::optional<uint64_t> id_of_copy, id_of_block;
  std::string window;
  int tries = 0;
  uint64_t tried = 0;
  const auto look = [&](uint64_t phase) -> absl::Status {
    for (uint64_t begin = phase; begin + 8 <= file.size() && tries < kMostTries; begin += kWindow) {
      window.resize(std::min(kWindow + kEntryFront, file.size() - begin));
      SHARDKIT_RETURN_IF_ERROR(file.ReadAt(begin, {window.data(), window.size()}));
      for (uint64_t at = 0; at < kWindow && at + 8 <= window.size() && tries < kMostTries; at += 8) {
        const std::string_view magic = std::string_view(window).substr(at, 8);
        if (magic == format::kHeaderMagic) {
          ++tries;
          const absl::StatusOr<format::FileHeader> header = ReadHeader(file, begin + at, &tried);
          if (header.ok()) headers.emplace(begin + at, std::pair(header->length, header->shard_id));
          // One of a later version may be that of a shard in a value.
          if (!header.ok() && !absl::IsDataLoss(header.status()) && !absl::IsUnimplemented(header.status())) {
            return Annotate(header.status(), file.path());
          }
          if (tried / kMostTriedShare > file.size()) tries = kMostTries;
        } else if (magic == format::kBlockMagic && survey.first_block.empty()) {
          ++tries;
          SHARDKIT_ASSIGN_OR_RETURN(std::string block, ReadBlockHeader(file, begin + at));
          if (block.empty() || ShardIdOf(block) != survey.id.value_or(ShardIdOf(block))) continue;
          id_of_block = ShardIdOf(block);
          survey.first_block = std::move(block);
        } else if (LoadLittle<uint64_t>(magic.data()) == kEntryOfHeader && at + kEntryFront <= window.size()) {
          const auto listed = headers.find(LoadLittle<uint64_t>(magic.data() + 8));
          if (listed != headers.end() && listed->second.first == LoadLittle<uint64_t>(magic.data() + 16)) {
            id_of_copy = listed->second.second;
          }
        }
      }
    }
    return absl::OkStatus();
  };
  SHARDKIT_RETURN_IF_ERROR(look(0));
  // What lies behind bytes that were inserted or removed.
  if (end != nullptr && end->shift % 8 != 0) SHARDKIT_RETURN_IF_ERROR(look(end->shift % 8));
  if (!survey.id) survey.id = id_of_copy ? id_of_copy : id_of_block;
  if (survey.id != id_of_block) survey.first_block.clear();
  const auto own = std::ranges::find_if(
      headers, [&](const auto& header) { return header.second.second == survey.id.value_or(header.second.second); });
  if (own == headers.end()) return survey;
  SHARDKIT_ASSIGN_OR_RETURN(format::FileHeader header, ReadHeader(file, own->first));
  survey.header.emplace(own->first, std::move(header));
  return survey;
}

class Search {
 public:
  Search(ReadableFileSystem& file_system, const RandomAccessFile& file, const Survey& survey)
      : file_system_(file_system), file_(file), survey_(survey) {}

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
        if ((choice >> bit & 1) != 0) storage = storage == Storage::kBlob ? Storage::kPaged : Storage::kBlob;
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
      const std::string path = manifest.PathOf(directory, shard.name);
      if (path == file_.path()) continue;
      const absl::Status status = AddShard(path);
      if (!status.ok() && !absl::IsNotFound(status) && !absl::IsDataLoss(status)) return status;
    }
    return absl::OkStatus();
  }

  // The candidate that gives the shard's id with the first block: the shard's own header.
  std::optional<Candidate> Proved() const {
    for (const Candidate& candidate : candidates_) {
      const uint32_t from = candidate.alignment_known ? candidate.header.alignment : format::kMinAlignment;
      const uint32_t to = candidate.alignment_known ? candidate.header.alignment : format::kMaxAlignment;
      for (uint32_t alignment = from; alignment <= to; alignment *= 2) {
        Candidate guess = candidate;
        guess.header.alignment = alignment;
        if (format::ShardId(guess.header, FirstEntries()) == survey_.id) return guess;
      }
    }
    return std::nullopt;
  }

  // Without proof the first candidate, with storages that fit the first block.
  const Candidate& Likely() const {
    format::BlockHeader header;
    const auto fits = [&](const Candidate& candidate) {
      return candidate.source == candidates_.front().source &&
             format::DecodeBlockHeader(candidate.header.schema, survey_.first_block, &header).ok();
    };
    const auto found = std::ranges::find_if(candidates_, fits);
    return found == candidates_.end() ? candidates_.front() : *found;
  }

 private:
  std::string_view FirstEntries() const {
    return survey_.first_block.empty() ? std::string_view() : EntriesOf(survey_.first_block);
  }

  ReadableFileSystem& file_system_;
  const RandomAccessFile& file_;
  const Survey& survey_;
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

absl::StatusOr<HeaderFinding> FindHeader(ReadableFileSystem& file_system, const RandomAccessFile& file,
                                         const EndOfShard* end, const std::string& schema_from,
                                         const ListedShard* listing) {
  HeaderFinding finding;
  absl::StatusOr<format::FileHeader> own = ReadHeader(file, 0);
  if (own.ok()) {
    finding.header = *std::move(own);
    finding.certain = true;
    return finding;
  }
  if (!absl::IsDataLoss(own.status())) return Annotate(own.status(), file.path());
  finding.problems.emplace_back(ToStd(own.status().message()));

  SHARDKIT_ASSIGN_OR_RETURN(Survey survey, LookAround(file, end));
  if (end != nullptr && end->shift < file.size()) finding.base = end->shift;
  if (survey.header) {
    auto& [place, header] = *survey.header;
    finding.certain = true;
    SHARDKIT_ASSIGN_OR_RETURN(const std::string behind,
                              ReadBlockHeader(file, place + RoundUp(header.length, header.alignment)));
    if (!behind.empty() && behind == survey.first_block) finding.base = place;
    finding.notes.push_back(finding.base == place ? StrCat("the shard begins at byte ", place, " of the file")
                                                  : "the header was taken from its copy in the footer");
    finding.header = std::move(header);
    return finding;
  }

  Search search(file_system, file, survey);
  if (!schema_from.empty()) {
    SHARDKIT_RETURN_IF_ERROR(AddSource(file_system, schema_from, &search));
  } else if (listing != nullptr) {
    SHARDKIT_RETURN_IF_ERROR(search.AddDataset(listing->directory, listing->manifest));
  }
  if (const std::optional<Candidate> proved = search.Proved()) {
    finding.header = proved->header;
    finding.certain = true;
    finding.notes.push_back(
        StrCat("the header was rebuilt from ", proved->source, "; it gives the id that the shard's parts have"));
  } else if (schema_from.empty()) {
    return DataLoss(file.path(), ": ", finding.problems[0],
                    listing == nullptr ? ""
                                       : "; the dataset.json beside it lists the shard, but nothing left of "
                                         "the shard proves its columns",
                    "; give --schema-from another shard of the dataset, its directory or its dataset.json");
  } else {
    const Candidate& chosen = search.Likely();
    finding.header = chosen.header;
    // Dictionaries of another shard might decode to wrong bytes.
    finding.header.dictionaries.clear();
    finding.notes.push_back(StrCat("the columns were taken from ", chosen.source,
                                   "; nothing left of the shard proves that they are its own"));
  }
  finding.header.shard_id = survey.id.value_or(0);
  (void)format::EncodeFileHeader(finding.header);
  return finding;
}

}  // namespace shardkit::dataset
