// The only file that includes the libraries for JSON, because they are slow to compile.
#include "base/json.h"

#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "base/errors.h"
#include "base/named_hash.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace shardkit {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kReplace = Json::error_handler_t::replace;

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

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

bool ValidUtf8(std::string_view bytes) { return simdjson::validate_utf8(bytes.data(), bytes.size()); }

// On-demand parsing builds no tree: what is read goes from the text to its place.
struct JsonReader::State {
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document;
  simdjson::simdjson_result<simdjson::ondemand::value> value;
  bool whole = true;               // `value` is that of the whole text
  std::vector<std::string> place;  // of an error, innermost first

  // The value to read.
  simdjson::simdjson_result<simdjson::ondemand::value>& Value() {
    if (whole) {
      document.rewind();
      value = document.get_value();
    }
    whole = false;
    return value;
  }

  template <typename Step>
  absl::Status Within(const absl::Status& status, const Step& step) {
    if (!status.ok()) place.push_back(StrCat(step));
    return status;
  }
};

namespace {

absl::Status Broken(simdjson::error_code error) {
  return DataLoss("is damaged (", simdjson::error_message(error), ")");
}

std::string Quoted(std::string_view text) { return JsonValue(text).Format(); }

// The keys of an object so far.
class SeenKeys {
 public:
  void Add(std::string_view key) { keys_.push_back(key); }
  absl::Status CheckOnce() {
    std::ranges::sort(keys_);
    const auto twice = std::ranges::adjacent_find(keys_);
    if (twice == keys_.end()) return absl::OkStatus();
    return DataLoss("has the key ", Quoted(*twice), " twice");
  }

 private:
  absl::InlinedVector<std::string_view, 8> keys_;
};

}  // namespace

bool JsonReader::IsText() {
  simdjson::ondemand::json_type type;
  return state_.Value().type().get(type) == simdjson::SUCCESS && type == simdjson::ondemand::json_type::string;
}

bool JsonReader::IsNull() {
  bool null = false;
  return state_.Value().is_null().get(null) == simdjson::SUCCESS && null;
}

absl::Status JsonReader::Read(std::string* text) {
  std::string_view read;
  if (state_.Value().get_string().get(read) != simdjson::SUCCESS) return DataLoss("is no text");
  text->assign(read);
  return absl::OkStatus();
}

absl::Status JsonReader::Read(bool* truth) {
  if (state_.Value().get_bool().get(*truth) != simdjson::SUCCESS) return DataLoss("is no truth value");
  return absl::OkStatus();
}

absl::Status JsonReader::Read(int64_t* number) {
  if (state_.Value().get_int64().get(*number) != simdjson::SUCCESS) return DataLoss("is no integer of 64 bits");
  return absl::OkStatus();
}

absl::Status JsonReader::Read(uint64_t* number, uint64_t most) {
  if (state_.Value().get_uint64().get(*number) != simdjson::SUCCESS) return DataLoss("is no number from 0 on");
  if (*number > most) return DataLoss("is ", *number, ", which is more than ", most);
  return absl::OkStatus();
}

absl::Status JsonReader::Read(std::span<uint8_t> bytes) {
  std::string_view digits;
  if (state_.Value().get_string().get(digits) == simdjson::SUCCESS && FromHexDigits(digits, bytes)) {
    return absl::OkStatus();
  }
  return DataLoss("is not ", 2 * bytes.size(), " lower-case hexadecimal digits");
}

