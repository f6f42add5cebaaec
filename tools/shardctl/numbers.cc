#include "numbers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <numeric>
#include <optional>

#include "report.h"

namespace shardctl {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Converts decimal digits to a number. Empty for other text and on overflow.
std::optional<uint64_t> Digits(std::string_view text) {
  if (text.empty() || !std::all_of(text.begin(), text.end(), IsDigit)) return std::nullopt;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<uint64_t> UnitBytes(std::string_view unit) {
  std::string lower(unit);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  if (lower.empty() || lower == "b") return 1;
  constexpr std::string_view kPrefixes = "kmgt";
  const size_t power = kPrefixes.find(lower[0]);
  if (power == std::string_view::npos) return std::nullopt;
  const std::string_view rest = std::string_view(lower).substr(1);
  if (rest != "b" && rest != "ib") return std::nullopt;
  uint64_t bytes = 1;
  for (size_t i = 0; i <= power; ++i) bytes *= rest == "b" ? 1000 : 1024;
  return bytes;
}

std::string ShortNumber(double value) {
  std::array<char, 32> buffer;
  const int length = std::snprintf(buffer.data(), buffer.size(), "%g", value);
  return std::string(buffer.data(), static_cast<size_t>(std::max(length, 0)));
}

}  // namespace

absl::StatusOr<uint64_t> ParseSize(std::string_view text) {
  const auto not_a_size = [&](std::string_view why) {
    return absl::InvalidArgumentError(Quote(text) + " is not a size: " + std::string(why));
  };
  constexpr std::string_view kForm = "write a number of bytes, or with a unit such as 64KiB, 256MiB or 1GB";
  size_t position = 0;
  while (position < text.size() && IsDigit(text[position])) ++position;
  const std::string_view whole_digits = text.substr(0, position);
  std::string_view fraction_digits;
  if (position < text.size() && text[position] == '.') {
    const size_t begin = ++position;
    while (position < text.size() && IsDigit(text[position])) ++position;
    fraction_digits = text.substr(begin, position - begin);
    if (fraction_digits.empty()) return not_a_size(kForm);
  }
  if (whole_digits.empty()) return not_a_size(kForm);
  while (!fraction_digits.empty() && fraction_digits.back() == '0') fraction_digits.remove_suffix(1);
  if (position < text.size() && text[position] == ' ') ++position;
  const std::optional<uint64_t> unit = UnitBytes(text.substr(position));
  if (!unit.has_value()) return not_a_size(kForm);

  const std::optional<uint64_t> whole = Digits(whole_digits);
  if (!whole.has_value() || *whole > UINT64_MAX / *unit) return not_a_size("it is too large");
  uint64_t bytes = *whole * *unit;
  if (!fraction_digits.empty()) {
    // The fraction gives whole bytes exactly when its denominator in lowest terms divides the unit.
    if (fraction_digits.size() > 18) return not_a_size("it is not a whole number of bytes");
    uint64_t denominator = 1;
    for (size_t i = 0; i < fraction_digits.size(); ++i) denominator *= 10;
    uint64_t numerator = *Digits(fraction_digits);
    const uint64_t common = std::gcd(numerator, denominator);
    numerator /= common;
    denominator /= common;
    if (*unit % denominator != 0) return not_a_size("it is not a whole number of bytes");
    const uint64_t part = numerator * (*unit / denominator);
    if (part > UINT64_MAX - bytes) return not_a_size("it is too large");
    bytes += part;
  }
  return bytes;
}

absl::StatusOr<uint64_t> ParseCount(std::string_view text, uint64_t minimum, uint64_t maximum) {
  const std::optional<uint64_t> number = Digits(text);
  if (number.has_value() && *number >= minimum && *number <= maximum) return *number;
  std::string wanted = "a whole number of " + std::to_string(minimum) + " or more is wanted";
  if (maximum != UINT64_MAX) {
    wanted = "a whole number from " + std::to_string(minimum) + " to " + std::to_string(maximum) + " is wanted";
  }
  return absl::InvalidArgumentError(wanted + ", not " + Quote(text));
}

absl::StatusOr<double> ParseNumber(std::string_view text, double minimum, double maximum) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  // from_chars also knows "inf" and "nan".
  if (text.empty() || !IsDigit(text[0]) || parsed.ec != std::errc() || parsed.ptr != end ||
      !(number >= minimum && number <= maximum)) {
    return absl::InvalidArgumentError("a number from " + ShortNumber(minimum) + " to " + ShortNumber(maximum) +
                                      " is wanted, not " + Quote(text));
  }
  return number;
}

