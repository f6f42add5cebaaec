#include "foreign/mds/mds_values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "base/byte_cursor.h"
#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace shardkit::foreign {
namespace {

constexpr std::array<std::pair<uint8_t, Type>, 11> kDtypes{{
    {8, Type::kU8},
    {9, Type::kI8},
    {16, Type::kU16},
    {17, Type::kI16},
    {18, Type::kF16},
    {32, Type::kU32},
    {33, Type::kI32},
    {34, Type::kF32},
    {64, Type::kU64},
    {65, Type::kI64},
    {66, Type::kF64},
}};

absl::Status AppendArray(Type dtype, std::string_view payload, std::string* out) {
  ByteCursor cursor(payload);
  uint8_t head;
  if (!cursor.Read(&head)) return DataLoss("an array of no bytes");
  const size_t rank = head >> 2;
  std::array<uint64_t, kMaxRank> shape;
  if (rank > kMaxRank) {
    return Unimplemented("an array of ", rank, " dimensions: ", kMaxRank, " at most are read");
  }
  for (size_t i = 0; i < rank; ++i) {
    std::string_view bytes;
    if (!cursor.ReadBytes(uint64_t{1} << (head & 3), &bytes)) {
      return DataLoss("an array of ", payload.size(), " bytes that ends within its shape");
    }
    std::string dimension(bytes);
    dimension.resize(sizeof(uint64_t), '\0');
    shape[i] = LoadLittle<uint64_t>(dimension.data());
  }
  const absl::Status status =
      AppendNdarray(dtype, std::span(shape).first(rank), payload.substr(cursor.position()), out);
  // The file's bytes are wrong, not an argument of the caller.
  return status.ok() ? status : absl::DataLossError(status.message());
}

absl::Status AppendTypedArray(Type dtype, std::string_view payload, std::string* out) {
  const std::optional<Type> own = MdsDtypeOf(payload);
  if (!own) return DataLoss(payload.empty() ? "an array of no bytes" : "an array of a dtype that MDS does not have");
  if (*own != dtype) {
    return Unimplemented("an array of ", TypeName(*own), ", but the dataset begins with one of ", TypeName(dtype),
                         ", and a column has one dtype");
  }
  return AppendArray(dtype, payload.substr(1), out);
}

template <typename Number>
absl::Status AppendNumber(std::string_view text, std::string* out) {
  Number number;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range) {
    return Unimplemented("a number of ", text.size(), " digits, beyond those of ", 8 * sizeof(number), " bits");
  }
  if (error != std::errc() || end != text.data() + text.size()) {
    return DataLoss("a text of ", text.size(), " bytes that is no number");
  }
  AppendLittle(*out, number);
  return absl::OkStatus();
}

// As Python writes it.
void AppendReal(double number, std::string* out) {
  const double size = std::abs(number);
  const bool fixed = size == 0 || (size >= 1e-4 && size < 1e16);
  char memory[40];
  const auto format = fixed ? std::chars_format::fixed : std::chars_format::scientific;
  const std::string_view text(memory, std::to_chars(memory, std::end(memory), number, format).ptr);
  out->append(text);
  if (fixed && text.find('.') == text.npos) *out += ".0";
}

// Pixels become TIFF files that hold them as they are: this costs no compression, and each mode keeps its bits.

struct PixelForm {
  std::string_view mode;  // of PIL
  uint16_t photometric;
  uint16_t samples;
  uint16_t bits;
  uint16_t format = 1;   // unsigned; 2: signed, 3: floating point
  uint16_t indexed = 0;  // 1: of a palette, which MDS does not store
};

constexpr std::array<PixelForm, 11> kPixelForms{{
    {"RGB", 2, 3, 8},
    {"L", 1, 1, 8},
    {"RGBA", 2, 4, 8},
    {"1", 1, 1, 1},
    {"P", 1, 1, 8, 1, 1},
    {"LA", 1, 2, 8},
    {"CMYK", 5, 4, 8},
    {"LAB", 8, 3, 8},
    {"I;16", 1, 1, 16},
    {"I", 1, 1, 32, 2},
    {"F", 1, 1, 32, 3},
}};

