// Samples listed in a directory tree, and code for loading that the sources share.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "operations/sources/source_walk.h"
#include "shardkit/source.h"

namespace shardkit::operations {

// Listed files of a tree, in few allocations whatever their number.
class TreeUnit : public WorkUnit {
 public:
  struct File {
    uint32_t name_begin = 0;
    uint32_t name_length = 0;
    EntryKind kind = EntryKind::kFile;
    std::optional<uint64_t> size;  // bytes, where a listing told them
  };

  // `root` is the input's path, `input` its number among the inputs.
  TreeUnit(std::string root, size_t input) : root_(std::move(root)), input_(input) {}

  // Appends a sample: `count` files of a group, beginning with file `first`.
  void Add(const WalkedGroup& group, size_t first, size_t count);

  size_t input() const { return input_; }
  size_t size() const { return samples_.size(); }
  std::string_view directory(size_t sample) const;
  std::span<const File> files(size_t sample) const;
  std::string_view name(const File& file) const { return Text(file.name_begin, file.name_length); }

  // Relative to the root, and for opening.
  std::string RelativePath(size_t sample, const File& file) const;
  std::string FullPath(size_t sample, const File& file) const;

  std::string Names(size_t sample) const override;

  // The bytes of a sample's files, as far as the file system tells. *failed, which may be null, becomes its first error
  // that is not the file's own, which loading the sample meets, too.
  uint64_t StatBytes(ReadableFileSystem& file_system, size_t sample, absl::Status* failed = nullptr) const;

 private:
  struct Listed {
    uint32_t directory_begin = 0;
    uint32_t directory_length = 0;
    uint32_t first_file = 0;
    uint32_t file_count = 0;
  };
  std::string_view Text(uint32_t begin, uint32_t length) const { return std::string_view(text_).substr(begin, length); }

  const std::string root_;
  const size_t input_;
  std::string text_;  // directories and names, one after the other
  std::vector<Listed> samples_;
  std::vector<File> files_;
};

// The bytes of a sample's values.
inline uint64_t ValueBytes(const Sample& sample) {
  uint64_t bytes = 0;
  for (const Field& field : sample.fields) bytes += field.value.length();
  return bytes;
}

// The columns of a source, one for each name and type. They live as long as the table. Thread-safe.
class ColumnTable {
 public:
  using Types = std::map<std::string, Type, std::less<>>;

  // `types` gives columns a type that does not depend on their values.
  explicit ColumnTable(bool nullable, const std::map<std::string, Type>& types = {})
      : nullable_(nullable), types_(types.begin(), types.end()) {}

  const Column* Find(std::string_view name, Type type);

  // The type that was asked for column `name`, if any.
  std::optional<Type> Asked(std::string_view name) const;

  // The type of a value of column `name`: the type asked for, otherwise what GuessType returns. Of a value in a file,
  // only the first bytes are looked at. InvalidArgument when the value cannot have the type asked for, DataLoss when
  // `extension` is an image's and the value is not an image.
  absl::StatusOr<Type> TypeOf(std::string_view name, const Value& value, std::string_view extension);

  // InvalidArgument when a type was asked for a column that was never found. Names the columns that were found.
  absl::Status CheckTypes() const;

 private:
  const bool nullable_;
  const Types types_;
  mutable std::shared_mutex mutex_;
  std::map<std::pair<std::string, Type>, std::unique_ptr<Column>, std::less<>> columns_;
};

// Images that this build does not decode. Thread-safe.
class UndecodedImages {
 public:
  // Of a loaded value whose type was found from its bytes.
  void Count(Type type, const Value& value);

  // For Source::warnings; nothing where there were none.
  std::optional<std::string> Warning() const;

 private:
  std::atomic<uint64_t> count_ = 0;
};

// Column "key".
Column KeyColumn();

// Text is compressed, other values are stored as they are.
Column ByteStringColumn(std::string_view name, Type type, bool nullable);

// Part of a file, opened for each read, so that many values can wait to be written without a descriptor each.
std::shared_ptr<const RandomAccessFile> MakeFileSlice(ReadableFileSystem* file_system, std::string path,
                                                      uint64_t offset, uint64_t length);

// The file's bytes in *arena, or the file itself when it has at least `stream_above` bytes. `size`, where it is known,
// saves asking for it.
absl::StatusOr<Value> LoadFile(ReadableFileSystem* file_system, const std::string& path, std::optional<uint64_t> size,
                               uint64_t stream_above, ByteArena* arena);

// Fills the batch with the samples of a unit: load(i, &sample) gives a status, which names the file. For a sample that
// cannot be loaded, key(i, sample) says what to call it. bytes(i, sample), where `sample` is null for one that cannot
// be loaded, are those in the input.
template <typename Load, typename Key, typename Bytes>
void LoadEach(const WorkUnit& unit, SampleBatch* batch, Load load, Key key, Bytes bytes) {
  for (size_t i = 0; i < unit.sample_count; ++i) {
    Sample sample;
    absl::Status status = load(i, &sample);
    batch->input_bytes.push_back(bytes(i, status.ok() ? &sample : nullptr));
    if (!status.ok()) {
      batch->failures.push_back({i, std::string(key(i, sample)), std::move(status)});
      continue;
    }
    batch->samples.push_back(std::move(sample));
    batch->indexes.push_back(i);
  }
}

// Whole file into *bytes, whatever its size.
absl::Status ReadWholeFile(ReadableFileSystem* file_system, const std::string& path, std::optional<uint64_t> size,
                           std::string* bytes);

}  // namespace shardkit::operations
