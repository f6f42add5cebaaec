// Samples of a tar file: neighbouring members whose names are equal up to a dot of the base name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "operations/sources/source_names.h"
#include "operations/sources/tar_members.h"
#include "shardkit/source.h"

namespace shardkit::operations {

// The keys seen so far, as 128-bit hashes, and the number of each key's first member. Remembers `most` of them, 40
// bytes each: what a tar of more members repeats is still found early most often, and always when the dataset's key
// table is made.
class SeenKeys {
 public:
  explicit SeenKeys(size_t most = size_t{1} << 20) : most_(most) {}

  // Empty when the key is new, or was not remembered; otherwise the number of its first member.
  std::optional<uint64_t> Insert(std::string_view key, uint64_t ordinal);
  std::optional<uint64_t> Find(std::string_view key) const;

 private:
  static std::pair<uint64_t, uint64_t> Hash(std::string_view key);

  absl::flat_hash_map<std::pair<uint64_t, uint64_t>, uint64_t> members_;
  size_t most_;
};

// Borrowed from the arena given to Next.
struct TarValue {
  std::string_view column;
  std::string_view extension;
  Value value;
};
struct TarSample {
  std::string_view key;
  std::vector<TarValue> values;
  absl::Status status;  // why the sample cannot be loaded; names file and member
};

// One thread at a time.
class TarSamples {
 public:
  // Adds to *passed_over, which may be null. With `headers_only` the values are empty. In a damaged tar the sample at
  // the damage fails and is the last one. A file that is not a tar is InvalidArgument unless `options` skips errors.
  static absl::StatusOr<std::unique_ptr<TarSamples>> Open(const std::string& path, const SourceOptions& options,
                                                          bool headers_only, PassedOver* passed_over = nullptr);

  // False at the end.
  absl::StatusOr<bool> Next(ByteArena* arena, TarSample* sample);

 private:
  TarSamples() = default;
  std::string_view KeyOf(std::string_view name) const;
  absl::Status Advance();
  // An error that only concerns the sample goes to sample->status.
  absl::Status Take(ByteArena* arena, TarSample* sample);
  // For damage, makes *sample the last one.
  absl::Status EndHere(const absl::Status& status, TarSample* sample);
  absl::Status CheckMember(const TarSample& sample, std::string_view column) const;

  std::string path_;
  uint64_t stream_above_ = 0;
  bool headers_only_ = false;
  NameSplit split_ = NameSplit::kFirstDot;
  uint64_t whole_ = 0;  // samples
  absl::Status damage_;
  std::unique_ptr<TarMembers> reader_;
  std::optional<TarMember> member_;  // the next member, not read yet
  bool started_ = false;
  SeenKeys seen_;
};

}  // namespace shardkit::operations
