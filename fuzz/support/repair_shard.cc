#include <xxhash.h>

#include <map>

#include "format/block_header.h"
#include "format/constants.h"
#include "format/file_header.h"
#include "format/footer.h"
#include "format/pages.h"
#include "support/little_endian.h"
#include "support/repair_checksums.h"

namespace shardkit::fuzz {
namespace {

constexpr uint64_t kChecksum = 8;
constexpr uint64_t kShardId = 40;  // where it stands in the header

uint64_t RoundUp(uint64_t x, uint64_t a) { return (x + a - 1) / a * a; }

// Repairs the checksums of one shard, from front to back.
class ShardRepair {
 public:
  explicit ShardRepair(std::string* shard) : shard_(*shard) {}

  void Run() {
    if (shard_.size() < format::kFileHeaderPrefix + format::kTrailerBytes || !Header()) return;
    // The footer has copies of block headers, which look like blocks.
    const auto footer = Load<uint64_t>(shard_, shard_.size() - format::kTrailerBytes);
    const uint64_t end = footer > header_length_ && footer < shard_.size() ? footer : shard_.size();
    for (uint64_t at = RoundUp(header_length_, alignment_); Within(at, 64, end);) {
      const uint64_t length = Block(at);
      at = RoundUp(at + std::max<uint64_t>(length, 1), alignment_);
    }
    if (blocks_.empty()) Id({});
    Trailer();
  }

 private:
  uint64_t Hash(uint64_t offset, uint64_t length) const { return XXH3_64bits(shard_.data() + offset, length); }

  void Write(uint64_t at, uint64_t checksum) { Store(&shard_, at, checksum); }

  bool Header() {
    header_length_ = Load<uint32_t>(shard_, 12);
    alignment_ = Load<uint32_t>(shard_, 16);
    if (header_length_ < 80 || header_length_ > shard_.size() - format::kTrailerBytes) return false;
    if (alignment_ < format::kMinAlignment || alignment_ > format::kMaxAlignment) return false;
    Write(header_length_ - kChecksum, Hash(0, header_length_ - kChecksum));
    const auto header = format::DecodeFileHeader(std::string_view(shard_).substr(0, header_length_));
    if (header.ok()) schema_ = header->schema;
    return true;
  }

  // The id is made of the header and of the first block's entries, which `entries` are.
  void Id(std::string_view entries) {
    Write(kShardId, 0);
    id_ = XXH3_64bits((shard_.substr(0, header_length_ - kChecksum) + std::string(entries)).data(),
                      header_length_ - kChecksum + entries.size());
    Write(kShardId, id_);
    Write(header_length_ - kChecksum, Hash(0, header_length_ - kChecksum));
    content_.assign(shard_, 0, header_length_);
  }

  // Returns the block's length, or 0 when there is no block.
  uint64_t Block(uint64_t at) {
    if (std::string_view(shard_).substr(at, 8) != format::kBlockMagic) return 0;
    const uint64_t header_length = Load<uint32_t>(shard_, at + 8);
    const uint64_t columns = Load<uint32_t>(shard_, at + 12);
    const uint64_t length = Load<uint64_t>(shard_, at + 16);
    if (header_length != format::BlockHeaderLength(columns) || !Within(at, header_length, shard_.size())) return 0;
    for (uint64_t i = 0; i < columns; ++i) Column(at, at + 56 + 64 * i, i);
    if (blocks_.empty()) Id(std::string_view(shard_).substr(at + 56, header_length - 64));
    Write(at + 48, id_);
    const uint64_t checksum = Hash(at, header_length - kChecksum);
    Write(at + header_length - kChecksum, checksum);
    blocks_[at] = {checksum, header_length};
    content_.append(shard_, at, header_length);
    return Within(at, length, shard_.size()) ? length : 0;
  }

  void Column(uint64_t block, uint64_t entry, uint64_t column) {
    const auto offset = Load<uint64_t>(shard_, entry);
    const auto stored = Load<uint64_t>(shard_, entry + 8);
    const auto values_offset = Load<uint64_t>(shard_, entry + 32);
    const auto values_length = Load<uint64_t>(shard_, entry + 40);
    const uint64_t room = shard_.size() - block;
    if (!Within(offset, stored, room) || !Within(values_offset, values_length, room)) return;
    if (!Within(offset, RoundUp(stored, 64), room) || !Within(values_offset, RoundUp(values_length, 64), room)) return;
    if (values_offset != 0) {
      if (column < schema_.size() && schema_[column].is_paged()) {
        Pages(block, column, block + offset, stored, block + values_offset, values_length);
      } else {
        Records(block, column, block + offset, stored, block + values_offset, values_length);
      }
      Write(entry + 48, Hash(block + values_offset, RoundUp(values_length, 64)));
    }
    Write(entry + 24, Hash(block + offset, RoundUp(stored, 64)));
  }

