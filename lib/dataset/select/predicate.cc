// Evaluates predicates on the samples of blocks.
#include "shardkit/select.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "dataset/select/predicate_tree.h"
#include "format/footer.h"
#include "shardkit/rle.h"
#include "shardkit/schema.h"

namespace shardkit {

using predicate::Int128;
using predicate::Kind;
using predicate::Node;
using predicate::Number;
using predicate::Operation;
using predicate::Scalar;
using predicate::Tree;

namespace {

constexpr std::monostate kUnknown;

std::optional<bool> AsTruth(const Scalar& value) {
  const bool* const truth = std::get_if<bool>(&value);
  return truth == nullptr ? std::nullopt : std::optional(*truth);
}

bool Holds(Operation operation, std::partial_ordering order) {
  switch (operation) {
    case Operation::kEqual:
      return order == 0;
    case Operation::kNotEqual:
      return order != 0;
    case Operation::kLess:
      return order < 0;
    default:
      return order <= 0;
  }
}

// The elements of an array. bool counts as 0 and 1.
class Elements {
 public:
  explicit Elements(NdarrayView array)
      : array_(std::move(array)), count_(array_.element_count()), size_(ScalarSize(array_.dtype)) {}

  uint64_t size() const { return count_; }
  Number operator[](uint64_t i) const {
    RangeKind kind = RangeKind::kNone;
    uint64_t bits = 0;
    (void)format::Widen(array_.dtype, array_.data.data() + i * size_, &kind,
                        &bits);  // false only for NaN, which is a number here
    return Number::Of(kind, bits);
  }

 private:
  const NdarrayView array_;
  const uint64_t count_;
  const uint32_t size_;  // bytes of one
};

class Evaluator {
 public:
  Evaluator(const Tree& tree, const BlockView& block) : tree_(tree), block_(block) {}

  absl::StatusOr<bool> Matches(uint32_t sample) {
    sample_ = sample;
    const std::optional<bool> truth = AsTruth(At(tree_.nodes.size() - 1));
    SHARDKIT_RETURN_IF_ERROR(status_);
    return truth.value_or(false);
  }

 private:
  // After an error of the sample, results mean nothing.
  Scalar Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
    return kUnknown;
  }

  std::optional<std::string_view> ValueOf(const Node& column) const {
    return block_.column(column.column).value(sample_);
  }

  Scalar At(size_t position) {
    const Node& node = tree_.nodes[position];
    switch (node.operation) {
      case Operation::kColumn:
        return Column(node);
      case Operation::kLiteral:
        return node.literal;
      case Operation::kOr:
        return Join(node, true);
      case Operation::kAnd:
        return Join(node, false);
      case Operation::kNot: {
        const std::optional<bool> truth = AsTruth(At(node.operands[0]));
        return truth ? Scalar(!*truth) : Scalar(kUnknown);
      }
      case Operation::kIsAbsent:
        return IsAbsent(tree_.nodes[node.operands[0]], node.operands[0]);
      case Operation::kEqual:
      case Operation::kNotEqual:
      case Operation::kLess:
      case Operation::kLessEqual:
        return Comparison(node);
      case Operation::kIn:
      case Operation::kMatches:
      case Operation::kStartsWith:
        return Test(node, At(node.operands[0]));
      case Operation::kNegate:
      case Operation::kAdd:
      case Operation::kSubtract:
      case Operation::kMultiply:
      case Operation::kDivide:
      case Operation::kRemainder:
        return Arithmetic(node);
      case Operation::kLength:
        return Length(tree_.nodes[node.operands[0]]);
      default:
        return Reduce(node);
    }
  }

  Scalar Column(const Node& node) {
    const std::optional<std::string_view> value = ValueOf(node);
    if (!value) return kUnknown;
    if (node.kind == Kind::kText) return *value;
    const shardkit::Column& column = tree_.columns[node.column];
    if (value->size() != ScalarSize(column.type)) return Fail(DataLoss("has a value of ", value->size(), " bytes"));
    RangeKind kind = RangeKind::kNone;
    uint64_t bits = 0;
    (void)format::Widen(column.type, value->data(), &kind, &bits);  // false only for NaN
    if (node.kind == Kind::kCondition) return bits != 0;
    return Number::Of(kind, bits);
  }

