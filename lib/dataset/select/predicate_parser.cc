// The grammar, from what binds least:
//
//   condition  := conjunct { "or" conjunct }
//   conjunct   := negation { "and" negation }
//   negation   := "not" negation | comparison
//   comparison := sum [ ("=" | "==" | "!=" | "<>" | "<" | "<=" | ">" | ">=") sum
//                     | ["not"] "in" "(" literal { "," literal } ")" | "~" text | "is" ["not"] "null" ]
//   sum        := product { ("+" | "-") product }
//   product    := factor { ("*" | "/" | "%") factor }
//   factor     := "-" factor | number | text | "true" | "false" | column | function "(" … ")" | "(" condition ")"
#include "dataset/select/predicate_tree.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "dataset/write/schema_mapper.h"
#include "shardkit/select.h"

namespace shardkit::predicate {
namespace {

constexpr size_t kShown = 40;  // bytes of a word that a message shows

struct Token {
  enum class Kind : uint8_t { kEnd, kNumber, kText, kName, kQuotedName, kSymbol };

  Kind kind = Kind::kEnd;
  std::string_view text;  // as it stands in the predicate
  size_t character = 1;   // of the predicate, where it begins
  std::string value;      // of kText and names, without quotes

  bool IsSymbol(std::string_view symbol) const { return kind == Kind::kSymbol && text == symbol; }
  // `word` in lower case.
  bool IsWord(std::string_view word) const;
};

// Divides the text of a predicate into words.
class Lexer {
 public:
  // `text` must be valid UTF-8 and outlive the tokens.
  explicit Lexer(std::string_view text) : text_(text) {}

  absl::StatusOr<Token> Next();

  // InvalidArgument: what is wrong at the token, and at which character of the text.
  absl::Status Fail(const Token& at, std::string_view what) const;

 private:
  absl::StatusOr<Token> TakeQuoted(Token token, char quote);
  Token Take(Token token, Token::Kind kind, size_t length);

  void Pass(size_t length);

