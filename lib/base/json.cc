// The only file that includes the library for writing JSON, because that library is slow to compile.
#include "base/json.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace shardkit {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kReplace = Json::error_handler_t::replace;

std::string Scalar(const nlohmann::json& value) { return value.dump(-1, ' ', /*ensure_ascii=*/true, kReplace); }

void AppendLikePython(const nlohmann::json& value, std::string* out) {
  const char* separator = "";
  if (value.is_array()) {
    out->push_back('[');
    for (const nlohmann::json& element : value) {
      out->append(separator);
      AppendLikePython(element, out);
      separator = ", ";
    }
    out->push_back(']');
  } else if (value.is_object()) {
    // nlohmann::json sorts members by bytes. For UTF-8 this is the order of code points, as in Python.
    out->push_back('{');
    for (const auto& [name, member] : value.items()) {
      out->append(separator).append(Scalar(name)).append(": ");
      AppendLikePython(member, out);
      separator = ", ";
    }
    out->push_back('}');
  } else {
    out->append(Scalar(value));
  }
}

}  // namespace

JsonValue::JsonValue() : value_(std::make_unique<Json>()) {}
JsonValue::JsonValue(std::string_view text) : value_(std::make_unique<Json>(std::string(text))) {}
JsonValue::JsonValue(double number) : value_(std::make_unique<Json>(number)) {}
JsonValue::~JsonValue() = default;
JsonValue::JsonValue(JsonValue&&) noexcept = default;
JsonValue& JsonValue::operator=(JsonValue&&) noexcept = default;

JsonValue JsonValue::Array() {
  JsonValue array;
  *array.value_ = Json::array();
  return array;
}

JsonValue JsonValue::Object() {
  JsonValue object;
  *object.value_ = Json::object();
  return object;
}

void JsonValue::SetBool(bool value) { value_ = std::make_unique<Json>(value); }
void JsonValue::SetSigned(int64_t number) { value_ = std::make_unique<Json>(number); }
void JsonValue::SetUnsigned(uint64_t number) { value_ = std::make_unique<Json>(number); }

JsonValue& JsonValue::Set(std::string_view name, JsonValue value) {
  (*value_)[std::string(name)] = std::move(*value.value_);
  return *this;
}

JsonValue& JsonValue::Add(JsonValue value) {
  value_->push_back(std::move(*value.value_));
  return *this;
}

std::string JsonValue::Format(bool ascii) const { return value_->dump(-1, ' ', ascii, kReplace); }

std::string JsonValue::FormatIndented(bool ascii) const { return value_->dump(2, ' ', ascii, kReplace); }

std::string JsonValue::FormatLikePython() const {
  std::string out;
  AppendLikePython(*value_, &out);
  return out;
}

}  // namespace shardkit
