#include "operations/sa1b/sa1b_source.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "operations/sa1b/sa1b_columns.h"
#include "operations/sources/source_names.h"
#include "shardkit/image.h"
#include "shardkit/rle.h"

namespace shardkit::operations {
namespace {

// So much of an image that is not in memory tells its size.
constexpr uint64_t kProbedBytes = uint64_t{1} << 20;

class PairUnit : public TarredUnit {
 public:
  std::string Names(size_t sample) const override {
    const Sa1bPair& pair = pairs[sample];
    std::string names = pair.key;
    for (const Sa1bFile* const half : {&pair.image, &pair.json}) names.append(1, '\0').append(half->name);
    return names;
  }

  std::vector<Sa1bPair> pairs;
};

bool IsHalf(std::string_view rest, bool has_dot) { return has_dot && (rest == "jpg" || rest == "json"); }

// Calls take(first, count) for each sample of a group: one for the pair or the single half, one for each other file.
template <typename Take>
void DividePairs(WalkedGroup* group, Take take) {
  const auto others = std::stable_partition(group->files.begin(), group->files.end(),
                                            [](const WalkedFile& file) { return IsHalf(file.rest, file.has_dot); });
  const auto halves = static_cast<size_t>(others - group->files.begin());
  if (halves > 0) take(size_t{0}, halves);
  for (size_t i = halves; i < group->files.size(); ++i) take(i, size_t{1});
}

}  // namespace

Sa1bSource::Sa1bSource(std::vector<SourceInput> inputs, const SourceOptions& options)
    : FileSource(std::move(inputs), options) {}

std::unique_ptr<Sa1bSource::Worker> Sa1bSource::TakeWorker() {
  std::lock_guard lock(mutex_);
  if (idle_.empty()) return std::make_unique<Worker>();
  std::unique_ptr<Worker> worker = std::move(idle_.back());
  idle_.pop_back();
  return worker;
}

void Sa1bSource::ReturnWorker(std::unique_ptr<Worker> worker) {
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(worker));
}

void Sa1bSource::CloseInput() {
  FileSource::CloseInput();
  tar_.reset();
}

absl::StatusOr<std::unique_ptr<TreeUnit>> Sa1bSource::NextFromTree(size_t max_samples) {
  GroupWalk& walk = Walk(NameSplit::kLastDot);
  auto unit = std::make_unique<TreeUnit>(NewUnit());
  while (unit->size() < max_samples) {
    if (next_part_ == parts_.size()) {
      parts_.clear();
      next_part_ = 0;
      SHARDKIT_ASSIGN_OR_RETURN(const bool more, walk.Next(&group_));
      if (!more) break;
      DividePairs(&group_, [this](size_t first, size_t count) { parts_.emplace_back(first, count); });
    }
    const auto [first, count] = parts_[next_part_++];
    unit->Add(group_, first, count);
  }
  return unit;
}

absl::StatusOr<std::unique_ptr<WorkUnit>> Sa1bSource::NextFromTar(size_t max_samples) {
  if (!tar_) {
    SHARDKIT_ASSIGN_OR_RETURN(tar_, Sa1bTar::Open(input().path, options_, /*headers_only=*/false, &passed_over_));
  }
  auto unit = std::make_unique<PairUnit>();
  unit->path = input().path;
  uint64_t bytes = 0;
  while (unit->pairs.size() < max_samples && bytes < kTarUnitBytes) {
    Sa1bPair pair;
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, tar_->Next(&pair));
    if (!more) break;
    bytes += pair.image.held() + pair.json.held();
    unit->bytes.push_back(pair.image.length() + pair.json.length());
    unit->pairs.push_back(std::move(pair));
  }
  unit->sample_count = unit->pairs.size();
  return unit;
}

absl::Status Sa1bSource::AddImage(Value value, Sample* sample) {
  if (value.length() == 0)
    return InvalidArgument("an empty file is not an image; remove it, or pack with --on-error skip");
  SHARDKIT_ASSIGN_OR_RETURN(const Type type, images_.TypeOf("image", value, /*extension=*/""));
  if (type != Type::kJpeg && type != Type::kPng) return InvalidArgument("neither a JPEG nor a PNG image");
  const Column* const column = type == Type::kJpeg ? &Sa1bColumns()[kSa1bImage] : images_.Find("image", type);
  sample->fields.push_back({column, std::move(value)});
  return absl::OkStatus();
}

void Sa1bSource::CountMasks(const Sample& sample) {
  const auto masks = std::ranges::find(sample.fields, &Sa1bColumns()[kSa1bMasks], &Field::column);
  if (masks == sample.fields.end()) {
    ++without_masks_;
    return;
  }
  const Value& image = sample.fields[0].value;
  std::string_view bytes = image.bytes;
  std::string head;
  if (image.file) {
    head.resize(std::min(image.file->size(), kProbedBytes));
    if (!image.file->ReadAt(0, head).ok()) return;
    bytes = head;
  }
  const auto size = ProbeImage(bytes);
  RleList sizes;
  if (!size.ok() || !ParseRleSizes(masks->value.bytes, &sizes).ok()) return;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes.widths[i] == size->width && sizes.heights[i] == size->height) continue;
    ++of_other_size_;
    return;
  }
}

