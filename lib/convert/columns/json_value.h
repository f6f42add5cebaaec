// Values of JSON as values of columns.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/json.h"
#include "shardkit/schema.h"

namespace shardkit::convert {

// What values of one member look like.
struct JsonKinds {
  bool boolean = false, negative = false, integer = false, large = false, fraction = false, text = false,
       nested = false;

  void Note(const JsonElement& value);

  // The type that takes all of them. InvalidArgument when there is none.
  absl::StatusOr<Type> TypeOfAll() const;
};

// Whether Append can make values of the type.
bool IsJsonTarget(Type type);

// Appends the value, as a column of this type stores it. InvalidArgument when the type cannot hold it; a number with a
// fraction is rounded to the nearest of the type.
absl::Status AppendJsonValue(const JsonElement& value, Type type, std::string* out);

}  // namespace shardkit::convert
