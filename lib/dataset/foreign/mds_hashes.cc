// The hashes that an MDS index lists: only whole files can be compared with them.
#include <algorithm>
#include <memory>
#include <vector>

#include "base/buffer.h"
#include "base/errors.h"
#include "base/named_hash.h"
#include "base/status_macros.h"
#include "codec/decompress.h"
#include "container/decompression_limit.h"
#include "dataset/foreign/mds_dataset.h"

namespace shardkit {
namespace {

constexpr uint64_t kPiece = uint64_t{4} << 20;

// The hashes of one file, all taken in one pass.
class HashList {
 public:
  // Those that are not known are noted in *unknown.
  HashList(const format::MdsFile& file, absl::Status* unknown) {
    for (const auto& [name, digits] : file.hashes) {
      auto hash = NamedHash::Create(name);
      if (hash.ok()) {
        hashes_.push_back({name, digits, *std::move(hash)});
      } else if (unknown->ok()) {
        *unknown = hash.status();
      }
    }
  }

  bool empty() const { return hashes_.empty(); }

  void Update(std::string_view bytes) {
    for (Entry& entry : hashes_) entry.hash->Update(bytes);
  }

  absl::Status Compare() {
    for (Entry& entry : hashes_) {
      const std::string found = entry.hash->HexDigest();
      if (found != entry.digits) {
        return DataLoss(entry.name, " is ", found, ", but index.json says ", entry.digits,
                        ": the file was damaged or replaced");
      }
    }
    return absl::OkStatus();
  }

 private:
  struct Entry {
    std::string name;
    std::string digits;
    std::unique_ptr<NamedHash> hash;
  };
  std::vector<Entry> hashes_;
};

absl::Status CheckFile(const RandomAccessFile& file, HashList& hashes) {
  Buffer piece;
  for (uint64_t position = 0; position < file.size(); position += piece.size()) {
    piece.resize_discard(std::min(kPiece, file.size() - position));
    SHARDKIT_RETURN_IF_ERROR(file.ReadAt(position, {piece.data(), piece.size()}));
    hashes.Update(piece.view());
  }
  return Annotate(hashes.Compare(), file.path());
}

// The raw hashes, where only the compressed file is there.
absl::Status CheckDecompressed(const RandomAccessFile& file, const format::MdsShard& shard, HashList& hashes,
                               const ReadOptions& options) {
  const std::string_view name = std::string_view(shard.compression).substr(0, shard.compression.find(':'));
  const std::optional<Compression> compression = CompressionFromName(name);
  if (!compression) return Unimplemented(file.path(), ": is compressed with \"", name, "\", which is not read");
  if (absl::Status status = CheckDecompression(options, file.size(), shard.raw.bytes); !status.ok()) {
    return Annotate(status, file.path());
  }
  Buffer compressed, raw;
  compressed.resize_discard(file.size());
  SHARDKIT_RETURN_IF_ERROR(file.ReadAt(0, {compressed.data(), compressed.size()}));
  raw.resize_discard(shard.raw.bytes);
  if (absl::Status status = Decompress(*compression, compressed.view(), {raw.data(), raw.size()}); !status.ok()) {
    return Annotate(status, file.path());
  }
  hashes.Update(raw.view());
  return Annotate(hashes.Compare(), StrCat(file.path(), ": decompressed"));
}

}  // namespace

absl::Status CheckMdsShardHashes(FileSystem& file_system, const std::string& directory, const format::MdsShard& shard,
                                 const ReadOptions& options, absl::Status* unknown) {
  HashList raw(shard.raw, unknown);
  auto raw_file = file_system.OpenForReading(JoinPath(directory, shard.raw.name));
  if (raw_file.ok()) {
    if (!raw.empty()) SHARDKIT_RETURN_IF_ERROR(CheckFile(**raw_file, raw));
  } else if (!absl::IsNotFound(raw_file.status()) || !shard.zip) {
    return raw_file.status();
  }
  if (!shard.zip) return absl::OkStatus();
  HashList zip(*shard.zip, unknown);
  const auto zip_file = file_system.OpenForReading(JoinPath(directory, shard.zip->name));
  if (!zip_file.ok()) {
    // The peer deletes what it has decompressed.
    if (absl::IsNotFound(zip_file.status()) && raw_file.ok()) return absl::OkStatus();
    return zip_file.status();
  }
  if (!zip.empty()) SHARDKIT_RETURN_IF_ERROR(CheckFile(**zip_file, zip));
  if (raw_file.ok() || raw.empty()) return absl::OkStatus();
  return CheckDecompressed(**zip_file, shard, raw, options);
}

}  // namespace shardkit
