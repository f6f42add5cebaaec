#include "json.h"

#include <cmath>

#include "output.h"

namespace shardctl {

std::string FormatJson(const Json& document) { return document.dump(-1, ' ', false, Json::error_handler_t::replace); }

void PrintJson(const Json& document) {
  Stdout().Write(document.dump(2, ' ', false, Json::error_handler_t::replace));
  Stdout().Write("\n");
}

Json JsonNumber(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
}

}  // namespace shardctl
