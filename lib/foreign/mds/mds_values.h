// Values of MDS in our form, and back (format-spec/interop.md, "Encodings").
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "foreign/mds/mds_encoding.h"
#include "shardkit/schema.h"

namespace shardkit::foreign {

// The most bytes by which a value in our form can be longer than in that of MDS; a list has at most so many times its
// bytes.
inline constexpr uint64_t kMdsValueRoom = 192, kMdsListGrowth = 10;

// The dtype of an array that carries its own; empty if the first byte names none.
std::optional<Type> MdsDtypeOf(std::string_view payload);

// Appends a value in our form. `payload` is the value in the form of MDS, which is not kPlain. DataLoss when it does
// not have that form; Unimplemented for what the column's type cannot hold: more than kMaxRank dimensions, another
// dtype, an integer of more than 64 bits, pixels that TIFF has no form for.
absl::Status AppendFromMds(const MdsEncoding& how, std::string_view payload, std::string* out);

// Appends a value of `column`, in our form, in the form of MDS: arrays with a shape in the column without it, the
// others as `form` says. InvalidArgument for what MDS cannot hold: an array without dimensions or without elements, an
// image that AppendFromMds does not make.
absl::Status AppendToMds(const Column& column, MdsForm form, std::string_view value, std::string* out);

}  // namespace shardkit::foreign
