// Writes the tars of a WebDataset. The same samples give the same bytes, regardless of user and time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/job.h"
#include "shardkit/sample.h"

namespace shardkit::foreign {

struct NamedTarValue {
  std::string_view extension;  // without the dot in front
  Value value;
};

struct TarSummary {
  uint64_t bytes = 0;
  uint64_t samples = 0;
};

// Writes to "PATH.tmp" and renames on success. Members are files of owner 0 and time 0, readable by all. GNU's
// extensions are used for names and sizes that a plain header cannot hold. One thread at a time.
class TarShardWriter {
 public:
  static absl::StatusOr<std::unique_ptr<TarShardWriter>> Create(FileSystem& file_system, const std::string& path);
  ~TarShardWriter();

  // InvalidArgument, before anything is written, for a sample that would be read differently: the key rule splits a
  // name at another place (format-spec/interop.md), an extension occurs twice, the sample before has the same key, or
  // there is no member.
  absl::Status Append(std::string_view key, std::span<const NamedTarValue> members, const Cancellation* cancellation);

  uint64_t sample_count() const;
  // Bytes of the tar if this sample were added as the last one.
  uint64_t LengthWith(std::string_view key, std::span<const NamedTarValue> members) const;

  // Flushes, renames, and with `index` writes the tar's index beside it (shardkit/tar_index.h).
  absl::StatusOr<TarSummary> Finish(bool index);

  // Removes the temporary file. Idempotent.
  absl::Status Abort();

 private:
  struct State;
  explicit TarShardWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace shardkit::foreign
