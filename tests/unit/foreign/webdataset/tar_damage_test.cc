// Damaged tars and sidecars: the right error, or the original bytes; never anything else.
#include <gtest/gtest.h>

#include "base/hash.h"
#include "base/strings.h"
#include "dataset/dataset_support.h"
#include "foreign/webdataset/tar_shard_reader.h"
#include "support/effort.h"
#include "unit/foreign/webdataset/tar_maker.h"

namespace shardkit::test {
namespace {

const std::vector<TarMember> kMembers = {
    {"a.txt", "first value"}, {"a.cls", "7"}, {"b.txt", std::string(700, 'b')}, {"b.cls", ""}};

class TarDamageTest : public testing::Test {
 protected:
  // Opens and reads everything. Returns the first error.
  absl::Status ReadEverything(const std::string& path, const ReadOptions& options = {}) {
    const auto reader = foreign::TarShardReader::Open(*files_, path, options);
    if (!reader.ok()) return reader.status();
    BlockBuffer buffer;
    BlockView view;
    absl::Status status;
    for (size_t block = 0; block < (*reader)->blocks().size(); ++block) {
      const absl::Status read = (*reader)->ReadBlock(block, {}, &buffer, &view);
      status.Update(read);
      for (size_t c = 0; read.ok() && c < view.column_count(); ++c) {
        for (uint32_t i = 0; i < view.sample_count(); ++i) {
          (void)Hash64(view.column(c).value(i).value_or(""));  // reads every byte
        }
      }
    }
    for (uint64_t sample = 0; sample < (*reader)->sample_count(); ++sample) {
      for (size_t c = 0; c < (*reader)->schema().size(); ++c) {
        status.Update((*reader)->ReadValue(sample, c, &buffer).status());
        status.Update((*reader)->CopyValue(sample, c, [](std::string_view) { return absl::OkStatus(); }).status());
      }
      const auto key = (*reader)->ReadValue(sample, 0, &buffer);
      if (!key.ok()) continue;
      const std::string wanted(**key);
      const auto found = (*reader)->FindKey(wanted, &buffer);
      status.Update(found.status());
      EXPECT_TRUE(!found.ok() || *found == sample) << wanted;
    }
    return status;
  }

