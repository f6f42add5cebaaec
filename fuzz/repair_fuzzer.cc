// Any bytes as a damaged shard. The shard that repair writes is valid and holds exactly the samples that repair reports
// as recovered. Repair recovers all samples of an undamaged shard.

#include <cstdint>
#include <memory>

#include "shardkit/repair.h"
#include "shardkit/shard.h"
#include "shardkit/validate.h"
#include "support/file_sections.h"
#include "support/memory_bound.h"
#include "support/require.h"

using namespace shardkit;
using namespace shardkit::fuzz;

namespace {

// The losses are in order, do not overlap, and add up to the reported number.
void CheckAccount(const RepairReport& report) {
  uint64_t lost = 0, end = 0;
  for (const RepairLoss& loss : report.losses) {
    Require(loss.sample_count > 0 && loss.first_sample >= end, "losses ascend and do not overlap");
    end = loss.first_sample + loss.sample_count;
    lost += loss.sample_count;
    Require(loss.keys.size() <= loss.sample_count, "a lost sample has one key");
  }
  Require(lost == report.samples_lost, "the losses add up");
  Require(report.written || report.samples_recovered == 0, "what is recovered is written");
}

void CheckOutput(FileSystem& files, const RepairReport& report) {
  const auto fixed = ShardReader::Open(files, report.output);
  RequireOk(fixed.status(), "a repaired shard, opened");
  Require((*fixed)->sample_count() == report.samples_recovered, "a repaired shard has the samples that were recovered");
  Require((*fixed)->file_length() == report.bytes && (*fixed)->content_hash() == report.content_hash,
          "a repaired shard is as reported");
  const auto valid = Validate(files, report.output);
  RequireOk(valid.status(), "a repaired shard, validated");
  // What the schema says is copied as it is, sense or not.
  for (const Problem& problem : valid->problems) {
    Require(problem.message.find(kClassNames) != std::string::npos, "a repaired shard is valid");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryBound bound(size);
  const std::unique_ptr<FileSystem> files = NewMemoryFileSystem();
  WriteWhole(*files, "/fuzz.shard", {reinterpret_cast<const char*>(data), size});
  const auto before = Validate(*files, "/fuzz.shard");
  const bool whole = before.ok() && before->ok();
  for (const bool keep_samples : {false, true}) {
    RepairOptions options;
    options.keep_samples = keep_samples;
    const auto report = RepairShard(*files, "/fuzz.shard", "/fixed.shard", options);
    if (!report.ok()) {
      // But not where the codec of its keys is not known: the key index could not be made.
      Require(!whole || absl::IsUnimplemented(report.status()), "a whole shard can be repaired");
      Require(!files->Stat("/fixed.shard").ok(), "a repair that failed leaves nothing");
      continue;
    }
    CheckAccount(*report);
    if (whole)
      Require(report->lossless() && report->samples_recovered == before->samples, "of a whole shard nothing is lost");
    if (!report->written) continue;
    CheckOutput(*files, *report);
    RequireOk(files->RemoveFile("/fixed.shard"), "removing the output");
  }
  return 0;
}
