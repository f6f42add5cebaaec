// Numbers of every type as one of three.
#pragma once

#include <cstdint>

#include "shardkit/schema.h"
#include "shardkit/shard.h"

namespace shardkit::format {

// The ScalarSize(type) bytes at `value` as the 64 bits of an i64, u64 or f64: every number exactly. False for NaN,
// whose kind and bits are set too, and for types without a range.
bool Widen(Type type, const char* value, RangeKind* kind, uint64_t* bits);

}  // namespace shardkit::format
