#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "dataset/dataset_files.h"
#include "dataset/sample_number.h"
#include "operations/coco/coco_columns.h"
#include "operations/coco/coco_writer.h"
#include "operations/copy/value_conversion.h"
#include "operations/sa1b/sa1b.h"
#include "operations/sa1b/sa1b_columns.h"
#include "operations/sources/source_names.h"
#include "shardkit/pack.h"
#include "shardkit/sample.h"
#include "shardkit/schema.h"
#include "shardkit/shard.h"

namespace shardkit::operations {
namespace {

// A file to write below the output directory. When `column` is set, its contents are the sample's value of that column,
// which may be too large to hold in memory. Otherwise they are `bytes`.
struct SampleFile {
  std::string name;  // as text until it is written
  size_t column = SIZE_MAX;
  std::string bytes;
  std::string folder = {};  // that the name is relative to, ends with '/'
};

// Elements of the lists of an annotation file of COCO.
struct CocoEntries {
  std::string images, annotations;
};

// Knows, for one shard's schema, which files a sample becomes. One thread at a time.
class SampleFiles {
 public:
  // Chooses by "shardkit.source" of the metadata, if present. InvalidArgument when the schema does not fit that source.
  static absl::StatusOr<std::unique_ptr<SampleFiles>> Create(const Schema& schema, const Metadata& metadata);
  virtual ~SampleFiles() = default;

  // Columns whose values List needs in memory. SampleFile::column never names one of them.
  virtual const std::vector<size_t>& needed_columns() const = 0;

  // Files of sample `i` of the block. `ordinal` names the sample when there is no key.
  virtual absl::Status List(const BlockView& block, uint32_t i, uint64_t ordinal, std::vector<SampleFile>* files) = 0;

  // Adds what the sample is in a file of the whole dataset, where names of files begin with `folder`.
  virtual absl::Status AddEntries(const BlockView& /*block*/, uint32_t /*i*/, const std::string& /*folder*/,
                                  CocoEntries* /*entries*/) {
    return absl::OkStatus();
  }
};

std::string KeyOf(const Schema& schema, const BlockView& block, uint32_t i, uint64_t ordinal) {
  if (const auto key = schema.key_column()) return std::string(block.column(*key).bytes(i));
  return dataset::NumberAsKey(ordinal);
}

// Each byte string becomes a file unchanged. Other values (numbers, arrays, masks) become .npy and .json files.
class GenericFiles : public SampleFiles {
 public:
  GenericFiles(const Schema& schema, bool is_files) : schema_(schema), is_files_(is_files) {
    for (size_t i = 0; i < schema.size(); ++i) {
      (schema[i].is_key || !IsByteString(schema[i]) ? needed_ : as_they_are_).push_back(i);
    }
  }

  const std::vector<size_t>& needed_columns() const override { return needed_; }

