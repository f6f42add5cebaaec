#include "operations/sources/source_unit.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "absl/strings/escaping.h"
#include "base/checked.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "codec/content_type.h"
#include "codec/image/image_codec.h"
#include "shardkit/image.h"
#include "shardkit/sample.h"

namespace shardkit {
namespace {

// Large enough that a batch of small values needs few chunks, small enough that an idle batch costs little.
constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr size_t kKeptBytes = size_t{8} << 20;
constexpr size_t kAlignment = 8;  // so that stored arrays of 8-byte elements can be viewed in place

}  // namespace

std::span<char> ByteArena::Allocate(size_t length) {
  if (!chunks_.empty()) {
    const size_t begin = (used_ + kAlignment - 1) & ~(kAlignment - 1);
    if (begin <= chunks_[current_].size && length <= chunks_[current_].size - begin) {
      used_ = begin + length;
      return {chunks_[current_].memory.get() + begin, length};
    }
    ++current_;
  }
  current_ = std::min(current_, chunks_.size());  // an arena that was moved from has lost its chunks
  // Uses the next kept chunk when it is large enough. Otherwise inserts a new chunk before it.
  if (current_ == chunks_.size() || chunks_[current_].size < length) {
    const size_t size = std::max(length, kChunkBytes);
    Chunk chunk{std::make_unique_for_overwrite<char[]>(size), size};
    chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(current_), std::move(chunk));
  }
  used_ = length;
  return {chunks_[current_].memory.get(), length};
}

std::string_view ByteArena::Copy(std::string_view bytes) {
  const std::span<char> memory = Allocate(bytes.size());
  if (!bytes.empty()) std::memcpy(memory.data(), bytes.data(), bytes.size());
  return {memory.data(), memory.size()};
}

uint64_t ByteArena::allocated() const {
  uint64_t bytes = used_;
  for (size_t i = 0; i < current_; ++i) bytes += chunks_[i].size;
  return bytes;
}

void ByteArena::Clear() {
  size_t kept = 0;
  std::erase_if(chunks_, [&kept](const Chunk& chunk) {
    if (chunk.size > kKeptBytes - kept) return true;
    kept += chunk.size;
    return false;
  });
  current_ = 0;
  used_ = 0;
}

}  // namespace shardkit

namespace shardkit::operations {
namespace {

class FileSlice final : public RandomAccessFile {
 public:
  FileSlice(ReadableFileSystem* file_system, std::string path, uint64_t offset, uint64_t length)
      : file_system_(file_system), path_(std::move(path)), offset_(offset), length_(length) {}

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return length_; }

  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    if (!RangeWithin(offset, buffer.size(), length_)) {
      return OutOfRange(path_, ": read of ", buffer.size(), " bytes at ", offset, " passes the end at ", length_);
    }
    SHARDKIT_ASSIGN_OR_RETURN(const auto file, file_system_->OpenForReading(path_));
    return file->ReadAt(offset_ + offset, buffer);
  }

 private:
  ReadableFileSystem* const file_system_;
  const std::string path_;
  const uint64_t offset_;
  const uint64_t length_;
};

}  // namespace

void TreeUnit::Add(const WalkedGroup& group, size_t first, size_t count) {
  Listed listed;
  if (!samples_.empty() && directory(samples_.size() - 1) == group.directory) {
    listed = samples_.back();
  } else {
    listed.directory_begin = static_cast<uint32_t>(text_.size());
    listed.directory_length = static_cast<uint32_t>(group.directory.size());
    text_.append(group.directory);
  }
  listed.first_file = static_cast<uint32_t>(files_.size());
  listed.file_count = static_cast<uint32_t>(count);
  samples_.push_back(listed);
  for (const WalkedFile& walked : std::span(group.files).subspan(first, count)) {
    File file;
    file.name_begin = static_cast<uint32_t>(text_.size());
    text_.append(group.stem);
    if (walked.has_dot) text_.push_back('.');
    text_.append(walked.rest);
    file.name_length = static_cast<uint32_t>(text_.size()) - file.name_begin;
    file.kind = walked.kind;
    file.size = walked.size;
    files_.push_back(file);
  }
  sample_count = samples_.size();
}

std::string_view TreeUnit::directory(size_t sample) const {
  return Text(samples_[sample].directory_begin, samples_[sample].directory_length);
}

std::span<const TreeUnit::File> TreeUnit::files(size_t sample) const {
  return std::span(files_).subspan(samples_[sample].first_file, samples_[sample].file_count);
}

std::string TreeUnit::RelativePath(size_t sample, const File& file) const {
  return StrCat(directory(sample), name(file));
}

std::string TreeUnit::FullPath(size_t sample, const File& file) const {
  return StrCat(root_, root_.ends_with('/') ? "" : "/", directory(sample), name(file));
}

std::string TreeUnit::Names(size_t sample) const {
  std::string names(directory(sample));
  for (const File& file : files(sample)) {
    if (&file != &files(sample)[0]) names.push_back('\0');
    names.append(name(file));
  }
  return names;
}

uint64_t TreeUnit::StatBytes(ReadableFileSystem& file_system, size_t sample, absl::Status* failed) const {
  uint64_t bytes = 0;
  for (const File& file : files(sample)) {
    if (file.kind != EntryKind::kFile) continue;
    if (file.size) {
      bytes += *file.size;
      continue;
    }
    const auto info = file_system.Stat(FullPath(sample, file));
    if (info.ok()) {
      bytes += info->size;
    } else if (failed != nullptr && !absl::IsNotFound(info.status()) && !absl::IsPermissionDenied(info.status())) {
      failed->Update(info.status());
    }
  }
  return bytes;
}

