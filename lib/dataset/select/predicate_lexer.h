// Divides the text of a predicate into words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/strings.h"

namespace shardkit::predicate {

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

// Words such as "and", which are no names of columns unless they are quoted.
bool IsReserved(const Token& token);

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

}  // namespace shardkit::predicate