  absl::Status List(const BlockView& block, uint32_t i, uint64_t ordinal, std::vector<SampleFile>* files) override {
    const std::string key = KeyOf(schema_, block, i, ordinal);
    for (const size_t column : as_they_are_) {
      const std::string& name = schema_[column].name;
      files->push_back({StrCat(key, is_files_ ? SuffixOfColumn(name) : StrCat(".", name)), column, {}});
    }
    for (const size_t column : needed_) {
      const std::optional<std::string_view> value = block.column(column).value(i);
      if (!value || schema_[column].is_key) continue;
      SampleFile file;
      SHARDKIT_ASSIGN_OR_RETURN(const std::string_view extension, Format(schema_[column], *value, &file.bytes));
      file.name = StrCat(key, ".", schema_[column].name, extension);
      files->push_back(std::move(file));
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<std::string_view> Format(const Column& column, std::string_view value, std::string* out) {
    const bool masks = column.type == Type::kRle;
    arena_.Clear();
    SHARDKIT_ASSIGN_OR_RETURN(
        *out, ConvertValue(column, masks ? ValueConversion::kToCocoJson : ValueConversion::kToNpy, value, &arena_));
    return masks ? ".json" : ".npy";
  }

  const Schema schema_;
  const bool is_files_;
  std::vector<size_t> needed_, as_they_are_;
  ByteArena arena_;
};

// The key is the file's name.
class WholeFiles : public SampleFiles {
 public:
  WholeFiles(const Schema& schema, size_t column) : schema_(schema), column_(column) {
    needed_ = {*schema.key_column()};
  }
  const std::vector<size_t>& needed_columns() const override { return needed_; }
  absl::Status List(const BlockView& block, uint32_t i, uint64_t ordinal, std::vector<SampleFile>* files) override {
    files->push_back({KeyOf(schema_, block, i, ordinal), column_, {}});
    return absl::OkStatus();
  }

 private:
  const Schema schema_;
  const size_t column_;
  std::vector<size_t> needed_;
};

class Sa1bFiles : public SampleFiles {
 public:
  Sa1bFiles(const Schema& schema, const Sa1bPositions& positions) : schema_(schema), positions_(positions) {
    for (size_t i = 0; i < kSa1bColumnCount; ++i) {
      if (i != kSa1bImage) needed_.push_back(positions_[i]);
    }
  }
  const std::vector<size_t>& needed_columns() const override { return needed_; }

  absl::Status List(const BlockView& block, uint32_t i, uint64_t ordinal, std::vector<SampleFile>* files) override {
    const std::string key = KeyOf(schema_, block, i, ordinal);
    files->push_back({StrCat(key, ".jpg"), positions_[kSa1bImage], {}});
    const Sa1bValues values = Sa1bValuesOf(block, positions_, i);
    SampleFile json{StrCat(key, ".json"), SIZE_MAX, {}};
    if (absl::Status status = RegenerateSa1bJson(values, &json.bytes); !status.ok()) return Annotate(status, key);
    files->push_back(std::move(json));
    return absl::OkStatus();
  }

 private:
  const Schema schema_;
  const Sa1bPositions positions_;
  std::vector<size_t> needed_;
};

// Images and PNGs of segments, by the names that their annotation file has for them.
class CocoFiles : public SampleFiles {
 public:
  // Null when the schema has not the columns of COCO, as in other containers.
  static std::unique_ptr<CocoFiles> Create(const Schema& schema, const Metadata& metadata) {
    const std::vector<Column> columns = CocoColumns(std::nullopt);
    auto files =
        std::make_unique<CocoFiles>(schema, StrCat(DivideName(CocoFileName(metadata), NameSplit::kLastDot).stem, "/"));
    for (size_t i = 0; i < kCocoColumnCount; ++i) {
      const std::optional<size_t> position = schema.Find(columns[i].name);
      if (!position) continue;
      const Column& found = schema[*position];
      const bool fits = i == kCocoImage || i == kCocoPanoptic
                            ? IsByteString(found.type)
                            : found.type == columns[i].type && found.dtype == columns[i].dtype && !found.shape;
      if (fits) files->positions_[i] = position;
    }
    if (!files->positions_[kCocoKey] || !files->positions_[kCocoImage] || !files->positions_[kCocoFileName]) {
      return nullptr;
    }
    for (size_t i = 0; i < kCocoColumnCount; ++i) {
      if (files->IsNeeded(i)) files->needed_.push_back(*files->positions_[i]);
    }
    return files;
  }

  CocoFiles(const Schema& schema, std::string png_folder) : schema_(schema), png_folder_(std::move(png_folder)) {}
  const std::vector<size_t>& needed_columns() const override { return needed_; }

  // The columns that the files were packed into and that the schema has no longer, as a list; empty if there are none.
  // Masks and labels are in other columns, too.
  std::string Missing(const Metadata& metadata) const {
    std::string missing;
    const std::vector<Column> columns = CocoColumns(std::nullopt);
    std::vector<std::string> packed;
    const auto found = metadata.find(std::string(kCocoColumns));
    const auto read = [&](JsonReader& json) { return json.Read(&packed); };
    if (found == metadata.end() || !ReadJson(found->second, /*all=*/true, read).ok()) return missing;
    for (size_t i = 0; i < kCocoColumnCount; ++i) {
      if (positions_[i] || i == kCocoMasks || i == kCocoLabel || !std::ranges::count(packed, columns[i].name)) continue;
      missing += StrCat(missing.empty() ? "" : ", ", columns[i].name);
    }
    return missing;
  }

  absl::Status List(const BlockView& block, uint32_t i, uint64_t ordinal, std::vector<SampleFile>* files) override {
    const std::optional<std::string_view> name = block.column(*positions_[kCocoFileName]).value(i);
    if (!name) return DataLoss(KeyOf(schema_, block, i, ordinal), ": has no file_name");
    files->push_back({std::string(*name), *positions_[kCocoImage], {}});
    if (!positions_[kCocoPanoptic] || !positions_[kCocoPanopticFileName]) return absl::OkStatus();
    const std::optional<std::string_view> png = block.column(*positions_[kCocoPanopticFileName]).value(i);
    if (png) files->push_back({std::string(*png), *positions_[kCocoPanoptic], {}, png_folder_});
    return absl::OkStatus();
  }

  absl::Status AddEntries(const BlockView& block, uint32_t i, const std::string& folder,
                          CocoEntries* entries) override {
    CocoValues values;
    for (size_t column = 0; column < kCocoColumnCount; ++column) {
      if (IsNeeded(column)) values[column] = block.column(*positions_[column]).value(i).value_or(std::string_view());
    }
    std::string names[2];
    for (const CocoColumn column : {kCocoFileName, kCocoPanopticFileName}) {
      if (values[column].data() == nullptr) continue;
      std::string& name = names[column == kCocoFileName ? 0 : 1];
      name = StrCat(folder, values[column]);
      values[column] = name;
    }
    const absl::Status status = RegenerateCocoJson(values, &entries->images, &entries->annotations);
    return Annotate(status, names[0]);
  }

 private:
  bool IsNeeded(size_t column) const {
    return positions_[column] && column != kCocoImage && column != kCocoPanoptic && column != kCocoMasks &&
           column != kCocoLabel;
  }

  const Schema schema_;
  const std::string png_folder_;
  std::array<std::optional<size_t>, kCocoColumnCount> positions_;
  std::vector<size_t> needed_;
};

absl::StatusOr<std::unique_ptr<SampleFiles>> SampleFiles::Create(const Schema& schema, const Metadata& metadata) {
  const auto entry = [&](std::string_view name) -> std::string_view {
    const auto found = metadata.find(std::string(name));
    return found == metadata.end() ? std::string_view() : found->second;
  };
  const std::string_view source = entry("shardkit.source");
  const auto lacks = [&](std::string_view name) {
    return InvalidArgument("says it was packed from ", source, " but has no column \"", name, "\"");
  };
  const bool whole_files = source == "files" && entry(kGroupByName) == GroupByName(GroupBy::kNone);
  if (whole_files || source == "imagefolder") {
    const std::string_view name = whole_files ? kFileColumn : std::string_view("image");
    if (!schema.key_column()) return InvalidArgument("says it was packed from ", source, " but has no key column");
    // In a tar the column's name has an extension.
    for (size_t i = 0; i < schema.size(); ++i) {
      const std::string& column = schema[i].name;
      if (!IsByteString(schema[i].type) || schema[i].is_key) continue;
      if (column == name || column.starts_with(StrCat(name, "."))) return std::make_unique<WholeFiles>(schema, i);
    }
    return lacks(name);
  }
  if (source == "coco") {
    if (auto coco = CocoFiles::Create(schema, metadata)) return coco;
  }
  // In other containers SA-1B's samples are files already.
  const bool has_files = schema.Find("jpg") && schema.Find("json");
  if (source == "sa1b" && !has_files) {
    Sa1bPositions positions;
    for (size_t i = 0; i < kSa1bColumnCount; ++i) {
      const std::string& name = Sa1bColumns()[i].name;
      const std::optional<size_t> position = schema.Find(name);
      if (!position) return lacks(name);
      positions[i] = *position;
    }
    return std::make_unique<Sa1bFiles>(schema, positions);
  }
  return std::make_unique<GenericFiles>(schema, source == "files" || source == "webdataset" || source == "sa1b");
}

}  // namespace
}  // namespace shardkit::operations

namespace shardkit {
namespace {

// Blobs of larger blocks are copied in pieces, so that they are never whole in memory.
constexpr uint64_t kWholeBlock = uint64_t{64} << 20;

class Unpacker {
 public:
  Unpacker(FileSystem& file_system, const DatasetReader& dataset, const std::string& directory,
           const UnpackOptions& options, bool in_order)
      : file_system_(file_system),
        dataset_(dataset),
        directory_(directory),
        options_(options),
        in_order_(in_order),
        pool_(in_order ? 1 : std::max(options.threads, 1)),
        tasks_(pool_, "writing files", options.cancellation, 2 * static_cast<size_t>(pool_.thread_count())) {}