std::vector<std::string> Sa1bSource::warnings() const {
  std::vector<std::string> warnings = FileSource::warnings();
  const auto samples = [](uint64_t count) { return StrCat(count, count == 1 ? " sample has " : " samples have "); };
  if (without_masks_ > 0) {
    warnings.push_back(StrCat(samples(without_masks_),
                              "annotations without RLE, as polygons or null; column masks is absent there, and "
                              "source_json keeps them"));
  }
  if (of_other_size_ > 0) {
    warnings.push_back(
        StrCat(samples(of_other_size_),
               "masks of another size than the image; a loader that decodes both refuses such a sample"));
  }
  return warnings;
}

absl::Status Sa1bSource::LoadFromTree(const TreeUnit& unit, size_t i, Worker& worker, ByteArena* arena,
                                      Sample* sample) {
  const auto files = unit.files(i);
  const std::string path = unit.FullPath(i, files[0]);
  for (const TreeUnit::File& file : files) {
    SHARDKIT_RETURN_IF_ERROR(Annotate(CheckEntryKind(file.kind), unit.FullPath(i, file)));
  }
  const Sa1bRole role = RoleOfName(unit.name(files[0]));
  if (role == Sa1bRole::kNeither) return InvalidArgument(path, ": neither .jpg nor .json: not a file of SA-1B");
  const NameParts parts = DivideName(unit.name(files[0]), NameSplit::kLastDot);
  if (files.size() < 2) {
    return NotFound(path, ": there is no '", parts.stem, role == Sa1bRole::kImage ? ".json" : ".jpg",
                    "' to go with it");
  }
  sample->key = arena->Copy(StrCat(unit.directory(i), parts.stem));
  SHARDKIT_RETURN_IF_ERROR(Annotate(CheckKey(sample->key), path));
  // "jpg" sorts before "json", so the image is the first file.
  SHARDKIT_ASSIGN_OR_RETURN(Value image,
                            LoadFile(options_.file_system, path, files[0].size, options_.stream_above, arena));
  SHARDKIT_RETURN_IF_ERROR(Annotate(AddImage(std::move(image), sample), path));
  const std::string json_path = unit.FullPath(i, files[1]);
  SHARDKIT_RETURN_IF_ERROR(ReadWholeFile(options_.file_system, json_path, files[1].size, &worker.json));
  SHARDKIT_RETURN_IF_ERROR(Annotate(worker.converter.Convert(worker.json, arena, &sample->fields), json_path));
  CountMasks(*sample);
  return absl::OkStatus();
}

absl::Status Sa1bSource::LoadFromTar(const std::string& path, Sa1bPair& pair, Worker& worker, ByteArena* arena,
                                     Sample* sample) {
  SHARDKIT_RETURN_IF_ERROR(pair.status);
  const auto name = [&path](const Sa1bFile& half) { return StrCat(path, ": member '", half.name, "'"); };
  sample->key = arena->Copy(pair.key);
  Value image;
  image.file = std::move(pair.image.file);
  if (!image.file) image.bytes = arena->Copy(pair.image.bytes);
  SHARDKIT_RETURN_IF_ERROR(Annotate(AddImage(std::move(image), sample), name(pair.image)));
  std::string_view json = pair.json.bytes;
  if (pair.json.file) {
    worker.json.resize(pair.json.file->size());
    SHARDKIT_RETURN_IF_ERROR(pair.json.file->ReadAt(0, worker.json));
    json = worker.json;
  }
  SHARDKIT_RETURN_IF_ERROR(Annotate(worker.converter.Convert(json, arena, &sample->fields), name(pair.json)));
  CountMasks(*sample);
  return absl::OkStatus();
}

void Sa1bSource::Load(WorkUnit& unit, SampleBatch* batch) {
  batch->Clear();
  std::unique_ptr<Worker> worker = TakeWorker();
  const auto* const tree = dynamic_cast<const TreeUnit*>(&unit);
  auto* const tar = dynamic_cast<PairUnit*>(&unit);
  const auto load = [&](size_t i, Sample* sample) {
    return tree != nullptr ? LoadFromTree(*tree, i, *worker, &batch->arena, sample)
                           : LoadFromTar(tar->path, tar->pairs[i], *worker, &batch->arena, sample);
  };
  const auto key = [&](size_t i, const Sample&) {
    return tree != nullptr ? tree->RelativePath(i, tree->files(i)[0]) : tar->pairs[i].key;
  };
  LoadEach(unit, batch, load, key, [&](size_t i, const Sample*) {
    return tree != nullptr ? tree->StatBytes(*options_.file_system, i) : tar->bytes[i];
  });
  ReturnWorker(std::move(worker));
}

absl::StatusOr<uint64_t> Sa1bSource::Count() {
  uint64_t count = 0;
  for (const SourceInput& input : inputs_) {
    if (input.tar) {
      SHARDKIT_ASSIGN_OR_RETURN(const auto tar, Sa1bTar::Open(input.path, options_, /*headers_only=*/true));
      Sa1bPair pair;
      for (;; ++count) {
        SHARDKIT_ASSIGN_OR_RETURN(const bool more, tar->Next(&pair));
        if (!more) break;
      }
    } else {
      const auto walk = OpenGroups(options_, input, NameSplit::kLastDot, rules_, nullptr);
      WalkedGroup group;
      while (true) {
        SHARDKIT_ASSIGN_OR_RETURN(const bool more, walk->Next(&group));
        if (!more) break;
        DividePairs(&group, [&count](size_t, size_t) { ++count; });
      }
    }
  }
  return count;
}

}  // namespace shardkit::operations