absl::StatusOr<double> ParseTime(std::string_view text) {
  for (const auto& [unit, seconds] : {std::pair<std::string_view, double>("ms", 1e-3), {"us", 1e-6}, {"s", 1}}) {
    if (!text.ends_with(unit)) continue;
    const absl::StatusOr<double> number = ParseNumber(text.substr(0, text.size() - unit.size()), 0, 3600 / seconds);
    return number.ok() ? *number * seconds : number;
  }
  return absl::InvalidArgumentError("give a time with its unit, as 50ms, not " + Quote(text));
}

absl::StatusOr<double> ParseShare(std::string_view text) {
  const bool percent = text.ends_with('%');
  const absl::StatusOr<double> number =
      ParseNumber(percent ? text.substr(0, text.size() - 1) : text, 0, percent ? 100 : 1);
  if (number.ok() && *number > 0) return percent ? *number / 100 : *number;
  return absl::InvalidArgumentError("give a share as 10% or 0.1, above 0 and at most all, not " + Quote(text));
}

absl::StatusOr<std::pair<uint64_t, uint64_t>> ParseRange(std::string_view text) {
  const size_t colon = text.find(':');
  std::optional<uint64_t> begin;
  std::optional<uint64_t> end;
  if (colon != std::string_view::npos) {
    begin = colon == 0 ? 0 : Digits(text.substr(0, colon));
    end = colon + 1 == text.size() ? UINT64_MAX : Digits(text.substr(colon + 1));
  }
  if (!begin.has_value() || !end.has_value() || *begin > *end) {
    return absl::InvalidArgumentError(Quote(text) +
                                      " is not a range: write A:B with A not above B, A: or :B; B is not included");
  }
  return std::pair(*begin, *end);
}

absl::StatusOr<std::pair<uint64_t, uint64_t>> ParsePart(std::string_view text) {
  const size_t slash = text.find('/');
  std::optional<uint64_t> part;
  std::optional<uint64_t> count;
  if (slash != std::string_view::npos) {
    part = Digits(text.substr(0, slash));
    count = Digits(text.substr(slash + 1));
  }
  if (!part.has_value() || !count.has_value() || *part >= *count) {
    return absl::InvalidArgumentError(Quote(text) + " is not a part: write I/N, with I from 0 to N - 1");
  }
  return std::pair(*part, *count);
}

std::string FormatBytes(uint64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " B";
  constexpr std::array<const char*, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  // 1023.95 would be printed as 1024.0, so the next unit begins there.
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return FormatFixed(value, 1) + " " + kUnits[unit];
}

std::string Counted(uint64_t count, std::string_view noun) {
  std::string text = std::to_string(count) + " " + std::string(noun);
  if (count != 1) text += 's';
  return text;
}

std::string FormatFixed(double value, int digits) {
  std::array<char, 400> buffer;
  const int length = std::snprintf(buffer.data(), buffer.size(), "%.*f", digits, value);
  return std::string(buffer.data(), static_cast<size_t>(std::max(length, 0)));
}

std::string FormatPercent(double share) { return FormatFixed(100 * share, 1) + " %"; }

std::string FormatHex(uint64_t value) {
  std::array<char, 17> buffer;
  std::snprintf(buffer.data(), buffer.size(), "%016llx", static_cast<unsigned long long>(value));
  return std::string(buffer.data(), 16);
}

}  // namespace shardctl
