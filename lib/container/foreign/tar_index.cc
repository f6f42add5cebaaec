#include "container/foreign/tar_index.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "codec/content_type.h"
#include "container/foreign/tar_dali_index.h"
#include "container/foreign/tar_sample_grouper.h"
#include "format/chunk.h"
#include "io/publish_file.h"

namespace shardkit {
namespace {

using format::TarIndex;

constexpr uint64_t kMaxSidecarBytes = uint64_t{8} << 30;

// So many bytes after the end mark are checked.
constexpr uint64_t kLookedAtBehind = uint64_t{1} << 20;
constexpr uint64_t kLookPiece = uint64_t{64} << 10;

// webdataset reads nothing after the end mark. When two tars were written one after the other, the second one is lost.
absl::Status LookBehind(const RandomAccessFile& file, uint64_t position, std::vector<TarProblem>* problems) {
  const uint64_t end = std::min(file.size(), position + kLookedAtBehind);
  std::string piece;
  for (; position < end; position += piece.size()) {
    piece.resize(std::min(end - position, kLookPiece));
    SHARDKIT_RETURN_IF_ERROR(file.ReadAt(position, piece));
    if (format::AllZero(piece)) continue;
    problems->push_back({"", position,
                         "behind the end mark there is more, which no reader of WebDataset reads: "
                         "was another tar appended?"});
    break;
  }
  return absl::OkStatus();
}

// Removes the last sample, and the columns that no earlier sample has.
void DropLastSample(TarIndex* index) {
  index->key_ends.pop_back();
  index->value_ends.pop_back();
  index->keys.resize(index->key_ends.back());
  index->values.resize(index->value_ends.back());
  uint32_t columns = 0;
  for (const format::TarValue& value : index->values) columns = std::max(columns, value.column + 1);
  index->columns.resize(columns);
}

// `header` is of the member in which the tar ends. Its name is empty when there is no such member.
TarContents CutHere(const RandomAccessFile& file, const absl::Status& status, const TarHeader& header,
                    TarSampleGrouper& builder, TarContents& contents) {
  // If that member begins a sample, the sample before it is whole. Otherwise it belongs to the last sample, which is
  // cut.
  if (!header.name.empty()) (void)builder.Add(header);
  TarIndex& index = contents.index;
  contents.cut_key = BaseName(file.path());
  if (index.sample_count() > 0) {
    contents.cut_key = index.key(index.sample_count() - 1);
    DropLastSample(&index);
  }
  const uint64_t kept = index.sample_count();
  contents.cut =
      DataLoss(ToStd(status.message()), "; ", kept, kept == 1 ? " sample" : " samples", " before it can be read");
  return std::move(contents);
}

// Checks that the sidecar's index belongs to this tar.
absl::Status CheckBelongs(const TarIndex& index, const RandomAccessFile& file) {
  if (index.tar_length != file.size()) {
    return DataLoss("is of a tar of ", index.tar_length, " bytes, but ", file.path(), " has ", file.size());
  }
  SHARDKIT_ASSIGN_OR_RETURN(const uint64_t identity, ReadTarIdentity(file));
  if (index.identity != identity) return DataLoss("is of another tar than ", file.path(), ", or the tar was changed");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<uint64_t> ReadTarIdentity(const RandomAccessFile& file) {
  const uint64_t length = std::min(file.size(), format::kTarIdentityBytes);
  std::string first(length, '\0'), last(length, '\0');
  SHARDKIT_RETURN_IF_ERROR(file.ReadAt(0, first));
  SHARDKIT_RETURN_IF_ERROR(file.ReadAt(file.size() - length, last));
  return format::TarIdentity(first, last);
}

absl::StatusOr<TarContents> ScanTar(const RandomAccessFile& file, uint64_t max_decompression,
                                    std::vector<TarProblem>* problems, bool keep_cut) {
  TarContents contents;
  contents.index.tar_length = file.size();
  SHARDKIT_ASSIGN_OR_RETURN(contents.compression, DetectCompression(file));
  TarSampleGrouper builder(file.path(), &contents.index);
  TarHeader header;
  auto headers = TarHeaders::Open(file, contents.compression);
  while (true) {
    header.name.clear();
    const absl::StatusOr<bool> more = headers.ok() ? (*headers)->Next(&header) : headers.status();
    if (keep_cut && absl::IsDataLoss(more.status())) return CutHere(file, more.status(), header, builder, contents);
    if (!more.ok()) return more.status();
    if (!*more) break;
    SHARDKIT_RETURN_IF_ERROR(builder.Add(header));
    // A plain tar needs no limit: every entry has a header of 512 bytes in the file. Only a quarter of the limit is
    // used here, because the values need memory, too.
    const uint64_t most = file.size() + max_decompression / 4;
    if (contents.compression != TarCompression::kNone && contents.index.memory() > most) {
      return ResourceExhausted(file.path(), ": what has to be known of its members takes more than ", most,
                               " bytes of memory, the limit for a compressed tar of ", file.size(),
                               " bytes: decompress it first");
    }
  }
  if (problems != nullptr && contents.compression == TarCompression::kNone) {
    SHARDKIT_RETURN_IF_ERROR(LookBehind(file, (*headers)->position(), problems));
  }
  return contents;
}

std::vector<TarProblem> FindRepeatedKeys(const TarIndex& index) {
  // Sorting by hash puts equal keys next to each other, in the order of the tar.
  std::vector<std::pair<uint64_t, uint64_t>> hashes(index.sample_count());
  for (uint64_t i = 0; i < hashes.size(); ++i) hashes[i] = {Hash64(index.key(i)), i};
  std::ranges::sort(hashes);
  std::vector<uint64_t> repeated;
  for (size_t i = 1; i < hashes.size(); ++i) {
    if (hashes[i].first == hashes[i - 1].first && index.key(hashes[i].second) == index.key(hashes[i - 1].second)) {
      repeated.push_back(hashes[i].second);
    }
  }
  std::ranges::sort(repeated);
  std::vector<TarProblem> problems;
  for (const uint64_t sample : repeated) {
    const format::TarValue& value = index.values[index.value_ends[sample]];
    problems.push_back({StrCat(index.key(sample), ".", index.columns[value.column]), value.offset,
                        "its key had a sample before, which had ended: the members of a sample must stand "
                        "next to each other"});
  }
  return problems;
}

namespace {

absl::StatusOr<std::shared_ptr<TarContents>> LoadWhole(ReadableFileSystem& file_system, const RandomAccessFile& file,
                                                       uint64_t max_decompression) {
  const std::string& path = file.path();
  auto contents = std::make_shared<TarContents>();
  SHARDKIT_ASSIGN_OR_RETURN(contents->compression, DetectCompression(file));
  if (contents->compression == TarCompression::kNone) {
    const std::string sidecar = StrCat(path, kTarIndexSuffix);
    const absl::StatusOr<std::string> bytes = file_system.ReadFile(sidecar, kMaxSidecarBytes);
    if (bytes.ok()) {
      absl::StatusOr<TarIndex> index = format::DecodeTarIndex(*bytes);
      absl::Status status = index.status();
      if (status.ok()) status = CheckBelongs(*index, file);
      if (!status.ok()) {
        // An error of the tar itself begins with the tar's path.
        if (absl::StartsWith(status.message(), ToAbsl(path))) return status;
        return absl::Status(status.code(),
                            ToAbsl(StrCat(sidecar, ": ", ToStd(status.message()), "; run shardctl index ", path)));
      }
      contents->index = *std::move(index);
      return contents;
    }
    if (!absl::IsNotFound(bytes.status())) return bytes.status();
    SHARDKIT_ASSIGN_OR_RETURN(const bool indexed, LoadDaliContents(file_system, file, contents.get()));
    if (indexed) return contents;
  }
  SHARDKIT_ASSIGN_OR_RETURN(*contents, ScanTar(file, max_decompression, nullptr));
  return contents;
}

}  // namespace

absl::StatusOr<std::shared_ptr<TarContents>> LoadTarContents(ReadableFileSystem& file_system, const std::string& path,
                                                             uint64_t max_decompression, bool keep_cut) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto file, file_system.OpenForReading(path));
  auto loaded = LoadWhole(file_system, *file, max_decompression);
  if (!keep_cut || !absl::IsDataLoss(loaded.status())) return loaded;
  auto contents = std::make_shared<TarContents>();
  SHARDKIT_ASSIGN_OR_RETURN(*contents, ScanTar(*file, max_decompression, nullptr, keep_cut));
  // When the tar is whole, the error is one of the index.
  return contents->cut.ok() ? loaded : std::move(contents);
}

absl::StatusOr<Schema> TarSchema(const TarIndex& index) {
  std::vector<Column> columns;
  Column key;
  key.name = "key";
  key.type = Type::kUtf8;
  key.is_key = true;
  columns.push_back(std::move(key));
  for (const std::string& name : index.columns) {
    const size_t dot = name.rfind('.');
    Column column;
    column.name = name;
    column.type =
        GuessType({}, dot == std::string::npos ? std::string_view(name) : std::string_view(name).substr(dot + 1));
    // utf8 would promise that every byte is valid, and nothing has checked the bytes.
    if (column.type == Type::kUtf8) column.type = Type::kBytes;
    column.nullable = true;
    columns.push_back(std::move(column));
  }
  return Schema::Create(std::move(columns));
}

}  // namespace shardkit