// All of the file but the pixels, which follow it as one strip.
std::string TiffHead(const PixelForm& form, uint32_t width, uint32_t height, uint64_t pixel_bytes) {
  struct Entry {
    uint16_t tag;
    std::vector<uint32_t> values;
    bool wide = false;  // numbers of four bytes
  };
  std::vector<Entry> entries = {{256, {width}, true},
                                {257, {height}, true},
                                {258, std::vector<uint32_t>(form.samples, form.bits)},
                                {259, {1}},  // no compression
                                {262, {form.photometric}},
                                {273, {0}, true},  // where the pixels begin
                                {277, {form.samples}},
                                {278, {height}, true},
                                {279, {static_cast<uint32_t>(pixel_bytes)}, true}};
  if (form.mode.ends_with('A')) entries.push_back({338, {2}});  // unassociated alpha
  if (form.format != 1) entries.push_back({339, {form.format}});
  if (form.indexed != 0) entries.push_back({346, {form.indexed}});
  const size_t behind = 8 + 2 + 12 * entries.size() + 4;
  std::string more;  // values that do not fit in their entries
  std::string head("II*\0\x08\0\0\0", 8);
  AppendLittle(head, static_cast<uint16_t>(entries.size()));
  size_t place_of_pixels = 0;
  for (const Entry& entry : entries) {
    std::string values;
    for (const uint32_t value : entry.values) {
      if (entry.wide) {
        AppendLittle(values, value);
      } else {
        AppendLittle(values, static_cast<uint16_t>(value));
      }
    }
    AppendLittle(head, entry.tag);
    AppendLittle(head, static_cast<uint16_t>(entry.wide ? 4 : 3));
    AppendLittle(head, static_cast<uint32_t>(entry.values.size()));
    if (entry.tag == 273) place_of_pixels = head.size();
    values.resize(RoundUp(values.size(), 4), '\0');
    if (values.size() == 4) {
      head += values;
    } else {
      AppendLittle(head, static_cast<uint32_t>(behind + more.size()));
      more += values;
    }
  }
  head.append(4, '\0');  // there is no other image
  head += more;
  StoreLittle(head.data() + place_of_pixels, static_cast<uint32_t>(head.size()));
  return head;
}

bool PixelBytes(const PixelForm& form, uint32_t width, uint32_t height, uint64_t* bytes) {
  return CheckedMultiply((uint64_t{width} * form.samples * form.bits + 7) / 8, height, bytes);
}

absl::Status AppendTiff(std::string_view payload, std::string* out) {
  ByteCursor cursor(payload);
  uint32_t width, height, mode_bytes;
  std::string_view mode;
  if (!cursor.Read(&width) || !cursor.Read(&height) || !cursor.Read(&mode_bytes) ||
      !cursor.ReadBytes(mode_bytes, &mode)) {
    return DataLoss("pixels of ", payload.size(), " bytes that end within their description");
  }
  const auto form = std::ranges::find(kPixelForms, mode, &PixelForm::mode);
  if (form == kPixelForms.end() || width == 0 || height == 0) {
    return Unimplemented(width, " x ", height, " pixels of mode \"", absl::CHexEscape(ToAbsl(mode.substr(0, 16))),
                         "\", for which there is no image file; encoding bytes or png stores them");
  }
  const std::string_view pixels = payload.substr(cursor.position());
  uint64_t bytes;
  if (!PixelBytes(*form, width, height, &bytes) || bytes != pixels.size()) {
    return DataLoss(width, " x ", height, " pixels of mode \"", mode, "\" in ", pixels.size(), " bytes");
  }
  *out += TiffHead(*form, width, height, bytes);
  *out += pixels;
  return absl::OkStatus();
}

// Appends the pixels of a file that AppendTiff has made. False, and appends nothing, for any other.
bool AppendPixels(std::string_view file, std::string* out) {
  // The values of the first two entries.
  constexpr size_t kWidth = 8 + 2 + 8, kHeight = kWidth + 12;
  if (file.size() < kHeight + 4) return false;
  const auto width = LoadLittle<uint32_t>(file.data() + kWidth), height = LoadLittle<uint32_t>(file.data() + kHeight);
  for (const PixelForm& form : kPixelForms) {
    uint64_t bytes;
    if (!PixelBytes(form, width, height, &bytes) || bytes > file.size()) continue;
    const std::string head = TiffHead(form, width, height, bytes);
    if (file.size() - bytes != head.size() || !file.starts_with(head)) continue;
    AppendLittle(*out, width);
    AppendLittle(*out, height);
    AppendLittle(*out, static_cast<uint32_t>(form.mode.size()));
    *out += form.mode;
    *out += file.substr(head.size());
    return true;
  }
  return false;
}

