#include "filter_options.h"

#include "numbers.h"
#include "report.h"

namespace shardctl {

void CopyArguments::AddTo(CommandLine* line) {
  line->Size("--shard-size", &shard_size_,
             "end a shard with the block of the input that reaches this many bytes, of which the share of the samples "
             "that are taken counts [256MiB]");
  line->Text("--block-size", "SIZE", &block_size_,
             "rewrite all blocks, and close one when it reaches this [whole blocks are copied, the others get 4MiB]");
  jobs_.AddTo(line, "threads that read and compress; the output is the same for any number");
  line->Flag("--resume", &resume_,
             "go on where an interrupted run with the same options stopped; when interrupted, keep finished shards");
  sync_.AddTo(line);
  decompression_.AddTo(line);
  hashes_.AddTo(line);
  line->StoreOptions(StoreUse::kWrite);
}

std::optional<int> CopyArguments::Take(const CommandLine& line, const std::vector<std::string>& inputs,
                                       shardkit::CopyOptions* options) const {
  options->max_decompression = decompression_.bytes();
  options->verify_listed_hashes = hashes_.verify();
  if (shard_size_ == 0) return line.UsageError("--shard-size: must not be 0");
  shardkit::DatasetWriterOptions& dataset = options->pack.dataset;
  dataset.shard_size = shard_size_;
  if (block_size_.has_value()) {
    const absl::StatusOr<uint64_t> bytes = ParseSize(*block_size_);
    if (!bytes.ok()) return line.UsageError("--block-size: " + std::string(bytes.status().message()));
    if (*bytes == 0) return line.UsageError("--block-size: must not be 0");
    dataset.shard.block_size = *bytes;
    options->keep_blocks = false;
  }
  dataset.threads = jobs_.jobs(inputs);
  dataset.resume = resume_;
  dataset.sync = sync_.sync();
  dataset.job = InputText(inputs);
  options->pack.keep_on_cancel = resume_;
  return std::nullopt;
}

void AddByReference(CommandLine* line, bool* by_reference) {
  line->Flag("--by-reference", by_reference,
             "write no samples: the new dataset refers to the shards, which stay, and must stay, where they are");
}

void NoteBases(const shardkit::Manifest& manifest) {
  for (const shardkit::Base& base : manifest.bases) {
    if (base.location != base.path) continue;  // relative where it is within reach
    Note("opening it needs --allow-base " + Printable(base.path) + ", or SHARDKIT_ALLOW_BASES");
  }
}

std::string SelectionText(const shardkit::SelectionReport& report) {
  std::string text = "selected " + std::to_string(report.selected) + " of " + Counted(report.samples, "sample");
  if (report.blocks_read + report.blocks_skipped == 0) return text;
  text += "; read " + std::to_string(report.blocks_read) + " of " + Counted(report.blocks, "block") + " to decide";
  if (report.blocks_skipped > 0) text += ", left out " + std::to_string(report.blocks_skipped) + " by their ranges";
  return text;
}

void SetSelection(const shardkit::SelectionReport& report, Json* document) {
  (*document)["input_samples"] = report.samples;
  (*document)["selected"] = report.selected;
  (*document)["blocks"] = report.blocks;
  (*document)["blocks_read"] = report.blocks_read;
  (*document)["blocks_skipped"] = report.blocks_skipped;
}

}  // namespace shardctl
