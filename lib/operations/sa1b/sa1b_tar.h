// Reads the pairs X.jpg + X.json of a tar file. The halves of a pair need not stand next to each other.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "operations/sources/tar_members.h"
#include "operations/sources/tar_samples.h"

namespace shardkit::operations {

// One file of a pair. Owns its bytes, or refers to the tar when they are too many to hold.
struct Sa1bFile {
  bool present = false;
  std::string name;
  uint64_t ordinal = 0;
  std::string bytes;
  std::shared_ptr<const RandomAccessFile> file;

  uint64_t held() const { return bytes.size() + name.size(); }
  uint64_t length() const { return file ? file->size() : bytes.size(); }
};

struct Sa1bPair {
  std::string key;  // or the file's name, when it is not half of a pair
  Sa1bFile image;
  Sa1bFile json;
  absl::Status status;  // why it cannot be packed
};

// Which half of a pair a file is, by its name.
enum class Sa1bRole { kImage, kJson, kNeither };
Sa1bRole RoleOfName(std::string_view base_name);

// One thread at a time.
class Sa1bTar {
 public:
  // Adds to *passed_over, which may be null. With `headers_only` the values are empty.
  static absl::StatusOr<std::unique_ptr<Sa1bTar>> Open(const std::string& path, const SourceOptions& options,
                                                       bool headers_only, PassedOver* passed_over = nullptr);

  // Gives pairs in the order in which they become complete, then incomplete pairs as failures. Damage ends the tar with
  // one more failure, which comes before the incomplete pairs. False at the end.
  absl::StatusOr<bool> Next(Sa1bPair* pair);

 private:
  Sa1bTar(std::string path, const SourceOptions& options, bool headers_only)
      : path_(std::move(path)), options_(options), headers_only_(headers_only) {}

  // True when *pair is ready: a complete pair, or a member that cannot be packed.
  absl::StatusOr<bool> Take(const TarMember& member, Sa1bPair* pair);
  absl::StatusOr<Sa1bFile> Read(const TarMember& member);
  absl::Status CheckMember(const TarMember& member) const;
  absl::Status EndHere(const absl::Status& status, std::string key, Sa1bPair* pair);
  absl::Status TooMuchPending(const std::string& name) const;

  const std::string path_;
  const SourceOptions options_;
  const bool headers_only_;
  std::unique_ptr<TarMembers> reader_;  // null when damage_ is set
  absl::Status damage_;                 // why the tar cannot be opened
  ByteArena arena_;
  absl::flat_hash_map<std::string, Sa1bPair> pending_;
  std::map<uint64_t, std::string> pending_order_;  // member number -> key
  uint64_t pending_bytes_ = 0;
  SeenKeys whole_;
  uint64_t pairs_ = 0;  // complete pairs so far
  bool at_end_ = false;
};

}  // namespace shardkit::operations