const Column* ColumnTable::Find(std::string_view name, Type type) {
  // The key is built before the lock is taken; names are short enough to need no allocation.
  const std::pair<std::string, Type> key(name, type);
  {
    std::shared_lock lock(mutex_);
    if (const auto found = columns_.find(key); found != columns_.end()) return found->second.get();
  }
  std::unique_lock lock(mutex_);
  std::unique_ptr<Column>& column = columns_[key];
  if (!column) column = std::make_unique<Column>(ByteStringColumn(name, type, nullable_));
  return column.get();
}

std::optional<Type> ColumnTable::Asked(std::string_view name) const {
  const auto asked = types_.find(name);
  return asked == types_.end() ? std::nullopt : std::optional(asked->second);
}

absl::StatusOr<Type> ColumnTable::TypeOf(std::string_view name, const Value& value, std::string_view extension) {
  std::string_view bytes = value.bytes;
  char head[kImageHeadBytes];
  if (value.file) {
    bytes = {head, std::min<uint64_t>(sizeof(head), value.file->size())};
    SHARDKIT_RETURN_IF_ERROR(value.file->ReadAt(0, {head, bytes.size()}));
  }
  const auto begins = [&] { return StrCat("begins with \"", absl::CHexEscape(ToAbsl(bytes.substr(0, 16))), "\""); };
  if (const std::optional<Type> asked = Asked(name)) {
    Find(name, *asked);  // so that CheckTypes knows the column even when no value fits
    if (value.file && (*asked == Type::kUtf8 || *asked == Type::kJson)) {
      return InvalidArgument("has ", value.file->size(), " bytes, too many to look through as ", TypeName(*asked));
    }
    if (codec::FitsType(bytes, *asked) && !(bytes.empty() && IsImage(*asked))) return *asked;
    return InvalidArgument("cannot be of type ", TypeName(*asked), ", which --type asks of column \"", name,
                           "\": ", bytes.empty() ? std::string("is empty") : begins());
  }
  if (codec::IsImageExtension(extension) && DetectImageFormat(bytes) == ImageFormat::kUnknown) {
    return DataLoss(bytes.empty() ? std::string("an empty file is not an image")
                                  : StrCat("is named .", extension, " and is no image of a known format: ", begins()),
                    "; remove it, pack with --on-error skip, or --type ", name, "=bytes");
  }
  return codec::GuessType(bytes, value.file && !codec::IsImageExtension(extension) ? "" : extension);
}

absl::Status ColumnTable::CheckTypes() const {
  std::shared_lock lock(mutex_);
  for (const auto& [name, type] : types_) {
    if (columns_.contains(std::pair(name, type))) continue;
    std::string found;
    for (const auto& [column, unused] : columns_) {
      if (!found.ends_with(StrCat("\"", column.first, "\"")))
        found += StrCat(found.empty() ? "" : ", ", "\"", column.first, "\"");
    }
    return InvalidArgument("--type ", name, "=", TypeName(type), ": there is no column \"", name, "\"; there ",
                           found.empty() ? "is none" : StrCat("is ", found));
  }
  return absl::OkStatus();
}

void UndecodedImages::Count(Type type, const Value& value) {
  if (type != Type::kImage) return;
  std::string_view bytes = value.bytes;
  char head[kImageHeadBytes];
  if (value.file) {
    bytes = {head, std::min<uint64_t>(sizeof(head), value.file->size())};
    if (!value.file->ReadAt(0, {head, bytes.size()}).ok()) return;
  }
  if (!codec::IsDecoded(DetectImageFormat(bytes))) ++count_;
}

std::optional<std::string> UndecodedImages::Warning() const {
  const uint64_t count = count_;
  if (count == 0) return std::nullopt;
  return StrCat(count, count == 1 ? " image is" : " images are",
                " in formats that this build does not decode to pixels: their column is of type image");
}

Column KeyColumn() {
  Column column;
  column.name = "key";
  column.type = Type::kUtf8;
  column.codec = Codec::kZstd;
  column.is_key = true;
  return column;
}

Column ByteStringColumn(std::string_view name, Type type, bool nullable) {
  Column column;
  column.name = std::string(name);
  column.type = type;
  column.codec = type == Type::kUtf8 || type == Type::kJson ? Codec::kZstd : Codec::kNone;
  column.nullable = nullable;
  return column;
}

std::shared_ptr<const RandomAccessFile> MakeFileSlice(ReadableFileSystem* file_system, std::string path,
                                                      uint64_t offset, uint64_t length) {
  return std::make_shared<FileSlice>(file_system, std::move(path), offset, length);
}

absl::StatusOr<Value> LoadFile(ReadableFileSystem* file_system, const std::string& path, std::optional<uint64_t> size,
                               uint64_t stream_above, ByteArena* arena) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto file, file_system->OpenForReading(path, ReadMode::kBuffered, size));
  Value value;
  if (file->size() >= stream_above) {
    value.file = MakeFileSlice(file_system, path, 0, file->size());
    return value;
  }
  const std::span<char> memory = arena->Allocate(file->size());
  SHARDKIT_RETURN_IF_ERROR(file->ReadAt(0, memory));
  value.bytes = {memory.data(), memory.size()};
  return value;
}

absl::Status ReadWholeFile(ReadableFileSystem* file_system, const std::string& path, std::optional<uint64_t> size,
                           std::string* bytes) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto file, file_system->OpenForReading(path, ReadMode::kBuffered, size));
  bytes->resize(file->size());
  return file->ReadAt(0, *bytes);
}

}  // namespace shardkit::operations
