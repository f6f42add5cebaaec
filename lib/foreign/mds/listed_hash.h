// A hash that an index lists for a whole file, for readers that read parts of the file.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "shardkit/filesystem.h"

namespace shardkit::foreign {

// Thread-safe. All readers of a file share one object, so that the file is not hashed again when it is opened again.
class ListedHash {
 public:
  // Chooses the first hash of the xxHash family, else the first hash that this build can compute. Null when there is
  // none. `listed_by` is for messages.
  static std::shared_ptr<ListedHash> Choose(std::span<const std::pair<std::string, std::string>> names_and_digits,
                                            std::string_view listed_by);

  ListedHash(std::string_view name, std::string_view digits, std::string_view listed_by)
      : name_(name), digits_(digits), listed_by_(listed_by) {}

  // The first call reads the file, piece by piece; other threads wait. Later calls return the same result. DataLoss
  // when the digits differ from those listed, Unimplemented for a hash that this build cannot compute. After a read
  // error, the next call reads the file again.
  absl::Status Check(const RandomAccessFile& file);

  // The same for bytes in memory. A hash of the xxHash family is compared in every call, another one until it has
  // matched once.
  absl::Status Check(std::string_view place, std::string_view bytes);

 private:
  absl::Status Compare(std::string_view place, std::string_view found) const;

  const std::string name_;
  const std::string digits_;
  const std::string listed_by_;
  std::atomic<bool> right_ = false;
  std::mutex mutex_;    // held while the file is read
  absl::Status wrong_;  // the result for the file
};

}  // namespace shardkit::foreign