absl::Status JsonReader::ReadField(const JsonField& field) {
  if (field.presence == JsonField::kOrNull && IsNull()) return absl::OkStatus();
  return std::visit(
      [&]<typename T>(const T& target) -> absl::Status {
        uint64_t number = 0;
        if constexpr (std::is_same_v<T, Take>) {
          return target(*this);
        } else if constexpr (std::is_same_v<T, std::optional<uint64_t>*>) {
          return Read(&target->emplace(), field.most);
        } else if constexpr (std::is_same_v<T, uint64_t*>) {
          return Read(target, field.most);
        } else if constexpr (std::is_same_v<T, uint32_t*>) {
          SHARDKIT_RETURN_IF_ERROR(Read(&number, std::min<uint64_t>(field.most, UINT32_MAX)));
          *target = static_cast<uint32_t>(number);
          return absl::OkStatus();
        } else {
          return Read(target);
        }
      },
      field.target);
}

absl::Status JsonReader::Object(std::initializer_list<JsonField> fields, JsonKeys keys) {
  const bool whole = state_.whole;
  simdjson::ondemand::object object;
  if (state_.Value().get_object().get(object) != simdjson::SUCCESS) return DataLoss("is no object");
  uint64_t found = 0;  // a bit for each field
  SeenKeys others;
  const auto* expected = fields.begin();  // writers keep the order of the table
  for (auto member : object) {
    std::string_view key;
    if (const auto error = member.unescaped_key().get(key)) return Broken(error);
    const auto* field =
        expected != fields.end() && expected->name == key ? expected : std::ranges::find(fields, key, &JsonField::name);
    if (field == fields.end()) {
      if (keys == JsonKeys::kOnce) others.Add(key);
      continue;
    }
    expected = field + 1;
    const uint64_t bit = uint64_t{1} << (field - fields.begin());
    if ((found & bit) != 0 && keys == JsonKeys::kOnce) return DataLoss("has the key ", Quoted(key), " twice");
    if ((found & bit) != 0 && keys == JsonKeys::kFirst) continue;
    found |= bit;
    state_.value = member.value();
    SHARDKIT_RETURN_IF_ERROR(state_.Within(ReadField(*field), key));
    if (keys == JsonKeys::kFirst && static_cast<size_t>(std::popcount(found)) == fields.size()) break;
  }
  SHARDKIT_RETURN_IF_ERROR(others.CheckOnce());
  for (const JsonField& field : fields) {
    const bool there = (found >> (&field - fields.begin()) & 1) != 0;
    if (!there && field.presence == JsonField::kRequired) return DataLoss("lacks the key ", Quoted(field.name));
  }
  if (whole && keys != JsonKeys::kFirst && state_.document.current_location().error() != simdjson::OUT_OF_BOUNDS) {
    return DataLoss("bytes follow its end");
  }
  state_.whole = whole;
  return absl::OkStatus();
}

absl::Status JsonReader::Members(TakeMember take) {
  simdjson::ondemand::object object;
  if (state_.Value().get_object().get(object) != simdjson::SUCCESS) return DataLoss("is no object");
  SeenKeys names;
  for (auto member : object) {
    std::string_view name;
    if (const auto error = member.unescaped_key().get(name)) return Broken(error);
    names.Add(name);
    state_.value = member.value();
    SHARDKIT_RETURN_IF_ERROR(state_.Within(take(name, *this), name));
  }
  return names.CheckOnce();
}

absl::Status JsonReader::List(Take take) {
  simdjson::ondemand::array list;
  if (state_.Value().get_array().get(list) != simdjson::SUCCESS) return DataLoss("is no list");
  size_t place = 0;
  for (auto element : list) {
    state_.value = std::move(element);
    if (absl::Status status = take(*this); !status.ok()) return state_.Within(status, StrCat("[", place, "]"));
    ++place;
  }
  return absl::OkStatus();
}

absl::Status ReadJson(std::string_view text, bool all, JsonReader::Take take) {
  if (all) {
    SHARDKIT_RETURN_IF_ERROR(JsonTree().Parse(text).status());
  }
  if (text.starts_with(kByteOrderMark)) return DataLoss("is damaged (begins with a byte order mark)");
  JsonReader::State state;
  const simdjson::padded_string padded(text.data(), text.size());
  if (const auto error = state.parser.iterate(padded).get(state.document)) return Broken(error);
  JsonReader reader(state);
  const absl::Status status = take(reader);
  std::string place;
  for (size_t i = state.place.size(); i-- > 0;) {
    place += StrCat(place.empty() || state.place[i].starts_with('[') ? "" : ".", state.place[i]);
  }
  return place.empty() ? status : Annotate(status, place);
}

