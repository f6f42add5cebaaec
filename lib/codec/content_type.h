// What a value is, judged by its bytes.
#pragma once

#include <string_view>

#include "shardkit/schema.h"

namespace shardkit {

// The type of a byte string: kJpeg and kPng by their signatures whatever the name says; kImage when `extension` (text
// after the last dot, any case) is one of IsImageExtension and the bytes are of another format of images; kJson when
// it is "json" and the bytes parse as one JSON document; kUtf8 when the extension is one of text (txt, cls, caption,
// csv, tsv, md, xml, html, yaml, yml, log, jsonl, ndjson) or "json" and the bytes are valid UTF-8; kBytes otherwise.
// An empty value has the type its extension suggests (jpg, jpeg, jpe, jfif -> kJpeg; png -> kPng; other images ->
// kImage; json -> kUtf8; text -> kUtf8; else kBytes). Pure.
Type GuessType(std::string_view bytes, std::string_view extension);

// jpg, jpeg, jpe, jfif, png, webp, gif, bmp, tif, tiff, avif and jxl, in any case.
bool IsImageExtension(std::string_view extension);

// Whether `bytes` may stand in a column of `type` without widening it: kBytes takes anything; kUtf8 valid
// UTF-8; kJson one valid JSON document; kJpeg, kPng and kImage what begins as they do, or nothing at all (an empty
// value).
bool FitsType(std::string_view bytes, Type type);

bool IsValidUtf8(std::string_view bytes);
bool IsValidJson(std::string_view bytes);

}  // namespace shardkit
