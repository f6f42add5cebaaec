#include "foreign/mds/mds_directory.h"

#include "base/json.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "dataset/dataset_files.h"
#include "dataset/foreign/foreign_dataset.h"
#include "foreign/mds/mds_shard_reader.h"
#include "foreign/mds/mds_values.h"
#include "io/publish_file.h"

namespace shardkit::dataset {
namespace {

class MdsDataset : public ForeignDataset {
 public:
  explicit MdsDataset(ReadableFileSystem& file_system) : file_system_(file_system) {}

  absl::Status Initialise(foreign::MdsDirectory directory, const std::optional<Manifest>& origin,
                          const DatasetOptions& options) {
    directory_ = std::move(directory.path);
    described_by_ = std::move(directory.described_by);
    shards_ = std::move(directory.index.shards);
    for (const foreign::MdsShard& shard : shards_) {
      // If both files of a shard exist, the raw one is read: mosaicml-streaming keeps it after decompressing.
      bool compressed = false;
      if (shard.zip) {
        SHARDKIT_ASSIGN_OR_RETURN(const bool raw, Exists(file_system_, JoinPath(directory_, shard.raw.name)));
        compressed = !raw;
      }
      const foreign::MdsFile& file = compressed ? *shard.zip : shard.raw;
      foreign::MdsShardFile described;
      described.path = JoinPath(directory_, file.name);
      described.bytes = file.bytes;
      described.raw_bytes = shard.raw.bytes;
      described.samples = shard.samples;
      described.hash = foreign::ListedHash::Choose(file.hashes, foreign::kMdsIndexName);
      if (compressed) {
        SHARDKIT_ASSIGN_OR_RETURN(described.compression, CompressionOf(shard));
        if (described.hash == nullptr)
          described.raw_hash = foreign::ListedHash::Choose(shard.raw.hashes, foreign::kMdsIndexName);
      }
      manifest_.AddShard({file.name, file.bytes, shard.samples, described.block_count(), ContentHash{}});
      files_.push_back(std::move(described));
    }
    std::vector<foreign::MdsColumn> columns = std::move(directory.index.columns);
    std::vector<size_t> typed;
    for (size_t i = 0; i < columns.size(); ++i) {
      foreign::MdsEncoding& how = columns[i].how;
      const bool typed_array = how.form == foreign::MdsForm::kTypedArray;
      const bool converted = how.form != foreign::MdsForm::kPlain && how.form != foreign::MdsForm::kArray;
      if (!typed_array && !(converted && options.mds_as_stored)) continue;
      if (!options.mds_as_stored && IsWanted(columns[i], options)) typed.push_back(i);
      how.form = foreign::MdsForm::kPlain;
      how.type = how.stored_type;
    }
    SHARDKIT_RETURN_IF_ERROR(TakeColumns(columns, origin, options));
    if (typed.empty()) return absl::OkStatus();
    SHARDKIT_RETURN_IF_ERROR(FindDtypes(typed, options, &columns));
    return TakeColumns(std::move(columns), origin, options);
  }

  std::string_view container() const override { return "mds"; }
  const Manifest& manifest() const override { return manifest_; }
  std::span<const LostSample> lost_samples() const override { return {}; }
  std::vector<std::string> notes() const override { return notes_; }

  absl::StatusOr<std::unique_ptr<ShardReader>> OpenShard(size_t shard, const ReadOptions& options) const override {
    const foreign::MdsShardFile& file = files_[shard];
    absl::StatusOr<std::unique_ptr<ShardReader>> opened =
        foreign::MdsShardReader::Open(file_system_, file, columns_, manifest_.schema, options);
    if (absl::IsNotFound(opened.status())) return NotFound(file.path, ": shard ", shard, " of index.json is missing");
    return opened;
  }