namespace {

using simdjson::dom::element;

element Inside(const void* tree, size_t place) {
  struct Handle {
    const void* tree;
    size_t place;
  };
  return std::bit_cast<element>(Handle{tree, place});
}

template <typename T>
bool GetFrom(const element& value, T* out) {
  return value.get(*out) == simdjson::SUCCESS;
}

}  // namespace

static_assert(static_cast<char>(simdjson::dom::element_type::UINT64) == static_cast<char>(JsonKind::kLargeInteger));
JsonKind JsonElement::kind() const { return static_cast<JsonKind>(Inside(tree_, place_).type()); }
bool JsonElement::Get(bool* truth) const { return GetFrom(Inside(tree_, place_), truth); }
bool JsonElement::Get(int64_t* number) const { return GetFrom(Inside(tree_, place_), number); }
bool JsonElement::Get(uint64_t* number) const { return GetFrom(Inside(tree_, place_), number); }
bool JsonElement::Get(double* number) const { return GetFrom(Inside(tree_, place_), number); }
bool JsonElement::Get(std::string_view* text) const { return GetFrom(Inside(tree_, place_), text); }

bool JsonElement::ForEach(absl::FunctionRef<bool(JsonElement)> take) const {
  simdjson::dom::array list;
  if (Inside(tree_, place_).get(list) != simdjson::SUCCESS) return false;
  for (const element value : list) {
    if (!take(std::bit_cast<JsonElement>(value))) break;
  }
  return true;
}

bool JsonElement::ForEachMember(absl::FunctionRef<bool(std::string_view, JsonElement)> take) const {
  simdjson::dom::object object;
  if (Inside(tree_, place_).get(object) != simdjson::SUCCESS) return false;
  for (const auto& [name, value] : object) {
    if (!take(name, std::bit_cast<JsonElement>(value))) break;
  }
  return true;
}

std::string JsonElement::Format() const { return simdjson::minify(Inside(tree_, place_)); }

struct JsonTree::State {
  simdjson::dom::parser parser;
  size_t most_depth;
};

JsonTree::JsonTree(size_t most_depth) : state_(std::make_unique<State>()) { state_->most_depth = most_depth; }
JsonTree::~JsonTree() = default;

absl::StatusOr<JsonElement> JsonTree::Parse(std::string_view text) {
  simdjson::dom::parser& parser = state_->parser;
  element root;
  simdjson::error_code error = simdjson::SUCCESS;
  // Later versions of simdjson pass over it.
  if (text.starts_with(kByteOrderMark)) return DataLoss("is no JSON (begins with a byte order mark)");
  if (parser.max_depth() != state_->most_depth) error = parser.allocate(text.size(), state_->most_depth);
  if (error == simdjson::SUCCESS)
    error = text.empty() ? simdjson::EMPTY : parser.parse(text.data(), text.size()).get(root);
  if (error == simdjson::SUCCESS) return std::bit_cast<JsonElement>(root);
  if (error == simdjson::MEMALLOC) return ResourceExhausted("is too long: ", text.size(), " bytes");
  if (error == simdjson::STRING_ERROR) return DataLoss("has an escape such as \\ud800 without its other half");
  const std::string_view what = simdjson::error_message(error);
  // Later versions of simdjson have a BIGINT_ERROR.
  if (error == simdjson::NUMBER_ERROR || what.find("Big integer") != what.npos) {
    return DataLoss("has a number that neither 64 bits nor f64 can hold");
  }
  return DataLoss("is no JSON (", what, ")");
}

}  // namespace shardkit