  absl::Status Run() {
    const Metadata& metadata = dataset_.summary().metadata;
    const auto source = metadata.find("shardkit.source");
    if (source != metadata.end() && source->second == "coco") {
      const std::string file = operations::CocoFileName(metadata);
      const auto files = operations::CocoFiles::Create(dataset_.summary().schema, metadata);
      if (!files) {
        report_.warnings.push_back(StrCat(dataset_.path(),
                                          ": has not all of the columns key, image and file_name, which ", file,
                                          " needs: it is not made, and each value has a file of its own"));
      } else {
        SHARDKIT_ASSIGN_OR_RETURN(coco_, operations::CocoWriter::Create(file_system_, directory_, metadata));
        if (const std::string missing = files->Missing(metadata); !missing.empty()) {
          report_.warnings.push_back(StrCat(dataset_.path(), ": has not all columns that COCO was packed into: ", file,
                                            " lacks what was in ", missing,
                                            " (unpack an earlier generation, --at, if one has them)"));
        }
      }
    }
    const uint64_t end_sample = std::min(options_.end_sample, dataset_.sample_count());
    total_ = end_sample - std::min(options_.first_sample, end_sample);
    uint64_t first_sample = 0;
    for (size_t shard = 0; shard < dataset_.shard_count(); ++shard) {
      SHARDKIT_ASSIGN_OR_RETURN(const ManifestShard listed, dataset_.Shard(shard));
      const uint64_t samples = listed.samples;
      const uint64_t begin = std::max(options_.first_sample, first_sample);
      const uint64_t end = std::min(end_sample, first_sample + samples);
      if (begin < end) {
        SHARDKIT_RETURN_IF_ERROR(dataset_.plain() ? UnpackShard(shard, first_sample, begin, end)
                                                  : UnpackSeen({first_sample, samples}, begin, end));
      }
      first_sample += samples;
      for (const LostSample& lost : dataset_.lost_samples()) {
        if (lost.shard != shard || options_.end_sample < first_sample) continue;
        SHARDKIT_RETURN_IF_ERROR(Skip(first_sample, lost.key, lost.status));
      }
    }
    while (!tasks_.empty()) SHARDKIT_RETURN_IF_ERROR(TakeOne());
    if (coco_) {
      SHARDKIT_ASSIGN_OR_RETURN(const uint64_t bytes, coco_->Finish());
      ++report_.files;
      report_.bytes += bytes;
    }
    std::ranges::stable_sort(report_.skipped, {}, &SkippedSample::position);
    return absl::OkStatus();
  }

