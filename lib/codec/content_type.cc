#include "codec/content_type.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "base/endian.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "shardkit/image.h"

namespace shardkit {
namespace codec {
namespace {

// Whether bytes are a JSON text by the grammar of RFC 8259. A parser would not do: it also refuses numbers that its
// types do not hold and escaped surrogates without a partner, which the grammar allows.
class JsonGrammar {
 public:
  explicit JsonGrammar(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  // Where IsText stopped.
  const char* at() const { return at_; }

  bool IsText() {
    for (bool value_follows = true;;) {
      if (value_follows) {
        value_follows = false;
        if (Take('{')) {
          if (!Open(/*object=*/true)) return false;
          if (!Take('}')) {
            if (!Name()) return false;
            value_follows = true;
            continue;
          }
          --depth_;
        } else if (Take('[')) {
          if (!Open(/*object=*/false)) return false;
          if (!Take(']')) {
            value_follows = true;
            continue;
          }
          --depth_;
        } else if (!Scalar()) {
          return false;
        }
      }
      if (depth_ == 0) {
        SkipSpace();
        return at_ == end_;
      }
      const bool object = is_object_[depth_ - 1];
      if (Take(',')) {
        if (object && !Name()) return false;
        value_follows = true;
      } else if (Take(object ? '}' : ']')) {
        --depth_;
      } else {
        return false;
      }
    }
  }

 private:
  bool Open(bool object) {
    if (depth_ == kMaxJsonDepth) return false;
    is_object_[depth_++] = object;
    return true;
  }

  // The name of a member and the colon after it.
  bool Name() { return Take('"') && String() && Take(':'); }

  bool Scalar() {
    if (Take('"')) return String();
    if (Word("true") || Word("false") || Word("null")) return true;
    return Number();
  }

  // What follows the opening quotation mark.
  bool String() {
    while (at_ != end_) {
      const char c = *at_++;
      if (c == '"') return true;
      if (static_cast<unsigned char>(c) < 0x20) return false;
      if (c == '\\' && !Escape()) return false;
    }
    return false;
  }

  bool Escape() {
    if (at_ == end_) return false;
    const char c = *at_++;
    if (c != 'u') return std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos;
    for (int i = 0; i < 4; ++i) {
      if (at_ == end_) return false;
      const char digit = *at_++;
      if (!IsDigit(digit) && !(digit >= 'a' && digit <= 'f') && !(digit >= 'A' && digit <= 'F')) return false;
    }
    return true;
  }

  bool Number() {
    Char('-');
    if (!Char('0') && !Digits()) return false;
    if (Char('.') && !Digits()) return false;
    if (!Char('e') && !Char('E')) return true;
    if (!Char('-')) Char('+');
    return Digits();
  }

  bool Digits() {
    const char* const begin = at_;
    while (at_ != end_ && IsDigit(*at_)) ++at_;
    return at_ != begin;
  }

  bool Word(std::string_view word) {
    if (!std::string_view(at_, static_cast<size_t>(end_ - at_)).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  bool Char(char c) {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }

  // A character that white space may stand before.
  bool Take(char c) {
    SkipSpace();
    return Char(c);
  }

  void SkipSpace() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
  }

  static bool IsDigit(char c) { return c >= '0' && c <= '9'; }

  const char* at_;
  const char* const end_;
  size_t depth_ = 0;
  std::bitset<kMaxJsonDepth> is_object_;
};

}  // namespace

bool IsValidJson(std::string_view bytes) { return ValidUtf8(bytes) && JsonGrammar(bytes).IsText(); }

std::string DescribeInvalidJson(std::string_view bytes) {
  if (bytes.starts_with("\xef\xbb\xbf")) {
    return "byte 0: begins with a byte order mark, which JSON does not have: write it as utf-8, in Python not "
           "utf-8-sig";
  }
  JsonGrammar grammar(bytes);
  if (grammar.IsText()) return ValidUtf8(bytes) ? "" : "is not UTF-8";
  const auto at = static_cast<size_t>(grammar.at() - bytes.data());
  if (at == bytes.size()) return StrCat("byte ", at, ": ends within a value: it was cut off");
  const std::string_view rest = bytes.substr(at);
  for (const std::string_view word : {"NaN", "Infinity"}) {
    if (rest.starts_with(word)) {
      return StrCat("byte ", at, ": ", word, ", which is no number of JSON: write null (json.dump of Python refuses ",
                    "it with allow_nan=False)");
    }
  }
  return StrCat("byte ", at, ": not what JSON has there, \"", absl::CHexEscape(ToAbsl(rest.substr(0, 16))), "\"");
}

}  // namespace codec

namespace {

constexpr std::array<std::string_view, 12> kTextExtensions = {"txt", "cls",  "caption", "csv", "tsv", "md",
                                                              "xml", "html", "yaml",    "yml", "log", "jsonl"};

constexpr std::array<std::string_view, 16> kImageExtensions = {"jpg", "jpeg", "jpe", "jfif", "png",  "webp",
                                                               "gif", "bmp",  "tif", "tiff", "avif", "jxl",
                                                               "ppm", "pgm",  "pbm", "pnm"};

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

bool IsTextExtension(std::string_view lower) {
  return lower == "ndjson" || std::find(kTextExtensions.begin(), kTextExtensions.end(), lower) != kTextExtensions.end();
}

}  // namespace

ImageFormat DetectImageFormat(std::string_view bytes) {
  bytes = bytes.substr(0, kImageHeadBytes);
  struct Signature {
    std::string_view bytes;
    ImageFormat format;
  };
  constexpr std::array<Signature, 11> kSignatures = {{
      {{"\xff\xd8\xff", 3}, ImageFormat::kJpeg},                 // T.81, B.1: SOI and the next marker
      {{"\x89PNG\r\n\x1a\n", 8}, ImageFormat::kPng},             // ISO 15948, 5.2
      {{"GIF87a", 6}, ImageFormat::kGif},                        //
      {{"GIF89a", 6}, ImageFormat::kGif},                        //
      {{"BM", 2}, ImageFormat::kBmp},                            //
      {{"II\x2a\0", 4}, ImageFormat::kTiff},                     // TIFF 6.0, section 2
      {{"MM\0\x2a", 4}, ImageFormat::kTiff},                     //
      {{"II\x2b\0", 4}, ImageFormat::kTiff},                     // BigTIFF
      {{"MM\0\x2b", 4}, ImageFormat::kTiff},                     //
      {{"\xff\x0a", 2}, ImageFormat::kJpegXl},                   // ISO 18181-2: a codestream
      {{"\0\0\0\x0cJXL \r\n\x87\n", 12}, ImageFormat::kJpegXl},  // and a container
  }};
  for (const Signature& signature : kSignatures) {
    if (bytes.starts_with(signature.bytes)) return signature.format;
  }
  // pbm(5), pgm(5), ppm(5): plain and raw.
  const bool netpbm = bytes.size() >= 3 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6';
  if (netpbm && std::string_view("\t\n\r ").find(bytes[2]) != std::string_view::npos) return ImageFormat::kPnm;
  if (bytes.size() < 12) return ImageFormat::kUnknown;
  if (bytes.starts_with("RIFF") && bytes.substr(8, 4) == "WEBP") return ImageFormat::kWebp;
  // ISO 14496-12, 4.3: size and name of the box, the major brand, its version, the compatible brands.
  if (bytes.substr(4, 4) != "ftyp") return ImageFormat::kUnknown;
  const size_t end = std::min<size_t>(bytes.size(), LoadBig32(bytes.data()));
  for (size_t at = 8; at + 4 <= end; at += at == 8 ? 8 : 4) {
    const std::string_view brand = bytes.substr(at, 4);
    if (brand == "avif" || brand == "avis") return ImageFormat::kAvif;
  }
  return ImageFormat::kUnknown;
}

std::string_view ImageFormatName(ImageFormat format) {
  constexpr std::array<std::string_view, 10> kNames = {"unknown", "JPEG", "PNG",  "WebP",    "GIF",
                                                       "BMP",     "TIFF", "AVIF", "JPEG XL", "PNM"};
  return kNames[static_cast<size_t>(format)];
}

bool codec::IsImageExtension(std::string_view extension) {
  const std::string lower = LowerCase(extension);
  return std::find(kImageExtensions.begin(), kImageExtensions.end(), lower) != kImageExtensions.end();
}

Type codec::GuessType(std::string_view bytes, std::string_view extension) {
  const std::string lower = LowerCase(extension);
  const bool image = codec::IsImageExtension(lower);
  if (bytes.empty()) {
    if (lower == "png") return Type::kPng;
    if (image) return lower.starts_with('j') && lower != "jxl" ? Type::kJpeg : Type::kImage;
    return lower == "json" || IsTextExtension(lower) ? Type::kUtf8 : Type::kBytes;
  }
  const ImageFormat format = DetectImageFormat(bytes);
  if (format == ImageFormat::kJpeg) return Type::kJpeg;
  if (format == ImageFormat::kPng) return Type::kPng;
  // The other signatures are short: without checking the extension, text that begins with "BM" would be an image.
  if (image && format != ImageFormat::kUnknown) return Type::kImage;
  if (lower == "json") {
    if (codec::IsValidJson(bytes)) return Type::kJson;
    return ValidUtf8(bytes) ? Type::kUtf8 : Type::kBytes;
  }
  return IsTextExtension(lower) && ValidUtf8(bytes) ? Type::kUtf8 : Type::kBytes;
}

bool codec::FitsType(std::string_view bytes, Type type) {
  switch (type) {
    case Type::kBytes:
      return true;
    case Type::kUtf8:
      return ValidUtf8(bytes);
    case Type::kJson:
      return codec::IsValidJson(bytes);
    case Type::kJpeg:
      return bytes.empty() || DetectImageFormat(bytes) == ImageFormat::kJpeg;
    case Type::kPng:
      return bytes.empty() || DetectImageFormat(bytes) == ImageFormat::kPng;
    case Type::kImage:
      return bytes.empty() || DetectImageFormat(bytes) != ImageFormat::kUnknown;
    default:
      return false;
  }
}

}  // namespace shardkit
