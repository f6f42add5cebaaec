// Text exactly as Python writes it, because Python wrote the annotation files of SA-1B.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shardkit::operations {

inline constexpr size_t kMaxPythonFloatBytes = 32;

// repr(value), or NaN, Infinity and -Infinity as json.dumps writes them. `out` has room for
// kMaxPythonFloatBytes; returns the number of bytes written.
size_t FormatPythonFloat(double value, char* out);

// json.dumps(text) with the quotes, ensure_ascii=True. False, leaving *out unspecified, when `text` is not
// UTF-8.
[[nodiscard]] bool AppendPythonJsonString(std::string_view text, std::string* out);

}  // namespace shardkit::operations