  const std::string_view text_;
  size_t position_ = 0;   // bytes
  size_t character_ = 1;  // at position_
};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Every character beyond ASCII may be part of a name.
bool BeginsName(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

bool IsInName(char c) { return BeginsName(c) || IsDigit(c) || c == '.'; }

size_t DigitsFrom(std::string_view text, size_t position) {
  while (position < text.size() && IsDigit(text[position])) ++position;
  return position;
}

size_t NumberLength(std::string_view text) {
  size_t end = DigitsFrom(text, 0);
  if (end + 1 < text.size() && text[end] == '.' && IsDigit(text[end + 1])) end = DigitsFrom(text, end + 1);
  if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
    const size_t sign = end + 1 < text.size() && (text[end + 1] == '+' || text[end + 1] == '-') ? 1 : 0;
    const size_t digits = end + 1 + sign;
    if (digits < text.size() && IsDigit(text[digits])) end = DigitsFrom(text, digits);
  }
  return end;
}

bool Token::IsWord(std::string_view word) const {
  return kind == Kind::kName && std::ranges::equal(text, word, {}, [](char c) {
           return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
         });
}

// Words such as "and", which are no names of columns unless they are quoted.
bool IsReserved(const Token& token) {
  constexpr std::array<std::string_view, 8> kWords = {"and", "or", "not", "in", "is", "null", "true", "false"};
  return std::ranges::any_of(kWords, [&](std::string_view word) { return token.IsWord(word); });
}

Token Lexer::Take(Token token, Token::Kind kind, size_t length) {
  token.kind = kind;
  token.text = text_.substr(position_, length);
  Pass(length);
  return token;
}

void Lexer::Pass(size_t length) {
  const std::string_view passed = text_.substr(position_, length);
  character_ += static_cast<size_t>(std::ranges::count_if(passed, [](char c) { return !ContinuesCharacter(c); }));
  position_ += length;
}

absl::StatusOr<Token> Lexer::Next() {
  while (position_ < text_.size() && std::string_view(" \t\r\n").find(text_[position_]) != std::string_view::npos) {
    Pass(1);
  }
  Token token;
  token.character = character_;
  const std::string_view rest = text_.substr(position_);
  if (rest.empty()) return token;
  const char first = rest[0];
  if (first == '"' || first == '\'' || first == '`') return TakeQuoted(std::move(token), first);
  if (IsDigit(first)) {
    token = Take(std::move(token), Token::Kind::kNumber, NumberLength(rest));
    if (position_ < text_.size() && IsInName(text_[position_])) {
      return Fail(token, "a number ends in other characters");
    }
    return token;
  }
  if (BeginsName(first)) {
    const auto length = static_cast<size_t>(std::ranges::find_if_not(rest, IsInName) - rest.begin());
    token = Take(std::move(token), Token::Kind::kName, length);
    token.value = token.text;
    return token;
  }
  for (const std::string_view symbol : {"<=", ">=", "!=", "<>", "=="}) {
    if (rest.starts_with(symbol)) return Take(std::move(token), Token::Kind::kSymbol, 2);
  }
  if (std::string_view("<>=~()+-*/%,").find(first) != std::string_view::npos) {
    return Take(std::move(token), Token::Kind::kSymbol, 1);
  }
  return Fail(Take(std::move(token), Token::Kind::kSymbol, 1), "has no meaning here; text is written in quotes");
}

absl::StatusOr<Token> Lexer::TakeQuoted(Token token, char quote) {
  const std::string_view rest = text_.substr(position_);
  for (size_t i = 1; i < rest.size(); ++i) {
    if (rest[i] == quote) {
      std::string value = std::move(token.value);
      token = Take(std::move(token), quote == '`' ? Token::Kind::kQuotedName : Token::Kind::kText, i + 1);
      token.value = std::move(value);
      return token;
    }
    // Other backslashes stay, for patterns: "\*".
    if (rest[i] == '\\' && i + 1 < rest.size() && (rest[i + 1] == quote || rest[i + 1] == '\\')) ++i;
    token.value += rest[i];
  }
  return Fail(Take(std::move(token), Token::Kind::kText, rest.size()), "the closing quote is missing");
}

absl::Status Lexer::Fail(const Token& at, std::string_view what) const {
  if (at.kind == Token::Kind::kEnd) {
    return InvalidArgument("predicate: at its end, character ", at.character, ": ", what);
  }
  std::string_view shown = at.text;
  if (shown.size() > kShown) {
    size_t end = kShown;
    while (end > 0 && ContinuesCharacter(shown[end])) --end;
    shown = shown.substr(0, end);
  }
  return InvalidArgument("predicate: at character ", at.character, ", `", shown,
                         shown.size() < at.text.size() ? "…" : "", "`: ", what);
}

Kind KindOfElement(Type type, Kind number, Kind condition) {
  if (type == Type::kBool) return condition;
  return RangeKindOf(type) != RangeKind::kNone ? number : Kind::kOther;
}

Kind KindOf(const Column& column) {
  if (column.type == Type::kUtf8) return Kind::kText;
  if (column.type == Type::kNdarray) return KindOfElement(column.dtype, Kind::kNumbers, Kind::kConditions);
  return KindOfElement(column.type, Kind::kNumber, Kind::kCondition);
}

std::string_view NameOf(Kind kind) {
  switch (kind) {
    case Kind::kCondition:
      return "a condition";
    case Kind::kNumber:
      return "a number";
    case Kind::kText:
      return "text";
    case Kind::kNumbers:
      return "an array of numbers";
    case Kind::kConditions:
      return "a condition on each element of an array";
    case Kind::kOther:
      return "a value that only len() and \"is null\" take";
  }
  return "?";
}

struct Function {
  std::string_view name;
  Operation operation;
};
constexpr std::array<Function, 9> kFunctions = {{{"len", Operation::kLength},
                                                 {"count", Operation::kCount},
                                                 {"min", Operation::kMinimum},
                                                 {"max", Operation::kMaximum},
                                                 {"mean", Operation::kMean},
                                                 {"sum", Operation::kSum},
                                                 {"any", Operation::kAny},
                                                 {"all", Operation::kAll},
                                                 {"starts_with", Operation::kStartsWith}}};

class Parser {
 public:
  Parser(std::string_view text, std::span<const Column> columns) : lexer_(text), schema_(columns) {}

