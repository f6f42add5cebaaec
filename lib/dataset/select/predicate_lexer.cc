#include "dataset/select/predicate_lexer.h"

#include <algorithm>
#include <array>

#include "base/errors.h"
#include "base/status_macros.h"
#include "dataset/select/predicate_tree.h"

namespace shardkit::predicate {
namespace {

constexpr size_t kShown = 40;  // bytes of a word that a message shows

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

}  // namespace

bool Token::IsWord(std::string_view word) const {
  return kind == Kind::kName && std::ranges::equal(text, word, {}, [](char c) {
           return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
         });
}

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

}  // namespace shardkit::predicate
