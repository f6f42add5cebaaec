// A line of the cache on local disk: a part of an object, in a file of its own, of which pieces are present.
//
// The file has a header (page 0), a checksum for each piece (page 1; 0: not there), and the pieces in their places. A
// piece counts only when it has its checksum, which also depends on the object and its version: what was torn, damaged
// or written by somebody else is not there. Locks are on bytes of the file and belong to open file descriptions, so
// that they end with their process.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/hash.h"
#include "io/posix_file.h"

namespace shardkit::remote {

// Small, so that what a projection does not want is not fetched along.
inline constexpr uint64_t kPieceBytes = uint64_t{16} << 10;
inline constexpr uint32_t kLinePieces = 512;
inline constexpr uint64_t kLineBytes = kPieceBytes * kLinePieces;  // of the object
inline constexpr uint64_t kCachePageBytes = 4096;
inline constexpr uint64_t kLineDataBegin = 2 * kCachePageBytes;

// Which part of which version of which object a line holds.
struct LineName {
  std::string url;       // as users may see it: no query, no secrets
  uint64_t size = 0;     // bytes of the object
  uint64_t begin = 0;    // of the line, in the object: a multiple of kLineBytes, below `size`
  Hash128Bytes version;  // the hash of the whole URL and the ETag

  // Bytes of the object in this line, and the pieces that they fill.
  uint64_t bytes() const { return std::min(size - begin, kLineBytes); }
  uint32_t pieces() const { return static_cast<uint32_t>((bytes() + kPieceBytes - 1) / kPieceBytes); }
  uint64_t piece_bytes(uint32_t piece) const { return std::min(bytes() - piece * kPieceBytes, kPieceBytes); }

  // Hexadecimal digits, 32 of them.
  std::string FileName() const;

  friend bool operator==(const LineName&, const LineName&) = default;
};

// Page 0 of a line's file.
std::string EncodeLineHeader(const LineName& name);
// DataLoss when it is not one.
absl::StatusOr<LineName> DecodeLineHeader(std::string_view page);

struct PieceRun {
  uint32_t begin = 0, end = 0;
};

// Thread-safe. Nothing here waits for another process.
class CacheLine {
 public:
  // Opens the line's file, and makes it when there is none: then `allocate` is called with the descriptor while its
  // header is locked, and has to reserve the first two pages. Null when there is no room for it, when the file cannot
  // be used, or while another process makes it.
  template <typename Allocate>
  static std::shared_ptr<CacheLine> Open(const std::string& path, const LineName& name, const Allocate& allocate) {
    std::shared_ptr<CacheLine> line(new CacheLine(name));
    if (!line->OpenFile(path)) return nullptr;
    if (!line->HasHeader() && !(line->LockHeader() && allocate(line->descriptor()) && line->WriteHeader())) {
      return nullptr;
    }
    line->ReadTable();
    return line;
  }

  int descriptor() const { return file_.get(); }

  // Whether the file still has its name: nothing may be written to one that was evicted.
  bool InUse() const;

  // Tells by the file's time that the line was used. False when it was evicted, as far as it looked.
  bool Touch();

  // From `first` on: how many of the pieces up to `end` are alike, and whether they are said to be present.
  std::pair<PieceRun, bool> AlikeFrom(uint32_t first, uint32_t end);

  // Fills `out` with bytes [begin, begin + out.size()) of the line. False when one of its pieces is not there after
  // all; it is forgotten then.
  bool Read(uint64_t begin, std::span<char> out);

  // Takes the pieces that are to be fetched: no other thread or process has them until Release. False when one of them
  // is taken already. Some may have become present meanwhile: look again.
  bool Take(PieceRun run);
  void Release(PieceRun run);

  // Writes pieces that were taken, and for which room was reserved. False when that failed.
  bool Write(PieceRun run, std::string_view bytes);

  // These pieces are missing from now on: they are damaged, or were when they came.
  void Forget(PieceRun run);

  // Compares all pieces: how many are there, and how many are not what was written.
  std::pair<uint32_t, uint32_t> Verify();

 private:
  explicit CacheLine(LineName name) : name_(std::move(name)) {}
  bool OpenFile(const std::string& path);
  bool HasHeader() const;
  bool LockHeader() const;
  bool WriteHeader() const;
  void ReadTable();
  uint64_t Checksum(uint32_t piece, std::string_view bytes) const;

  const LineName name_;
  io::FileDescriptor file_;
  std::mutex mutex_;  // guards all below
  std::array<uint64_t, kLinePieces> table_{};
  std::bitset<kLinePieces> compared_;  // with its checksum, by this process
  std::bitset<kLinePieces> taken_;     // by this process
  int64_t touched_ = 0;                // seconds
};

// Locks bytes [begin, begin + length) of a file for this open file description, without waiting. False when another has
// them.
bool TryLockBytes(int descriptor, uint64_t begin, uint64_t length);
void UnlockBytes(int descriptor, uint64_t begin, uint64_t length);

// What TryLockBytes locks of a line: piece i byte i, the header the byte behind them.
inline constexpr uint64_t kHeaderLock = kLinePieces;
inline constexpr uint64_t kLockedBytes = kLinePieces + 1;

}  // namespace shardkit::remote
