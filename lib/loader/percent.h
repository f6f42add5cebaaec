// Shares of 1 as text.
#pragma once

#include <cstdio>
#include <string>

namespace shardkit::loader {

// "12.5 %".
inline std::string PercentText(double share) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %%", 100 * share);
  return text;
}

}  // namespace shardkit::loader
