// The place of an error, for programs. The error's message says the same to people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace shardkit {

// Members that are unknown, or have no meaning for the error, are empty.
struct ErrorPlace {
  std::string path;                // of the file or dataset
  std::optional<uint64_t> shard;   // number of the shard in the dataset
  std::optional<uint64_t> block;   // number of the block in its shard
  std::optional<uint64_t> sample;  // ordinal in the dataset
  std::string column;              // its name
};

// The place that this library's errors carry as a payload. Empty for OK and for errors of others. Thread-safe.
ErrorPlace PlaceOf(const absl::Status& status);

// The errno of the system error that caused this status; 0 if there is none. Thread-safe.
int SystemErrorOf(const absl::Status& status);

}  // namespace shardkit
