// Which blocks a predicate cannot match, from the smallest and largest numbers of their columns.
#include <algorithm>
#include <optional>

#include "dataset/select/predicate_tree.h"
#include "shardkit/select.h"

namespace shardkit {

using predicate::Kind;
using predicate::Node;
using predicate::Number;
using predicate::Operation;
using predicate::Tree;

namespace {

// What a condition may be for the samples of a block.
struct Possible {
  bool yes = true;
  bool no = true;
  bool unknown = true;
};

// The numbers that an expression may give for the samples of a block.
struct NumberRange {
  bool any = true;  // numbers between the bounds
  bool nan = false;
  bool absent = false;
  Number least, most;
};

class Bounds {
 public:
  Bounds(const Tree& tree, std::span<const BlockRange* const> ranges, uint32_t sample_count)
      : tree_(tree), ranges_(ranges), sample_count_(sample_count) {}

  Possible At(size_t position) const {
    const Node& node = tree_.nodes[position];
    switch (node.operation) {
      case Operation::kColumn:
      case Operation::kLiteral:
        return Condition(RangeOf(node));
      case Operation::kOr:
      case Operation::kAnd:
        return Join(node);
      case Operation::kNot: {
        const Possible inner = At(node.operands[0]);
        return {inner.no, inner.yes, inner.unknown};
      }
      case Operation::kIsAbsent: {
        const std::optional<NumberRange> range = RangeOf(tree_.nodes[node.operands[0]]);
        if (!range) return {true, true, false};
        return {range->absent, range->any || range->nan, false};
      }
      case Operation::kEqual:
      case Operation::kNotEqual:
      case Operation::kLess:
      case Operation::kLessEqual:
        return Comparison(node);
      case Operation::kIn:
        return In(node);
      default:
        return {};
    }
  }

 private:
  static Number OfTruth(bool truth) { return Number::Integer(truth ? 1 : 0); }

  // Empty when nothing is known. Conditions are 0 and 1.
  std::optional<NumberRange> RangeOf(const Node& node) const {
    if (node.operation == Operation::kLiteral) {
      const auto* const truth = std::get_if<bool>(&node.literal);
      const auto* const number = std::get_if<Number>(&node.literal);
      if (truth == nullptr && number == nullptr) return std::nullopt;
      const Number value = truth != nullptr ? OfTruth(*truth) : *number;
      return NumberRange{.least = value, .most = value};
    }
    if (node.operation != Operation::kColumn || ranges_[node.column] == nullptr) return std::nullopt;
    const BlockRange& found = *ranges_[node.column];
    NumberRange range{.any = found.range_kind != RangeKind::kNone, .absent = found.present_count < sample_count_};
    // NaN has no range.
    const RangeKind kind = RangeKindOf(tree_.columns[node.column].type);
    range.nan = found.present_count > 0 && kind == RangeKind::kF64;
    // Present values without a range are NaN, or of a column that has no ranges.
    if (!range.any && found.present_count > 0 && kind != RangeKind::kF64) return std::nullopt;
    if (range.any) {
      range.least = Number::Of(found.range_kind, found.minimum);
      range.most = Number::Of(found.range_kind, found.maximum);
    }
    return range;
  }

  static Possible Condition(const std::optional<NumberRange>& range) {
    if (!range) return {};
    return {range->any && Compare(range->most, OfTruth(false)) > 0,
            range->any && Compare(range->least, OfTruth(true)) < 0, range->absent};
  }

  Possible Join(const Node& node) const {
    const bool decisive = node.operation == Operation::kOr;
    // Whether an operand may decide, and whether all may be otherwise.
    bool decides = false, none_decides = true, unknown = false;
    for (const size_t operand : node.operands) {
      const Possible part = At(operand);
      decides = decides || (decisive ? part.yes : part.no);
      none_decides = none_decides && (decisive ? part.no : part.yes);
      unknown = unknown || part.unknown;
    }
    return decisive ? Possible{decides, none_decides, unknown} : Possible{none_decides, decides, unknown};
  }

  Possible Comparison(const Node& node) const {
    const std::optional<NumberRange> a = RangeOf(tree_.nodes[node.operands[0]]);
    const std::optional<NumberRange> b = RangeOf(tree_.nodes[node.operands[1]]);
    if (!a || !b) return {};
    const bool ordered = a->any && b->any;
    const bool nan = (a->nan && (b->any || b->nan)) || (b->nan && a->any);
    Possible result;
    result.unknown = a->absent || b->absent;
    // A comparison with NaN is false, except that NaN differs from all numbers.
    switch (node.operation) {
      case Operation::kLess:
        result.yes = ordered && Compare(a->least, b->most) < 0;
        result.no = nan || (ordered && Compare(a->most, b->least) >= 0);
        return result;
      case Operation::kLessEqual:
        result.yes = ordered && Compare(a->least, b->most) <= 0;
        result.no = nan || (ordered && Compare(a->most, b->least) > 0);
        return result;
      default:
        break;
    }
    const bool equal = ordered && Compare(a->least, b->most) <= 0 && Compare(b->least, a->most) <= 0;
    const bool differ = nan || (ordered && !(Compare(a->least, b->most) == 0 && Compare(a->most, b->least) == 0));
    result.yes = node.operation == Operation::kEqual ? equal : differ;
    result.no = node.operation == Operation::kEqual ? differ : equal;
    return result;
  }

  Possible In(const Node& node) const {
    const std::optional<NumberRange> range = RangeOf(tree_.nodes[node.operands[0]]);
    if (!range) return {};
    Possible result{false, true, range->absent};
    if (!range->any) return result;
    const auto first = std::ranges::lower_bound(node.list, predicate::Scalar(range->least), predicate::ComesBefore);
    result.yes = first != node.list.end() && Compare(std::get<Number>(*first), range->most) <= 0;
    return result;
  }

  const Tree& tree_;
  const std::span<const BlockRange* const> ranges_;
  const uint32_t sample_count_;
};

}  // namespace

bool Predicate::MayMatch(std::span<const BlockRange* const> ranges, uint32_t sample_count) const {
  return Bounds(*tree_, ranges, sample_count).At(tree_->nodes.size() - 1).yes;
}

}  // namespace shardkit
