#include "format/shard_list.h"

#include <algorithm>

#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "format/constants.h"

namespace shardkit::format {
namespace {

constexpr uint64_t kHeadBytes = 8;
constexpr uint16_t kHasSha256 = 1;
constexpr uint64_t kTotalsBytes = 32;

}  // namespace

std::string EncodeShardPage(std::span<const ShardEntry> shards) {
  std::string page, texts;
  AppendLittle(page, static_cast<uint32_t>(shards.size()));
  AppendLittle(page, uint32_t{0});
  const uint64_t texts_begin = kHeadBytes + kShardEntryBytes * shards.size();
  for (const ShardEntry& shard : shards) {
    AppendLittle(page, shard.first_sample);
    AppendLittle(page, shard.samples);
    AppendLittle(page, shard.bytes);
    AppendLittle(page, shard.blocks);
    AppendLittle(page, shard.content_hash);
    AppendLittle(page, static_cast<uint32_t>(texts_begin + texts.size()));
    AppendLittle(page, static_cast<uint16_t>(shard.name.size()));
    AppendLittle(page, shard.sha256 ? kHasSha256 : uint16_t{0});
    texts += shard.name;
    if (shard.sha256) AppendLittle(texts, *shard.sha256);
  }
  page += texts;
  page.resize(RoundUp(page.size(), 8));
  return page;
}

absl::StatusOr<std::vector<ShardEntry>> DecodeShardPage(std::string_view page) {
  const uint32_t count = page.size() < kHeadBytes ? 0 : LoadLittle<uint32_t>(page.data());
  if (count == 0 || count > kShardsOfPage || !RangeWithin(kHeadBytes, count * kShardEntryBytes, page.size())) {
    return DataLoss("its ", page.size(), " bytes do not hold ", count, " shards");
  }
  if (LoadLittle<uint32_t>(page.data() + 4) != 0) return DataLoss("reserved bytes are not zero");
  std::vector<ShardEntry> shards(count);
  uint64_t end = kHeadBytes + count * kShardEntryBytes;  // of the names and digests so far
  for (uint32_t i = 0; i < count; ++i) {
    const char* const from = page.data() + kHeadBytes + i * kShardEntryBytes;
    ShardEntry& shard = shards[i];
    shard.first_sample = LoadLittle<uint64_t>(from);
    shard.samples = LoadLittle<uint64_t>(from + 8);
    shard.bytes = LoadLittle<uint64_t>(from + 16);
    shard.blocks = LoadLittle<uint64_t>(from + 24);
    shard.content_hash = LoadLittle<ContentHash>(from + 32);
    const uint64_t name_offset = LoadLittle<uint32_t>(from + 48);
    const uint16_t name_length = LoadLittle<uint16_t>(from + 52);
    const uint16_t flags = LoadLittle<uint16_t>(from + 54);
    if (std::max({shard.first_sample, shard.samples, shard.bytes, shard.blocks}) > kMaxLength) {
      return DataLoss("shard ", i, " of it: a count is over the limit of 2^62");
    }
    if (!CountsAllowed(shard.samples, shard.blocks)) {
      return DataLoss("shard ", i, " of it: ", shard.samples, " samples cannot be in ", shard.blocks, " blocks");
    }
    if (i > 0 && shard.first_sample != shards[i - 1].first_sample + shards[i - 1].samples) {
      return DataLoss("shard ", i, " of it: does not begin with the sample after the shard before");
    }
    if ((flags & ~kHasSha256) != 0) return DataLoss("shard ", i, " of it: reserved flags are not zero");
    const uint64_t digest_length = (flags & kHasSha256) != 0 ? sizeof(Sha256) : 0;
    if (name_offset != end || name_length == 0 || name_length > kMaxShardNameBytes ||
        !RangeWithin(end, name_length + digest_length, page.size())) {
      return DataLoss("shard ", i, " of it: its name lies elsewhere than behind the one before");
    }
    shard.name = page.substr(end, name_length);
    end += name_length;
    if (digest_length > 0) shard.sha256 = LoadLittle<Sha256>(page.data() + end);
    end += digest_length;
  }
  const std::string_view rest = page.substr(end);
  if (page.size() != RoundUp(end, 8) || rest.find_first_not_of('\0') != rest.npos) {
    return DataLoss("bytes follow its last name");
  }
  return shards;
}

std::string EncodeShardListTotals(const ShardListTotals& totals) {
  std::string payload;
  for (const uint64_t sum : {totals.shards, totals.samples, totals.blocks, totals.bytes}) AppendLittle(payload, sum);
  return payload;
}

absl::StatusOr<ShardListTotals> DecodeShardListTotals(std::string_view payload) {
  if (payload.size() != kTotalsBytes) {
    return DataLoss("root has ", payload.size(), " bytes besides the fences instead of ", kTotalsBytes);
  }
  const auto load = [&](size_t i) { return LoadLittle<uint64_t>(payload.data() + 8 * i); };
  return ShardListTotals{.shards = load(0), .samples = load(1), .blocks = load(2), .bytes = load(3)};
}

}  // namespace shardkit::format