// Calls `append` for each element of a list, and appends the list of what it appends: u32 0, u32 count, u32 sizes,
// elements.
template <typename Append>
absl::Status AppendList(std::string_view payload, std::string* out, const Append& append) {
  ByteCursor sizes(payload);
  uint32_t zero, count, size;
  if (!sizes.Read(&zero) || !sizes.Read(&count) || count > sizes.remaining() / 4) {
    return DataLoss("a list of ", payload.size(), " bytes that ends within its sizes");
  }
  if (zero != 0) return DataLoss("a list of ", payload.size(), " bytes that begins with ", zero, " instead of 0");
  const size_t places = out->size() + 8;
  *out += payload.substr(0, 8 + size_t{4} * count);
  ByteCursor elements(payload.substr(8 + size_t{4} * count));
  for (uint32_t i = 0; i < count; ++i) {
    std::string_view element;
    if (!sizes.Read(&size) || !elements.ReadBytes(size, &element)) {
      return DataLoss("a list of ", payload.size(), " bytes that ends within element ", i, " of ", count);
    }
    const size_t begin = out->size();
    if (absl::Status status = append(element); !status.ok()) return Annotate(status, StrCat("element ", i));
    StoreLittle(out->data() + places + size_t{4} * i, static_cast<uint32_t>(out->size() - begin));
  }
  return elements.remaining() == 0 ? absl::OkStatus() : DataLoss(elements.remaining(), " bytes follow a list");
}

absl::Status AppendNdarrayToMds(const Column& column, MdsForm form, std::string_view value, std::string* out) {
  SHARDKIT_ASSIGN_OR_RETURN(const NdarrayView array, ParseNdarray(column, value));
  if (column.shape) {
    out->append(array.data);
    return absl::OkStatus();
  }
  if (array.shape.empty()) return InvalidArgument("column \"", column.name, "\": MDS has no arrays without dimensions");
  if (array.data.empty()) return InvalidArgument("column \"", column.name, "\": MDS has no arrays without elements");
  if (form == MdsForm::kTypedArray) {
    const auto dtype = std::ranges::find(kDtypes, column.dtype, &std::pair<uint8_t, Type>::second);
    out->push_back(static_cast<char>(dtype->first));
  }
  const uint64_t largest = std::ranges::max(array.shape);
  const unsigned width = largest <= UINT8_MAX ? 0 : largest <= UINT16_MAX ? 1 : largest <= UINT32_MAX ? 2 : 3;
  out->push_back(static_cast<char>(array.shape.size() << 2 | width));
  for (const uint64_t dimension : array.shape) {
    std::string bytes;
    AppendLittle(bytes, dimension);
    out->append(bytes, 0, size_t{1} << width);
  }
  out->append(array.data);
  return absl::OkStatus();
}

}  // namespace

std::optional<Type> MdsDtypeOf(std::string_view payload) {
  if (payload.empty()) return std::nullopt;
  const auto code = static_cast<uint8_t>(payload[0]);
  const auto found = std::ranges::find(kDtypes, code, &std::pair<uint8_t, Type>::first);
  return found == kDtypes.end() ? std::nullopt : std::optional(found->second);
}

absl::Status AppendFromMds(const MdsEncoding& how, std::string_view payload, std::string* out) {
  switch (how.form) {
    case MdsForm::kPlain:
      break;
    case MdsForm::kArray:
      return AppendArray(how.dtype, payload, out);
    case MdsForm::kTypedArray:
      return AppendTypedArray(how.dtype, payload, out);
    case MdsForm::kInteger:
      return AppendNumber<int64_t>(payload, out);
    case MdsForm::kReal:
      return AppendNumber<double>(payload, out);
    case MdsForm::kPixels:
      return AppendTiff(payload, out);
    case MdsForm::kPixelsList:
      return AppendList(payload, out, [&](std::string_view element) { return AppendTiff(element, out); });
  }
  out->append(payload);
  return absl::OkStatus();
}

absl::Status AppendToMds(const Column& column, MdsForm form, std::string_view value, std::string* out) {
  if (column.type == Type::kNdarray) return AppendNdarrayToMds(column, form, value, out);
  switch (form) {
    case MdsForm::kInteger:
      *out += StrCat(LoadLittle<int64_t>(value.data()));
      return absl::OkStatus();
    case MdsForm::kReal:
      AppendReal(LoadLittle<double>(value.data()), out);
      return absl::OkStatus();
    case MdsForm::kPixels:
      if (AppendPixels(value, out)) return absl::OkStatus();
      return InvalidArgument("column \"", column.name, "\": an image that is not one of MDS's encoding pil: choose ",
                             "another (--encoding ", column.name, "=jpeg, whose decoder takes any image)");
    case MdsForm::kPixelsList: {
      // A byte string that is not a list of such images is stored as it is, as under any encoding.
      const size_t begin = out->size();
      const absl::Status status = AppendList(value, out, [&](std::string_view element) {
        if (!AppendPixels(element, out)) out->append(element);
        return absl::OkStatus();
      });
      if (status.ok()) return status;
      out->resize(begin);
      [[fallthrough]];
    }
    default:
      out->append(value);
      return absl::OkStatus();
  }
}

}  // namespace shardkit::foreign
