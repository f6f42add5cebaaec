// Checking the hashes that an MDS index lists: they are of whole files.
#include <functional>

#include "base/buffer.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "codec/decompress.h"
#include "container/decompression_limit.h"
#include "foreign/mds/listed_hash.h"
#include "foreign/mds/mds_directory.h"

namespace shardkit::foreign {
namespace {

// Compares all hashes of a file, each in a pass of its own.
absl::Status CheckAll(const MdsFile& listed, absl::Status* unknown,
                      const std::function<absl::Status(ListedHash& hash)>& check) {
  for (const auto& [name, digits] : listed.hashes) {
    ListedHash hash(name, digits, kMdsIndexName);
    const absl::Status status = check(hash);
    if (!absl::IsUnimplemented(status)) {
      SHARDKIT_RETURN_IF_ERROR(status);
    } else if (unknown->ok()) {
      *unknown = status;
    }
  }
  return absl::OkStatus();
}

// Compares the raw hashes when only the compressed file exists.
absl::Status CheckDecompressed(const RandomAccessFile& file, const MdsShard& shard, const ReadOptions& options,
                               absl::Status* unknown) {
  const std::string_view name = std::string_view(shard.compression).substr(0, shard.compression.find(':'));
  const std::optional<codec::Compression> compression = codec::CompressionFromName(name);
  if (!compression) return Unimplemented(file.path(), ": is compressed with \"", name, "\", which is not read");
  if (absl::Status status = container::CheckDecompression(options, file.size(), shard.raw.bytes); !status.ok()) {
    return Annotate(status, file.path());
  }
  Buffer compressed, raw;
  compressed.resize_discard(file.size());
  SHARDKIT_RETURN_IF_ERROR(file.ReadAt(0, {compressed.data(), compressed.size()}));
  raw.resize_discard(shard.raw.bytes);
  if (absl::Status status = codec::Decompress(*compression, compressed.view(), {raw.data(), raw.size()});
      !status.ok()) {
    return Annotate(status, file.path());
  }
  return CheckAll(shard.raw, unknown,
                  [&](ListedHash& hash) { return hash.Check(StrCat(file.path(), ": decompressed"), raw.view()); });
}

}  // namespace

absl::Status CheckMdsShardHashes(ReadableFileSystem& file_system, const std::string& directory, const MdsShard& shard,
                                 const ReadOptions& options, absl::Status* unknown) {
  const auto check_file = [&](const MdsFile& listed, const RandomAccessFile& file) {
    return CheckAll(listed, unknown, [&](ListedHash& hash) { return hash.Check(file); });
  };
  const auto raw_file = file_system.OpenForReading(JoinPath(directory, shard.raw.name));
  if (raw_file.ok()) {
    SHARDKIT_RETURN_IF_ERROR(check_file(shard.raw, **raw_file));
  } else if (!absl::IsNotFound(raw_file.status()) || !shard.zip) {
    return raw_file.status();
  }
  if (!shard.zip) return absl::OkStatus();
  const auto zip_file = file_system.OpenForReading(JoinPath(directory, shard.zip->name));
  if (!zip_file.ok()) {
    // mosaicml-streaming deletes a compressed file after decompressing it.
    if (absl::IsNotFound(zip_file.status()) && raw_file.ok()) return absl::OkStatus();
    return zip_file.status();
  }
  SHARDKIT_RETURN_IF_ERROR(check_file(*shard.zip, **zip_file));
  if (raw_file.ok() || shard.raw.hashes.empty()) return absl::OkStatus();
  return CheckDecompressed(**zip_file, shard, options, unknown);
}

}  // namespace shardkit::foreign