  absl::StatusOr<Tree> Parse() {
    SHARDKIT_RETURN_IF_ERROR(Advance());
    const Token begin = token_;
    SHARDKIT_ASSIGN_OR_RETURN(const size_t root, Condition());
    if (token_.kind != Token::Kind::kEnd) {
      return lexer_.Fail(token_, "the condition before it is complete; join two with \"and\" or \"or\"");
    }
    SHARDKIT_RETURN_IF_ERROR(Require(root, Kind::kCondition, begin, "a predicate is a condition"));
    if (tree_.columns.empty()) return lexer_.Fail(begin, "names no column, so that it says nothing about samples");
    return std::move(tree_);
  }

 private:
  using Result = absl::StatusOr<size_t>;  // position in Tree::nodes

  absl::Status Advance() {
    SHARDKIT_ASSIGN_OR_RETURN(token_, lexer_.Next());
    return absl::OkStatus();
  }

  // Passes the token when it is this one.
  absl::StatusOr<bool> Accept(std::string_view word) {
    if (!token_.IsSymbol(word) && !token_.IsWord(word)) return false;
    SHARDKIT_RETURN_IF_ERROR(Advance());
    return true;
  }

  absl::Status Expect(std::string_view symbol) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool there, Accept(symbol));
    return there ? absl::OkStatus() : lexer_.Fail(token_, StrCat("\"", symbol, "\" is expected here"));
  }

  Kind KindAt(size_t node) const { return tree_.nodes[node].kind; }

  // What stands there, for messages.
  std::string Describe(size_t node) const {
    const Node& what = tree_.nodes[node];
    if (what.operation != Operation::kColumn) return std::string(NameOf(what.kind));
    const Column& column = tree_.columns[what.column];
    return StrCat("column \"", column.name, "\" of type ", TypeName(column.type),
                  what.kind == Kind::kOther ? ", which only len() and \"is null\" take" : "");
  }

  absl::Status Require(size_t node, Kind kind, const Token& at, std::string_view rule) const {
    if (KindAt(node) == kind) return absl::OkStatus();
    const bool elements = kind == Kind::kCondition && KindAt(node) == Kind::kConditions;
    return lexer_.Fail(at, StrCat(rule, ", not ", Describe(node), elements ? ": write any(…) or all(…)" : ""));
  }

  Result Add(Node node, const Token& at) {
    node.character = at.character;
    for (const size_t operand : node.operands) node.depth = std::max(node.depth, tree_.nodes[operand].depth + 1);
    if (node.depth > kMaxPredicateDepth) return TooDeep(at);
    tree_.nodes.push_back(std::move(node));
    return tree_.nodes.size() - 1;
  }

  absl::Status TooDeep(const Token& at) const {
    return lexer_.Fail(at, StrCat("more than ", kMaxPredicateDepth, " levels are nested here"));
  }

  Result Condition() {
    if (++depth_ > kMaxPredicateDepth) return TooDeep(token_);
    Result result = Joined("or", Operation::kOr, &Parser::Conjunction);
    --depth_;
    return result;
  }

  Result Conjunction() { return Joined("and", Operation::kAnd, &Parser::Negation); }

