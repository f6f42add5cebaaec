#include "dataset/validate/deep_check.h"

#include <algorithm>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "codec/content_type.h"
#include "codec/png.h"
#include "shardkit/ndarray.h"

namespace shardkit {

absl::Status DeepChecker::Check(const Column& column, std::string_view value) {
  switch (column.type) {
    case Type::kUtf8:
      return ValidUtf8(value) ? absl::OkStatus() : DataLoss("utf8: is not valid UTF-8");
    case Type::kJson:
      return IsValidJson(value) ? absl::OkStatus() : DataLoss("json: is not one valid JSON document");
    case Type::kJpeg: {
      const absl::Status decoded = jpeg_.Check(value);
      return absl::IsUnimplemented(decoded) ? ProbeJpeg(value).status() : decoded;
    }
    case Type::kPng:
      return CheckPng(value);
    case Type::kBool:
      return static_cast<uint8_t>(value[0]) <= 1 ? absl::OkStatus() : DataLoss("bool: is neither 0 nor 1");
    case Type::kNdarray: {
      SHARDKIT_ASSIGN_OR_RETURN(const NdarrayView array, ParseNdarray(column, value));
      if (array.dtype == Type::kBool &&
          std::ranges::any_of(array.data, [](char element) { return static_cast<uint8_t>(element) > 1; })) {
        return DataLoss("ndarray: an element of dtype bool is neither 0 nor 1");
      }
      return absl::OkStatus();
    }
    case Type::kRle:
      return ParseRleValue(value, &masks_);
    default:
      return absl::OkStatus();
  }
}

}  // namespace shardkit
