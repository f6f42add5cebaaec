// What a value is, judged by its bytes.
#pragma once

#include <string_view>

#include "shardkit/schema.h"

namespace shardkit {

// The type of a byte string: kJpeg and kPng by their signatures whatever the name says; kJson when
// `extension` (text after the last dot, any case) is "json" and the bytes parse as one JSON document; kUtf8 when
// the extension is one of text (txt, cls, caption, csv, tsv, md, xml, html, yaml, yml, log, jsonl, ndjson) or
// "json" and the bytes are valid UTF-8; kBytes otherwise. An empty value has the type its extension suggests
// (jpg, jpeg, jpe, jfif -> kJpeg; png -> kPng; json -> kUtf8; text -> kUtf8; else kBytes). Pure.
Type GuessType(std::string_view bytes, std::string_view extension);

// Whether `bytes` may stand in a column of `type` without widening it: kBytes takes anything; kUtf8 valid
// UTF-8; kJson one valid JSON document; kJpeg and kPng their signature, or nothing at all (an empty value).
bool FitsType(std::string_view bytes, Type type);

// The signatures: FF D8 FF (T.81, SOI and the next marker), and the eight bytes of PNG (ISO 15948, 5.2).
bool HasJpegSignature(std::string_view bytes);
bool HasPngSignature(std::string_view bytes);

bool IsValidUtf8(std::string_view bytes);
bool IsValidJson(std::string_view bytes);

}  // namespace shardkit