  // Unknown operands may be either.
  Scalar Join(const Node& node, bool decisive) {
    bool unknown = false;
    for (const size_t operand : node.operands) {
      const std::optional<bool> truth = AsTruth(At(operand));
      if (truth == decisive) return decisive;
      unknown = unknown || !truth;
    }
    return unknown ? Scalar(kUnknown) : Scalar(!decisive);
  }

  Scalar IsAbsent(const Node& node, size_t position) {
    if (node.operation == Operation::kColumn) return !block_.column(node.column).present(sample_);
    return std::holds_alternative<std::monostate>(At(position));
  }

  Scalar Comparison(const Node& node) {
    const Scalar left = At(node.operands[0]), right = At(node.operands[1]);
    if (std::holds_alternative<std::monostate>(left) || std::holds_alternative<std::monostate>(right)) return kUnknown;
    return Holds(node.operation, Order(left, right));
  }

  static std::partial_ordering Order(const Scalar& a, const Scalar& b) {
    if (const auto* const number = std::get_if<Number>(&a)) return Compare(*number, std::get<Number>(b));
    if (const auto* const text = std::get_if<std::string_view>(&a)) return *text <=> std::get<std::string_view>(b);
    return std::get<bool>(a) <=> std::get<bool>(b);
  }

  static Scalar Test(const Node& node, const Scalar& value) {
    if (std::holds_alternative<std::monostate>(value)) return kUnknown;
    if (node.operation == Operation::kIn) {
      const auto* const number = std::get_if<Number>(&value);
      if (number != nullptr && number->is_real && std::isnan(number->real)) return false;  // has no place in the order
      return std::ranges::binary_search(node.list, value, predicate::ComesBefore);
    }
    const std::string_view text = std::get<std::string_view>(value), given = std::get<std::string_view>(node.literal);
    return node.operation == Operation::kMatches ? predicate::MatchesPattern(given, text) : text.starts_with(given);
  }

  Scalar Arithmetic(const Node& node) {
    const Scalar left = At(node.operands[0]);
    const Scalar right = node.operation == Operation::kNegate ? left : At(node.operands[1]);
    const auto* const a = std::get_if<Number>(&left);
    const auto* const b = std::get_if<Number>(&right);
    if (a == nullptr || b == nullptr) return kUnknown;
    if (node.operation == Operation::kDivide) return Number::Real(a->AsReal() / b->AsReal());
    if (a->is_real || b->is_real) return RealResult(node.operation, a->AsReal(), b->AsReal());
    Int128 result = 0;
    bool too_large = false;
    switch (node.operation) {
      case Operation::kNegate:
        too_large = __builtin_sub_overflow(Int128{0}, a->integer, &result);
        break;
      case Operation::kAdd:
        too_large = __builtin_add_overflow(a->integer, b->integer, &result);
        break;
      case Operation::kSubtract:
        too_large = __builtin_sub_overflow(a->integer, b->integer, &result);
        break;
      case Operation::kMultiply:
        too_large = __builtin_mul_overflow(a->integer, b->integer, &result);
        break;
      default:
        if (b->integer == 0) return kUnknown;
        // -1 divides all, but not the smallest integer by the processor.
        result = b->integer == -1 ? 0 : a->integer % b->integer;
        if (result != 0 && (result < 0) != (b->integer < 0)) result += b->integer;
    }
    if (too_large) {
      return Fail(InvalidArgument("predicate: the result at character ", node.character,
                                  " of its text exceeds 128 bits: multiply by 1.0 to calculate in floating point"));
    }
    return Number::Integer(result);
  }

