// Writes JSON (JsonValue), reads JSON of a known shape by tables of fields (ReadJson), and of any shape (JsonTree).
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

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

// What becomes of a key that an object has more than once. Two readers could take different ones of its values.
enum class JsonKeys {
  kOnce,   // it is refused, also where the key is not in the table
  kFirst,  // the first counts; reading ends when each field of the table was found
};

struct JsonField;

// A value of the text that ReadJson reads: of each, at most one function may be called, before the next value is read.
// Only of the whole text functions may be called again, which begin again. Errors are DataLoss.
class JsonReader {
 public:
  using Take = absl::FunctionRef<absl::Status(JsonReader&)>;
  using TakeMember = absl::FunctionRef<absl::Status(std::string_view name, JsonReader&)>;

  // What its first byte says. Another function may follow.
  bool IsText();
  bool IsNull();

  absl::Status Read(std::string* text);
  absl::Status Read(bool* truth);
  absl::Status Read(int64_t* number);
  absl::Status Read(uint64_t* number, uint64_t most = UINT64_MAX);
  template <typename T>
  absl::Status Read(std::vector<T>* list) {
    list->clear();
    return List([list](JsonReader& element) { return element.Read(&list->emplace_back()); });
  }
  // nullopt for null.
  template <typename T>
  absl::Status Read(std::optional<T>* value) {
    value->reset();
    return IsNull() ? absl::OkStatus() : Read(&value->emplace());
  }
  // Two lower-case hexadecimal digits for each byte.
  absl::Status Read(std::span<uint8_t> bytes);

  // An object of the fields of a table, in any order, and others, which are skipped.
  absl::Status Object(std::initializer_list<JsonField> fields, JsonKeys keys = JsonKeys::kOnce);
  // An object whose keys are names of any kind, none of them twice. `take` is called for each.
  absl::Status Members(TakeMember take);
  absl::Status List(Take take);

 private:
  friend absl::Status ReadJson(std::string_view, bool, Take);
  struct State;

  explicit JsonReader(State& state) : state_(state) {}
  absl::Status ReadField(const JsonField& field);

  State& state_;
};

// A line of the table that describes an object. `target` receives the value, or is a function that reads it.
struct JsonField {
  enum Presence { kRequired, kOptional, kOrNull };  // kOrNull: optional, and null is as if it was missing

  std::string_view name;
  std::variant<std::string*, bool*, uint64_t*, uint32_t*, std::optional<uint64_t>*, std::vector<std::string>*,
               std::span<uint8_t>, JsonReader::Take>
      target;
  Presence presence = kRequired;
  uint64_t most = UINT64_MAX;  // of a number
};

// Targets of fields: what `read`, a function of a JsonReader and a pointer, puts into *place; for a list, into a new
// element for each of its own.
template <typename T, typename Read>
auto JsonInto(T* place, Read read) {
  return [place, read](JsonReader& json) { return read(json, place); };
}
template <typename T, typename Read>
auto JsonInto(std::optional<T>* place, Read read) {
  return [place, read](JsonReader& json) { return read(json, &place->emplace()); };
}
template <typename T, typename Read>
auto JsonInto(std::vector<T>* list, Read read) {
  return [list, read](JsonReader& json) {
    return json.List([&](JsonReader& element) { return read(element, &list->emplace_back()); });
  };
}

// Calls `take` with the value of the whole text, an object or a list. Errors name the place in it, as in
// "shards[3].bytes: ". With `all`, the whole text must be JSON. Without, what `take` does not read is skipped unseen,
// which is twice as fast: for long texts.
absl::Status ReadJson(std::string_view text, bool all, JsonReader::Take take);

// As simdjson has them. kLargeInteger: above the largest of int64_t.
enum class JsonKind : char {
  kNull = 'n',
  kBool = 't',
  kInteger = 'l',
  kLargeInteger = 'u',
  kFraction = 'd',
  kText = '"',
  kList = '[',
  kObject = '{'
};

// A value of a JsonTree, which must be alive and unchanged. Copying is cheap.
class JsonElement {
 public:
  JsonElement() = default;

  JsonKind kind() const;

  // False for a value of another kind, or a number that does not fit. Integers are also double.
  bool Get(bool* truth) const;
  bool Get(int64_t* number) const;
  bool Get(uint64_t* number) const;
  bool Get(double* number) const;
  bool Get(std::string_view* text) const;

  // Calls `take` for each element of a list or member of an object until it returns false. False for another kind.
  bool ForEach(absl::FunctionRef<bool(JsonElement)> take) const;
  bool ForEachMember(absl::FunctionRef<bool(std::string_view, JsonElement)> take) const;

  // As JSON, without spaces.
  std::string Format() const;

 private:
  const void* tree_ = nullptr;
  size_t place_ = 0;
};

// Any JSON. One thread at a time.
class JsonTree {
 public:
  explicit JsonTree(size_t most_depth = 1024);
  ~JsonTree();

  // The value of the whole text, valid until the next call. ResourceExhausted when there is no memory, DataLoss when it
  // is no JSON or has what no program holds: half of a surrogate pair, a number beyond 64 bits and double.
  absl::StatusOr<JsonElement> Parse(std::string_view text);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shardkit