  // After a successful Run.
  UnpackReport report() { return std::move(report_); }

  // Whether Run failed because samples share names, so that it depends on their order which are left out.
  bool names_repeat() const { return names_repeat_; }

 private:
  struct Job {
    std::shared_ptr<const ShardReader> shard;  // null: what is seen of a block is not what the shard has
    std::shared_ptr<const Metadata> metadata;
    operations::NameEncoding names;
    size_t block = 0;
    uint64_t begin = 0;  // ordinals in the dataset
    uint64_t end = 0;
    DatasetBlock place;

    const std::string& path(const DatasetReader& dataset) const { return shard ? shard->path() : dataset.path(); }
  };

  std::string FolderOf(const Job& job) const {
    if (!options_.by_shard) return {};
    char name[24];
    std::snprintf(name, sizeof(name), "%08u/", job.place.shard);
    return name;
  }

  absl::Status Start(const Job& job) {
    while (tasks_.full()) SHARDKIT_RETURN_IF_ERROR(TakeOne());
    tasks_.Add([this, job] { return WriteBlock(job); });
    return absl::OkStatus();
  }

  // The samples of a shard of a dataset with layers or removed samples.
  absl::Status UnpackSeen(const SampleRange& shard, uint64_t begin, uint64_t end) {
    const auto metadata = std::make_shared<const Metadata>(dataset_.summary().metadata);
    SHARDKIT_ASSIGN_OR_RETURN(const operations::NameEncoding names, NamesOf(*metadata));
    const absl::Status listed = dataset_.ForEachBlockOf({&shard, 1}, [&](const DatasetBlock& block) -> absl::Status {
      if (block.first_sample >= end || block.first_sample + block.sample_count <= begin) return absl::OkStatus();
      return Start({nullptr, metadata, names, block.block, begin, end, block});
    });
    if (!absl::IsDataLoss(listed)) return listed;
    for (uint64_t i = begin; i < end; ++i) SHARDKIT_RETURN_IF_ERROR(Skip(i, "", listed));
    return absl::OkStatus();
  }

