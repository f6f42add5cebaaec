#include "foreign/webdataset/tar_index.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "codec/content_type.h"
#include "foreign/webdataset/tar_sidecar.h"
#include "foreign/webdataset/webdataset_names.h"
#include "format/chunk.h"
#include "io/publish_file.h"

namespace shardkit::foreign {
namespace {

constexpr uint64_t kStatusBytes = 128;  // about what a status takes besides its message

// One thread at a time. `path` is for messages. `index` and `lost` must be empty at first. All must outlive the object.
class TarSampleGrouper {
 public:
  TarSampleGrouper(const std::string& path, foreign::TarIndex* index, std::vector<LostTarSample>* lost = nullptr)
      : path_(path), index_(index), lost_(lost) {}

  // Adds the next member of the tar, whose data lies at `offset`, unless it is sparse. Skips members that belong to no
  // sample. DataLoss when a sample has an extension twice, for what a schema cannot hold (names that are not UTF-8),
  // and for sparse members; with `lost`, the sample is added to *lost instead, and its other members are skipped.
  // Unimplemented for too large a tar.
  absl::Status Add(const TarMember& member, std::optional<uint64_t> offset);

  // Whether the sample that the last member belongs to is the last of *lost.
  bool last_is_lost() const { return lost_key_.has_value(); }

  // Bytes of memory that *lost takes.
  uint64_t lost_memory() const { return lost_memory_; }

  // Removes the last sample, of which there is one, from the index.
  void DropLastSample();

  // Removes the columns that no sample has. Nothing can be added after that.
  void DropUnusedColumns();

 private:
  absl::Status AddToSample(const foreign::WebDatasetName& name, uint64_t length, std::optional<uint64_t> offset);
  absl::StatusOr<uint32_t> FindColumn(std::string_view extension);

  const std::string& path_;
  foreign::TarIndex* const index_;
  std::vector<LostTarSample>* const lost_;
  uint64_t lost_memory_ = 0;
  std::optional<std::string> lost_key_;  // of the sample that the last member belongs to, when it was lost
  std::unordered_map<std::string, uint32_t> columns_;
  std::vector<uint64_t> used_;  // per column: the last sample that has it, counted from 1
};

absl::Status TarSampleGrouper::Add(const TarMember& member, std::optional<uint64_t> offset) {
  if (member.kind != TarMember::Kind::kFile) return absl::OkStatus();
  const std::optional<foreign::WebDatasetName> name = foreign::SplitWebDatasetName(member.name);
  if (!name) return absl::OkStatus();
  if (lost_key_ == name->key) return absl::OkStatus();
  lost_key_.reset();
  absl::Status status = AddToSample(*name, member.length, offset);
  if (status.ok()) return status;
  status = Annotate(status, StrCat(path_, ": member '", member.name, "' at byte ", member.header_offset));
  if (lost_ == nullptr || !absl::IsDataLoss(status)) return status;
  const uint64_t samples = index_->sample_count();
  if (samples > 0 && index_->key(samples - 1) == name->key) DropLastSample();
  lost_key_ = std::string(name->key);
  lost_memory_ += sizeof(LostTarSample) + name->key.size() + status.message().size() + kStatusBytes;
  lost_->push_back({*lost_key_, std::move(status)});
  return absl::OkStatus();
}

void TarSampleGrouper::DropLastSample() {
  index_->key_ends.pop_back();
  index_->value_ends.pop_back();
  index_->keys.resize(index_->key_ends.back());
  while (index_->values.size() > index_->value_ends.back()) {
    used_[index_->values.back().column] = 0;
    index_->values.pop_back();
  }
}

void TarSampleGrouper::DropUnusedColumns() {
  std::vector<uint32_t> places(index_->columns.size(), UINT32_MAX);
  for (const foreign::TarValue& value : index_->values) places[value.column] = 0;
  std::vector<std::string> columns;
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i] == UINT32_MAX) continue;
    places[i] = static_cast<uint32_t>(columns.size());
    columns.push_back(std::move(index_->columns[i]));
  }
  for (foreign::TarValue& value : index_->values) value.column = places[value.column];
  index_->columns = std::move(columns);
}

