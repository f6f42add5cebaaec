// NumPy's .npy files (numpy.lib.format): written in version 1.0.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/schema.h"

namespace shardkit::operations {

// Replaces *out. bf16, which NumPy does not have, becomes a field of raw two-byte elements.
absl::Status FormatNpy(const NdarrayView& array, std::string* out);

// The elements of a file that FormatNpy wrote, borrowed from `file`. DataLoss for any other file, even a well-formed
// one.
absl::StatusOr<NdarrayView> ParseNpy(Type dtype, std::string_view file);

// What stands before the elements of any .npy file.
struct NpyHeader {
  Type dtype = Type::kU8;
  std::vector<uint64_t> shape;  // slowest dimension first
  uint64_t data = 0;            // where the elements begin, in bytes
};

// How many bytes at the front of a file ParseNpyHeader wants to see.
inline constexpr uint64_t kNpyFrontBytes = uint64_t{64} << 10;

// Parses the front of a file, of versions 1 to 3. InvalidArgument, saying what is wrong, for arrays in Fortran's order,
// for elements that no type holds (big-endian ones, texts, objects, structures), and for what is no such file.
absl::StatusOr<NpyHeader> ParseNpyHeader(std::string_view front);

}  // namespace shardkit::operations
