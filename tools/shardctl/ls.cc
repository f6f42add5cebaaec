// shardctl ls
#include <xxhash.h>

#include <algorithm>
#include <string>
#include <vector>

#include "command_line.h"
#include "dataset_access.h"
#include "json.h"
#include "numbers.h"
#include "output.h"
#include "report.h"
#include "table.h"
#include "verbs.h"

namespace shardctl {
namespace {

struct Listing {
  bool detailed = false;
  bool json = false;
  bool hashes = false;
  uint64_t first = 0;
  uint64_t end = UINT64_MAX;
};

int ListShards(const shardkit::DatasetReader& dataset, bool json) {
  const absl::StatusOr<shardkit::Manifest> manifest = dataset.ReadManifest();
  if (!manifest.ok()) return Fail(manifest.status());
  if (json) {
    Json shards = Json::array();
    for (const shardkit::ManifestShard& shard : manifest->shards) {
      shards.push_back({{"name", shard.name},
                        {"bytes", shard.bytes},
                        {"samples", shard.samples},
                        {"blocks", shard.blocks},
                        {"content_hash", shardkit::ToHex(shard.content_hash)},
                        {"sha256", shard.sha256 ? Json(shardkit::ToHex(*shard.sha256)) : Json(nullptr)}});
    }
    PrintJson(Json{{"shards", shards}});
    return kExitSuccess;
  }
  const bool hashed = std::ranges::any_of(manifest->shards, [](const auto& shard) { return shard.sha256.has_value(); });
  Table table(hashed ? "lrrrll" : "lrrrl");
  std::vector<std::string> heading = {"shard", "bytes", "samples", "blocks", "content hash"};
  if (hashed) heading.emplace_back("sha256");
  table.AddRow(std::move(heading));
  for (const shardkit::ManifestShard& shard : manifest->shards) {
    std::vector<std::string> row = {Printable(shard.name), std::to_string(shard.bytes), std::to_string(shard.samples),
                                    std::to_string(shard.blocks), shardkit::ToHex(shard.content_hash)};
    if (hashed) row.push_back(shard.sha256 ? shardkit::ToHex(*shard.sha256) : "-");
    table.AddRow(std::move(row));
  }
  Stdout().Write(table.Format());
  return kExitSuccess;
}

// Prints each sample at once, so that memory use does not depend on the length of the listing.
class Lister {
 public:
  Lister(const shardkit::DatasetReader& dataset, const Listing& listing) : dataset_(dataset), listing_(listing) {}

  absl::Status Run() {
    key_ = KeyColumn(dataset_);
    number_width_ = std::to_string(std::max<uint64_t>(dataset_.sample_count(), 1) - 1).size();
    if (listing_.detailed && !listing_.json) {
      const absl::Status status = ChooseWidths();
      if (!status.ok()) return status;
      PrintHeading();
    }
    if (listing_.json) {
      Stdout().Write("{\n  \"path\": " + FormatJson(dataset_.path()) +
                     ",\n  \"samples\": " + std::to_string(dataset_.sample_count()) + ",\n  \"entries\": [");
    }
    const absl::Status status = Scan();
    // The JSON document is closed even after an error. The error is reported on standard error.
    if (listing_.json) Stdout().Write(first_entry_ ? "]\n}\n" : "\n  ]\n}\n");
    return status;
  }

 private:
  absl::Status ChooseWidths() {
    const absl::StatusOr<std::vector<shardkit::ColumnStatistics>> statistics = dataset_.ReadStatistics();
    if (!statistics.ok()) return statistics.status();
    for (size_t i = 0; i < dataset_.columns().size(); ++i) {
      widths_.push_back(std::max(TextWidth(Printable(dataset_.columns()[i].name)),
                                 std::to_string((*statistics)[i].max_length).size()));
    }
    number_width_ = std::max<size_t>(number_width_, 6);
    return absl::OkStatus();
  }

