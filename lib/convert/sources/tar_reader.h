// The members of a tar file, one after the other, through libarchive, in any compression built into libarchive.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "convert/sources/source_names.h"
#include "shardkit/filesystem.h"
#include "shardkit/sample.h"

namespace shardkit::convert {

struct TarEntry {
  enum class Kind { kRegular, kDirectory, kOther };
  std::string name;      // without a leading "./"
  uint64_t ordinal = 0;  // counted from 1, directories included
  uint64_t size = 0;     // bytes; of a regular file
  Kind kind = Kind::kOther;
  std::string_view what;  // "a symbolic link", … for kOther
  // Of a link to a regular member before it, which is read as that one: its number.
  std::optional<uint64_t> target;
};

// One thread at a time. DataLoss, naming file and member, for a tar that is damaged, cut off, or has no end mark.
class TarReader {
 public:
  // Reads on behind end marks, which are counted in *passed_over. InvalidArgument when the file is not a tar. Unless
  // `keep_hidden`, members that systems leave (IsLeftoverName of a component of the name, and AppleDouble) are passed
  // over and added to *passed_over, which may be null.
  static absl::StatusOr<std::unique_ptr<TarReader>> Open(ReadableFileSystem* file_system, const std::string& path,
                                                         uint64_t max_decompression, bool keep_hidden,
                                                         PassedOver* passed_over = nullptr);
  // The same, but null for a damaged tar, and with `skip_errors` for a file that is not a tar: then *damage says why.
  static absl::StatusOr<std::unique_ptr<TarReader>> OpenDamaged(ReadableFileSystem* file_system,
                                                                const std::string& path, uint64_t max_decompression,
                                                                bool keep_hidden, PassedOver* passed_over,
                                                                bool skip_errors, absl::Status* damage);
  ~TarReader();

  // False at the end. Skips what was not read of the previous member.
  absl::StatusOr<bool> Next(TarEntry* member);

  // The bytes of the regular member that Next gave; at most once per member. They are in *arena. In a tar without
  // compression, members of at least `stream_above` bytes are given as a part of the tar file instead. For a compressed
  // tar *arena holds at most `max_decompression` bytes more than the file has, and at most 1 GiB: else
  // ResourceExhausted.
  absl::StatusOr<Value> Read(const TarEntry& member, uint64_t stream_above, ByteArena* arena);

 private:
  struct State;
  explicit TarReader(std::unique_ptr<State> state);
  absl::Status Error(std::string_view where) const;
  absl::StatusOr<bool> NextMember(TarEntry* member);
  absl::StatusOr<Value> ReadData(const TarEntry& member, uint64_t stream_above, ByteArena* arena);
  absl::StatusOr<Value> ReadTarget(const TarEntry& link, uint64_t stream_above, ByteArena* arena);
  // Whether the member that NextMember gave is passed over.
  bool IsLeftover(const TarEntry& member);

  std::unique_ptr<State> state_;
};

// `damage` of a tar, and how many samples before it are whole.
absl::Status CutAfter(const absl::Status& damage, uint64_t whole_samples);

}  // namespace shardkit::convert
