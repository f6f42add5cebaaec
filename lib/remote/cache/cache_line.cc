#include "remote/cache/cache_line.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>
#include <vector>

#include "base/byte_cursor.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/utf8.h"

namespace shardkit::remote {
namespace {

constexpr std::string_view kMagic = "SHKCACHE";
constexpr uint32_t kVersion = 1;
constexpr size_t kFixedBytes = 64;  // magic, version, url length, object size, begin, version hash, checksum, zero
constexpr size_t kChecksumOffset = 48;
constexpr size_t kMostUrlBytes = kCachePageBytes - kFixedBytes;

// A use is written down no more often than this, because that is a write.
constexpr int64_t kTouchSeconds = 10;

// All of it, or false.
bool ReadAll(int descriptor, uint64_t offset, std::span<char> buffer) {
  while (!buffer.empty()) {
    const ssize_t got = pread(descriptor, buffer.data(), buffer.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    buffer = buffer.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return true;
}

bool WriteAll(int descriptor, uint64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = pwrite(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(put));
    offset += static_cast<uint64_t>(put);
  }
  return true;
}

uint64_t HeaderChecksum(std::string page) {
  std::memset(page.data() + kChecksumOffset, 0, 8);
  return Hash64(page);
}

}  // namespace

bool TryLockBytes(int descriptor, uint64_t begin, uint64_t length) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(begin);
  lock.l_len = static_cast<off_t>(length);
  return fcntl(descriptor, F_OFD_SETLK, &lock) == 0;
}

void UnlockBytes(int descriptor, uint64_t begin, uint64_t length) {
  struct flock lock = {};
  lock.l_type = F_UNLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(begin);
  lock.l_len = static_cast<off_t>(length);
  (void)fcntl(descriptor, F_OFD_SETLK, &lock);
}

std::string LineName::FileName() const {
  std::string bytes(version.begin(), version.end());
  bytes.resize(version.size() + 16);
  StoreLittle<uint64_t>(bytes.data() + version.size(), size);
  StoreLittle<uint64_t>(bytes.data() + version.size() + 8, begin);
  std::string digits;
  for (const uint8_t byte : Hash128(bytes)) {
    digits += "0123456789abcdef"[byte >> 4];
    digits += "0123456789abcdef"[byte & 15];
  }
  return digits;
}

std::string EncodeLineHeader(const LineName& name) {
  std::string page(kCachePageBytes, '\0');
  const std::string_view url = std::string_view(name.url).substr(0, kMostUrlBytes);
  std::memcpy(page.data(), kMagic.data(), kMagic.size());
  StoreLittle<uint32_t>(page.data() + 8, kVersion);
  StoreLittle<uint32_t>(page.data() + 12, static_cast<uint32_t>(url.size()));
  StoreLittle<uint64_t>(page.data() + 16, name.size);
  StoreLittle<uint64_t>(page.data() + 24, name.begin);
  std::memcpy(page.data() + 32, name.version.data(), name.version.size());
  std::memcpy(page.data() + kFixedBytes, url.data(), url.size());
  StoreLittle<uint64_t>(page.data() + kChecksumOffset, HeaderChecksum(page));
  return page;
}

absl::StatusOr<LineName> DecodeLineHeader(std::string_view page) {
  if (page.size() != kCachePageBytes || !page.starts_with(kMagic)) return DataLoss("not a line of a cache");
  if (LoadLittle<uint32_t>(page.data() + 8) != kVersion) return DataLoss("a line of another version");
  if (LoadLittle<uint64_t>(page.data() + kChecksumOffset) != HeaderChecksum(std::string(page))) {
    return DataLoss("the header's checksum is wrong");
  }
  const uint32_t url_bytes = LoadLittle<uint32_t>(page.data() + 12);
  LineName name;
  name.size = LoadLittle<uint64_t>(page.data() + 16);
  name.begin = LoadLittle<uint64_t>(page.data() + 24);
  if (url_bytes > kMostUrlBytes || name.begin % kLineBytes != 0 || name.begin >= name.size) {
    return DataLoss("the header is damaged");
  }
  std::memcpy(name.version.data(), page.data() + 32, name.version.size());
  name.url = page.substr(kFixedBytes, url_bytes);
  return name;
}

bool CacheLine::OpenFile(const std::string& path) {
  file_ = io::FileDescriptor(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  return file_.valid();
}

bool CacheLine::HasHeader() const {
  std::string page(kCachePageBytes, '\0');
  if (!ReadAll(descriptor(), 0, page)) return false;
  const absl::StatusOr<LineName> found = DecodeLineHeader(page);
  return found.ok() && found->version == name_.version && found->size == name_.size && found->begin == name_.begin;
}

// The lock ends when the descriptor is closed, or with WriteHeader.
bool CacheLine::LockHeader() const { return TryLockBytes(descriptor(), 0, kLockedBytes) && InUse(); }

bool CacheLine::WriteHeader() const {
  const std::string no_pieces(kCachePageBytes, '\0');
  // Another process may have made it meanwhile.
  const bool written = HasHeader() || (WriteAll(descriptor(), kCachePageBytes, no_pieces) &&
                                       WriteAll(descriptor(), 0, EncodeLineHeader(name_)));
  UnlockBytes(descriptor(), 0, kLockedBytes);
  return written;
}

bool CacheLine::InUse() const {
  struct stat info;
  return fstat(descriptor(), &info) == 0 && info.st_nlink > 0;
}

bool CacheLine::Touch() {
  const int64_t now = time(nullptr);
  {
    const std::lock_guard lock(mutex_);
    if (now - touched_ < kTouchSeconds) return true;
    touched_ = now;
  }
  (void)futimens(descriptor(), nullptr);
  return InUse();
}

uint64_t CacheLine::Checksum(uint32_t piece, std::string_view bytes) const {
  char place[16];
  std::memcpy(place, name_.version.data(), 8);
  StoreLittle<uint64_t>(place + 8, name_.begin + piece * kPieceBytes);
  const uint64_t hash = Hash64(bytes) ^ Hash64(place, sizeof(place));
  return hash == 0 ? 1 : hash;
}

void CacheLine::ReadTable() {
  std::string page(kCachePageBytes, '\0');
  if (!ReadAll(descriptor(), kCachePageBytes, page)) page.assign(page.size(), '\0');
  const std::lock_guard lock(mutex_);
  for (uint32_t i = 0; i < kLinePieces; ++i) {
    const auto checksum = LoadLittle<uint64_t>(page.data() + 8 * i);
    if (checksum != table_[i]) compared_.reset(i);
    table_[i] = checksum;
  }
}

std::pair<PieceRun, bool> CacheLine::AlikeFrom(uint32_t first, uint32_t end) {
  const std::lock_guard lock(mutex_);
  const bool present = table_[first] != 0;
  uint32_t next = first + 1;
  while (next < end && (table_[next] != 0) == present) ++next;
  return {{first, next}, present};
}

bool CacheLine::Read(uint64_t begin, std::span<char> out) {
  const auto first = static_cast<uint32_t>(begin / kPieceBytes);
  const auto end = static_cast<uint32_t>((begin + out.size() + kPieceBytes - 1) / kPieceBytes);
  std::bitset<kLinePieces> compared;
  {
    const std::lock_guard lock(mutex_);
    compared = compared_;
  }
  // An evicted file has become short.
  if (!ReadAll(descriptor(), kLineDataBegin + begin, out)) {
    Forget({first, end});
    return false;
  }
  bool right = true;
  std::string whole;
  for (uint32_t i = first; i < end; ++i) {
    if (compared.test(i)) continue;
    const uint64_t place = i * kPieceBytes;
    const uint64_t from = std::max(place, begin), to = std::min(place + name_.piece_bytes(i), begin + out.size());
    std::string_view piece(out.data() + (from - begin), to - from);
    if (piece.size() < name_.piece_bytes(i)) {
      whole.resize(name_.piece_bytes(i));
      if (!ReadAll(descriptor(), kLineDataBegin + place, whole)) whole.assign(whole.size(), '\0');
      // What is given is what was compared.
      std::memcpy(out.data() + (from - begin), whole.data() + (from - place), to - from);
      piece = whole;
    }
    const uint64_t checksum = Checksum(i, piece);
    {
      const std::lock_guard lock(mutex_);
      compared_.set(i, checksum == table_[i]);
      if (checksum == table_[i]) continue;
    }
    right = false;
    Forget({i, i + 1});
  }
  return right;
}

bool CacheLine::Take(PieceRun run) {
  {
    const std::lock_guard lock(mutex_);
    for (uint32_t i = run.begin; i < run.end; ++i) {
      if (taken_.test(i)) return false;
    }
    for (uint32_t i = run.begin; i < run.end; ++i) taken_.set(i);
  }
  if (TryLockBytes(descriptor(), run.begin, run.end - run.begin)) {
    ReadTable();  // the last holder may have written them
    return true;
  }
  const std::lock_guard lock(mutex_);
  for (uint32_t i = run.begin; i < run.end; ++i) taken_.reset(i);
  return false;
}

void CacheLine::Release(PieceRun run) {
  UnlockBytes(descriptor(), run.begin, run.end - run.begin);
  const std::lock_guard lock(mutex_);
  for (uint32_t i = run.begin; i < run.end; ++i) taken_.reset(i);
}

bool CacheLine::Write(PieceRun run, std::string_view bytes) {
  std::vector<uint64_t> checksums;
  std::string entries;
  for (uint32_t i = run.begin; i < run.end; ++i) {
    checksums.push_back(Checksum(i, bytes.substr((i - run.begin) * kPieceBytes, name_.piece_bytes(i))));
    entries.resize(entries.size() + 8);
    StoreLittle<uint64_t>(entries.data() + entries.size() - 8, checksums.back());
  }
  if (!WriteAll(descriptor(), kLineDataBegin + run.begin * kPieceBytes, bytes) ||
      !WriteAll(descriptor(), kCachePageBytes + 8 * run.begin, entries)) {
    return false;
  }
  const std::lock_guard lock(mutex_);
  for (uint32_t i = run.begin; i < run.end; ++i) {
    table_[i] = checksums[i - run.begin];
    compared_.set(i);
  }
  return true;
}

void CacheLine::Forget(PieceRun run) {
  {
    const std::lock_guard lock(mutex_);
    for (uint32_t i = run.begin; i < run.end; ++i) {
      table_[i] = 0;
      compared_.reset(i);
    }
  }
  // For other processes, and for Take. Should one of them write such a piece at this moment, it is fetched once more.
  if (InUse())
    (void)WriteAll(descriptor(), kCachePageBytes + 8 * run.begin, std::string(8 * (run.end - run.begin), '\0'));
}

std::pair<uint32_t, uint32_t> CacheLine::Verify() {
  uint32_t present = 0, damaged = 0;
  std::string piece;
  for (uint32_t i = 0; i < name_.pieces(); ++i) {
    if (!AlikeFrom(i, i + 1).second) continue;
    ++present;
    piece.resize(name_.piece_bytes(i));
    if (!Read(i * kPieceBytes, piece)) ++damaged;
  }
  return {present, damaged};
}

}  // namespace shardkit::remote
