#include <variant>

#include "dataset/select/predicate_tree.h"

namespace shardkit::predicate {
bool ComesBefore(const Scalar& a, const Scalar& b) {
  if (const auto* const text = std::get_if<std::string_view>(&a)) return *text < std::get<std::string_view>(b);
  return Compare(std::get<Number>(a), std::get<Number>(b)) < 0;
}

// Takes at most the product of both lengths: only the last '*' ever has to take more characters.
bool MatchesPattern(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0;
  size_t after_star = std::string_view::npos, star_end = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      after_star = ++p;
      star_end = t;
      continue;
    }
    if (p < pattern.size() && pattern[p] == '?') {
      ++p;
      do {
        ++t;
      } while (t < text.size() && ContinuesCharacter(text[t]));
      continue;
    }
    const bool escaped = p + 1 < pattern.size() && pattern[p] == '\\';
    if (p < pattern.size() && pattern[p + (escaped ? 1 : 0)] == text[t]) {
      p += escaped ? 2 : 1;
      ++t;
      continue;
    }
    if (after_star == std::string_view::npos) return false;
    p = after_star;
    t = ++star_end;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace shardkit::predicate