  Result Joined(std::string_view word, Operation operation, Result (Parser::*part)()) {
    Token at = token_;
    SHARDKIT_ASSIGN_OR_RETURN(const size_t first, (this->*part)());
    if (!token_.IsWord(word)) return first;
    Node joined{.operation = operation, .kind = Kind::kCondition};
    SHARDKIT_RETURN_IF_ERROR(Require(first, Kind::kCondition, at, StrCat("\"", word, "\" joins conditions")));
    joined.operands.push_back(first);
    const Token begin = at;
    while (token_.IsWord(word)) {
      SHARDKIT_RETURN_IF_ERROR(Advance());
      at = token_;
      SHARDKIT_ASSIGN_OR_RETURN(const size_t next, (this->*part)());
      SHARDKIT_RETURN_IF_ERROR(Require(next, Kind::kCondition, at, StrCat("\"", word, "\" joins conditions")));
      joined.operands.push_back(next);
    }
    return Add(std::move(joined), begin);
  }

  Result Negation() {
    const Token at = token_;
    SHARDKIT_ASSIGN_OR_RETURN(const bool negated, Accept("not"));
    if (!negated) return Comparison();
    if (++depth_ > kMaxPredicateDepth) return TooDeep(at);
    const Token begin = token_;
    SHARDKIT_ASSIGN_OR_RETURN(const size_t operand, Negation());
    --depth_;
    SHARDKIT_RETURN_IF_ERROR(Require(operand, Kind::kCondition, begin, "\"not\" takes a condition"));
    return Not(operand, at);
  }

  Result Not(size_t operand, const Token& at) {
    return Add({.operation = Operation::kNot, .kind = Kind::kCondition, .operands = {operand}}, at);
  }

  Result Comparison() {
    const Token begin = token_;
    SHARDKIT_ASSIGN_OR_RETURN(const size_t left, Sum());
    const Token at = token_;
    if (at.IsWord("not") || at.IsWord("in")) return In(left, begin);
    if (at.IsWord("is")) return IsNull(left);
    if (at.IsSymbol("~")) return Matches(left, begin);
    const std::optional<Operation> operation = ComparisonOf(at);
    if (!operation) return left;
    SHARDKIT_RETURN_IF_ERROR(Advance());
    const Token second = token_;
    SHARDKIT_ASSIGN_OR_RETURN(const size_t right, Sum());
    if (ComparisonOf(token_)) return lexer_.Fail(token_, "a comparison is not compared; join two with \"and\"");
    return Compare(*operation, left, right, at);
  }

  static std::optional<Operation> ComparisonOf(const Token& token) {
    if (token.IsSymbol("=") || token.IsSymbol("==")) return Operation::kEqual;
    if (token.IsSymbol("!=") || token.IsSymbol("<>")) return Operation::kNotEqual;
    if (token.IsSymbol("<") || token.IsSymbol(">")) return Operation::kLess;
    if (token.IsSymbol("<=") || token.IsSymbol(">=")) return Operation::kLessEqual;
    return std::nullopt;
  }

  Result Compare(Operation operation, size_t left, size_t right, const Token& at) {
    const Kind a = KindAt(left), b = KindAt(right);
    const bool equality = operation == Operation::kEqual || operation == Operation::kNotEqual;
    const bool elements = (a == Kind::kNumbers && b == Kind::kNumber) || (a == Kind::kNumber && b == Kind::kNumbers);
    const bool plain = a == b && (a == Kind::kNumber || a == Kind::kText || (a == Kind::kCondition && equality));
    if (!elements && !plain) {
      const bool order = a == b && a == Kind::kCondition;
      return lexer_.Fail(at, order ? std::string("conditions have no order")
                                   : StrCat(Describe(left), KindAt(left) == Kind::kOther ? "," : "",
                                            " cannot be compared with ", Describe(right)));
    }
    // Two operations are enough: a > b is b < a.
    if (at.text.starts_with('>')) std::swap(left, right);
    return Add(
        {.operation = operation, .kind = elements ? Kind::kConditions : Kind::kCondition, .operands = {left, right}},
        at);
  }