  void ExpectDataLoss(const absl::Status& status, const std::string& what) {
    EXPECT_TRUE(absl::IsDataLoss(status)) << what << ": " << status;
    EXPECT_TRUE(Message(status).starts_with("/x.tar")) << what << ": " << status;
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_F(TarDamageTest, EveryTruncation) {
  for (const std::string& tar : {MakeTar(kMembers), WriteTar(kMembers, "pax"), WriteTar(kMembers, "gnutar")}) {
    const size_t end_of_members = tar.find_last_not_of('\0');
    for (size_t length = 0; length < tar.size(); length += TestStep()) {
      WriteFile(*files_, "/x.tar", tar.substr(0, length));
      const absl::Status status = ReadEverything("/x.tar");
      // One block of the end mark is enough. The last member is empty, so its header is the end of the members.
      const size_t needed = (end_of_members + 511) / 512 * 512 + 512;
      if (length >= needed && length % 512 == 0) {
        EXPECT_TRUE(status.ok()) << length << ": " << status;
      } else if (length < needed) {
        ExpectDataLoss(status, std::to_string(length));
      }
    }
  }
}

TEST_F(TarDamageTest, MissingEndMarkNamesThePlace) {
  const std::string tar = MakeTar(kMembers);
  WriteFile(*files_, "/x.tar", tar.substr(0, tar.size() - 1024));
  EXPECT_EQ(Message(ReadEverything("/x.tar")),
            StrCat("/x.tar: after member 'b.cls', at byte ", tar.size() - 1024,
                   ": the tar ends without an end mark: it was cut off; get it again"));
  WriteFile(*files_, "/x.tar", tar.substr(0, 2700));
  EXPECT_EQ(Message(ReadEverything("/x.tar")),
            "/x.tar: member 'b.txt' at byte 2048: has 700 bytes of data by its header, but the tar "
            "ends before: it was cut off; get it again");
}

// tests/unit/damage tests the plain tar. Here each member has an extra header, which says more than the member's own.
TEST_F(TarDamageTest, EveryFlippedBitOfAPaxTar) {
  const std::string tar = WriteTar({{"a.txt", "first value"}, {std::string(120, 'b') + ".cls", "7"}}, "pax");
  for (size_t bit = 0; bit < 8 * (tar.size() - 1024); bit += TestStep()) {
    if (tar[bit / 8] == '\0' && bit % 8 != 0) continue;  // one bit of padding stands for the others
    std::string damaged = tar;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    WriteFile(*files_, "/x.tar", damaged);
    const absl::Status status = ReadEverything("/x.tar");
    EXPECT_TRUE(status.ok() || absl::IsDataLoss(status) || absl::IsUnimplemented(status)) << bit << ": " << status;
  }
}

// With a sidecar, every bit of a value and of the sidecar counts.
TEST_F(TarDamageTest, EveryFlippedBitWithASidecar) {
  // Values further from both ends than the bytes that make up the identity.
  std::vector<TarMember> members = {{"0.bin", std::string(70000, '0')}};
  members.insert(members.end(), kMembers.begin(), kMembers.end());
  members.push_back({"z.bin", std::string(70000, 'z')});
  const std::string tar = MakeTar(members);
  WriteFile(*files_, "/x.tar", tar);
  ASSERT_TRUE(BuildTarIndex(*files_, "/x.tar").ok());
  const std::string sidecar = ReadAll(*files_, "/x.tar.shardidx");
  ASSERT_TRUE(ReadEverything("/x.tar").ok());

  const size_t value = tar.find("first value");
  for (size_t bit = 8 * value; bit < 8 * (value + 11); ++bit) {
    std::string damaged = tar;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    WriteFile(*files_, "/x.tar", damaged);
    for (const ReadMode mode : {ReadMode::kBuffered, ReadMode::kMapped}) {
      const absl::Status status = ReadEverything("/x.tar", {.mode = mode});
      ExpectDataLoss(status, std::to_string(bit));
      EXPECT_EQ(Message(status), StrCat("/x.tar: sample 1 'a', column \"txt\", 11 bytes at byte ", value,
                                        ": differ from what they were when the tar was indexed; get the tar again"));
      EXPECT_TRUE(ReadEverything("/x.tar", {.verify = Verify::kNever, .mode = mode}).ok());
    }
  }
  // One way of reading after another.
  const auto reader = foreign::TarShardReader::Open(*files_, "/x.tar", {});
  ASSERT_TRUE(reader.ok());
  BlockBuffer buffer;
  BlockView view;
  EXPECT_TRUE(absl::IsDataLoss((*reader)->ReadBlock(0, {}, &buffer, &view)));
  EXPECT_TRUE(absl::IsDataLoss((*reader)->ReadValue(1, 2, &buffer).status()));
  EXPECT_TRUE(absl::IsDataLoss((*reader)->CopyValue(1, 2, [](std::string_view) { return absl::OkStatus(); }).status()));
  EXPECT_TRUE((*reader)->ReadValue(1, 3, &buffer).ok());

  WriteFile(*files_, "/x.tar", tar);
  const auto contents = foreign::LoadTarContents(*files_, "/x.tar", kDefaultMaxDecompression);
  ASSERT_TRUE(contents.ok()) << contents.status();
  const auto& stored = *(*contents)->stored;
  ASSERT_EQ(stored.blocks.size(), 1u);
  const BlockInfo& block = stored.blocks[0];
  for (size_t bit = 0; bit < 8 * sidecar.size(); bit += TestStep()) {
    std::string damaged = sidecar;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    WriteFile(*files_, "/x.tar.shardidx", damaged);
    const absl::Status status = ReadEverything("/x.tar");
    const bool read = bit / 8 < stored.header.length ||
                      (bit / 8 >= block.offset && bit / 8 < block.offset + block.length) ||
                      bit / 8 + 64 >= sidecar.size();
    // Nothing but validation reads all of the footer: see TarSidecarTest.ExactLoss.
    if (!read && status.ok()) continue;
    ExpectDataLoss(status, std::to_string(bit));
    EXPECT_TRUE(Message(status).ends_with("; run shardctl index /x.tar")) << status;
  }
  for (size_t length = 0; length < sidecar.size(); ++length) {
    WriteFile(*files_, "/x.tar.shardidx", sidecar.substr(0, length));
    ExpectDataLoss(ReadEverything("/x.tar"), std::to_string(length));
  }
}

TEST_F(TarDamageTest, ATarThatChangedSinceItWasOpened) {
  const std::string tar = MakeTar(kMembers);
  WriteFile(*files_, "/x.tar", tar);
  const auto contents = foreign::LoadTarContents(*files_, "/x.tar", kDefaultMaxDecompression);
  ASSERT_TRUE(contents.ok());
  WriteFile(*files_, "/x.tar", tar.substr(512));
  const auto reader = foreign::TarShardReader::Open(*files_, "/x.tar", {}, *contents);
  EXPECT_TRUE(absl::IsDataLoss(reader.status())) << reader.status();
}

}  // namespace
}  // namespace shardkit::test
