// Reading once more what arrived damaged.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"

namespace shardkit::io {

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

// Says that what this thread reads is to come from the source, past every cache on the way.
class BypassCaches {
 public:
  BypassCaches() { on_ = true; }
  ~BypassCaches() { on_ = false; }
  BypassCaches(const BypassCaches&) = delete;
  BypassCaches& operator=(const BypassCaches&) = delete;

  static bool on() { return on_; }

 private:
  static inline thread_local bool on_ = false;
};

// What `read` gives, which reads from the file and compares checksums. It is called again after DataLoss when the file
// says that its bytes may have been damaged on their way (ReadHints::worth_reading_again).
template <typename Read>
auto RetryIfDamaged(const RandomAccessFile& file, const Read& read) -> decltype(read()) {
  auto result = read();
  if (absl::IsDataLoss(StatusOf(result)) && file.hints().worth_reading_again) {
    const BypassCaches again;
    result = read();
  }
  return result;
}

}  // namespace shardkit::io
