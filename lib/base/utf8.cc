#include "base/utf8.h"

#include <simdjson.h>

namespace shardkit {

bool ValidUtf8(std::string_view bytes) { return simdjson::validate_utf8(bytes.data(), bytes.size()); }

}  // namespace shardkit
