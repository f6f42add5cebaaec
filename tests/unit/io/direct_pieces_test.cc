// Division into pieces: every byte once, every piece as O_DIRECT requires.
#include "io/direct_file.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/strings.h"

namespace shardkit::io {
namespace {

constexpr size_t kDirectLength = size_t{1} << 20;

// An address `shift` bytes after an aligned one. The memory is never accessed, so any address works.
char* Address(size_t shift) { return reinterpret_cast<char*>(uintptr_t{0x7000000000} + shift); }

std::vector<DirectPiece> Cut(std::span<const ReadRequest> requests) {
  std::vector<DirectPiece> pieces;
  for (PieceSource source(requests, kDirectLength); !source.done();) {
    const size_t request = source.next_request();
    pieces.push_back(source.Next());
    EXPECT_EQ(pieces.back().request, request);
  }
  return pieces;
}

TEST(PieceSourceTest, CoversEachRequestOnce) {
  for (const uint64_t offset : {0, 1, 4095, 4096, 8191, 1000000}) {
    for (const size_t length : {1, 4095, 4096, 4097, 262144, 262145, 1048576, 3000001, 8 * 4096}) {
      for (const size_t shift : {0, 1, 4095}) {
        SCOPED_TRACE(StrCat("offset ", offset, " length ", length, " shift ", shift));
        const ReadRequest request{offset, {Address(shift), length}};
        size_t covered = 0;
        for (const DirectPiece& piece : Cut({&request, 1})) {
          EXPECT_EQ(piece.offset % kDirectAlignment, 0u);
          EXPECT_EQ(piece.length % kDirectAlignment, 0u);
          EXPECT_LE(piece.needed, piece.length);
          EXPECT_LT(piece.length - piece.needed, kDirectAlignment);
          EXPECT_EQ(piece.offset + piece.skip, offset + covered);
          if (piece.target != nullptr) {
            EXPECT_EQ(piece.target, request.buffer.data() + covered);
            EXPECT_EQ(reinterpret_cast<uintptr_t>(piece.target) % kDirectAlignment, 0u);
            EXPECT_EQ(piece.skip, 0u);
            EXPECT_EQ(piece.needed, piece.length);  // or it would write past the caller's buffer
            EXPECT_LE(piece.length, kDirectLength);
          } else {
            EXPECT_EQ(piece.copy_to, request.buffer.data() + covered);
            EXPECT_LE(piece.length, kBounceLength);
          }
          covered += piece.needed - piece.skip;
        }
        EXPECT_EQ(covered, length);
      }
    }
  }
}

TEST(PieceSourceTest, AlignedReadsAreNotCopied) {
  const ReadRequest requests[] = {{4096, {Address(0), 4096}}, {0, {Address(8192), size_t{5} << 20}}};
  const std::vector<DirectPiece> pieces = Cut(requests);
  EXPECT_EQ(pieces.size(), 6u);
  for (const DirectPiece& piece : pieces) EXPECT_NE(piece.target, nullptr);
}

TEST(PieceSourceTest, OnlyTheEndsOfALongReadAreCopied) {
  const ReadRequest request{100, {Address(100), (size_t{2} << 20) + 50}};
  size_t copied = 0;
  for (const DirectPiece& piece : Cut({&request, 1})) {
    if (piece.target == nullptr) copied += piece.needed - piece.skip;
  }
  EXPECT_LT(copied, 2 * kDirectAlignment);
}

TEST(PieceSourceTest, ShortUnalignedReadsAreOnePiece) {
  const ReadRequest request{4000, {Address(4000), 20000}};
  EXPECT_EQ(Cut({&request, 1}).size(), 1u);
}

TEST(PieceSourceTest, SkipsEmptyRequests) {
  const ReadRequest requests[] = {{0, {}}, {7, {Address(0), 1}}, {0, {}}, {9, {Address(0), 1}}, {0, {}}};
  const std::vector<DirectPiece> pieces = Cut(requests);
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].request, 1u);
  EXPECT_EQ(pieces[1].request, 3u);
  EXPECT_TRUE(Cut({}).empty());
}

}  // namespace
}  // namespace shardkit::io
