// JSON text as Python's json module writes it, for files that other programs compare byte for byte.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace shardkit::format {

// What json.dumps(value, sort_keys=True) gives: ", " and ": " between the parts, everything outside ASCII escaped.
// Strings that are not UTF-8 get replacement characters. Numbers are integers: floating-point ones are written
// as nlohmann-json does, which is not always Python's way.
std::string FormatPythonJson(const nlohmann::json& value);

}  // namespace shardkit::format
