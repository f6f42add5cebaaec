#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace shardkit::remote {

struct ListedObject {
  std::string name;
  uint64_t size = 0;  // bytes; 0 for folders
  bool folder = false;
};

struct ListingPage {
  std::vector<ListedObject> objects;  // with their whole keys as names; folders end with '/'
  std::string continuation;           // of the next page; empty on the last one
};

// The answer to ListObjectsV2 with encoding-type=url. DataLoss when it is malformed. Pure and thread-safe.
absl::StatusOr<ListingPage> ParseListing(std::string_view document);

// A key in an answer with encoding-type=url, which encodes as forms do: a space is a plus sign. DataLoss when it is
// malformed. Pure and thread-safe.
absl::StatusOr<std::string> DecodeListed(std::string_view text);

}  // namespace shardkit::remote
