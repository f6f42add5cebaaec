// Shared by the tests in which a file is truncated while it is mapped.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <random>
#include <string>
#include <vector>

#include "dataset/dataset_support.h"
#include "shardkit/copy.h"

namespace shardkit::test {

// A directory of the real file system, so that the system can remove pages from maps.
class SystemDirectory {
 public:
  SystemDirectory() {
    std::string path = JoinPath(testing::TempDir(), "shardkit-cut-XXXXXX");
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    path_ = path;
  }
  ~SystemDirectory() { EXPECT_TRUE(RemoveTree(*PosixFileSystem(), path_).ok()); }
  std::string Path(std::string_view name) const { return JoinPath(path_, name); }

 private:
  std::string path_;
};

inline constexpr size_t kCutSamples = 40;

// Samples of a few KiB each, so that a block takes several pages.
inline std::vector<OwnedSample> LargeSamples() {
  std::vector<OwnedSample> samples;
  std::mt19937_64 random(5);
  for (size_t i = 0; i < kCutSamples; ++i) {
    OwnedSample& sample = samples.emplace_back();
    sample.key = "key" + std::to_string(100 + i);
    std::string image = "\xff\xd8\xff";
    // Bytes that are not zero and not compressible, because truncated bytes read as zeros.
    while (image.size() < 2000 + i * 331 % 3000) image += static_cast<char>(1 + random() % 255);
    sample.fields.emplace_back(&ImageColumn(), image);
    sample.fields.emplace_back(&TextColumn(), "text of sample " + std::to_string(i) + std::string(i * 17 % 200, 'x'));
  }
  return samples;
}

// "shard", "mds", "mds-zstd", "tar" or "tar-indexed", at `path`, of two shards and more.
inline void WriteContainer(const std::string& kind, const SystemDirectory& directory, const std::string& path) {
  FileSystem& files = *PosixFileSystem();
  const std::string native = kind == "shard" ? path : directory.Path("native");
  if (!Exists(files, native)) {
    DatasetWriterOptions options = SmallShards(20, 5);
    options.sync = false;
    auto writer = DatasetWriter::Create(files, native, MakeSchema({KeyColumn(), ImageColumn(), TextColumn()}), options);
    ASSERT_TRUE(writer.ok()) << writer.status();
    uint64_t position = 0;
    for (const OwnedSample& sample : LargeSamples()) ASSERT_TRUE((*writer)->Append(sample.View(), ++position).ok());
    ASSERT_TRUE((*writer)->Finish().ok());
  }
  if (kind == "shard") return;
  ConvertOptions options;
  options.to = kind.starts_with("mds") ? Container::kMds : Container::kWebDataset;
  options.mds.shard_samples = options.webdataset.shard_samples = 20;
  if (kind == "mds-zstd") options.mds.compression = "zstd";
  const auto converted = Convert(files, native, path, options);
  ASSERT_TRUE(converted.ok()) << converted.status();
  if (kind == "tar") {
    for (const auto& [name, bytes] : ReadTree(files, path)) {
      if (name.ends_with(".tar") || name.ends_with('/')) continue;
      ASSERT_TRUE(files.RemoveFile(JoinPath(path, name)).ok());
    }
  }
}

// The position of the image column. In a tar it has another name.
inline size_t ImagePosition(const DatasetReader& dataset) {
  for (size_t i = 0; i < dataset.columns().size(); ++i) {
    if (dataset.columns()[i].name.starts_with("image")) return i;
  }
  ADD_FAILURE() << "no images";
  return 0;
}

inline void Cut(const std::string& path, uint64_t length) {
  ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(length)), 0) << path;
}

// The bytes are the expected ones, but from some position on they may be zeros.
inline bool SameOrZero(std::string_view shown, std::string_view expected) {
  if (shown.size() != expected.size()) return false;
  for (size_t i = 0; i < shown.size(); ++i) {
    if (shown[i] != expected[i] && shown[i] != 0) return false;
  }
  return true;
}

}  // namespace shardkit::test