  static Number RealResult(Operation operation, double a, double b) {
    switch (operation) {
      case Operation::kNegate:
        return Number::Real(-a);
      case Operation::kAdd:
        return Number::Real(a + b);
      case Operation::kSubtract:
        return Number::Real(a - b);
      case Operation::kMultiply:
        return Number::Real(a * b);
      default: {
        const double rest = std::fmod(a, b);
        return Number::Real(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
      }
    }
  }

  Scalar Length(const Node& column) {
    const std::optional<std::string_view> value = ValueOf(column);
    if (!value) return kUnknown;
    const shardkit::Column& type = tree_.columns[column.column];
    if (type.type == Type::kRle) {
      const auto count = RleValueCount(*value);
      return count.ok() ? Scalar(Number::Integer(*count)) : Fail(count.status());
    }
    if (type.type != Type::kNdarray) return Number::Integer(value->size());
    const auto array = ParseNdarray(type, *value);
    if (!array.ok()) return Fail(array.status());
    return array->shape.empty() ? Scalar(kUnknown) : Scalar(Number::Integer(array->shape[0]));
  }

  std::optional<Elements> ElementsOf(const Node& column) {
    const std::optional<std::string_view> value = ValueOf(column);
    if (!value) return std::nullopt;
    auto array = ParseNdarray(tree_.columns[column.column], *value);
    if (array.ok()) return Elements(*std::move(array));
    Fail(array.status());
    return std::nullopt;
  }

  Scalar Reduce(const Node& node) {
    const Node& operand = tree_.nodes[node.operands[0]];
    if (node.operation == Operation::kAny || node.operation == Operation::kAll) {
      return operand.operation == Operation::kColumn
                 ? Quantify(node.operation, ElementsOf(operand), Operation::kEqual, Number::Integer(1), false)
                 : QuantifyComparison(node.operation, operand);
    }
    const std::optional<Elements> elements = ElementsOf(operand);
    if (!elements) return kUnknown;
    const uint64_t count = elements->size();
    if (node.operation == Operation::kCount) return Number::Integer(count);
    if (count == 0) return node.operation == Operation::kSum ? Scalar(Number::Integer(0)) : Scalar(kUnknown);
    if (node.operation == Operation::kMinimum || node.operation == Operation::kMaximum) {
      return Extreme(*elements, node.operation);
    }
    Number sum = (*elements)[0];
    for (uint64_t i = 1; i < count; ++i) {
      const Number next = (*elements)[i];
      sum.integer += next.integer;  // fewer than 2^63 elements of 64 bits
      sum.real += next.real;
    }
    return node.operation == Operation::kSum ? sum : Number::Real(sum.AsReal() / static_cast<double>(count));
  }

  // NaN when an element is NaN.
  static Number Extreme(const Elements& elements, Operation operation) {
    Number found = elements[0];
    for (uint64_t i = 1; i < elements.size(); ++i) {
      const Number next = elements[i];
      const std::partial_ordering order = Compare(next, found);
      if (order == std::partial_ordering::unordered) return Number::Real(std::nan(""));
      if (operation == Operation::kMinimum ? order < 0 : order > 0) found = next;
    }
    return found;
  }

  // A comparison of the elements of an array with one number, which may stand on either side.
  Scalar QuantifyComparison(Operation quantifier, const Node& comparison) {
    const bool array_first = tree_.nodes[comparison.operands[0]].kind == Kind::kNumbers;
    const std::optional<Elements> elements = ElementsOf(tree_.nodes[comparison.operands[array_first ? 0 : 1]]);
    const Scalar other = At(comparison.operands[array_first ? 1 : 0]);
    if (std::holds_alternative<std::monostate>(other)) return kUnknown;
    return Quantify(quantifier, elements, comparison.operation, std::get<Number>(other), !array_first);
  }

  static Scalar Quantify(Operation quantifier, const std::optional<Elements>& elements, Operation comparison,
                         const Number& other, bool other_first) {
    if (!elements) return kUnknown;
    const bool decisive = quantifier == Operation::kAny;
    for (uint64_t i = 0; i < elements->size(); ++i) {
      const Number element = (*elements)[i];
      const bool holds = Holds(comparison, other_first ? Compare(other, element) : Compare(element, other));
      if (holds == decisive) return decisive;
    }
    return !decisive;
  }

  const Tree& tree_;
  const BlockView& block_;
  uint32_t sample_ = 0;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<Predicate> Predicate::Parse(std::string_view text, std::span<const Column> columns) {
  SHARDKIT_ASSIGN_OR_RETURN(Tree tree, predicate::ParseTree(text, columns));
  return Predicate(std::make_shared<const Tree>(std::move(tree)));
}

const std::vector<std::string>& Predicate::columns() const { return tree_->names; }

absl::Status Predicate::Select(const BlockView& block, std::vector<uint32_t>* selected) const {
  selected->clear();
  Evaluator evaluator(*tree_, block);
  for (uint32_t i = 0; i < block.sample_count(); ++i) {
    const auto matches = evaluator.Matches(i);
    if (!matches.ok()) return Annotate(matches.status(), StrCat("sample ", i, " of the block"));
    if (*matches) selected->push_back(i);
  }
  return absl::OkStatus();
}

}  // namespace shardkit
