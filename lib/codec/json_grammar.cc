// Whether bytes are a JSON text by the grammar of RFC 8259. A parser would not do: it also refuses numbers that its
// types do not hold and escaped surrogates without a partner, which the grammar allows.
#include <bitset>
#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "codec/content_type.h"

namespace shardkit::codec {
namespace {

class JsonGrammar {
 public:
  explicit JsonGrammar(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  // Where IsText stopped.
  const char* at() const { return at_; }

  bool IsText() {
    for (bool value_follows = true;;) {
      if (value_follows) {
        value_follows = false;
        if (Take('{')) {
          if (!Open(/*object=*/true)) return false;
          if (!Take('}')) {
            if (!Name()) return false;
            value_follows = true;
            continue;
          }
          --depth_;
        } else if (Take('[')) {
          if (!Open(/*object=*/false)) return false;
          if (!Take(']')) {
            value_follows = true;
            continue;
          }
          --depth_;
        } else if (!Scalar()) {
          return false;
        }
      }
      if (depth_ == 0) {
        SkipSpace();
        return at_ == end_;
      }
      const bool object = is_object_[depth_ - 1];
      if (Take(',')) {
        if (object && !Name()) return false;
        value_follows = true;
      } else if (Take(object ? '}' : ']')) {
        --depth_;
      } else {
        return false;
      }
    }
  }

 private:
  bool Open(bool object) {
    if (depth_ == kMaxJsonDepth) return false;
    is_object_[depth_++] = object;
    return true;
  }

  // The name of a member and the colon after it.
  bool Name() { return Take('"') && String() && Take(':'); }

  bool Scalar() {
    if (Take('"')) return String();
    if (Word("true") || Word("false") || Word("null")) return true;
    return Number();
  }

  // What follows the opening quotation mark.
  bool String() {
    while (at_ != end_) {
      const char c = *at_++;
      if (c == '"') return true;
      if (static_cast<unsigned char>(c) < 0x20) return false;
      if (c == '\\' && !Escape()) return false;
    }
    return false;
  }

  bool Escape() {
    if (at_ == end_) return false;
    const char c = *at_++;
    if (c != 'u') return std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos;
    for (int i = 0; i < 4; ++i) {
      if (at_ == end_) return false;
      const char digit = *at_++;
      if (!IsDigit(digit) && !(digit >= 'a' && digit <= 'f') && !(digit >= 'A' && digit <= 'F')) return false;
    }
    return true;
  }

  bool Number() {
    Char('-');
    if (!Char('0') && !Digits()) return false;
    if (Char('.') && !Digits()) return false;
    if (!Char('e') && !Char('E')) return true;
    if (!Char('-')) Char('+');
    return Digits();
  }

  bool Digits() {
    const char* const begin = at_;
    while (at_ != end_ && IsDigit(*at_)) ++at_;
    return at_ != begin;
  }

  bool Word(std::string_view word) {
    if (!std::string_view(at_, static_cast<size_t>(end_ - at_)).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  bool Char(char c) {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }

  // A character that white space may stand before.
  bool Take(char c) {
    SkipSpace();
    return Char(c);
  }

  void SkipSpace() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
  }

  static bool IsDigit(char c) { return c >= '0' && c <= '9'; }

  const char* at_;
  const char* const end_;
  size_t depth_ = 0;
  std::bitset<kMaxJsonDepth> is_object_;
};

}  // namespace

bool IsValidJson(std::string_view bytes) { return ValidUtf8(bytes) && JsonGrammar(bytes).IsText(); }

std::string DescribeInvalidJson(std::string_view bytes) {
  if (bytes.starts_with("\xef\xbb\xbf")) {
    return "byte 0: begins with a byte order mark, which JSON does not have: write it as utf-8, in Python not "
           "utf-8-sig";
  }
  JsonGrammar grammar(bytes);
  if (grammar.IsText()) return ValidUtf8(bytes) ? "" : "is not UTF-8";
  const auto at = static_cast<size_t>(grammar.at() - bytes.data());
  if (at == bytes.size()) return StrCat("byte ", at, ": ends within a value: it was cut off");
  const std::string_view rest = bytes.substr(at);
  for (const std::string_view word : {"NaN", "Infinity"}) {
    if (rest.starts_with(word)) {
      return StrCat("byte ", at, ": ", word, ", which is no number of JSON: write null (json.dump of Python refuses ",
                    "it with allow_nan=False)");
    }
  }
  return StrCat("byte ", at, ": not what JSON has there, \"", absl::CHexEscape(ToAbsl(rest.substr(0, 16))), "\"");
}

}  // namespace shardkit::codec
