// A predicate after its text was read and its types were checked.
#pragma once

#include <bit>
#include <cmath>
#include <compare>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/schema.h"
#include "shardkit/shard.h"

namespace shardkit::predicate {

// Holds every i64 and u64, and sums of as many as fit in memory.
__extension__ typedef __int128 Int128;

// Integers are exact, whatever their types, and are compared with floating point exactly.
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

// Whether the byte is inside a character of UTF-8, not its first.
inline bool ContinuesCharacter(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// What an expression gives for a sample.
enum class Kind : uint8_t {
  kCondition,  // true, false, or unknown
  kNumber,
  kText,
  kNumbers,     // an array
  kConditions,  // one for each element of an array
  kOther,       // other values: they have a length, or are absent
};

enum class Operation : uint8_t {
  kColumn,
  kLiteral,
  kOr,
  kAnd,
  kNot,
  kIsAbsent,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kIn,          // of Node::list
  kMatches,     // the pattern Node::literal
  kStartsWith,  // with Node::literal
  kNegate,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kRemainder,
  kLength,
  kCount,
  kMinimum,
  kMaximum,
  kMean,
  kSum,
  kAny,
  kAll,
};

// Of kind kCondition, kNumber or kText. Text is borrowed from a block or from the tree.
using Scalar = std::variant<std::monostate, bool, Number, std::string_view>;

struct Node {
  Operation operation = Operation::kLiteral;
  Kind kind = Kind::kOther;
  int depth = 1;         // of the tree from here
  size_t character = 1;  // of the text, where it stands
  size_t column = 0;     // of kColumn: position in Tree::columns
  std::vector<size_t> operands;
  Scalar literal;
  std::vector<Scalar> list;  // of kIn: ascending, all of one kind
};

struct Tree {
  std::vector<Column> columns;
  std::vector<std::string> names;  // of the columns
  std::vector<Node> nodes;         // operands before what uses them; the last is the condition
  std::deque<std::string> texts;   // that literals borrow
};

// Reads the text and checks its types, as Predicate::Parse.
absl::StatusOr<Tree> ParseTree(std::string_view text, std::span<const Column> columns);

// The order of the literals of a list.
bool ComesBefore(const Scalar& a, const Scalar& b);

// Whether the text matches a pattern: '*' stands for any characters, '?' for one, '\\' makes the next character itself.
bool MatchesPattern(std::string_view pattern, std::string_view text);

}  // namespace shardkit::predicate
