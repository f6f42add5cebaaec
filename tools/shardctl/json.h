// JSON documents on standard output, keys in the order they were set.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace shardctl {

using Json = nlohmann::ordered_json;

// One line. Bytes that are no UTF-8 become U+FFFD.
std::string FormatJson(const Json& document);

// Indented by two spaces, to standard output, with a line feed.
void PrintJson(const Json& document);

// A number, or its text ("inf", "-inf", "nan") when JSON has no number for it.
Json JsonNumber(double value);

}  // namespace shardctl