  Result In(size_t left, const Token& begin) {
    const Token at = token_;
    SHARDKIT_ASSIGN_OR_RETURN(const bool negated, Accept("not"));
    SHARDKIT_RETURN_IF_ERROR(Expect("in"));
    const Kind kind = KindAt(left);
    if (kind != Kind::kNumber && kind != Kind::kText) {
      return lexer_.Fail(begin, StrCat("\"in\" takes a number or text, not ", Describe(left)));
    }
    SHARDKIT_RETURN_IF_ERROR(Expect("("));
    Node node{.operation = Operation::kIn, .kind = Kind::kCondition, .operands = {left}};
    do {
      const Token place = token_;
      SHARDKIT_ASSIGN_OR_RETURN(const size_t item, Factor());
      if (tree_.nodes[item].operation != Operation::kLiteral) {
        return lexer_.Fail(place, "a list holds numbers or texts as they are, nothing that is computed");
      }
      SHARDKIT_RETURN_IF_ERROR(Require(item, kind, place, StrCat("the list is compared with ", NameOf(kind))));
      node.list.push_back(tree_.nodes[item].literal);
      tree_.nodes.pop_back();  // a literal is the last node
      if (!token_.IsSymbol(",")) break;
      SHARDKIT_RETURN_IF_ERROR(Advance());
    } while (true);
    SHARDKIT_RETURN_IF_ERROR(Expect(")"));
    std::ranges::sort(node.list, ComesBefore);
    SHARDKIT_ASSIGN_OR_RETURN(const size_t in, Add(std::move(node), at));
    return negated ? Not(in, at) : Result(in);
  }

  Result IsNull(size_t left) {
    const Token at = token_;
    SHARDKIT_RETURN_IF_ERROR(Advance());
    SHARDKIT_ASSIGN_OR_RETURN(const bool negated, Accept("not"));
    SHARDKIT_RETURN_IF_ERROR(Expect("null"));
    SHARDKIT_ASSIGN_OR_RETURN(
        const size_t node, Add({.operation = Operation::kIsAbsent, .kind = Kind::kCondition, .operands = {left}}, at));
    return negated ? Not(node, at) : Result(node);
  }

  Result Matches(size_t left, const Token& begin) {
    const Token at = token_;
    SHARDKIT_RETURN_IF_ERROR(Require(left, Kind::kText, begin, "\"~\" takes text"));
    SHARDKIT_RETURN_IF_ERROR(Advance());
    return WithText(Operation::kMatches, left, at);
  }

  // An operation on text and the literal that stands here.
  Result WithText(Operation operation, size_t left, const Token& at) {
    if (token_.kind != Token::Kind::kText) return lexer_.Fail(token_, "text in quotes is expected here");
    Node node{.operation = operation, .kind = Kind::kCondition, .operands = {left}, .literal = Keep(token_.value)};
    SHARDKIT_RETURN_IF_ERROR(Advance());
    return Add(std::move(node), at);
  }

  std::string_view Keep(const std::string& text) { return tree_.texts.emplace_back(text); }

  Result Sum() { return Arithmetic({{"+", Operation::kAdd}, {"-", Operation::kSubtract}}, &Parser::Product); }

  Result Product() {
    return Arithmetic({{"*", Operation::kMultiply}, {"/", Operation::kDivide}, {"%", Operation::kRemainder}},
                      &Parser::Factor);
  }

