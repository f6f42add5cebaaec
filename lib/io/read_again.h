// Reading once more what arrived damaged.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"

namespace shardkit {

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

// What `read` gives, which reads from the file and compares checksums. It is called again after DataLoss when the file
// says that its bytes may have been damaged on their way (ReadHints::worth_reading_again).
template <typename Read>
auto ReadAgainIfDamaged(const RandomAccessFile& file, const Read& read) -> decltype(read()) {
  auto result = read();
  if (absl::IsDataLoss(StatusOf(result)) && file.hints().worth_reading_again) result = read();
  return result;
}

}  // namespace shardkit
