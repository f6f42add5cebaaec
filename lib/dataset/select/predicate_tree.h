// A predicate after its text was read and its types were checked.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dataset/select/predicate_number.h"
#include "shardkit/schema.h"

namespace shardkit::predicate {

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

// The order of the literals of a list.
bool ComesBefore(const Scalar& a, const Scalar& b);

// Whether the text matches a pattern: '*' stands for any characters, '?' for one, '\\' makes the next character itself.
bool MatchesPattern(std::string_view pattern, std::string_view text);

}  // namespace shardkit::predicate
