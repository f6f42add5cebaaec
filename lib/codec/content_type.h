// Determines the type of a value from its bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "shardkit/schema.h"

namespace shardkit::codec {

// The type of a byte string, the first of these that applies. kJpeg and kPng by their signatures, whatever the
// extension. kImage when `extension` (text after the last dot, any case) is one of IsImageExtension and the bytes are
// of another image format. kJson when the extension is "json" and the bytes are one JSON document. kUtf8 when the
// extension is of text (txt, cls, caption, csv, tsv, md, xml, html, yaml, yml, log, jsonl, ndjson) or "json" and the
// bytes are valid UTF-8. Otherwise kBytes. An empty value has the type that its extension suggests (jpg, jpeg, jpe,
// jfif -> kJpeg; png -> kPng; other images -> kImage; json -> kUtf8; text -> kUtf8; else kBytes). Pure.
Type GuessType(std::string_view bytes, std::string_view extension);

// jpg, jpeg, jpe, jfif, png, webp, gif, bmp, tif, tiff, avif, jxl, ppm, pgm, pbm and pnm, in any case.
bool IsImageExtension(std::string_view extension);

// Whether a column of `type` accepts `bytes` without widening: kBytes accepts anything; kUtf8 valid UTF-8; kJson one
// valid JSON document; kJpeg, kPng and kImage a value with such a signature, or an empty value.
bool FitsType(std::string_view bytes, Type type);

// The most arrays and objects that may stand within one another (spec.md, "Limits").
inline constexpr size_t kMaxJsonDepth = 1024;

// Whether the bytes are one JSON text as spec.md, section 4, defines it: any text of RFC 8259's grammar in UTF-8 that
// keeps to kMaxJsonDepth, with numbers of any size, any escapes, repeated names, and white space around it. Looks at
// each byte once and allocates nothing.
bool IsValidJson(std::string_view bytes);

// Where bytes that are not such a text cease to be the beginning of one, and why, such as a byte order mark or NaN:
// "byte 17: NaN, which is …". Empty for a text.
std::string DescribeInvalidJson(std::string_view bytes);

}  // namespace shardkit::codec
