// Writes JSON text. Code that reads JSON uses simdjson.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace shardkit {

// Builds a JSON value; null at first. One thread at a time.
class JsonValue {
 public:
  JsonValue();
  JsonValue(std::string_view text);  // NOLINT(google-explicit-constructor): values convert, as in JSON itself
  JsonValue(const std::string& text) : JsonValue(std::string_view(text)) {}  // NOLINT(google-explicit-constructor)
  JsonValue(const char* text) : JsonValue(std::string_view(text)) {}         // NOLINT(google-explicit-constructor)
  JsonValue(double number);                                                  // NOLINT(google-explicit-constructor)
  template <std::integral T>
  JsonValue(T number) : JsonValue() {  // NOLINT(google-explicit-constructor)
    if constexpr (std::same_as<T, bool>) {
      SetBool(number);
    } else if constexpr (std::signed_integral<T>) {
      SetSigned(number);
    } else {
      SetUnsigned(number);
    }
  }
  ~JsonValue();
  JsonValue(JsonValue&&) noexcept;
  JsonValue& operator=(JsonValue&&) noexcept;

  static JsonValue Array();
  static JsonValue Object();

  // Set adds a member to an object, in the order of the calls. Add adds an element to an array.
  JsonValue& Set(std::string_view name, JsonValue value);
  JsonValue& Add(JsonValue value);

  // Format: on one line without spaces. FormatIndented: indented by two for each level. Invalid UTF-8 in strings
  // becomes replacement characters; `ascii` escapes everything outside ASCII.
  std::string Format(bool ascii = false) const;
  std::string FormatIndented(bool ascii = false) const;

  // The text of Python's json.dumps(value, sort_keys=True), for files that other programs compare byte for byte: ", "
  // and ": " between the parts, members sorted, everything outside ASCII escaped. Numbers must be integers: others may
  // be written differently from Python.
  std::string FormatLikePython() const;

 private:
  void SetBool(bool value);
  void SetSigned(int64_t number);
  void SetUnsigned(uint64_t number);

  std::unique_ptr<nlohmann::ordered_json> value_;
};

}  // namespace shardkit
