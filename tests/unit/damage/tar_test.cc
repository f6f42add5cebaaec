// WebDataset tars. A tar has checksums only of its headers. A bit of a value changes only that value, unless Shardkit's
// index lies beside the tar.
#include "shardkit/tar_index.h"
#include "unit/damage/observe.h"
#include "unit/foreign/webdataset/tar_maker.h"

namespace shardkit::test {
namespace {

// The columns are key, cls, txt. A header of 512 bytes, data, and padding to 512 bytes, twice; then 1024
// bytes of zeros.
const std::vector<TarMember> kMembers = {{"a.cls", "7"}, {"a.txt", "first value"}};
constexpr uint64_t kEnd = 2048;

Subject NewSubject(const std::string& name, const std::string& tar) {
  return MakeSubject(name, {{name, tar}}, name, {{"a", "7", "first value"}});
}

void ExpectNothingChanged(const Observation& seen) {
  EXPECT_TRUE(seen.changed.empty());
  EXPECT_TRUE(seen.lies.empty());
  EXPECT_TRUE(seen.error.ok() || absl::IsDataLoss(seen.error) || absl::IsUnimplemented(seen.error)) << seen.error;
  EXPECT_TRUE(seen.error.ok() || seen.found);
}

TEST(TarDamage, WithoutAnIndex) {
  const Subject subject = NewSubject("x.tar", MakeTar(kMembers));
  FlipEveryBit(subject, "x.tar", [&](uint64_t bit, const Observation& seen) {
    const uint64_t byte = bit / 8, member = byte / 1024, within = byte % 1024;
    if (byte >= kEnd) {
      // One block of zeros is enough to end a tar. Validate wants two.
      ExpectNothingChanged(seen);
      EXPECT_EQ(seen.error.ok(), byte >= kEnd + 512);
      EXPECT_TRUE(seen.found);
    } else if (within < 512) {
      ExpectNothingChanged(seen);
      // The spaces and leading zeros of the checksum field itself.
      EXPECT_TRUE(!seen.error.ok() || (within >= 148 && within < 156));
    } else if (within < 512 + kMembers[member].data.size()) {
      EXPECT_TRUE(seen.error.ok() && seen.lies.empty() && !seen.found);
      ASSERT_EQ(seen.changed.size(), 1u);
      std::string value = kMembers[member].data;
      value[within - 512] = static_cast<char>(value[within - 512] ^ (1 << bit % 8));
      EXPECT_EQ(seen.changed.begin()->first, Place(0, 1 + member));
      EXPECT_EQ(seen.changed.begin()->second, value);
    } else {
      EXPECT_TRUE(seen.unharmed() && !seen.found) << "padding";
    }
  });
  CutAtEveryLength(subject, "x.tar", [&](uint64_t length, const Observation& seen) {
    ExpectNothingChanged(seen);
    EXPECT_EQ(seen.error.ok(), length >= kEnd + 512);
  });
}

TEST(TarDamage, WithAnIndex) {
  const auto files = NewMemoryFileSystem();
  WriteFile(*files, "/d/x.tar", MakeTar({kMembers[1]}));
  ASSERT_TRUE(BuildTarIndex(*files, "/d/x.tar").ok());
  const Subject subject = MakeSubject("indexed", ReadTree(*files, "/d"), "x.tar", {{"a", "first value"}});
  for (const std::string file : {"x.tar", "x.tar.shardidx"}) {
    FlipEveryBit(subject, file, [&](uint64_t, const Observation& seen) {
      ExpectNothingChanged(seen);
      EXPECT_TRUE(seen.found);
    });
    CutAtEveryLength(subject, file, [&](uint64_t, const Observation& seen) {
      ExpectNothingChanged(seen);
      EXPECT_TRUE(seen.found);
    });
  }
}

struct Filter {
  std::string name;
  std::string suffix;
  bool has_checksum;  // that libarchive compares
};

TEST(TarDamage, OfCompressedTars) {
  for (const Filter& filter :
       {Filter{"gzip", ".gz", false}, Filter{"zstd", ".zst", false}, Filter{"bzip2", ".bz2", true},
        Filter{"xz", ".xz", true}, Filter{"lz4", ".lz4", true}, Filter{"lzma", ".lzma", true}}) {
    const std::string name = "x.tar" + filter.suffix;
    const Subject subject = NewSubject(name, WriteTar(kMembers, "ustar", filter.name));
    size_t silent = 0;
    FlipEveryBit(subject, name, [&](uint64_t, const Observation& seen) {
      EXPECT_TRUE(seen.lies.empty());
      EXPECT_TRUE(seen.error.ok() || absl::IsDataLoss(seen.error) || absl::IsResourceExhausted(seen.error))
          << seen.error;
      // The headers' checksums protect keys, columns and lengths.
      for (const auto& [place, value] : seen.changed) EXPECT_GT(place.second, 0u);
      silent += seen.changed.empty() ? 0 : 1;
    });
    EXPECT_EQ(silent == 0, filter.has_checksum) << name;
    CutAtEveryLength(subject, name, [&](uint64_t, const Observation& seen) { ExpectNothingChanged(seen); });
  }
}

// compress has no checksum, and one wrong code may change a header in two places whose sum is the same: then names and
// numbers are others (format-spec/security.md). The reader's own checks hold.
TEST(TarDamage, OfCompress) {
  const Subject subject = NewSubject("x.tar.Z", WriteTar(kMembers, "ustar", "compress"));
  FlipEveryBit(subject, "x.tar.Z", [&](uint64_t, const Observation& seen) {
    EXPECT_TRUE(seen.error.ok() || absl::IsDataLoss(seen.error) || absl::IsResourceExhausted(seen.error)) << seen.error;
  });
  CutAtEveryLength(subject, "x.tar.Z", [&](uint64_t, const Observation& seen) { ExpectNothingChanged(seen); });
}

}  // namespace
}  // namespace shardkit::test
