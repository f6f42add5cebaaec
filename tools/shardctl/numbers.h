// Numbers as people write and read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"

namespace shardctl {

// Bytes: a decimal number and an optional unit, B, KB, MB, GB, TB (powers of 1000) or KiB, MiB, GiB, TiB (powers of
// 1024), in upper or lower case. A fraction must give whole bytes. InvalidArgument otherwise.
absl::StatusOr<uint64_t> ParseSize(std::string_view text);

// Only decimal digits, between `minimum` and `maximum`.
absl::StatusOr<uint64_t> ParseCount(std::string_view text, uint64_t minimum, uint64_t maximum);

// Decimal digits with an optional point, between `minimum` and `maximum`.
absl::StatusOr<double> ParseNumber(std::string_view text, double minimum, double maximum);

// "50ms", "200us", "1.5s": seconds, at most an hour.
absl::StatusOr<double> ParseTime(std::string_view text);

// "10%", "0.1%", "0.1": a share, above 0 and at most 1.
absl::StatusOr<double> ParseShare(std::string_view text);

// "A:B", "A:", ":B": a half-open range. A missing A is 0, a missing B is UINT64_MAX. InvalidArgument when A > B.
absl::StatusOr<std::pair<uint64_t, uint64_t>> ParseRange(std::string_view text);

// "I/N" with I below N.
absl::StatusOr<std::pair<uint64_t, uint64_t>> ParsePart(std::string_view text);

// "512 B", "12.4 MiB".
std::string FormatBytes(uint64_t bytes);

// "1 shard", "2 shards".
std::string Counted(uint64_t count, std::string_view noun);

// `value` with `digits` digits after the point.
std::string FormatFixed(double value, int digits);

// "12.5 %" for 0.125.
std::string FormatPercent(double share);

// 16 lower-case hexadecimal digits.
std::string FormatHex(uint64_t value);

}  // namespace shardctl
