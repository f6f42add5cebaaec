// Text of COCO masks, and stored lists of masks, compared with a very simple model: arithmetic in 128 bits, one bit at
// a time.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardkit/rle.h"
#include "support/input.h"
#include "support/memory_bound.h"
#include "support/require.h"

namespace {

using namespace shardkit;
using namespace shardkit::fuzz;

// A number is a sequence of groups of five bits, lowest group first. The sixth bit says that another group follows. The
// fifth bit of the last group is the sign. From the fourth number on, each is the difference to the number two before.
std::optional<std::vector<uint32_t>> ModelRuns(std::string_view text) {
  std::vector<uint32_t> runs;
  for (size_t at = 0; at < text.size();) {
    __int128 number = 0;
    int shift = 0;
    while (true) {
      if (at == text.size()) return std::nullopt;
      const int group = text[at++] - '0';
      if (group < 0 || group > 63) return std::nullopt;
      if (shift >= 60) return std::nullopt;  // at most twelve groups
      number |= static_cast<__int128>(group & 31) << shift;
      shift += 5;
      if ((group & 32) != 0) continue;
      if ((group & 16) != 0) number -= static_cast<__int128>(1) << shift;
      break;
    }
    if (runs.size() > 2) number += runs[runs.size() - 2];
    if (number < 0 || number > 0xffffffff) return std::nullopt;
    runs.push_back(static_cast<uint32_t>(number));
  }
  return runs;
}

// Row-major pixels from column-major runs.
std::vector<uint8_t> ModelPixels(const Rle& mask) {
  std::vector<uint8_t> pixels(size_t{mask.height} * mask.width);
  size_t at = 0;
  for (size_t run = 0; run < mask.runs.size(); ++run) {
    for (uint32_t i = 0; i < mask.runs[run]; ++i, ++at)
      pixels[at % mask.height * mask.width + at / mask.height] = run % 2;
  }
  return pixels;
}

void CheckPixels(const Rle& mask) {
  const std::vector<uint8_t> model = ModelPixels(mask);
  std::vector<uint8_t> dense(model.size()), packed(mask.height * PackedRowBytes(mask.width));
  RequireOk(DecodeDense(mask, dense), "decoding a valid mask");
  Require(dense == model, "the pixels are those of the model");
  RequireOk(DecodePacked(mask, packed), "decoding a valid mask to bits");
  uint64_t area = 0;
  for (size_t i = 0; i < model.size(); ++i) {
    const size_t y = i / mask.width, x = i % mask.width;
    Require(((packed[y * PackedRowBytes(mask.width) + x / 8] >> (x % 8)) & 1) == model[i],
            "the bits are those of the model");
    area += model[i];
  }
  Require(Area(mask) == area, "the area is that of the model");
  const auto encoded = EncodeDense(model, mask.height, mask.width);
  RequireOk(encoded.status(), "encoding pixels");
  Require(ModelPixels(*encoded) == model, "encoded pixels come back");
}

void CheckText(Input input) {
  Rle mask;
  mask.height = static_cast<uint32_t>(input.Number(1));
  const std::string_view text = input.rest();
  const auto model = ModelRuns(text);
  const absl::Status status = RunsFromCocoText(text, &mask.runs);
  Require(status.ok() == model.has_value(), "text is taken when the model takes it");
  if (!model) return;
  Require(mask.runs == *model, "the runs are those of the model");
  std::string written;
  AppendCocoText(mask.runs, &written);
  Require(ModelRuns(written) == model, "text of runs means these runs");
  uint64_t sum = 0;
  for (const uint32_t run : mask.runs) sum += run;
  mask.width = mask.height == 0 ? 0 : static_cast<uint32_t>(std::min<uint64_t>(sum / mask.height, 0xffffffff));
  const bool valid = uint64_t{mask.height} * mask.width == sum && sum <= kMaxMaskPixels;
  Require(ValidateRle(mask).ok() == valid, "a mask is valid when its runs fill it");
  RleList list;
  list.Append(mask);
  std::string value;
  Require(AppendRleValue(list, &value).ok() == valid, "valid masks are stored, others are not");
  if (!valid) return;
  RleList again;
  RequireOk(ParseRleValue(value, &again), "a stored mask");
  Require(again == list, "a stored mask comes back");
  if (sum > 0 && sum <= 1 << 16) CheckPixels(mask);
}

void CheckValue(std::string_view value) {
  RleList masks, sizes;
  const bool parsed = ParseRleValue(value, &masks).ok();
  const bool sized = ParseRleSizes(value, &sizes).ok();
  Require(sized || !parsed, "what can be parsed has sizes");
  if (!parsed) return;
  Require(sizes.heights == masks.heights && sizes.widths == masks.widths, "the head has the sizes of the masks");
  Require(RleValueCount(value).value() == masks.size(), "the head has the number of masks");
  for (size_t i = 0; i < masks.size(); ++i) RequireOk(ValidateRle(masks[i]), "a mask that was parsed");
  std::string written;
  RequireOk(AppendRleValue(masks, &written), "storing masks that were parsed");
  RleList again;
  RequireOk(ParseRleValue(written, &again), "masks that were stored");
  Require(again == masks, "stored masks come back");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryBound bound(size);
  Input input(data, size);
  if (input.Chance()) {
    CheckText(input);
  } else {
    CheckValue(input.rest());
  }
  return 0;
}
