// String concatenation that accepts std::string_view.
//
// Debian and Ubuntu build Abseil with its own absl::string_view, which std::string_view does not
// convert to; StrCat here bridges the two so that the rest of the code can use the standard type.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace shardkit {

inline absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view ToStd(absl::string_view text) { return {text.data(), text.size()}; }

namespace internal {
template <typename T>
decltype(auto) AsAlphaNum(const T& value) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    return ToAbsl(std::string_view(value));
  } else {
    return value;
  }
}
}  // namespace internal

template <typename... Parts>
std::string StrCat(const Parts&... parts) {
  return absl::StrCat(internal::AsAlphaNum(parts)...);
}

}  // namespace shardkit
