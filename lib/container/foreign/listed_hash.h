// A hash of a whole file that an index lists, for the readers of its parts.
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

namespace shardkit {

// Thread-safe. One for all readers of a file, so that it is not hashed again when it is opened again.
class ListedHash {
 public:
  // The first hash of the list that is of the xxHash family, else the first that this build can compute; null when
  // there is none. `listed_by` is for messages.
  static std::shared_ptr<ListedHash> Choose(std::span<const std::pair<std::string, std::string>> names_and_digits,
                                            std::string_view listed_by);

  ListedHash(std::string_view name, std::string_view digits, std::string_view listed_by)
      : name_(name), digits_(digits), listed_by_(listed_by) {}

  // Reads the file, piece by piece, in the first call; other threads wait for the outcome, which later calls return.
  // DataLoss for other digits than those listed, Unimplemented for a hash that this build cannot compute. An error of
  // reading is not kept.
  absl::Status Check(const RandomAccessFile& file);

  // The same for bytes in memory, which a hash of the xxHash family compares in every call.
  absl::Status Check(std::string_view place, std::string_view bytes);

 private:
  absl::Status Compare(std::string_view place, std::string_view found) const;

  const std::string name_;
  const std::string digits_;
  const std::string listed_by_;
  std::atomic<bool> right_ = false;
  std::mutex mutex_;    // held while the file is read
  absl::Status wrong_;  // what was found of the file
};

}  // namespace shardkit