absl::Status TarSampleGrouper::AddToSample(const foreign::WebDatasetName& name, uint64_t length,
                                           std::optional<uint64_t> offset) {
  if (!offset) return DataLoss("is sparse, which is not read: write the tar without holes");
  if (index_->values.size() == foreign::kMaxTarValues) {
    return Unimplemented("a tar of more than ", foreign::kMaxTarValues, " values is not read");
  }
  SHARDKIT_ASSIGN_OR_RETURN(const uint32_t column, FindColumn(name.extension));
  const uint64_t samples = index_->sample_count();
  if (samples == 0 || index_->key(samples - 1) != name.key) {
    if (!ValidUtf8(name.key)) return DataLoss("its key is not UTF-8: pack the tar, where --names tells the encoding");
    if (name.key.size() > foreign::kMaxTarKeyBytes) {
      return DataLoss("its key has more than ", foreign::kMaxTarKeyBytes, " bytes: rename the member");
    }
    if (index_->keys.size() + name.key.size() > foreign::kMaxTarKeysLength) {
      return Unimplemented("the keys of a tar have at most ", foreign::kMaxTarKeysLength, " bytes together");
    }
    index_->keys += name.key;
    index_->key_ends.push_back(index_->keys.size());
    index_->value_ends.push_back(index_->values.size());
  }
  if (std::exchange(used_[column], index_->sample_count()) == index_->sample_count()) {
    return DataLoss("sample '", name.key, "' has two members with the extension '", name.extension,
                    "' (large and small letters are the same): remove one");
  }
  index_->values.push_back({*offset, length, column});
  index_->value_ends.back() = index_->values.size();
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> TarSampleGrouper::FindColumn(std::string_view extension) {
  std::string name = foreign::WebDatasetColumn(extension);
  const auto found = columns_.find(name);
  if (found != columns_.end()) return found->second;
  if (const absl::Status status = CheckName(name, "column name"); !status.ok()) {
    return DataLoss("its extension cannot name a column (", ToStd(status.message()), "): rename the member");
  }
  if (name.size() > kMaxColumnNameBytes) {
    return DataLoss("its extension has more than ", kMaxColumnNameBytes, " bytes, which a column's name may have");
  }
  // One of the columns is the key.
  if (columns_.size() + 1 >= kMaxColumns) {
    return Unimplemented("more than ", kMaxColumns - 1,
                         " extensions: a name is a key up to its first dot, the rest an extension");
  }
  const auto column = static_cast<uint32_t>(columns_.size());
  index_->columns.push_back(name);
  columns_.emplace(std::move(name), column);
  used_.push_back(0);
  return column;
}

}  // namespace
}  // namespace shardkit::foreign

namespace shardkit {
namespace {

using foreign::TarIndex;

// Takes note of a member that readers of WebDataset do not see.
void LookAt(const foreign::TarMember& member, foreign::TarContents& contents) {
  if (member.after_end_mark && !contents.after_end_mark) {
    contents.after_end_mark = {member.name, member.header_offset,
                               "an end mark lies before it, as where two tars were joined; readers of WebDataset "
                               "stop there, and here all members are read"};
  }
  using Kind = foreign::TarMember::Kind;
  if (!(member.link || member.kind == Kind::kOther) || !foreign::SplitWebDatasetName(member.name)) return;
  if (member.kind == Kind::kFile) {
    ++contents.links;
  } else if (contents.passed_over_count++ == 0) {
    contents.passed_over = {member.name, member.header_offset,
                            member.link ? "is a link that leads to no file before it, and is passed over"
                                        : "is no file, and is passed over"};
  }
}

// `member` is that in which the tar ends. Its name is empty when there is no such member.
foreign::TarContents CutHere(const RandomAccessFile& file, const absl::Status& status, const foreign::TarMember& member,
                             foreign::TarSampleGrouper& builder, foreign::TarContents& contents) {
  // If that member begins a sample, the sample before it is whole. Otherwise it belongs to the last sample, which is
  // cut.
  if (!member.name.empty()) (void)builder.Add(member, 0);
  TarIndex& index = contents.index;
  std::string key(io::BaseName(file.path()));
  if (builder.last_is_lost()) {  // the sample before it is whole
    key = std::move(contents.lost.back().key);
    contents.lost.pop_back();
  } else if (index.sample_count() > 0) {
    key = index.key(index.sample_count() - 1);
    builder.DropLastSample();
  }
  builder.DropUnusedColumns();
  const uint64_t kept = index.sample_count();
  contents.cut = true;
  contents.lost.push_back({std::move(key), foreign::CutAfter(status, kept)});
  return std::move(contents);
}

}  // namespace

absl::StatusOr<uint64_t> foreign::ReadTarIdentity(const RandomAccessFile& file) {
  const uint64_t length = std::min(file.size(), foreign::kTarIdentityBytes);
  std::string first(length, '\0'), last(length, '\0');
  const ReadRequest ends[] = {{0, first}, {file.size() - length, last}};
  SHARDKIT_RETURN_IF_ERROR(file.ReadBatch(ends));
  return foreign::TarIdentity(first, last);
}

absl::StatusOr<foreign::TarContents> foreign::ScanTar(const RandomAccessFile& file, uint64_t max_decompression,
                                                      std::vector<TarProblem>* problems, bool skip_lost) {
  foreign::TarContents contents;
  contents.index.tar_length = file.size();
  SHARDKIT_ASSIGN_OR_RETURN(contents.compression, foreign::DetectCompression(file));
  foreign::TarSampleGrouper builder(file.path(), &contents.index, skip_lost ? &contents.lost : nullptr);
  foreign::TarMember member;
  const auto tar = foreign::TarReader::Open(file, contents.compression);
  const auto next = [&](std::optional<uint64_t>* offset) -> absl::StatusOr<bool> {
    SHARDKIT_RETURN_IF_ERROR(tar.status());
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, (*tar)->Next(&member));
    SHARDKIT_ASSIGN_OR_RETURN(*offset, (*tar)->Locate());
    return more;
  };
  while (true) {
    member.name.clear();
    std::optional<uint64_t> offset;
    const absl::StatusOr<bool> more = next(&offset);
    if (skip_lost && absl::IsDataLoss(more.status())) return CutHere(file, more.status(), member, builder, contents);
    if (!more.ok()) return more.status();
    if (!*more) break;
    SHARDKIT_RETURN_IF_ERROR(builder.Add(member, offset));
    LookAt(member, contents);
    // A plain tar needs no limit: every entry has a header of 512 bytes in the file. Only a quarter of the limit is
    // used here, because the values need memory, too.
    const uint64_t most = file.size() + max_decompression / 4;
    const uint64_t known = contents.index.memory() + builder.lost_memory() + (*tar)->memory();
    if (contents.compression != foreign::TarCompression::kNone && known > most) {
      return ResourceExhausted(file.path(), ": what has to be known of its members takes more than ", most,
                               " bytes of memory, the limit for a compressed tar of ", file.size(),
                               " bytes: decompress it first");
    }
  }
  if (!contents.lost.empty()) builder.DropUnusedColumns();
  contents.left_behind = (*tar)->left_behind();
  if (problems == nullptr) return contents;
  for (const auto& found : {contents.after_end_mark, contents.passed_over}) {
    if (found) problems->push_back(*found);
  }
  if (contents.left_behind) {
    problems->push_back({"", *contents.left_behind, std::string(foreign::kLeftBehind)});
  }
  return contents;
}

