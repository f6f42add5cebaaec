// Numbers of predicates: integers are exact, whatever their types, and are compared with floating point exactly.
#pragma once

#include <bit>
#include <cmath>
#include <compare>
#include <cstdint>

#include "shardkit/shard.h"

namespace shardkit::predicate {

// Holds every i64 and u64, and sums of as many as fit in memory.
__extension__ typedef __int128 Int128;

struct Number {
  bool is_real = false;
  Int128 integer = 0;
  double real = 0;

  static Number Integer(Int128 value) { return {false, value, 0}; }
  static Number Real(double value) { return {true, 0, value}; }

  // From the bits of a value of this kind, which is not kNone.
  static Number Of(RangeKind kind, uint64_t bits) {
    if (kind == RangeKind::kF64) return Real(std::bit_cast<double>(bits));
    return Integer(kind == RangeKind::kI64 ? Int128{static_cast<int64_t>(bits)} : Int128{bits});
  }

  double AsReal() const { return is_real ? real : static_cast<double>(integer); }
};

inline std::partial_ordering Compare(Int128 a, double b) {
  constexpr double kEnd = 0x1p127;
  if (std::isnan(b)) return std::partial_ordering::unordered;
  if (b >= kEnd) return std::partial_ordering::less;
  if (b < -kEnd) return std::partial_ordering::greater;
  const double whole = std::trunc(b);
  const auto integer = static_cast<Int128>(whole);
  if (a != integer) return a < integer ? std::partial_ordering::less : std::partial_ordering::greater;
  return 0.0 <=> (b - whole);
}

// As the numbers are, not as conversion to one type would make them; unordered with NaN.
inline std::partial_ordering Compare(const Number& a, const Number& b) {
  if (a.is_real && b.is_real) return a.real <=> b.real;
  if (b.is_real) return Compare(a.integer, b.real);
  if (a.is_real) return 0 <=> Compare(b.integer, a.real);
  return a.integer < b.integer
             ? std::partial_ordering::less
             : (a.integer > b.integer ? std::partial_ordering::greater : std::partial_ordering::equivalent);
}

}  // namespace shardkit::predicate
