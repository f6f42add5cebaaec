// Converts what the loader delivers of a column to what the consumer gets on the device.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gpu/backend.h"
#include "gpu/kernels/kernels.h"
#include "shardkit/loader.h"

namespace shardkit::loader {

// One batch's column, worked out on the host before anything is queued.
struct DeviceLayout {
  // Uploaded in addition to the values, to a multiple of 256 bytes.
  std::vector<uint8_t> metadata;
  uint64_t scratch_bytes = 0;
  uint64_t output_bytes = 0;

  // The output, as BatchColumn describes it.
  BatchLayout layout = BatchLayout::kTensor;
  Type dtype = Type::kU8;
  std::vector<uint64_t> shape;
  std::vector<uint64_t> offsets;
  std::vector<uint64_t> item_offsets;
  std::vector<uint64_t> shapes;
  uint32_t shape_rank = 0;
};

// Immutable, thread-safe.
class ColumnConversion {
 public:
  virtual ~ColumnConversion() = default;

  // ResourceExhausted when output or scratch would be larger than 64 GiB. InvalidArgument for a column that this
  // conversion is not for, which is a mistake in the program. Does not look at the values themselves.
  virtual absl::StatusOr<DeviceLayout> Prepare(const BatchColumn& column) const = 0;

  // Queues the work. All memory is the device's and aligned to 256 bytes: `values` of the column, `metadata` of the
  // plan, `scratch` and `out` with the sizes in the plan. `column` and `plan` are those of Prepare.
  virtual absl::Status Launch(gpu::Backend& backend, DeviceStream stream, const BatchColumn& column,
                              const DeviceLayout& plan, const uint8_t* values, const uint8_t* metadata,
                              uint8_t* scratch, uint8_t* out) const = 0;
};

// Images of one size ([n, height, width, channels] u8) to planar ones.
std::unique_ptr<ColumnConversion> NewNormalizeConversion(const PixelOutput& output);

// Applies BatchColumn::geometries (LoaderColumn::deferred) to images of different sizes. All outputs have the size
// `output_height` x `output_width`. `fill` is ImageDecodeOptions::fill.
std::unique_ptr<ColumnConversion> NewResampleConversion(const PixelOutput& output, uint32_t output_height,
                                                        uint32_t output_width, int channels,
                                                        const ImageDecodeOptions& options);

// Mask runs with geometries to kMasks, in the loader's layout (kMasks, kPackedMasks of loader.h): one after the other,
// or padded. When masks have their own sizes output_height and output_width are 0. Otherwise the output has a `shape`.
std::unique_ptr<ColumnConversion> NewMaskConversion(bool packed, bool padded, uint32_t output_height,
                                                    uint32_t output_width);

}  // namespace shardkit::loader
