// The members of a tar that is packed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "foreign/webdataset/tar_archive.h"
#include "operations/sources/source_names.h"
#include "shardkit/filesystem.h"
#include "shardkit/sample.h"

namespace shardkit::operations {

using foreign::TarMember;

// One thread at a time. Errors are those of foreign::TarReader.
class TarMembers {
 public:
  // InvalidArgument when the file is not a tar. Members that are not chosen, and, unless hidden files are kept, those
  // that systems leave (IsLeftoverName of a component of the name, and AppleDouble), are passed over and added to
  // *passed_over, which may be null. There, end marks before the end are counted, too.
  static absl::StatusOr<std::unique_ptr<TarMembers>> Open(const std::string& path, const SourceOptions& options,
                                                          PassedOver* passed_over = nullptr);
  // The same, but null for a damaged tar, and when errors are skipped for a file that is not a tar: then *damage says
  // why.
  static absl::StatusOr<std::unique_ptr<TarMembers>> OpenDamaged(const std::string& path, const SourceOptions& options,
                                                                 PassedOver* passed_over, absl::Status* damage);

  // False at the end. The name is as foreign::MemberName gives it.
  absl::StatusOr<bool> Next(TarMember* member);

  // The bytes of the file that Next gave; at most once per member. They are in *arena. In a tar without compression,
  // files of at least `stream_above` bytes are given as a part of the tar instead. For a compressed tar *arena holds at
  // most `max_decompression` bytes more than the tar has, and at most 1 GiB: else ResourceExhausted.
  absl::StatusOr<Value> Read(const TarMember& member, uint64_t stream_above, ByteArena* arena);

 private:
  TarMembers(std::unique_ptr<RandomAccessFile> file, const SourceOptions& options, PassedOver* passed_over);

  absl::StatusOr<Value> ReadData(const TarMember& member, uint64_t stream_above, ByteArena* arena);
  bool IsLeftover(const TarMember& member);

  ReadableFileSystem* const file_system_;
  const std::unique_ptr<RandomAccessFile> file_;
  const uint64_t most_memory_;
  const bool keep_hidden_;
  const NameFilter filter_;
  NameEncoding names_;
  PassedOver* const passed_over_;
  foreign::TarCompression compression_ = foreign::TarCompression::kNone;
  std::unique_ptr<foreign::TarReader> reader_;
  bool joined_ = false;  // an end mark lay between members
  // What was read to decide whether the current member is AppleDouble, for Read.
  std::optional<absl::StatusOr<Value>> looked_at_;
  ByteArena looked_at_bytes_;
};

}  // namespace shardkit::operations