  absl::Status FindProblems(size_t shard, const ReadOptions& options,
                            const std::function<void(const absl::Status&)>& report) const override {
    absl::Status unknown;
    const absl::Status status =
        foreign::CheckMdsShardHashes(file_system_, directory_, shards_[shard], options, &unknown);
    if (absl::IsDataLoss(status)) {
      report(status);
    } else if (!status.ok()) {
      return status;
    }
    if (!unknown.ok())
      report(Annotate(unknown, StrCat(JoinPath(directory_, shards_[shard].raw.name), ": not compared")));
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<std::optional<codec::Compression>> CompressionOf(const foreign::MdsShard& shard) const {
    const std::string& name = shard.compression;
    const std::optional<codec::Compression> compression =
        codec::CompressionFromName(std::string_view(name).substr(0, name.find(':')));
    if (compression) return compression;
    return Unimplemented(JoinPath(directory_, shard.zip->name), ": is compressed with \"", name,
                         "\"; br, bz2, gz, snappy and zstd are read");
  }

  // MDS has no keys. The key is the column that was the key before the conversion; without an origin, the column named
  // "key".
  static bool IsKey(const Column& column, const std::optional<Manifest>& origin) {
    if (column.type != Type::kUtf8) return false;
    if (!origin) return column.name == "key";
    const std::optional<size_t> key = origin->schema.key_column();
    return key && origin->schema[*key].name == column.name;
  }

  static bool IsWanted(const foreign::MdsColumn& column, const DatasetOptions& options) {
    return options.columns.empty() || std::ranges::find(options.columns, column.name) != options.columns.end();
  }

  // Each value of these columns carries its dtype. That of the first sample of the first shard that can be read becomes
  // the column's, so that damage is met where it is. Where none of a few can be read, all may be missing.
  absl::Status FindDtypes(std::span<const size_t> typed, const DatasetOptions& options,
                          std::vector<foreign::MdsColumn>* columns) const {
    constexpr int kTries = 8;
    absl::Status damage;
    int tries = 0;
    for (size_t shard = 0; shard < files_.size() && tries < kTries; ++shard) {
      if (files_[shard].samples == 0) continue;
      ++tries;
      const absl::Status status = FindDtypesIn(shard, typed, options, columns);
      if (!absl::IsDataLoss(status) && !absl::IsNotFound(status)) return status;
      damage.Update(status);
    }
    return damage;
  }

  absl::Status FindDtypesIn(size_t shard, std::span<const size_t> typed, const DatasetOptions& options,
                            std::vector<foreign::MdsColumn>* columns) const {
    ReadOptions read = options;
    read.mode = ReadMode::kBuffered;
    read.verify_listed_hashes = false;  // of the whole file; the values are compared when they are read
    SHARDKIT_ASSIGN_OR_RETURN(const auto reader, OpenShard(shard, read));
    BlockBuffer buffer;
    for (const size_t i : typed) {
      foreign::MdsColumn& column = (*columns)[i];
      SHARDKIT_ASSIGN_OR_RETURN(const auto value, reader->ReadValue(0, *manifest_.schema.Find(column.name), &buffer));
      const std::optional<Type> dtype = foreign::MdsDtypeOf(*value);
      if (!dtype) {
        return DataLoss(files_[shard].path, ": sample 0: column \"", column.name,
                        "\": an array of a dtype that MDS does not have; mds_as_stored reads its bytes");
      }
      column.how.type = Type::kNdarray;
      column.how.dtype = *dtype;
      column.how.form = foreign::MdsForm::kTypedArray;
    }
    return absl::OkStatus();
  }

  absl::Status TakeColumns(std::vector<foreign::MdsColumn> columns, const std::optional<Manifest>& origin,
                           const DatasetOptions& options) {
    columns_ = std::make_shared<const std::vector<foreign::MdsColumn>>(std::move(columns));
    notes_.clear();
    if (origin) manifest_.metadata = origin->metadata;
    std::vector<Column> readable;
    std::string names, refusal;
    for (const foreign::MdsColumn& column : *columns_) {
      if (column.how.refusal.empty()) {
        readable.push_back(ColumnOf(column));
        readable.back().is_key = IsKey(readable.back(), origin);
        names += StrCat(names.empty() ? "" : ",", column.name);
      } else if (IsWanted(column, options)) {
        const std::string why =
            StrCat(described_by_, ": column \"", column.name, "\" ",
                   column.how.known ? "" : StrCat("of encoding \"", column.encoding, "\" "), column.how.refusal);
        if (refusal.empty()) refusal = why;
        notes_.push_back(why + "; it is left out");
      }
    }
    if (!refusal.empty() && (readable.empty() || !options.columns.empty())) {
      return Unimplemented(
          refusal,
          names.empty() ? "" : StrCat("; leave it out: --columns ", names, " (of shardctl convert and bench)"));
    }
    if (columns_->empty()) return absl::OkStatus();  // without shards the columns are unknown
    auto schema = Schema::Create(std::move(readable));
    if (!schema.ok()) {
      return Unimplemented(described_by_, ": columns that cannot be read: ", ToStd(schema.status().message()));
    }
    manifest_.schema = *std::move(schema);
    // The types do not tell the encodings, which writing MDS again needs.
    std::map<std::string, std::string> sorted;
    for (const foreign::MdsColumn& column : *columns_) sorted[column.name] = column.encoding;
    JsonValue encodings = JsonValue::Object();
    for (const auto& [name, encoding] : sorted) encodings.Set(name, encoding);
    manifest_.metadata["mds.encodings"] = encodings.Format();
    return absl::OkStatus();
  }

  ReadableFileSystem& file_system_;
  std::string directory_;
  std::string described_by_;
  std::vector<foreign::MdsShard> shards_;
  std::vector<foreign::MdsShardFile> files_;  // for each shard the file to read
  std::shared_ptr<const std::vector<foreign::MdsColumn>> columns_;
  Manifest manifest_;
  std::vector<std::string> notes_;
};

absl::StatusOr<foreign::MdsDirectory> ReadMds(ReadableFileSystem& file_system, const std::string& path) {
  SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, file_system.Stat(path));
  if (info.type != FileType::kDirectory) {
    return io::BaseName(path) == foreign::kMdsIndexName ? foreign::ReadMdsIndex(file_system, path)
                                                        : foreign::ReadMdsShardAlone(file_system, path);
  }
  auto directory = foreign::ReadMdsIndex(file_system, JoinPath(path, foreign::kMdsIndexName));
  return absl::IsNotFound(directory.status()) ? foreign::ReadMdsStreams(file_system, path) : std::move(directory);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ForeignDataset>> OpenMds(ReadableFileSystem& file_system, const std::string& path,
                                                        const DatasetOptions& options) {
  SHARDKIT_ASSIGN_OR_RETURN(foreign::MdsDirectory directory, ReadMds(file_system, path));
  SHARDKIT_ASSIGN_OR_RETURN(const auto origin, ReadOrigin(file_system, directory.path));
  auto dataset = std::make_unique<MdsDataset>(file_system);
  SHARDKIT_RETURN_IF_ERROR(dataset->Initialise(std::move(directory), origin, options));
  return dataset;
}

absl::StatusOr<std::unique_ptr<ForeignDataset>> OpenMdsMembers(ReadableFileSystem& file_system,
                                                               const std::vector<std::string>& members,
                                                               const DatasetOptions& options) {
  foreign::MdsDirectory whole;
  std::string first;
  for (const std::string& member : members) {
    SHARDKIT_ASSIGN_OR_RETURN(foreign::MdsDirectory part, ReadMds(file_system, member));
    const std::string folder = part.path;
    SHARDKIT_RETURN_IF_ERROR(foreign::JoinMds(std::move(part), member, folder, &first, &whole));
  }
  auto dataset = std::make_unique<MdsDataset>(file_system);
  SHARDKIT_RETURN_IF_ERROR(dataset->Initialise(std::move(whole), std::nullopt, options));
  return dataset;
}

}  // namespace shardkit::dataset