  // Repairs the checksum after every present value of a blob column. The head chunk's ends give the positions.
  void Records(uint64_t block, uint64_t column, uint64_t head, uint64_t head_length, uint64_t values,
               uint64_t values_length) {
    if (column >= schema_.size() || !IsKnownCodec(schema_[column].codec)) return;
    const uint64_t count = Load<uint32_t>(shard_, block + 40);
    const uint64_t presence = schema_[column].nullable ? RoundUp((count + 7) / 8, 8) : 0;
    uint64_t begin = 0;
    for (uint64_t i = 0; i < count && presence + 8 * (i + 1) <= head_length; ++i) {
      const auto end = Load<uint64_t>(shard_, head + presence + 8 * i);
      if (end < begin || end > values_length) return;
      if (end - begin >= kChecksum) Write(values + end - kChecksum, Hash(values + begin, end - begin - kChecksum));
      begin = end;
    }
  }

  // Repairs the checksum at the end of every page of a paged column. The head chunk's table gives the positions.
  void Pages(uint64_t block, uint64_t column, uint64_t head, uint64_t head_length, uint64_t values,
             uint64_t values_length) {
    const uint64_t count = Load<uint32_t>(shard_, block + 40);
    const uint64_t presence = schema_[column].nullable ? RoundUp((count + 7) / 8, 8) : 0;
    uint64_t begin = 0;
    for (uint64_t at = presence; at + format::kPageEntryBytes <= head_length; at += format::kPageEntryBytes) {
      const auto end = Load<uint64_t>(shard_, head + at);
      if (end < begin || end > values_length) return;
      if (end - begin >= kChecksum) Write(values + end - kChecksum, Hash(values + begin, end - begin - kChecksum));
      begin = end;
    }
  }

  void Trailer() {
    const uint64_t trailer = shard_.size() - format::kTrailerBytes;
    const auto footer = Load<uint64_t>(shard_, trailer);
    const auto sections = Load<uint32_t>(shard_, trailer + 16);
    const uint64_t table_length = format::kSectionEntryBytes * sections;
    if (footer > trailer || table_length > trailer - footer) return;
    const uint64_t table = trailer - table_length;
    for (uint64_t entry = table; entry < trailer; entry += format::kSectionEntryBytes) Section(entry, trailer);
    Write(trailer + 8, trailer - footer);
    Write(trailer + 24, Hash(table, table_length));
    XXH128_canonical_t content;
    XXH128_canonicalFromHash(&content, XXH3_128bits(content_.data(), content_.size()));
    std::memcpy(shard_.data() + trailer + 48, content.digest, sizeof(content.digest));
    Write(trailer + 64, shard_.size());
    Write(trailer + 72, id_);
    Write(trailer + 88, Hash(trailer, 88));
  }

  void Section(uint64_t entry, uint64_t trailer) {
    const auto offset = Load<uint64_t>(shard_, entry + 8);
    const auto length = Load<uint64_t>(shard_, entry + 16);
    if (!Within(offset, length, trailer) || !Within(offset, RoundUp(length, 8), trailer)) return;
    if (Load<uint32_t>(shard_, entry) == static_cast<uint32_t>(format::SectionKind::kBlockDirectory)) {
      for (uint64_t block = 0; block + 48 <= length; block += 48) {
        const auto found = blocks_.find(Load<uint64_t>(shard_, offset + block));
        if (found != blocks_.end()) Write(offset + block + 40, found->second.checksum);
      }
    }
    if (Load<uint32_t>(shard_, entry) == static_cast<uint32_t>(format::SectionKind::kBlockHeaders)) {
      uint64_t at = offset;
      for (const auto& [block, header] : blocks_) {
        if (header.length > offset + length - at) break;
        shard_.replace(at, header.length, shard_, block, header.length);
        at += header.length;
      }
    }
    if (Load<uint32_t>(shard_, entry) == static_cast<uint32_t>(format::SectionKind::kHeader)) {
      shard_.replace(offset, std::min(length, header_length_), shard_, 0, std::min(length, header_length_));
    }
    if (Load<uint32_t>(shard_, entry) == static_cast<uint32_t>(format::SectionKind::kKeyIndex)) {
      RepairTable(&shard_, offset, length);
    }
    Write(entry + 24, Hash(offset, RoundUp(length, 8)));
  }

  struct BlockHead {
    uint64_t checksum;  // of the header
    uint64_t length;    // of the header
  };

  std::string& shard_;
  Schema schema_;
  uint64_t header_length_ = 0;
  uint64_t alignment_ = 0;
  uint64_t id_ = 0;
  std::string content_;                   // the bytes that the content hash covers
  std::map<uint64_t, BlockHead> blocks_;  // by offset
};

}  // namespace

void RepairShard(std::string* shard) { ShardRepair(shard).Run(); }

}  // namespace shardkit::fuzz
