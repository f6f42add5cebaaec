// Makes MDS datasets for tests, byte by byte according to format-spec/interop.md and without the library's code.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dataset/dataset_support.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/schema.h"

namespace shardkit::test {

struct MdsField {
  std::string name;
  std::string encoding;
  std::optional<uint32_t> size;
};

using MdsFields = std::vector<MdsField>;
using MdsRow = std::vector<std::string>;  // payloads, in the order of the fields

// What index.json says of a shard.
struct MdsListed {
  std::string name;
  uint64_t bytes = 0;
  uint64_t samples = 0;
  std::vector<std::pair<std::string, std::string>> raw_hashes;
  std::string compression;  // with it there is a compressed file, too
  std::string zip_name;
  uint64_t zip_bytes = 0;
  std::vector<std::pair<std::string, std::string>> zip_hashes;
};

template <typename T>
std::string Little(T number) {
  return std::string(reinterpret_cast<const char*>(&number), sizeof(number));
}

std::string MdsHeader(const MdsFields& fields);
std::string MdsShardBytes(const MdsFields& fields, const std::vector<MdsRow>& rows);
std::string MdsIndexText(const MdsFields& fields, const std::vector<MdsListed>& shards);

// Shards of `shard_samples` each, and their index.
Tree MdsTree(const MdsFields& fields, const std::vector<MdsRow>& rows, size_t shard_samples);

// An array as MDS stores it, with dimensions of 1 << width bytes, and as Shardkit stores it.
std::string MdsArray(const std::vector<uint64_t>& shape, int width, std::string_view elements);
std::string OurArray(const std::vector<uint64_t>& shape, std::string_view elements);

// Pixels as MDS stores them; and those of mode L as they are read.
std::string MdsPixels(uint32_t width, uint32_t height, std::string_view mode, std::string_view pixels);
std::string GrayTiff(uint32_t width, uint32_t height, std::string_view pixels);

// Fields of every readable encoding, and samples for them. `Expected` gives the value that is read for a payload.
MdsFields EveryField();
std::vector<MdsRow> EveryRow(size_t count);
std::string Expected(const MdsField& field, const std::string& stored);

// Two columns, "id" (int) and "text" (str).
MdsFields TextFields();
std::vector<MdsRow> TextRows(size_t count);

inline std::unique_ptr<DatasetReader> OpenDataset(FileSystem& files, const std::string& path,
                                                  const DatasetOptions& options = {}) {
  auto dataset = DatasetReader::Open(files, path, options);
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  return dataset.ok() ? *std::move(dataset) : nullptr;
}

// Fails unless every way of reading gives the rows: blocks, single values, copies.
void ExpectRows(const DatasetReader& dataset, const MdsFields& fields, const std::vector<MdsRow>& rows);

// Compares the hashes of all shards. A difference has priority over an unknown hash.
absl::Status CheckMdsHashes(FileSystem& files, const std::string& path);

// Reads everything and returns the first error.
absl::Status ReadEverything(FileSystem& files, const std::string& path, const DatasetOptions& options = {});

}  // namespace shardkit::test
