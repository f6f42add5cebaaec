// JSON text to write. What is read is read with simdjson, where it is needed.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace shardkit {

// A JSON value while it is put together; null at first. One thread at a time.
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

  // A member of an object, which stand in the order in which they came, or an element of an array.
  JsonValue& Set(std::string_view name, JsonValue value);
  JsonValue& Add(JsonValue value);

  // On one line without spaces, or indented by two for each level. Strings that are not UTF-8 get replacement
  // characters; with `ascii` everything outside ASCII is escaped.
  std::string Format(bool ascii = false) const;
  std::string FormatIndented(bool ascii = false) const;

  // What Python's json.dumps(value, sort_keys=True) gives, for files that other programs compare byte for byte: ", "
  // and
  // ": " between the parts, members sorted, everything outside ASCII escaped. Numbers are integers: others are
  // written as the library does, which is not always Python's way.
  std::string FormatLikePython() const;

 private:
  void SetBool(bool value);
  void SetSigned(int64_t number);
  void SetUnsigned(uint64_t number);

  std::unique_ptr<nlohmann::ordered_json> value_;
};

}  // namespace shardkit
