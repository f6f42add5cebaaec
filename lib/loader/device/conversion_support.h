// Shared by the conversions of images and masks.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/checked.h"
#include "base/errors.h"
#include "shardkit/loader.h"

namespace shardkit::loader {

// A few bytes can stand for any number of pixels.
inline constexpr uint64_t kMostConversionBytes = uint64_t{64} << 30;

inline absl::Status TooManyBytes() {
  return ResourceExhausted("what becomes of a batch would take more than ", kMostConversionBytes,
                           " bytes; use a smaller batch or a geometry");
}

inline absl::StatusOr<uint64_t> BoundedProduct(std::initializer_list<uint64_t> factors) {
  uint64_t product = 1;
  for (const uint64_t factor : factors) {
    // Zeros first, so that the result does not depend on the order of the factors.
    if (factor == 0) return uint64_t{0};
  }
  for (const uint64_t factor : factors) {
    if (!CheckedMultiply(product, factor, &product) || product > kMostConversionBytes) return TooManyBytes();
  }
  return product;
}

inline absl::StatusOr<uint64_t> BoundedSum(uint64_t a, uint64_t b) {
  uint64_t sum;
  if (!CheckedAdd(a, b, &sum) || sum > kMostConversionBytes) return TooManyBytes();
  return sum;
}

inline absl::Status Describe(const BatchColumn& column, const absl::Status& status) {
  return Annotate(status, StrCat("column \"", column.name, "\""));
}

// Parts of the metadata begin at multiples of this.
inline constexpr uint64_t kMetadataAlignment = 256;

class MetadataWriter {
 public:
  explicit MetadataWriter(std::vector<uint8_t>* metadata) : metadata_(metadata) {}

  // Where the part begins.
  template <typename T>
  uint64_t Add(std::span<const T> part) {
    static_assert(std::is_trivially_copyable_v<T>);
    const uint64_t begin = RoundUp(metadata_->size(), kMetadataAlignment);
    metadata_->resize(begin + part.size_bytes());
    if (!part.empty()) std::memcpy(metadata_->data() + begin, part.data(), part.size_bytes());
    return begin;
  }

 private:
  std::vector<uint8_t>* metadata_;
};

}  // namespace shardkit::loader
