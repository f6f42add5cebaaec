#include "device_options.h"

#include <algorithm>

#include "numbers.h"
#include "order_options.h"

namespace shardctl {
namespace {

constexpr shardkit::Type kPixelTypes[] = {shardkit::Type::kU8, shardkit::Type::kF32, shardkit::Type::kF16,
                                          shardkit::Type::kBf16};

absl::Status Refuse(const std::string& option, const std::string& why) {
  return absl::InvalidArgumentError(option + ": " + why);
}

}  // namespace

void DeviceOptions::AddTo(CommandLine* line) {
  line->Text("--device", "NAME", &name,
             "measure copies to and from cuda, cuda:N or emulated, and read the dataset, where one is given, onto it");
  line->Suggest({"cuda", "cuda:0", "emulated"});
  line->Texts("--device-sizes", "A,B,...", &sizes_,
              "sizes to measure [1MiB,16MiB,256MiB,1GiB; overlap at 16MiB,256MiB]; may be repeated");
  line->Size("--pinned", &pinned_given_, "page-locked memory of the loader [512MiB]");
  line->Flag("--device-geometry", &geometry, "resize and crop images on the device instead of while they are decoded");
  line->Choice("--pixels", "TYPE", {"u8", "f32", "f16", "bf16"}, &pixels_,
               "what images become: u8 as they are; the others planar, normalised as for ImageNet [u8]");
}

absl::Status DeviceOptions::Finish(const std::vector<std::string>& options, bool datasets, const DecodeWish& decode) {
  const std::pair<bool, const char*> alone[] = {
      {!sizes_.empty(), "--device-sizes"}, {pinned_given_ != UINT64_MAX, "--pinned"}, {geometry, "--device-geometry"}};
  for (const auto& [given, option] : alone) {
    if (given && !name.has_value()) return Refuse(option, "goes with --device");
  }
  if (!datasets) {
    if (!name.has_value()) return absl::InvalidArgumentError("DATASET is missing");
    for (const std::string& option : options) {
      if (option != "--device" && option != "--device-sizes" && option != "--json")
        return Refuse(option, "goes with a DATASET");
    }
  }
  if (pinned_given_ != UINT64_MAX) pinned_bytes = pinned_given_;
  if (pixels_ != SIZE_MAX) {
    pixels = kPixelTypes[pixels_];
    if (!decode.images) return Refuse("--pixels", "no images are decoded; give --decode image:SIZE");
  }
  const bool native = !decode.images || decode.geometry.kind == shardkit::GeometryOptions::Kind::kNative;
  if (geometry && native) return Refuse("--device-geometry", "there is no geometry; give --decode image:SIZE");
  if (pixels != shardkit::Type::kU8 && native) {
    return Refuse("--pixels", "images of their own sizes stay u8; give --decode image:SIZE");
  }
  if (sizes_.empty()) return absl::OkStatus();
  sizes.copies.clear();
  for (const std::string& list : sizes_) {
    for (const std::string& word : SplitAtCommas(list)) {
      const absl::StatusOr<uint64_t> bytes = ParseSize(word);
      if (!bytes.ok()) return Refuse("--device-sizes", std::string(bytes.status().message()));
      // Shorter copies would take millions of calls and measure only the calls.
      if (*bytes < 4096) return Refuse("--device-sizes", "give at least 4KiB");
      sizes.copies.push_back(*bytes);
    }
  }
  sizes.overlaps = sizes.copies;
  return absl::OkStatus();
}

}  // namespace shardctl