  void PrintHeading() {
    std::string line = PadLeft("sample", number_width_);
    for (size_t i = 0; i < widths_.size(); ++i) {
      if (i != key_) line += "  " + PadLeft(Printable(dataset_.columns()[i].name), widths_[i]);
    }
    if (key_.has_value()) line += "  " + Printable(dataset_.columns()[*key_].name);
    Stdout().Write(line + "\n");
  }

  absl::Status Scan() {
    const int threads = ReadingThreads({&dataset_.path(), 1});
    shardkit::ScanOptions options{.threads = threads, .blocks_ahead = std::max(4, threads)};
    options.first_sample = listing_.first;
    options.end_sample = listing_.end;
    if (listing_.first >= std::min(listing_.end, dataset_.sample_count())) return absl::OkStatus();
    const auto scanner = dataset_.Scan(options);
    if (!scanner.ok()) return scanner.status();
    while (Stdout().ok()) {
      const absl::StatusOr<std::unique_ptr<shardkit::ScannedBlock>> block = (*scanner)->Next();
      if (!block.ok()) return block.status();
      if (*block == nullptr) break;
      const shardkit::BlockView& view = (*block)->view();
      for (uint32_t i = 0; i < view.sample_count(); ++i) {
        const uint64_t sample = (*block)->first_sample() + i;
        if (sample >= listing_.first && sample < listing_.end) PrintSample(sample, view, i);
      }
      if (const absl::Status status = (*block)->CheckMapped(); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  void PrintSample(uint64_t sample, const shardkit::BlockView& view, uint32_t i) {
    if (listing_.hashes) {
      PrintHashes(sample, view, i);
    } else if (listing_.json) {
      PrintEntry(sample, view, i);
    } else {
      PrintLine(sample, view, i);
    }
  }

  void PrintHashes(uint64_t sample, const shardkit::BlockView& view, uint32_t i) {
    Json columns = Json::object();
    for (size_t c = 0; c < dataset_.columns().size(); ++c) {
      const std::optional<std::string_view> value = view.column(c).value(i);
      Json& hash = columns[dataset_.columns()[c].name];
      if (value.has_value()) hash = FormatHex(XXH3_64bits(value->data(), value->size()));
    }
    Stdout().Write(FormatJson(Json{{"sample", sample}, {"columns", columns}}) + "\n");
  }

  void PrintEntry(uint64_t sample, const shardkit::BlockView& view, uint32_t i) {
    Json entry;
    entry["sample"] = sample;
    entry["key"] = nullptr;
    if (key_.has_value()) entry["key"] = view.column(*key_).value(i).value_or("");
    if (listing_.detailed) {
      entry["lengths"] = Json::object();
      for (size_t c = 0; c < dataset_.columns().size(); ++c) {
        const std::optional<std::string_view> value = view.column(c).value(i);
        entry["lengths"][dataset_.columns()[c].name] = value.has_value() ? Json(value->size()) : Json(nullptr);
      }
    }
    Stdout().Write((first_entry_ ? "\n    " : ",\n    ") + FormatJson(entry));
    first_entry_ = false;
  }

  void PrintLine(uint64_t sample, const shardkit::BlockView& view, uint32_t i) {
    std::string line = PadLeft(std::to_string(sample), number_width_);
    for (size_t c = 0; c < widths_.size(); ++c) {
      if (c == key_) continue;
      const std::optional<std::string_view> value = view.column(c).value(i);
      line += "  " + PadLeft(value.has_value() ? std::to_string(value->size()) : "-", widths_[c]);
    }
    if (key_.has_value()) line += "  " + Printable(view.column(*key_).value(i).value_or(""));
    Stdout().Write(line + "\n");
  }

  static std::string PadLeft(const std::string& text, size_t width) {
    return std::string(width - std::min(width, TextWidth(text)), ' ') + text;
  }

  const shardkit::DatasetReader& dataset_;
  const Listing listing_;
  std::optional<size_t> key_;
  size_t number_width_ = 1;
  std::vector<size_t> widths_;  // of the columns; empty when their lengths are not shown
  bool first_entry_ = true;
};

// The columns whose values this version can read. Notes the others.
std::vector<std::string> ReadableColumns(const shardkit::DatasetReader& dataset) {
  std::vector<std::string> names;
  for (const shardkit::Column& column : dataset.columns()) {
    if (shardkit::IsKnownCodec(column.codec)) {
      names.push_back(column.name);
    } else {
      Note("column " + Quote(column.name) + " has " + shardkit::CodecName(column.codec) +
           ", which this version does not know: it is left out");
    }
  }
  return names;
}

}  // namespace

int RunLs(int argc, char** argv) {
  CommandLine line("ls", "list the samples or shards of a dataset", "[OPTION]... PATH");
  std::vector<std::string> paths;
  Listing listing;
  bool shards = false;
  uint64_t limit = UINT64_MAX;
  IoOption io;
  DecompressionOption decompression;
  HashOption hashes;
  AtOption at;
  line.Arguments("PATH", 1, 1, &paths);
  line.Flag("-l,--long", &listing.detailed,
            "show the length of every value in bytes (reads all values; without it the keys alone are read)");
  line.Flag("--shards", &shards, "list shards instead of samples");
  line.Flag("--values-xxh3", &listing.hashes, "print the XXH3-64 of every stored value, one JSON object per sample");
  line.Count("--offset", "N", &listing.first, 0, UINT64_MAX, "begin with sample N [0]");
  line.Count("--limit", "N", &limit, 0, UINT64_MAX, "list at most N samples");
  io.AddTo(&line);
  decompression.AddTo(&line);
  hashes.AddTo(&line);
  at.AddTo(&line);
  line.StoreOptions(StoreUse::kRead);
  line.Flag("--json", &listing.json, "print one JSON document");
  line.Example("shardctl ls photos --limit 5", "ordinals and keys of the first five samples");
  line.Example("shardctl ls --shards photos", "name, size and content hash of each shard");
  line.Example("diff <(shardctl ls --values-xxh3 a) <(shardctl ls --values-xxh3 b)",
               "do two datasets hold the same samples, however they are cut into shards?");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  if (shards && (listing.detailed || listing.hashes)) {
    return line.UsageError("--shards cannot be combined with --long or --values-xxh3");
  }
  if (listing.hashes && (listing.json || listing.detailed)) {
    return line.UsageError("--values-xxh3 cannot be combined with --long or --json");
  }
  listing.end = limit > UINT64_MAX - listing.first ? UINT64_MAX : listing.first + limit;

  shardkit::ReadOptions read;
  read.mode = io.mode();
  read.max_decompression = decompression.bytes();
  read.verify_listed_hashes = hashes.verify();
  absl::StatusOr<std::unique_ptr<shardkit::DatasetReader>> dataset = OpenDataset(paths[0], read, {}, at.generation());
  if (!dataset.ok()) return Fail(dataset.status());
  if (shards) return ListShards(**dataset, listing.json);
  const std::optional<size_t> key = KeyColumn(**dataset);
  if (!listing.detailed && !listing.hashes && key.has_value()) {
    const std::string key_name = (*dataset)->columns()[*key].name;
    dataset = OpenDataset(paths[0], read, {key_name}, at.generation());
    if (!dataset.ok()) return Fail(dataset.status());
  } else if (const std::vector<std::string> readable = ReadableColumns(**dataset);
             readable.size() != (*dataset)->columns().size()) {
    if (readable.empty()) return Fail(absl::UnimplementedError(paths[0] + ": no column has a codec that is known"));
    dataset = OpenDataset(paths[0], read, readable, at.generation());
    if (!dataset.ok()) return Fail(dataset.status());
  }
  const absl::Status status = Lister(**dataset, listing).Run();
  NoteFallback(**dataset);
  Stdout().Flush();
  return status.ok() ? kExitSuccess : Fail(status);
}

}  // namespace shardctl
