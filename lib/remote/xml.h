// Reads the answers of object stores, which are small XML documents.
#pragma once

#include <functional>
#include <string_view>

#include "absl/status/status.h"

namespace shardkit::remote {

// Calls `take` at the end of each element with its path ("ListBucketResult/Contents/Key", without namespaces) and the
// text directly inside it. Both are valid during the call. Stops at its first error and returns it. DataLoss when the
// document is not well-formed or is unlike any answer of a store: with a document type, deeper than 16 elements, or
// with more than 64 KiB of text in an element. Thread-safe.
absl::Status ForEachXmlElement(std::string_view document,
                               const std::function<absl::Status(std::string_view path, std::string_view text)>& take);

}  // namespace shardkit::remote