  Result Arithmetic(std::initializer_list<Function> operations, Result (Parser::*part)()) {
    Token begin = token_;
    SHARDKIT_ASSIGN_OR_RETURN(size_t left, (this->*part)());
    while (true) {
      const auto* const found =
          std::ranges::find_if(operations, [&](const Function& each) { return token_.IsSymbol(each.name); });
      if (found == operations.end()) return left;
      const Token at = token_;
      SHARDKIT_RETURN_IF_ERROR(Require(left, Kind::kNumber, begin, StrCat("\"", at.text, "\" takes numbers")));
      SHARDKIT_RETURN_IF_ERROR(Advance());
      begin = token_;
      SHARDKIT_ASSIGN_OR_RETURN(const size_t right, (this->*part)());
      SHARDKIT_RETURN_IF_ERROR(Require(right, Kind::kNumber, begin, StrCat("\"", at.text, "\" takes numbers")));
      SHARDKIT_ASSIGN_OR_RETURN(
          left, Add({.operation = found->operation, .kind = Kind::kNumber, .operands = {left, right}}, at));
    }
  }

  Result Literal(Kind kind, Scalar value, const Token& at) {
    return Add({.operation = Operation::kLiteral, .kind = kind, .literal = value}, at);
  }

  Result Factor() {
    const Token at = token_;
    if (at.IsSymbol("-")) return Negative();
    if (at.IsWord("null")) return lexer_.Fail(at, "no value is compared with null; write \"is null\"");
    if (at.kind == Token::Kind::kEnd) return lexer_.Fail(at, "a value is expected here");
    SHARDKIT_RETURN_IF_ERROR(Advance());
    if (at.kind == Token::Kind::kNumber) {
      SHARDKIT_ASSIGN_OR_RETURN(const Number number, NumberOf(at));
      return Literal(Kind::kNumber, number, at);
    }
    if (at.kind == Token::Kind::kText) return Literal(Kind::kText, Keep(at.value), at);
    if (at.IsWord("true") || at.IsWord("false")) return Literal(Kind::kCondition, at.IsWord("true"), at);
    if (at.IsSymbol("(")) {
      SHARDKIT_ASSIGN_OR_RETURN(const size_t inner, Condition());
      SHARDKIT_RETURN_IF_ERROR(Expect(")"));
      return inner;
    }
    if (at.kind == Token::Kind::kName && token_.IsSymbol("(")) return Call(at);
    if ((at.kind == Token::Kind::kName && !IsReserved(at)) || at.kind == Token::Kind::kQuotedName) return Name(at);
    return lexer_.Fail(at, "a value is expected here");
  }

  Result Negative() {
    const Token at = token_;
    SHARDKIT_RETURN_IF_ERROR(Advance());
    if (++depth_ > kMaxPredicateDepth) return TooDeep(at);
    const Token begin = token_;
    SHARDKIT_ASSIGN_OR_RETURN(const size_t operand, Factor());
    --depth_;
    SHARDKIT_RETURN_IF_ERROR(Require(operand, Kind::kNumber, begin, "\"-\" takes a number"));
    if (tree_.nodes[operand].operation == Operation::kLiteral) {
      Number& number = std::get<Number>(tree_.nodes[operand].literal);
      number.integer = -number.integer;
      number.real = -number.real;
      return operand;
    }
    return Add({.operation = Operation::kNegate, .kind = Kind::kNumber, .operands = {operand}}, at);
  }

  absl::StatusOr<Number> NumberOf(const Token& at) const {
    const char* const end = at.text.data() + at.text.size();
    if (at.text.find_first_of(".eE") == std::string_view::npos) {
      uint64_t integer = 0;
      if (std::from_chars(at.text.data(), end, integer).ec == std::errc()) return Number::Integer(integer);
      return lexer_.Fail(at,
                         "is above the largest integer of a column, 18446744073709551615; as a floating-point "
                         "number it ends in .0");
    }
    double real = 0;
    if (std::from_chars(at.text.data(), end, real).ec == std::errc()) return Number::Real(real);
    return lexer_.Fail(at, "is no number that a 64-bit floating-point number can be close to");
  }