std::vector<TarProblem> foreign::FindRepeatedKeys(const TarIndex& index) {
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
    const foreign::TarValue& value = index.values[index.value_ends[sample]];
    problems.push_back({StrCat(index.key(sample), ".", index.columns[value.column]), value.offset,
                        "its key had a sample before, which had ended: the members of a sample must stand "
                        "next to each other"});
  }
  return problems;
}

void foreign::UnescapeKeys(foreign::TarSamples* samples) {
  std::string keys;
  std::vector<uint64_t> ends{0};
  for (uint64_t i = 0; i < samples->sample_count(); ++i) {
    keys += foreign::UnescapeWebDatasetKey(samples->key(i));
    ends.push_back(keys.size());
  }
  samples->keys = std::move(keys);
  samples->key_ends = std::move(ends);
}

namespace {

absl::StatusOr<foreign::TarContents> LoadWhole(ReadableFileSystem& file_system, const RandomAccessFile& file,
                                               uint64_t max_decompression) {
  foreign::TarContents contents;
  SHARDKIT_ASSIGN_OR_RETURN(contents.compression, foreign::DetectCompression(file));
  if (contents.compression == foreign::TarCompression::kNone) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool indexed, foreign::LoadTarIndex(file_system, file, &contents));
    if (indexed) return contents;
  }
  return foreign::ScanTar(file, max_decompression, nullptr);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const foreign::TarContents>> foreign::LoadTarContents(ReadableFileSystem& file_system,
                                                                                     const std::string& path,
                                                                                     uint64_t max_decompression,
                                                                                     bool skip_lost,
                                                                                     bool escaped_keys) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto file, file_system.OpenForReading(path));
  absl::StatusOr<foreign::TarContents> loaded = LoadWhole(file_system, *file, max_decompression);
  if (skip_lost && absl::IsDataLoss(loaded.status())) {
    SHARDKIT_ASSIGN_OR_RETURN(foreign::TarContents cut, foreign::ScanTar(*file, max_decompression, nullptr, skip_lost));
    // When the tar is whole, the error is one of the index.
    if (!cut.lost.empty()) loaded = std::move(cut);
  }
  if (!loaded.ok()) return loaded.status();
  loaded->escaped_keys = escaped_keys;
  if (!loaded->stored) {
    if (escaped_keys) foreign::UnescapeKeys(&loaded->index);
    loaded->index.blocks = foreign::FormTarBlocks(loaded->index);
  }
  return std::make_shared<const foreign::TarContents>(*std::move(loaded));
}

absl::StatusOr<Schema> foreign::TarSchema(const TarIndex& index) {
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
    column.type = codec::GuessType(
        {}, dot == std::string::npos ? std::string_view(name) : std::string_view(name).substr(dot + 1));
    // utf8 would promise that every byte is valid, and nothing has checked the bytes.
    if (column.type == Type::kUtf8) column.type = Type::kBytes;
    column.nullable = true;
    columns.push_back(std::move(column));
  }
  return Schema::Create(std::move(columns));
}

bool IsTarPath(std::string_view path) { return foreign::IsTarName(path); }

absl::StatusOr<std::vector<std::string>> ListTars(ReadableFileSystem& file_system, const std::string& directory) {
  SHARDKIT_ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, file_system.List(directory));
  std::vector<std::string> paths;
  for (const DirectoryEntry& entry : entries) {
    if (foreign::IsTarName(entry.name) && entry.type != FileType::kDirectory)
      paths.push_back(JoinPath(directory, entry.name));
  }
  return paths;
}

}  // namespace shardkit
