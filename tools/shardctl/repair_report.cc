#include "repair_report.h"

#include "numbers.h"
#include "report.h"

namespace shardctl {
namespace {

constexpr size_t kKeysShown = 3;

std::string RangeText(uint64_t first, uint64_t count, const std::string& noun) {
  if (count == 1) return noun + " " + std::to_string(first);
  return noun + "s " + std::to_string(first) + " to " + std::to_string(first + count - 1);
}

std::string KeysText(const std::vector<std::string>& keys) {
  if (keys.empty()) return "";
  std::string text = keys.size() == 1 ? " (key " : " (keys ";
  for (size_t i = 0; i < keys.size() && i < kKeysShown; ++i) text += (i == 0 ? "" : ", ") + Quote(keys[i]);
  if (keys.size() > kKeysShown) text += " and " + std::to_string(keys.size() - kKeysShown) + " more";
  return text + ")";
}

std::string LossText(const shardkit::RepairLoss& loss) {
  std::string text = "lost " + RangeText(loss.first_sample, loss.sample_count, "sample") + KeysText(loss.keys);
  if (loss.first_block && loss.block_count != 0) text += ", " + RangeText(*loss.first_block, loss.block_count, "block");
  if (loss.first_block && loss.block_count == 0) text += ", from block " + std::to_string(*loss.first_block) + " on";
  return text + ": " + loss.reason;
}

}  // namespace

void PrintShardRepair(const shardkit::RepairReport& report, size_t* room) {
  for (const std::string& problem : report.problems) PrintError("shardctl: " + report.path + ": " + problem);
  for (const std::string& note : report.notes) Note(report.path + ": " + note);
  for (const shardkit::RepairLoss& loss : report.losses) {
    if (*room == 0) return;
    --*room;
    PrintError("shardctl: " + report.path + ": " + LossText(loss));
  }
}

Json ShardRepairJson(const shardkit::RepairReport& report) {
  Json document;
  document["path"] = report.path;
  document["output"] = report.written ? Json(report.output) : Json(nullptr);
  document["lossless"] = report.lossless();
  document["samples_recovered"] = report.samples_recovered;
  document["samples_lost"] = report.samples_lost;
  document["end_known"] = report.end_known;
  document["blocks_recovered"] = report.blocks_recovered;
  document["blocks_lost"] = report.blocks_lost;
  document["bytes"] = report.bytes;
  document["content_hash"] = report.written ? Json(shardkit::ToHex(report.content_hash)) : Json(nullptr);
  document["problems"] = report.problems;
  document["notes"] = report.notes;
  document["losses"] = Json::array();
  for (const shardkit::RepairLoss& loss : report.losses) {
    document["losses"].push_back({{"first_sample", loss.first_sample},
                                  {"samples", loss.sample_count},
                                  {"first_block", loss.first_block ? Json(*loss.first_block) : Json(nullptr)},
                                  {"blocks", loss.block_count},
                                  {"reason", loss.reason},
                                  {"columns", loss.columns},
                                  {"keys", loss.keys}});
  }
  return document;
}

std::string RecoveryText(uint64_t recovered, uint64_t lost, bool end_known) {
  std::string text = "recovered " + Counted(recovered, "sample") + ", ";
  text += lost == 0 ? std::string("none") : std::to_string(lost);
  return text + " lost" + (end_known ? "" : " that are known of");
}

}  // namespace shardctl
