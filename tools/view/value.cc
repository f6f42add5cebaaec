#include "view/value.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "shardctl/describe.h"
#include "shardctl/report.h"
#include "shardctl/scalar.h"
#include "shardkit/image.h"

namespace shardctl {
namespace {

using shardkit::Type;

constexpr size_t kCaptionBytes = 200;
constexpr size_t kLookedAt = 4096;
constexpr std::string_view kUnknown = "application/octet-stream";

struct Signature {
  size_t offset;
  std::string_view bytes;
  std::string_view media_type;
};

// The first bytes of files, as WHATWG's MIME Sniffing (6.2) lists them; FLAC's as of RFC 9639.
constexpr std::array<Signature, 9> kSignatures = {{
    {0, "fLaC", "audio/flac"},
    {0, "ID3", "audio/mpeg"},
    {0, "\xff\xfb", "audio/mpeg"},
    {0, "\xff\xf3", "audio/mpeg"},
    {0, "OggS", "audio/ogg"},
    {0, "\x1a\x45\xdf\xa3", "video/webm"},
    {4, "ftypM4A", "audio/mp4"},
    {4, "ftyp", "video/mp4"},
    {8, "WAVE", "audio/wav"},
}};

// What a browser plays or paints.
bool IsSafe(std::string_view type) {
  constexpr std::array<std::string_view, 6> kImages = {"image/jpeg", "image/png", "image/webp",
                                                       "image/gif",  "image/bmp", "image/avif"};
  if (std::ranges::find(kImages, type) != kImages.end()) return true;
  if (!type.starts_with("audio/") && !type.starts_with("video/")) return false;
  return type.size() <= 80 && std::ranges::all_of(type.substr(6), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' || c == '+';
         });
}

std::string_view ImageType(std::string_view front) {
  switch (shardkit::DetectImageFormat(front)) {
    case shardkit::ImageFormat::kJpeg:
      return "image/jpeg";
    case shardkit::ImageFormat::kPng:
      return "image/png";
    case shardkit::ImageFormat::kWebp:
      return "image/webp";
    case shardkit::ImageFormat::kGif:
      return "image/gif";
    case shardkit::ImageFormat::kBmp:
      return "image/bmp";
    case shardkit::ImageFormat::kAvif:
      return "image/avif";
    default:
      return kUnknown;
  }
}

// UTF-8 without control characters but white space.
bool IsPlainText(std::string_view text) {
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    const bool control = static_cast<unsigned char>(text[0]) < 0x20 || text[0] == 0x7f;
    if (length == 0 || (control && text[0] != '\n' && text[0] != '\r' && text[0] != '\t')) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace

std::string ValueKind(const shardkit::Column& column) {
  if (!column.has_known_type()) return "bytes";
  switch (column.type) {
    case Type::kJpeg:
    case Type::kPng:
    case Type::kImage:
      return "image";
    case Type::kRle:
      return "masks";
    case Type::kUtf8:
      return "text";
    case Type::kJson:
      return "json";
    case Type::kBytes:
      return "bytes";
    case Type::kNdarray:
      return "array";
    case Type::kBool:
      return "boolean";
    case Type::kTimestampS:
    case Type::kTimestampMs:
    case Type::kTimestampUs:
    case Type::kTimestampNs:
      return "time";
    default:
      return "number";
  }
}

std::string ValueKind(const shardkit::Column& column, std::string_view front) {
  const std::string kind = ValueKind(column);
  if (kind != "bytes" || !column.has_known_type() || front.empty()) return kind;
  const std::string type = MediaType(column, front);
  if (type.starts_with("image/")) return "image";
  return type == kUnknown && IsPlainText(TextFront(front, kLookedAt)) ? "text" : kind;
}

std::string MediaType(const shardkit::Column& column, std::string_view front) {
  if (column.type != Type::kBytes && !shardkit::IsImage(column.type)) return std::string(kUnknown);
  const std::string_view image = ImageType(front);
  if (image != kUnknown) return std::string(image);
  const auto said = column.metadata.find("media_type");
  if (said != column.metadata.end() && IsSafe(said->second) && !said->second.starts_with("image/")) return said->second;
  for (const Signature& signature : kSignatures) {
    if (front.size() > signature.offset && front.substr(signature.offset).starts_with(signature.bytes)) {
      return std::string(signature.media_type);
    }
  }
  return std::string(kUnknown);
}

std::vector<std::string> ShownClasses(const shardkit::Column& column) {
  constexpr size_t kMostBytes = size_t{4} << 20, kMostNames = 65536;
  const auto text = column.metadata.find(shardkit::kClassNames);
  if (text == column.metadata.end() || text->second.size() > kMostBytes) return {};
  std::vector<std::string> names = shardkit::ClassNames(column).value_or(std::vector<std::string>());
  names.resize(std::min(names.size(), kMostNames));
  return names;
}

Json ShownMetadata(const shardkit::Metadata& metadata) {
  constexpr size_t kMostBytes = size_t{64} << 10;
  Json shown = Json::object();
  for (const auto& [name, value] : metadata) {
    const std::string_view front = TextFront(value, kMostBytes);
    shown[name] = std::string(front) + (front.size() < value.size() ? "…" : "");
  }
  return shown;
}

Json ClassMeaning(const std::vector<std::string>& names, const Json& number) {
  if (!number.is_number_integer() || number < 0 || number >= names.size()) return nullptr;
  return names[number.get<size_t>()];
}

std::string CaptionText(const shardkit::Column& column, const std::vector<std::string>& classes,
                        std::string_view value) {
  const std::string kind = ValueKind(column, value);
  if (kind == "text" || kind == "json") {
    const std::string_view front = TextFront(value, kCaptionBytes);
    return std::string(front) + (front.size() < value.size() ? "…" : "");
  }
  if (kind == "number" && value.size() == shardkit::ScalarSize(column.type)) {
    const Json meaning = ClassMeaning(classes, ScalarJson(column.type, value.data()));
    const std::string number = ScalarText(column.type, value.data());
    return meaning.is_string() ? meaning.get<std::string>() + " (" + number + ")" : number;
  }
  return std::string(TextFront(DescribeValue(column, value, value.size()).text, kCaptionBytes));
}

}  // namespace shardctl
