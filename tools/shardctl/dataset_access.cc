#include "dataset_access.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "report.h"
#include "shardkit/job.h"
#include "shardkit/remote.h"

namespace shardctl {

void IoOption::AddTo(CommandLine* line) {
  line->Choice("--io", "MODE", {"auto", "buffered", "mmap", "direct"}, &index_,
               "how files are read: auto, buffered, mmap or direct (O_DIRECT) [auto]");
}

shardkit::ReadMode IoOption::mode() const {
  constexpr shardkit::ReadMode kModes[] = {shardkit::ReadMode::kAuto, shardkit::ReadMode::kBuffered,
                                           shardkit::ReadMode::kMapped, shardkit::ReadMode::kDirect};
  return kModes[index_];
}

void DecompressionOption::AddTo(CommandLine* line) {
  line->Size("--max-decompression", &bytes_,
             "what a block or a compressed file may decompress to beyond its stored bytes; more is refused [128MiB]");
}

void HashOption::AddTo(CommandLine* line) {
  line->Flag("--no-verify-hashes", &off_,
             "do not compare the hashes that an index lists for whole files (MDS): the first value comes sooner, and "
             "damage passes for data");
}

void JobsOption::AddTo(CommandLine* line, const std::string& description) {
  line->Count("-j,--jobs", "N", &jobs_, 1, 1024, description + " [one per processor; at least 16 for URLs]");
}

int JobsOption::jobs(std::span<const std::string> inputs) const {
  if (jobs_.has_value()) return static_cast<int>(*jobs_);
  return std::max(ReadingThreads(inputs), shardkit::AvailableProcessors());
}

int ReadingThreads(std::span<const std::string> paths) {
  constexpr int kRequestsInFlight = 16;
  return std::ranges::any_of(paths, shardkit::IsUrl) ? kRequestsInFlight : 1;
}

void AtOption::AddTo(CommandLine* line) {
  line->Count("--at", "GENERATION", &generation_, 1, UINT64_MAX,
              "read the dataset as it was in this generation, which shardctl history lists [the newest]");
}

void SampleOption::AddTo(CommandLine* line) {
  line->Count("--sample", "N", &sample, 0, UINT64_MAX, "the sample with this ordinal, counted from 0");
  line->Text("--key", "KEY", &key, "the first sample with this key");
}

absl::StatusOr<uint64_t> SampleOption::Find(const shardkit::DatasetReader& dataset) const {
  if (key.has_value()) {
    shardkit::BlockBuffer buffer;
    const absl::StatusOr<std::optional<uint64_t>> found = dataset.FindKey(*key, &buffer);
    if (!found.ok()) return found.status();
    if (!found->has_value()) return absl::OutOfRangeError(dataset.path() + ": no sample has the key " + Quote(*key));
    return **found;
  }
  const uint64_t count = dataset.sample_count();
  if (*sample >= count) {
    const std::string there = count == 0 ? "it has no samples" : "the last is " + std::to_string(count - 1);
    return absl::OutOfRangeError(dataset.path() + ": there is no sample " + std::to_string(*sample) + ": " + there);
  }
  return *sample;
}

absl::StatusOr<std::unique_ptr<shardkit::DatasetReader>> OpenDataset(const std::string& path,
                                                                     const shardkit::ReadOptions& read,
                                                                     const std::vector<std::string>& columns,
                                                                     uint64_t generation) {
  shardkit::DatasetOptions options;
  static_cast<shardkit::ReadOptions&>(options) = read;
  options.columns = columns;
  options.generation = generation;
  auto dataset = shardkit::DatasetReader::Open(*shardkit::DefaultFileSystem(), path, options);
  static std::set<std::string> noted;  // a dataset may be opened again with fewer columns
  if (dataset.ok()) {
    for (const std::string& note : (*dataset)->notes()) {
      if (noted.insert(note).second) Note(note);
    }
  }
  return dataset;
}

absl::Status CheckApart(const std::string& output, const std::vector<std::string>& inputs) {
  namespace fs = std::filesystem;
  if (shardkit::IsUrl(output)) return absl::OkStatus();
  std::error_code error;
  const fs::path inner = fs::weakly_canonical(fs::absolute(output), error);
  if (error) return absl::OkStatus();
  for (const std::string& input : inputs) {
    const fs::path outer = fs::canonical(input, error);
    if (error || !fs::is_directory(outer, error)) continue;
    const fs::path relative = inner.lexically_relative(outer);
    if (relative.empty() || *relative.begin() == "..") continue;
    return absl::InvalidArgumentError(output + ": the output lies within the input " + Quote(input) +
                                      ": choose a directory outside it");
  }
  return absl::OkStatus();
}

absl::Status CheckReadable(const std::string& path) {
  shardkit::FileSystem& file_system = *shardkit::DefaultFileSystem();
  const absl::StatusOr<shardkit::FileInfo> info = file_system.Stat(path);
  // It may be a pattern of tars: opening it tells.
  if (absl::IsNotFound(info.status()) && path.find_first_of("{*?[") != std::string::npos) return absl::OkStatus();
  if (!info.ok() || info->type == shardkit::FileType::kDirectory) return info.status();
  return file_system.OpenForReading(path).status();
}

void NoteFallback(const shardkit::DatasetReader& dataset) {
  static bool noted = false;
  const std::string reason = dataset.fallback_reason();
  if (reason.empty() || noted) return;
  noted = true;
  Note(reason);
}

std::optional<size_t> KeyColumn(const shardkit::DatasetReader& dataset) {
  const std::vector<shardkit::Column>& columns = dataset.columns();
  const auto found =
      std::find_if(columns.begin(), columns.end(), [](const shardkit::Column& column) { return column.is_key; });
  if (found == columns.end()) return std::nullopt;
  return static_cast<size_t>(found - columns.begin());
}

std::string ShapeText(const std::vector<uint64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

std::string TypeText(const shardkit::Column& column) {
  if (shardkit::IsTextList(column)) return "json utf8[...]";
  std::string text(shardkit::TypeName(column.type));
  if (!shardkit::IsKnownType(column.type) && column.fixed_size()) {
    return text + " of " + std::to_string(*column.fixed_size()) + " bytes";
  }
  if (column.type != shardkit::Type::kNdarray) return text;
  text += " " + std::string(shardkit::TypeName(column.dtype));
  return text + (column.shape.has_value() ? ShapeText(*column.shape) : "[...]");
}

Json ColumnJson(const shardkit::Column& column) {
  Json document;
  document["name"] = column.name;
  // As in the manifest, a number that is not known stands for itself.
  const auto type = [](shardkit::Type of) {
    return shardkit::IsKnownType(of) ? Json(shardkit::TypeName(of)) : Json(static_cast<int>(of));
  };
  document["type"] = type(column.type);
  if (column.type == shardkit::Type::kNdarray || !shardkit::IsKnownType(column.type)) {
    document["dtype"] = type(column.dtype);
    document["shape"] = column.shape.has_value() ? Json(*column.shape) : Json(nullptr);
  }
  document["codec"] = shardkit::IsKnownCodec(column.codec) ? Json(shardkit::CodecName(column.codec))
                                                           : Json(static_cast<int>(column.codec));
  document["nullable"] = column.nullable;
  document["key"] = column.is_key;
  if (const auto size = column.fixed_size()) document["value_size"] = *size;
  if (!column.metadata.empty()) document["metadata"] = column.metadata;
  return document;
}

}  // namespace shardctl
