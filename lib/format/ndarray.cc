#include "shardkit/schema.h"

#include <algorithm>

#include "base/byte_cursor.h"
#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "format/chunk.h"
#include "format/constants.h"

namespace shardkit {
namespace {

// Bytes of the elements; false on overflow.
bool DataSize(Type dtype, std::span<const uint64_t> shape, uint64_t* size) {
  *size = ScalarSize(dtype);
  // With a zero dimension the size starts at 0, so that the product of the other dimensions cannot overflow.
  if (std::ranges::find(shape, uint64_t{0}) != shape.end()) *size = 0;
  for (const uint64_t dimension : shape) {
    if (!CheckedMultiply(*size, dimension, size)) return false;
  }
  return *size <= format::kMaxLength;
}

}  // namespace

uint64_t NdarrayView::element_count() const { return data.size() / ScalarSize(dtype); }

absl::Status AppendNdarray(Type dtype, std::span<const uint64_t> shape, std::string_view data, std::string* out) {
  uint64_t size;
  if (ScalarSize(dtype) == 0) return InvalidArgument("ndarray: the dtype is not a scalar type");
  if (shape.size() > kMaxRank) return InvalidArgument("ndarray: ", shape.size(), " dimensions; at most 8 are allowed");
  if (!DataSize(dtype, shape, &size) || size != data.size()) {
    return InvalidArgument("ndarray: the shape does not fit ", data.size(), " bytes of data");
  }
  AppendLittle(*out, static_cast<uint64_t>(shape.size()));
  for (const uint64_t dimension : shape) AppendLittle(*out, dimension);
  out->append(data);
  out->append(RoundUp(size, 8) - size, '\0');
  return absl::OkStatus();
}

absl::StatusOr<NdarrayView> ParseNdarray(const Column& column, std::string_view value) {
  NdarrayView view;
  view.dtype = column.dtype;
  if (ScalarSize(view.dtype) == 0)
    return Unimplemented("ndarray: elements of ", TypeName(view.dtype), " are not known");
  uint64_t size;
  if (column.shape.has_value()) {
    view.shape = *column.shape;
    if (!DataSize(view.dtype, view.shape, &size) || size != value.size()) {
      return DataLoss("ndarray: ", value.size(), " bytes do not fit the column's shape");
    }
    view.data = value;
    return view;
  }
  ByteCursor cursor(value);
  uint64_t rank;
  if (!cursor.Read(&rank) || rank > kMaxRank) return DataLoss("ndarray: rank is cut short or over 8");
  view.shape.resize(rank);
  for (uint64_t& dimension : view.shape) {
    if (!cursor.Read(&dimension)) return DataLoss("ndarray: shape is cut short");
  }
  if (!DataSize(view.dtype, view.shape, &size) || RoundUp(size, 8) != cursor.remaining()) {
    return DataLoss("ndarray: ", cursor.remaining(), " bytes do not fit the shape");
  }
  (void)cursor.ReadBytes(size, &view.data);
  if (!format::AllZero(value.substr(cursor.position()))) return DataLoss("ndarray: padding is not zero");
  return view;
}

}  // namespace shardkit
