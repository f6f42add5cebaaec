// Shared by the tests of the convert layer.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dataset/dataset_support.h"
#include "operations/sa1b/sa1b.h"
#include "shardkit/filesystem.h"
#include "shardkit/source.h"

namespace shardkit::test {

inline constexpr std::string_view kJpegBytes = "\xff\xd8\xff\xe0 not really";
inline constexpr std::string_view kPngBytes = "\x89PNG\r\n\x1a\n not really";

// The folder of real inputs, or empty.
std::string DataFolder();
std::string FixtureFolder();
std::string ReadAll(const std::string& path);

// A new folder on disk, removed with its contents at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return JoinPath(path_, name); }

 private:
  std::string path_;
};

struct TarItem {
  std::string name;
  std::string bytes;
  char type = 'f';  // f file, d directory, s symbolic link, h hard link, p pipe
  std::string link_target;
};

// `filter`: "", "gzip", "zstd", …; `format`: "pax", "gnutar", "ustar".
std::string MakeTar(const std::vector<TarItem>& entries, const char* filter = "", const char* format = "pax");

// Everything a source gives, copied out.
struct LoadedField {
  std::string bytes;
  Type type = Type::kBytes;
  Codec codec = Codec::kNone;
  bool file = false;
  bool nullable = false;
};
struct LoadedSample {
  uint64_t position = 0;
  std::string key;
  std::map<std::string, LoadedField> fields;
};
struct LoadedFailure {
  uint64_t position = 0;
  std::string key;
  absl::Status status;
};
struct Loaded {
  std::vector<LoadedSample> samples;
  std::vector<LoadedFailure> failures;
  absl::Status status;  // of listing
  uint64_t positions = 0;

  std::vector<std::string> Keys() const;
};
Loaded LoadAll(Source& source, size_t max_samples = 7);

// Opens and loads; listing errors are in the result.
Loaded LoadAll(FileSystem* file_system, std::string_view kind, const std::vector<std::string>& inputs,
               SourceOptions options = {});

// The stored values of one converted annotation file.
operations::Sa1bValues ValuesOf(const std::vector<Field>& fields);
const Field* FindField(const std::vector<Field>& fields, std::string_view name);

// An annotation file in the published form with `annotations` masks of 4 x 6 pixels.
std::string SmallSa1bJson(int annotations, int image_id = 1);

}  // namespace shardkit::test
