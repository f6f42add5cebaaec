#include "format/foreign/python_json.h"

#include <nlohmann/json.hpp>

namespace shardkit::format {
namespace {

std::string Scalar(const nlohmann::json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
}

void Append(const nlohmann::json& value, std::string* out) {
  const char* separator = "";
  if (value.is_array()) {
    out->push_back('[');
    for (const nlohmann::json& element : value) {
      out->append(separator);
      Append(element, out);
      separator = ", ";
    }
    out->push_back(']');
  } else if (value.is_object()) {
    // nlohmann's objects are sorted by bytes, which is the order of code points that Python sorts by.
    out->push_back('{');
    for (const auto& [name, member] : value.items()) {
      out->append(separator).append(Scalar(name)).append(": ");
      Append(member, out);
      separator = ", ";
    }
    out->push_back('}');
  } else {
    out->append(Scalar(value));
  }
}

}  // namespace

std::string FormatPythonJson(const nlohmann::json& value) {
  std::string out;
  Append(value, &out);
  return out;
}

}  // namespace shardkit::format
