// Where an error happened, for programs; its message says the same to people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace shardkit {

// What is not known, or has no meaning for the error, is empty.
struct ErrorPlace {
  std::string path;                // of the file or dataset
  std::optional<uint64_t> shard;   // number of the shard in the dataset
  std::optional<uint64_t> block;   // number of the block in its shard
  std::optional<uint64_t> sample;  // ordinal in the dataset
  std::string column;              // its name
};

// The place that the library's errors carry as a payload. All empty for OK and for statuses of others. Thread-safe.
ErrorPlace PlaceOf(const absl::Status& status);

// The number (errno) of the system's error that this one tells of; 0 where there is none. Thread-safe.
int SystemErrorOf(const absl::Status& status);

}  // namespace shardkit
