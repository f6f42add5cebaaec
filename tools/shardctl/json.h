// JSON documents on standard output. Keys keep the order in which they were set.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace shardctl {

using Json = nlohmann::ordered_json;

// One line. Bytes that are not UTF-8 become U+FFFD.
std::string FormatJson(const Json& document);

// Prints to standard output, indented by two spaces, with a line feed at the end.
void PrintJson(const Json& document);

// A number, or its text ("inf", "-inf", "nan") when JSON has no number for it.
Json JsonNumber(double value);

}  // namespace shardctl