  absl::Status UnpackShard(size_t shard, uint64_t first_sample, uint64_t begin, uint64_t end) {
    const auto opened = dataset_.OpenShard(shard);
    auto metadata = opened.ok() ? (*opened)->ReadMetadata() : opened.status();
    if (!metadata.ok()) {
      for (uint64_t i = begin; i < end; ++i) SHARDKIT_RETURN_IF_ERROR(Skip(i, "", metadata.status()));
      return absl::OkStatus();
    }
    // Shards of other containers have no metadata.
    if (dataset_.container() != "shard") metadata = dataset_.summary().metadata;
    if (dataset_.container() == "webdataset") metadata->emplace("shardkit.source", "webdataset");
    const auto shared = std::make_shared<const Metadata>(*std::move(metadata));
    SHARDKIT_ASSIGN_OR_RETURN(const operations::NameEncoding names, NamesOf(*shared));
    for (size_t block = (*opened)->BlockOfSample(begin - first_sample);
         block <= (*opened)->BlockOfSample(end - 1 - first_sample); ++block) {
      const BlockInfo& info = (*opened)->blocks()[block];
      const DatasetBlock place{static_cast<uint32_t>(shard), static_cast<uint32_t>(block),
                               first_sample + info.first_sample, info.sample_count, info.length};
      SHARDKIT_RETURN_IF_ERROR(Start({*opened, shared, names, block, begin, end, place}));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<operations::NameEncoding> NamesOf(const Metadata& metadata) const {
    const auto found = metadata.find(std::string(operations::kNamesName));
    if (found == metadata.end()) return operations::NameEncoding();
    auto names = operations::NameEncoding::Create(found->second);
    if (names.ok()) return names;
    return Annotate(names.status(), StrCat(dataset_.path(), ": metadata ", operations::kNamesName));
  }

  // Records a skipped sample when options_ ask for that and the error is about the sample. Otherwise returns the error.
  absl::Status Skip(uint64_t ordinal, std::string_view key, const absl::Status& status) {
    const bool of_sample = absl::IsDataLoss(status) || absl::IsInvalidArgument(status);
    if (!options_.skip_errors || !of_sample) return status;
    std::lock_guard lock(mutex_);
    report_.skipped.push_back(SkippedSample::Of(ordinal, std::string(key), status));
    return absl::OkStatus();
  }

  absl::Status TakeOne() {
    const absl::StatusOr<operations::CocoEntries> entries = tasks_.Take().result;
    if (options_.progress) {
      std::lock_guard lock(mutex_);
      options_.progress(report_.samples, total_);
    }
    if (!entries.ok() || !coco_) return entries.status();
    return coco_->Append(entries->images, entries->annotations);
  }

  absl::StatusOr<operations::CocoEntries> WriteBlock(const Job& job) {
    const Schema& schema = job.shard ? job.shard->schema() : dataset_.summary().schema;
    auto layout = operations::SampleFiles::Create(schema, *job.metadata);
    if (!layout.ok()) return Annotate(layout.status(), job.path(dataset_));
    const bool whole = job.place.length <= kWholeBlock;
    const std::vector<size_t>& needed = (*layout)->needed_columns();
    // Reads all columns when none is needed in memory, or when the block is small enough to hold.
    const auto columns = whole || needed.empty() ? std::span<const size_t>() : std::span<const size_t>(needed);
    BlockBuffer buffer;
    BlockView view;
    BlockDamage damage;
    absl::Status read;
    if (!job.shard) {
      read = options_.skip_errors ? dataset_.SalvageBlock(job.place.shard, job.block, &buffer, &view, &damage)
                                  : dataset_.ReadBlock(job.place.shard, job.block, &buffer, &view);
    } else {
      read = options_.skip_errors ? job.shard->SalvageBlock(job.block, columns, &buffer, &view, &damage)
                                  : job.shard->ReadBlock(job.block, columns, &buffer, &view);
    }
    const std::optional<size_t> key_column = schema.key_column();
    UnpackReport done;
    operations::CocoEntries entries;
    for (uint32_t i = 0; i < job.place.sample_count; ++i) {
      const uint64_t ordinal = job.place.first_sample + i;
      if (ordinal < job.begin || ordinal >= job.end) continue;
      SHARDKIT_RETURN_IF_ERROR(tasks_.Check());
      absl::Status status = read.ok() ? damage.OfSample(i) : read;
      if (status.ok()) status = WriteSample(job, **layout, view, i, &done, &entries);
      if (status.ok()) {
        ++done.samples;
        continue;
      }
      std::string_view key;
      if (read.ok() && key_column && !damage.Has(i, *key_column)) key = view.column(*key_column).value(i).value_or(key);
      SHARDKIT_RETURN_IF_ERROR(Skip(ordinal, key, status));
    }
    SHARDKIT_RETURN_IF_ERROR(buffer.CheckMapped());
    std::lock_guard lock(mutex_);
    report_.samples += done.samples;
    report_.files += done.files;
    report_.bytes += done.bytes;
    return entries;
  }

  // Writes all files of a sample and adds its entries, or none of them.
  absl::Status WriteSample(const Job& job, operations::SampleFiles& layout, const BlockView& view, uint32_t i,
                           UnpackReport* done, operations::CocoEntries* entries) {
    // In the shard, as messages name it with the shard's path.
    const uint64_t local = job.shard ? view.first_sample() + i : job.place.first_sample + i;
    std::vector<operations::SampleFile> files;
    SHARDKIT_RETURN_IF_ERROR(layout.List(view, i, job.place.first_sample + i, &files));
    for (operations::SampleFile& file : files) {
      SHARDKIT_RETURN_IF_ERROR(FinishName(job, view, i, local, &file));
    }
    operations::CocoEntries own;
    SHARDKIT_RETURN_IF_ERROR(layout.AddEntries(view, i, FolderOf(job), &own));
    const UnpackReport before = *done;
    std::vector<std::string> made;
    for (const operations::SampleFile& file : files) {
      const absl::Status status = WriteFile(job, view, i, local, file, &made, done);
      if (status.ok()) continue;
      for (const std::string& path : made) (void)file_system_.RemoveFile(path);
      *done = before;
      return status;
    }
    entries->images += StrCat(entries->images.empty() || own.images.empty() ? "" : ",\n", own.images);
    entries->annotations +=
        StrCat(entries->annotations.empty() || own.annotations.empty() ? "" : ",\n", own.annotations);
    return absl::OkStatus();
  }

  // Whether it is known to be. Of a shard, columns are left out of the view whose values are copied one by one.
  static bool IsAbsent(const Job& job, const BlockView& view, uint32_t i, size_t column) {
    if (column == SIZE_MAX) return false;
    return view.column(column).loaded() ? !view.column(column).present(i) : job.shard == nullptr;
  }

  absl::Status FinishName(const Job& job, const BlockView& view, uint32_t i, uint64_t local,
                          operations::SampleFile* file) {
    if (IsAbsent(job, view, i, file->column)) return absl::OkStatus();
    file->name.insert(0, StrCat(file->folder, FolderOf(job)));
    absl::StatusOr<std::string> name = operations::OutputName(directory_, file->name, job.names);
    if (name.ok()) {
      file->name = *std::move(name);
      return absl::OkStatus();
    }
    const absl::Status& status = name.status();
    const std::string message =
        StrCat(job.path(dataset_), ": sample ", local, ": will not be unpacked: ", ToStd(status.message()));
    return absl::IsResourceExhausted(status) && !options_.skip_errors ? ResourceExhausted(message) : DataLoss(message);
  }

  absl::Status WriteFile(const Job& job, const BlockView& view, uint32_t i, uint64_t local,
                         const operations::SampleFile& file, std::vector<std::string>* files_made, UnpackReport* done) {
    std::string_view bytes = file.bytes;
    bool copy = false;
    if (file.column != SIZE_MAX) {
      if (IsAbsent(job, view, i, file.column)) return absl::OkStatus();
      copy = !view.column(file.column).loaded();
      if (!copy) bytes = view.column(file.column).bytes(i);
    }
    const std::string path = JoinPath(directory_, file.name);
    const auto write = [&](std::unique_ptr<WritableFile>& to, std::string_view piece) -> absl::Status {
      if (!to) {
        absl::Status made = MakeDirectories(operations::DirectoryPart(file.name));
        if (made.ok()) {
          auto file_made = file_system_.Create(path);
          made = file_made.status();
          if (made.ok()) {
            files_made->push_back(path);
            to = *std::move(file_made);
          }
        }
        if (absl::IsAlreadyExists(made)) return NameIsTaken(job, local, made);
        SHARDKIT_RETURN_IF_ERROR(made);
      }
      done->bytes += piece.size();
      return to->Append(piece);
    };
    std::unique_ptr<WritableFile> to;
    if (copy) {
      SHARDKIT_ASSIGN_OR_RETURN(const bool present,
                                job.shard->CopyValue(local, file.column, [&](std::string_view piece) -> absl::Status {
                                  SHARDKIT_RETURN_IF_ERROR(tasks_.Check());
                                  return write(to, piece);
                                }));
      if (!present) return absl::OkStatus();
      if (!to) SHARDKIT_RETURN_IF_ERROR(write(to, {}));
    } else {
      SHARDKIT_RETURN_IF_ERROR(write(to, bytes));
    }
    ++done->files;
    return to->Close();
  }

  absl::Status NameIsTaken(const Job& job, uint64_t local, const absl::Status& status) {
    const std::string what =
        StrCat(ToStd(status.message()), ": sample ", local, " of ", job.path(dataset_),
               " has a file or folder of a name that an earlier sample has, as one with the same key, or of one that "
               "this file system takes for the same, as A and a may be");
    if (in_order_) return InvalidArgument(what);
    names_repeat_ = true;
    return FailedPrecondition(what,
                              "; give the files of each shard a folder (--by-shard), or skip errors (--on-error "
                              "skip), which leaves the later sample out");
  }

  // `relative` ends with '/' or is empty.
  absl::Status MakeDirectories(std::string_view relative) {
    if (relative.empty()) return absl::OkStatus();
    std::lock_guard lock(mutex_);
    if (made_.contains(std::string(relative))) return absl::OkStatus();
    for (size_t end = relative.find('/'); end != std::string_view::npos; end = relative.find('/', end + 1)) {
      if (!made_.insert(std::string(relative.substr(0, end + 1))).second) continue;
      const std::string path = JoinPath(directory_, relative.substr(0, end));
      SHARDKIT_RETURN_IF_ERROR(file_system_.CreateDirectory(path));
      // CreateDirectory also accepts a link that somebody made after this run began.
      SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, file_system_.Stat(path, /*follow=*/false));
      if (info.type != FileType::kDirectory) {
        return FailedPrecondition(path,
                                  ": is a link made by somebody else: it will not be followed; unpack to a "
                                  "directory that nobody else writes to");
      }
    }
    return absl::OkStatus();
  }

  FileSystem& file_system_;
  const DatasetReader& dataset_;
  const std::string directory_;
  const UnpackOptions& options_;
  const bool in_order_;  // samples are written one after the other
  std::atomic<bool> names_repeat_ = false;
  uint64_t total_ = 0;
  std::mutex mutex_;
  UnpackReport report_;
  std::unordered_set<std::string> made_;
  std::unique_ptr<operations::CocoWriter> coco_;  // of a dataset that was packed from COCO
  ThreadPool pool_;
  OrderedTasks<absl::StatusOr<operations::CocoEntries>>
      tasks_;  // last: its destructor waits for tasks, which use the other members
};

// Removes links themselves, not the files that they lead to.
void RemoveEntries(FileSystem& file_system, const std::string& directory) {
  const auto entries = file_system.List(directory);
  if (!entries.ok()) return;
  for (const DirectoryEntry& entry : *entries) {
    const std::string path = JoinPath(directory, entry.name);
    (void)(entry.type == FileType::kDirectory ? RemoveTree(file_system, path) : file_system.RemoveFile(path));
  }
}

}  // namespace

absl::StatusOr<UnpackReport> Unpack(FileSystem& file_system, const DatasetReader& dataset, const std::string& directory,
                                    const UnpackOptions& options) {
  SHARDKIT_ASSIGN_OR_RETURN(const bool existed, dataset::Exists(file_system, directory));
  SHARDKIT_RETURN_IF_ERROR(CreateDirectories(file_system, directory));
  const auto entries = file_system.List(directory);
  if (!entries.ok()) {
    if (!existed) (void)file_system.RemoveDirectory(directory);
    return entries.status();
  }
  if (!entries->empty()) {
    return absl::AlreadyExistsError(StrCat(directory, ": is not empty (there is \"", entries->front().name,
                                           "\"); give a new or an empty directory"));
  }
  UnpackReport report;
  bool names_repeat = false;
  const auto run = [&](bool in_order) {
    Unpacker unpacker(file_system, dataset, directory, options, in_order);
    absl::Status status = Guarded("unpacking", [&] { return unpacker.Run(); });
    if (status.ok()) report = unpacker.report();  // else other threads may still be adding to it
    names_repeat = unpacker.names_repeat();
    return status;
  };
  absl::Status status = run(/*in_order=*/false);
  if (!status.ok() && options.skip_errors && names_repeat) {
    // Which of two samples came first was a matter of time: in their order it is the later one that is left out.
    RemoveEntries(file_system, directory);
    status = run(/*in_order=*/true);
  }
  if (status.ok()) return report;
  // The directory was empty, so everything in it now is ours. The directory itself stays when it existed before: it may
  // be a link to another one.
  RemoveEntries(file_system, directory);
  if (!existed) (void)file_system.RemoveDirectory(directory);
  return status;
}

}  // namespace shardkit