  Result Name(const Token& at) {
    const auto known = std::ranges::find(tree_.names, at.value);
    const auto column = static_cast<size_t>(known - tree_.names.begin());
    if (known == tree_.names.end()) {
      const auto found = std::ranges::find(schema_, at.value, &Column::name);
      if (found == schema_.end()) {
        return lexer_.Fail(at, ToStd(dataset::NoSuchColumn(at.value, {schema_.begin(), schema_.end()}).message()));
      }
      tree_.columns.push_back(*found);
      tree_.names.push_back(found->name);
    }
    return Add({.operation = Operation::kColumn, .kind = KindOf(tree_.columns[column]), .column = column}, at);
  }

  Result Call(const Token& at) {
    const auto* const function =
        std::ranges::find_if(kFunctions, [&](const Function& each) { return at.IsWord(each.name); });
    if (function == kFunctions.end()) {
      std::string names;
      for (const Function& each : kFunctions) names += StrCat(names.empty() ? "" : ", ", each.name);
      return lexer_.Fail(at, StrCat("is no function; there are ", names));
    }
    SHARDKIT_RETURN_IF_ERROR(Advance());
    const Token begin = token_;
    SHARDKIT_ASSIGN_OR_RETURN(const size_t operand, Condition());
    Result result = operand;
    if (function->operation == Operation::kStartsWith) {
      SHARDKIT_RETURN_IF_ERROR(Require(operand, Kind::kText, begin, "starts_with takes text"));
      SHARDKIT_RETURN_IF_ERROR(Expect(","));
      result = WithText(function->operation, operand, at);
    } else {
      SHARDKIT_RETURN_IF_ERROR(CheckArgument(*function, operand, begin));
      const bool condition = function->operation == Operation::kAny || function->operation == Operation::kAll;
      result = Add({.operation = function->operation,
                    .kind = condition ? Kind::kCondition : Kind::kNumber,
                    .operands = {operand}},
                   at);
    }
    SHARDKIT_RETURN_IF_ERROR(result.status());
    SHARDKIT_RETURN_IF_ERROR(Expect(")"));
    return result;
  }

  absl::Status CheckArgument(const Function& function, size_t operand, const Token& at) const {
    const Kind kind = KindAt(operand);
    const bool is_column = tree_.nodes[operand].operation == Operation::kColumn;
    const Column* const column = is_column ? &tree_.columns[tree_.nodes[operand].column] : nullptr;
    const bool is_array = column != nullptr && column->type == Type::kNdarray && column->has_known_type();
    switch (function.operation) {
      case Operation::kLength:
        if (column != nullptr && (is_array || column->type == Type::kRle || IsByteString(column->type))) {
          return absl::OkStatus();
        }
        return lexer_.Fail(at, StrCat("len takes a column of byte strings, arrays or masks, not ", Describe(operand)));
      case Operation::kCount:
        if (is_array) return absl::OkStatus();
        return lexer_.Fail(at, StrCat("count takes a column of arrays, not ", Describe(operand)));
      case Operation::kAny:
      case Operation::kAll:
        return Require(operand, Kind::kConditions, at,
                       StrCat(function.name, " takes a condition on each element, as any(scores > 0.5)"));
      default:
        if (kind == Kind::kNumbers) return absl::OkStatus();
        return lexer_.Fail(at, StrCat(function.name, " takes an array of numbers, not ", Describe(operand)));
    }
  }

  Lexer lexer_;
  const std::span<const Column> schema_;
  Tree tree_;
  Token token_;
  int depth_ = 0;  // of what is being read
};

}  // namespace

absl::StatusOr<Tree> ParseTree(std::string_view text, std::span<const Column> columns) {
  if (text.size() > kMaxPredicateBytes) {
    return InvalidArgument("predicate: has ", text.size(), " bytes, more than the limit of ", kMaxPredicateBytes,
                           ": put long lists of keys into a file (--keys-from)");
  }
  if (!ValidUtf8(text)) return InvalidArgument("predicate: is not valid UTF-8");
  return Parser(text, columns).Parse();
}

}  // namespace shardkit::predicate
