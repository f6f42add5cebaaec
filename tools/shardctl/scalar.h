// Numbers of the scalar types as text.
#pragma once

#include <cstdint>
#include <string>

#include "json.h"
#include "shardkit/schema.h"
#include "shardkit/shard.h"

namespace shardctl {

// The shortest decimal text that gives the same value when it is read as `type`; "true" and "false"; "nan", "inf",
// "-inf". `bytes` points to ScalarSize(type) bytes.
std::string ScalarText(shardkit::Type type, const char* bytes);

// True when ScalarText's result is a JSON number or word, false when it must be quoted.
bool IsJsonText(const std::string& scalar_text);

Json ScalarJson(shardkit::Type type, const char* bytes);

// A bound of a numeric column: `bits` are the bits of an i64, u64 or f64.
Json BoundJson(shardkit::RangeKind kind, uint64_t bits);

}  // namespace shardctl
