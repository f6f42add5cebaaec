// The reports of repair about one shard.
#pragma once

#include <string>

#include "json.h"
#include "shardkit/repair.h"

namespace shardctl {

// Prints the problems, notes and losses of one shard on standard error. `*room` is the number of losses that may still
// be listed; the function lowers it.
void PrintShardRepair(const shardkit::RepairReport& report, size_t* room);

Json ShardRepairJson(const shardkit::RepairReport& report);

// "recovered 40 samples; 4 are lost"
std::string RecoveryText(uint64_t recovered, uint64_t lost, bool end_known);

}  // namespace shardctl
