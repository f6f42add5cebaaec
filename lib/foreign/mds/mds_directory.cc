// Finding the shards of MDS, from an index, from the indexes of folders, or from a shard alone; and checking the hashes
// that an index lists, which are of whole files.
#include "foreign/mds/mds_directory.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "base/buffer.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "codec/decompress.h"
#include "container/read/decompression_limit.h"
#include "foreign/mds/mds_layout.h"
#include "foreign/mds/mds_shard_reader.h"
#include "io/publish_file.h"

namespace shardkit::foreign {
namespace {

absl::StatusOr<bool> HasShards(ReadableFileSystem& file_system, const std::string& path) {
  SHARDKIT_ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, file_system.List(path));
  return std::ranges::any_of(entries, [](const DirectoryEntry& entry) { return IsMdsShardName(entry.name); });
}

absl::StatusOr<std::vector<std::string>> ListFolders(ReadableFileSystem& file_system, const std::string& path) {
  SHARDKIT_ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, file_system.List(path));
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : entries) {
    if (entry.type == FileType::kRegular) continue;
    const auto info = file_system.Stat(JoinPath(path, entry.name));
    if (absl::IsNotFound(info.status())) continue;  // a link that leads nowhere
    if (!info.ok()) return info.status();
    if (info->type == FileType::kDirectory) names.push_back(entry.name);
  }
  return names;
}

absl::Status DescribeAlone(const RandomAccessFile& file, MdsIndex* index) {
  std::string bytes;
  const auto read = [&](uint64_t offset, uint64_t length) -> absl::StatusOr<std::string_view> {
    bytes.resize(length);
    SHARDKIT_RETURN_IF_ERROR(file.ReadAt(offset, bytes));
    return bytes;
  };
  SHARDKIT_ASSIGN_OR_RETURN(MdsHead head, ReadMdsHead(file.size(), read));
  index->columns = std::move(head.columns);
  MdsShard shard;
  shard.samples = head.offsets.size() - 1;
  shard.raw.name = io::BaseName(file.path());
  shard.raw.bytes = file.size();
  index->shards.push_back(std::move(shard));
  return absl::OkStatus();
}

}  // namespace

bool IsMdsShardName(std::string_view name) {
  const size_t ending = name.find(".mds");
  return ending != name.npos && (ending + 4 == name.size() || name[ending + 4] == '.');
}

absl::StatusOr<MdsDirectory> ReadMdsIndex(ReadableFileSystem& file_system, const std::string& index_path) {
  MdsDirectory directory;
  directory.path = io::ParentDirectory(index_path);
  directory.described_by = index_path;
  SHARDKIT_ASSIGN_OR_RETURN(const std::string text, file_system.ReadFile(index_path, kMaxMdsIndexBytes));
  absl::StatusOr<MdsIndex> index = ParseMdsIndex(text);
  if (!index.ok()) return Annotate(index.status(), index_path);
  directory.index = *std::move(index);
  return directory;
}

absl::StatusOr<MdsDirectory> ReadMdsShardAlone(ReadableFileSystem& file_system, const std::string& path) {
  MdsDirectory directory;
  directory.path = io::ParentDirectory(path);
  directory.described_by = path;
  SHARDKIT_ASSIGN_OR_RETURN(const auto file, file_system.OpenForReading(path));
  absl::Status status = DescribeAlone(*file, &directory.index);
  if (!status.ok()) return absl::StartsWith(status.message(), ToAbsl(path)) ? status : Annotate(status, path);
  return directory;
}

absl::Status JoinMds(MdsDirectory part, const std::string& stream, const std::string& folder, std::string* first,
                     MdsDirectory* whole) {
  if (whole->described_by.empty()) whole->described_by = part.described_by;
  if (part.index.shards.empty()) return absl::OkStatus();
  if (first->empty()) {
    *first = stream;
    whole->described_by = part.described_by;
    whole->index.columns = std::move(part.index.columns);
  } else if (part.index.columns != whole->index.columns) {
    return InvalidArgument(stream, ": its columns, their encodings or sizes differ from those of ", *first,
                           ", so that they are no one dataset: open one of them");
  }
  for (MdsShard& shard : part.index.shards) {
    shard.raw.name = JoinPath(folder, shard.raw.name);
    if (shard.zip) shard.zip->name = JoinPath(folder, shard.zip->name);
    whole->index.shards.push_back(std::move(shard));
  }
  return absl::OkStatus();
}

absl::StatusOr<MdsDirectory> ReadMdsStreams(ReadableFileSystem& file_system, const std::string& path) {
  SHARDKIT_ASSIGN_OR_RETURN(const std::vector<std::string> folders, ListFolders(file_system, path));
  MdsDirectory whole;
  whole.path = path;
  std::string first;
  bool found = false;
  for (const std::string& folder : folders) {
    const std::string stream = JoinPath(path, folder);
    absl::StatusOr<MdsDirectory> part = ReadMdsIndex(file_system, JoinPath(stream, kMdsIndexName));
    if (absl::IsNotFound(part.status())) {
      SHARDKIT_ASSIGN_OR_RETURN(const bool unfinished, HasShards(file_system, stream));
      if (!unfinished) continue;
      return DataLoss(stream, ": has MDS shards, but no ", kMdsIndexName,
                      ": the writing of them did not end; write them again, or move them away");
    }
    if (!part.ok()) return part.status();
    found = true;
    SHARDKIT_RETURN_IF_ERROR(JoinMds(*std::move(part), stream, folder, &first, &whole));
  }
  if (!found) return NotFound(JoinPath(path, kMdsIndexName), ": there is none, neither here nor in a folder");
  return whole;
}

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
